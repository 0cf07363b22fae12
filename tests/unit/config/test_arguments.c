/* How the command line is read: forms, prefixes, usage errors. */
#include "helper.h"

/* The option that an argument resolves to under a name, or NULL with a usage error. */
static const char *resolve(enum config_personality personality, const char *arg)
{
    const char *const argv[] = {"program", arg, "value", NULL};
    struct arguments a = {.argc = 3, .argv = as_main(argv), .next = 1, .personality = personality};
    struct argument found;
    return arguments_next(&a, &found, NULL) == 1 ? found.row->name : NULL;
}

static void forms(void **state)
{
    struct config *c = load_ok(ARGS("--timeout=5", "--pids", "100", "--shell=a=b", "--"), ENV());
    assert_int_equal(config_values(c)->pids, 100);
    assert_string_equal(config_values(c)->shell, "a=b");
    config_free(c);
    /* The last one wins; --network and --no-network are one option. */
    c = load_ok(ARGS("--pids=7", "--network", "--pids=9", "--no-network"), ENV());
    assert_int_equal(config_values(c)->pids, 9);
    assert_false(config_values(c)->network);
    config_free(c);
}

static void exact_names(void **state)
{
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        char *flag = xasprintf("--%s", row->name);
        const char *expected = row->traits & OPTION_NO_FLAG ? NULL : row->name;
        for (int personality = CONFIG_COMPUTER; personality <= CONFIG_KILNTAINERS; personality++) {
            const char *got = resolve(personality, flag);
            assert_true(expected == NULL ? got == NULL : got != NULL && strcmp(got, expected) == 0);
        }
        free(flag);
    }
}

