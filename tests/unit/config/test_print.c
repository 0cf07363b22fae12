/* What people read: help, version, effective values. */
#include "helper.h"

static void help_has_all(void **state)
{
    struct config *c = load_ok(ARGS("--help"), ENV());
    char *text = printed(c, config_print_help);
    for (const struct option_row *row = option_rows; row < option_rows + option_row_count; row++) {
        char *flag =
            xasprintf("--%s%s%s", row->name, row->arg != NULL ? " " : "", row->arg != NULL ? row->arg : "");
        const char *wanted = row->traits & OPTION_NO_FLAG ? row->env[0] : flag;
        if (strstr(text, wanted) == NULL)
            fail_msg("%s is not in the help", wanted);
        for (size_t i = 0; i < ARRAY_LEN(row->env) && row->env[i] != NULL; i++)
            assert_non_null(strstr(text, row->env[i]));
        free(flag);
    }
    assert_non_null(strstr(text, "Modal backend"));
    assert_null(strstr(text, "HTTP (not in this version)"));
    assert_non_null(strstr(text, "--no-network"));
    assert_non_null(strstr(text, "-V, --version"));
    free(text);
    config_free(c);
}

static size_t widest_line(const char *text)
{
    size_t widest = 0;
    for (; *text != '\0'; text += text[strcspn(text, "\n")] == '\n' ? strcspn(text, "\n") + 1 : strlen(text))
        widest = strcspn(text, "\n") > widest ? strcspn(text, "\n") : widest;
    return widest;
}

static void help_is_wrapped(void **state)
{
    static const struct {
        const char *columns;
        size_t low, high;
    } cases[] = {{"COLUMNS=", 70, 80},
                 {"COLUMNS=100", 90, 100},
                 {"COLUMNS=1", 50, 70 /* a long word */},
                 {"COLUMNS=9999", 140, 160},
                 {"COLUMNS=x", 70, 80}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct config *c = load_ok(ARGS("-h"), ENV(cases[i].columns));
        char *text = printed(c, config_print_help);
        assert_in_range(widest_line(text), cases[i].low, cases[i].high);
        assert_null(strstr(text, " \n")); /* no blanks at the ends */
        free(text);
        config_free(c);
    }
}

static void version_line(void **state)
{
    struct config *c = load_ok(ARGS("--version"), ENV());
    char *text = printed(c, config_print_version);
    char *expected = xasprintf("mcp-sandbox-computer-vm-for-ai %s\n", config_version());
    assert_string_equal(text, expected);
    free(expected);
    free(text);
    config_free(c);
    c = load_ok(K_ARGS("-V"), ENV());
    text = printed(c, config_print_version);
    assert_memory_equal(text, "kilntainers ", 12);
    free(text);
    config_free(c);
}

static void origins_are_told(void **state)
{
    char *path = write_file("\npids = 99\n", 11);
    char *flag = xasprintf("--config=%s", path);
    struct config *c = load_ok(
        ARGS(flag, "--timeout=2.5", "--backend=native", "--no-network", "--allow-unauthenticated-http"),
        ENV("FLY_APP_NAME=a\"b\\\n"));
    char *text = printed(c, config_print);
    char *from_file = xasprintf("\npids = 99  # file %s:2\n", path);
    assert_non_null(strstr(text, from_file));
    assert_non_null(strstr(text, "\ntimeout = 2.5  # flag\n"));
    assert_non_null(strstr(text, "\nbackend = \"native\"  # flag\n"));
    assert_non_null(strstr(text, "\nnetwork = false  # flag\n"));
    assert_non_null(strstr(text, "\nfly-app = \"a\\\"b\\\\\\u000A\"  # environment FLY_APP_NAME\n"));
    assert_non_null(strstr(text, "\n# port = 8435  # default\n"));
    assert_null(strstr(text, "fly-region")); /* not set */
    free(from_file);
    free(text);
    config_free(c);
    free(flag);
    remove_file(path);
}