static void prefixes(void **state)
{
    static const struct {
        const char *arg;
        const char *computer;
        const char *kilntainers;
    } cases[] = {
        {"--ti", "timeout", "timeout"},
        {"--ti=3", "timeout", "timeout"},
        {"--en", "engine", "engine"}, /* though there is --env */
        {"--im", "image", "image"},
        {"--re", "region", "region"},
        {"--d", NULL, NULL}, /* docker-host, docker-run-flag */
        {"--docker-h", "docker-host", "docker-host"},
        {"--me", "memory", "memory"}, /* though there is --metrics-token-file */
        {"--po", "port", "port"},
        {"--ho", "host", "host"}, /* not itself --hostname */
        {"--host", "host", "host"},
        {"--hostn", "hostname", "hostname"}, /* new ones may be shortened too */
        {"--vol", "volume", "volume"},
        {"--auth-token", "auth-token", "auth-token"},
        {"--auth", "auth-token", NULL}, /* no flag of that program: auth-token, auth-token-file */
        {"--n", NULL, "network"},       /* network, no-network */
        {"--no", "network", "network"},
        {"--se", "session-timeout", "session-timeout"},
        {"--s", NULL, NULL},
        {"--allow-u", "allow-unauthenticated-http", "allow-unauthenticated-http"},
        {"--he", "help", "help"},
        {"--h", NULL, NULL},
        {"--", NULL, NULL},
        {"--=x", NULL, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *expected[] = {cases[i].computer, cases[i].kilntainers};
        for (int personality = CONFIG_COMPUTER; personality <= CONFIG_KILNTAINERS; personality++) {
            const char *got = resolve(personality, cases[i].arg);
            if ((got == NULL) != (expected[personality] == NULL) ||
                (got != NULL && strcmp(got, expected[personality]) != 0))
                fail_msg("%s gives %s rather than %s", cases[i].arg, got, expected[personality]);
        }
    }
}

static void usage_errors(void **state)
{
    assert_refused(ARGS("--prot", "1"), ENV(), 2, TEXTS("unknown option --prot", "did you mean --port?"));
    assert_refused(ARGS("--networks"), ENV(), 2, TEXTS("--networks", "did you mean --network?"));
    assert_refused(ARGS("--nothing-like-it"), ENV(), 2, TEXTS("unknown option --nothing-like-it", "--help"));
    assert_refused(ARGS("--fly-org", "x"), ENV(), 2, TEXTS("unknown option --fly-org"));
    assert_refused(ARGS("--s", "1"), ENV(), 2,
                   TEXTS("ambiguous", "--shell", "--session-timeout", "--sandbox-timeout"));
    assert_refused(ARGS("--port"), ENV(), 2, TEXTS("--port needs a value", "PORT"));
    assert_refused(ARGS("--shell", "--network"), ENV(), 2, TEXTS("--shell needs a value", "--shell=PATH"));
    assert_refused(ARGS("--port="), ENV(), 2, TEXTS("--port", "whole number"));
    assert_refused(ARGS("--shell="), ENV(), 2, TEXTS("--shell", "must not be empty"));
    assert_refused(ARGS("--network=yes"), ENV(), 2, TEXTS("--network takes no value"));
    assert_refused(ARGS("--no-network=yes"), ENV(), 2, TEXTS("--no-network takes no value"));
    assert_refused(ARGS("--help=x"), ENV(), 2, TEXTS("--help takes no value"));
    assert_refused(ARGS("run"), ENV(), 2, TEXTS("unexpected argument 'run'"));
    assert_refused(ARGS("--", "--port"), ENV(), 2, TEXTS("unexpected argument '--port'"));
    assert_refused(ARGS("-"), ENV(), 2, TEXTS("unexpected argument '-'"));
    assert_refused(ARGS("-x"), ENV(), 2, TEXTS("unknown option -x"));
    assert_refused(ARGS("-hV"), ENV(), 2, TEXTS("unknown option -hV"));
    assert_refused(ARGS("--transport", "smoke"), ENV(), 2, TEXTS("--transport smoke", "stdio, http"));
    assert_refused(ARGS("--personality", "other"), ENV(), 2, TEXTS("--personality other", "kilntainers"));
    assert_refused(ARGS("--timeout", "nan"), ENV(), 2, TEXTS("--timeout nan", "number of seconds"));
    assert_refused(ARGS("--timeout", "1s"), ENV(), 2, TEXTS("--timeout 1s"));
    assert_refused(ARGS("--pids", "1.5"), ENV(), 2, TEXTS("--pids 1.5", "whole number"));
    assert_refused(ARGS("--memory", "512q"), ENV(), 2, TEXTS("--memory 512q", "512m"));
    assert_refused(ARGS("--e2b-metadata", "novalue"), ENV(), 2, TEXTS("--e2b-metadata novalue", "KEY=VALUE"));
    assert_refused(ARGS("--shell", "\xff"), ENV(), 2, TEXTS("--shell", "UTF-8"));
}

static void numbers_beyond_any_range(void **state)
{
    assert_refused(ARGS("--port", "99999999999999999999"), ENV(), 1, TEXTS("--port", "0 to 65535"));
    assert_refused(ARGS("--port", "-99999999999999999999"), ENV(), 1, TEXTS("--port", "0 to 65535"));
    assert_refused(ARGS("--warm-pool", "17"), ENV(), 1, TEXTS("--warm-pool 17", "0 to 16"));
    assert_refused(ARGS("--warm-pool", "-1"), ENV(), 1, TEXTS("--warm-pool -1", "0 to 16"));
    assert_refused(ARGS("--output-limit", "-1"), ENV(), 1, TEXTS("--output-limit -1", "1 to 8m"));
    assert_refused(ARGS("--timeout", "1e9"), ENV(), 1, TEXTS("--timeout 1e9", "0.1 to 86400"));
}

/* A message is one line of bounded length, whatever was given. */
static void hostile_values(void **state)
{
    static char longest[100000];
    memset(longest, 'x', sizeof(longest) - 1);
    assert_refused(ARGS("--port", longest), ENV(), 2, TEXTS("--port xxx", "...: must be a whole number"));
    assert_refused(ARGS("--port", "1\n\x1b[31m\xff"), ENV(), 2, TEXTS("--port 1??[31m\xef\xbf\xbd: must be"));
    char *flag = xasprintf("--%s", longest);
    assert_refused(ARGS(flag), ENV(), 2, TEXTS("unknown option --xxx"));
    free(flag);
}

static void actions(void **state)
{
    static const struct {
        const char *arg;
        enum config_action action;
    } cases[] = {{"--help", CONFIG_HELP},          {"-h", CONFIG_HELP},
                 {"--version", CONFIG_VERSION},    {"-V", CONFIG_VERSION},
                 {"--print-config", CONFIG_PRINT}, {"--check-config", CONFIG_CHECK}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        enum config_action action = CONFIG_RUN;
        int exit_code;
        struct config *c =
            config_load(2, as_main(ARGS(cases[i].arg)), as_main(ENV()), &action, &exit_code, NULL);
        assert_non_null(c);
        assert_int_equal(action, cases[i].action);
        config_free(c);
    }
    /* Help is given whatever else is wrong: later arguments, environment, rules. */
    config_free(load_ok(ARGS("--network", "--help", "--nonsense"), ENV("SANDBOX_BACKEND=nonsense")));
    assert_refused(ARGS("--nonsense", "--help"), ENV(), 2, TEXTS("--nonsense"));
}

static void program_names(void **state)
{
    static const char computer[] = "mcp-sandbox-computer-vm-for-ai";
    static const char kilntainers[] = "kilntainers";
    const struct {
        const char *const *argv;
        const char *name;
    } cases[] = {
        {ARGS(), computer},
        {K_ARGS(), kilntainers},
        {(const char *const[]){"kilntainers", NULL}, kilntainers},
        {(const char *const[]){"/opt/kilntainers/server", NULL}, computer},
        {(const char *const[]){"kilntainers2", NULL}, computer},
        {(const char *const[]){NULL}, computer},
        {ARGS("--personality", "kilntainers"), kilntainers},
        {ARGS("--personality=kilntainers"), kilntainers},
        {ARGS("--nonsense", "--pers=kilntainers"), kilntainers},
        {ARGS("--shell", "--personality=kilntainers"),
         kilntainers}, /* the first is a usage error, the second still counts */
        {ARGS("--shell=--personality=kilntainers"), computer},
        {ARGS("--", "--personality=kilntainers"), computer},
        {ARGS("--personality", "unknown"), computer},
        {ARGS("--personality"), computer},
        {K_ARGS("--personality", "mcp-sandbox-computer-vm-for-ai"), computer},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_string_equal(config_program_name(args_count(cases[i].argv), as_main(cases[i].argv)),
                            cases[i].name);
}

static void relative_paths(void **state)
{
    struct config *c = load_ok(ARGS("--rootfs", "some/root"), ENV());
    char *cwd = getcwd(NULL, 0);
    char *expected = xasprintf("%s/some/root", cwd);
    assert_string_equal(config_values(c)->rootfs, expected);
    free(expected);
    free(cwd);
    config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms),          cmocka_unit_test(exact_names),
        cmocka_unit_test(prefixes),       cmocka_unit_test(usage_errors),
        cmocka_unit_test(hostile_values), cmocka_unit_test(numbers_beyond_any_range),
        cmocka_unit_test(actions),        cmocka_unit_test(program_names),
        cmocka_unit_test(relative_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