static void meant_backend_is_told(void **state)
{
    struct config *c = load_ok(ARGS(), ENV("CONTAINER_HOST=unix:///x"));
    char *text = printed(c, config_print);
    assert_non_null(strstr(text, "\nbackend = \"podman\"  # environment CONTAINER_HOST\n"));
    assert_non_null(strstr(text, "\nengine = \"podman\"  # environment CONTAINER_HOST\n"));
    free(text);
    config_free(c);
}

static void limits_of_each_backend_are_told(void **state)
{
    struct config *c = load_ok(ARGS("--help"), ENV("COLUMNS=160"));
    char *text = printed(c, config_print_help);
    assert_non_null(strstr(text, "default: native 1.0, docker none"));
    assert_non_null(strstr(text, "default: native 512m, docker half of the engine's memory"));
    assert_non_null(strstr(text, "default: native 512, docker 1024"));
    free(text);
    config_free(c);
}

/* What was printed, given back as a config file, means the same, and prints the same but for the origins. */
static void printed_is_a_config_file(void **state)
{
    struct config *c = load_ok(
        ARGS("--timeout=0.30000000000000004", "--cpu=0.1", "--output-limit=8m", "--no-network", "--pids=1000",
             "--backend=native", "--docker-run-flag", "--label=a b", "--docker-run-flag", "-v /a:/b",
             "--e2b-metadata=\xc3\xa9=\x01\x7f\"", "--extended-tool-instruction=line\nline\t'\\",
             "--log-level=info", "--modal-cpu=1e-1", "--wasm-fuel=9000000000000000000"),
        ENV("FLY_ORG=o", "DOCKER_TLS_VERIFY=1"));
    char *text = printed(c, config_print);
    char *path = write_file(text, strlen(text));
    char *flag = xasprintf("--config=%s", path);
    struct config *again = load_ok(ARGS(flag), ENV());
    for (const struct option_row *row = option_rows; row < option_rows + option_row_count; row++) {
        if (row->traits & OPTION_FLAG_ONLY)
            continue;
        char *before = value_of(c, row);
        char *after = value_of(again, row);
        assert_string_equal(before, after);
        assert_int_equal(config_origin(c, row)->source == SOURCE_DEFAULT,
                         config_origin(again, row)->source == SOURCE_DEFAULT);
        free(before);
        free(after);
    }
    assert_true(config_values(c)->timeout_s <= config_values(again)->timeout_s &&
                config_values(c)->timeout_s >= config_values(again)->timeout_s);
    config_free(again);
    config_free(c);
    free(flag);
    remove_file(path);
    free(text);
}

static void secrets_are_hidden(void **state)
{
    size_t secrets = 0;
    for (const struct option_row *row = option_rows; row < option_rows + option_row_count; row++) {
        if (!(row->traits & OPTION_SECRET))
            continue;
        secrets++;
        struct config *c = config_new();
        struct origin origin = {.source = SOURCE_FLAG};
        assert_int_equal(config_set(c, row, "key=hunter2", &origin, NULL), 0);
        char *text = printed(c, config_print);
        char *expected = xasprintf("\n# %s = \"(set)\"  # flag\n", row->name);
        assert_non_null(strstr(text, expected));
        assert_null(strstr(text, "hunter2"));
        free(expected);
        free(text);

        struct error err = ERROR_INIT;
        assert_int_equal(config_set(c, row, "hunter2\xff", &origin, &err), -1);
        assert_null(strstr(err.msg, "hunter2"));
        config_free(c);
    }
    assert_true(secrets >= 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_has_all),
        cmocka_unit_test(help_is_wrapped),
        cmocka_unit_test(version_line),
        cmocka_unit_test(origins_are_told),
        cmocka_unit_test(meant_backend_is_told),
        cmocka_unit_test(limits_of_each_backend_are_told),
        cmocka_unit_test(printed_is_a_config_file),
        cmocka_unit_test(secrets_are_hidden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
