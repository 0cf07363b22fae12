/* The config file: what it may say, where it is looked for, and hostile content. */
#include "helper.h"

#include <sys/stat.h>

#include "base/limits.h"

static char *config_flag;
static char *config_file;

static void use_file(const void *bytes, size_t n)
{
    config_file = write_file(bytes, n);
    config_flag = xasprintf("--config=%s", config_file);
}

static void drop_file(void)
{
    remove_file(config_file);
    free(config_flag);
}

static struct config *load_text(const char *text)
{
    use_file(text, strlen(text));
    struct config *c = load_ok(ARGS(config_flag), ENV());
    drop_file();
    return c;
}

static void refuse_bytes(const void *bytes, size_t n, const char *const *texts)
{
    use_file(bytes, n);
    assert_refused(ARGS(config_flag), ENV(), 1, texts);
    assert_refused(ARGS(config_flag), ENV(), 1, TEXTS(config_file));
    drop_file();
}

static void refuse_text(const char *text, const char *const *texts)
{
    refuse_bytes(text, strlen(text), texts);
}

static void all_forms(void **state)
{
    struct config *c = load_text("\xef\xbb\xbf# a comment\r\n"
                                 "\n"
                                 "timeout=2.5#at once\r\n"
                                 "  pids\t=\t100   # blanks\n"
                                 "network = false\n"
                                 "memory = \"1g\"\n"
                                 "output-limit = 4096\n"
                                 "rootfs = '/a\\b'\n"
                                 "extended-tool-instruction = \"a \\\"b\\\" \\\\ \\b\\t\\n\\f\\r "
                                 "\\u00e9\\u20AC\\U0001F600 # no comment\"\n"
                                 "allowed-host = [ \"a\", 'b' , # more\n"
                                 "  \"c\",\n"
                                 "]\n"
                                 "allowed-origin = \"https://one\"\n"
                                 "e2b-env = []\n"
                                 "log-level = \"debug\"");
    const struct config_values *v = config_values(c);
    assert_true(v->timeout_s > 2.4 && v->timeout_s < 2.6);
    assert_int_equal(v->pids, 100);
    assert_false(v->network);
    assert_int_equal(v->memory, 1 << 30);
    assert_int_equal(v->output_limit, 4096);
    assert_string_equal(v->rootfs, "/a\\b");
    assert_string_equal(v->extended_tool_instruction,
                        "a \"b\" \\ \b\t\n\f\r \xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 # no comment");
    assert_int_equal(strv_len(v->allowed_host), 3);
    assert_string_equal(v->allowed_host[0], "a");
    assert_string_equal(v->allowed_host[2], "c");
    assert_string_equal(v->allowed_origin[0], "https://one");
    assert_null(v->e2b_env);
    assert_int_equal(v->log_level, LOG_DEBUG);
    config_free(c);

    config_free(load_text(""));
    config_free(load_text("# only a comment"));
    config_free(load_text("\n\r\n \t \n"));
}

static void wrong_files(void **state)
{
    refuse_text("timeout = 1\n\nnonsense = 1\n", TEXTS(":3: unknown option nonsense", "--help"));
    refuse_text("time-out = 1", TEXTS(":1: unknown option time-out", "did you mean timeout?"));
    refuse_text("output_limit = 1", TEXTS("did you mean output-limit?"));
    refuse_text("timeout = 1\npids = 9\ntimeout = 2", TEXTS(":3: timeout is given twice", "line 1"));
    refuse_text("\n[server]\n", TEXTS(":2: [sections] are not used"));
    refuse_text("personality = \"kilntainers\"", TEXTS(":1: personality", "command line", "--personality"));
    refuse_text("help = true", TEXTS(":1: help", "command line"));
    refuse_text("= 1", TEXTS(":1: expected the name"));
    refuse_text("timeout 5", TEXTS(":1: timeout lacks its ="));
    refuse_text("timeout", TEXTS(":1: timeout lacks its ="));
    refuse_text("timeout =", TEXTS(":1: timeout has no value"));
    refuse_text("timeout = \n5", TEXTS(":1: timeout has no value"));
    refuse_text("timeout = 5 6", TEXTS(":1: something follows the value of timeout"));
    refuse_text("timeout = 5, pids = 6", TEXTS(":1: something follows"));
    refuse_text("timeout = soon", TEXTS(":1: the value of timeout must be in quotes", "\"soon\""));
    refuse_text("memory = 512m", TEXTS(":1: the value of memory must be in quotes: memory = \"512m\""));
    refuse_text("shell = /bin/zsh", TEXTS(":1: the value of shell must be in quotes: shell = \"/bin/zsh\""));
    refuse_text("shell = 5", TEXTS(":1: the value of shell must be in quotes"));
    refuse_text("shell = \"/bin", TEXTS(":1: the text has no closing \""));
    refuse_text("shell = '/bin\n'", TEXTS(":1: the text has no closing '"));
    refuse_text("shell = \"\\x\"", TEXTS(":1: unknown escape"));
    refuse_text("shell = \"\\", TEXTS(":1: unknown escape"));
    refuse_text("shell = \"\\u12\"", TEXTS(":1: \\u needs 4 hexadecimal digits"));
    refuse_text("shell = \"\\u0000\"", TEXTS(":1: U+0000"));
    refuse_text("shell = \"\\ud800\"", TEXTS(":1: U+D800"));
    refuse_text("shell = \"\\U00110000\"", TEXTS(":1: U+110000"));
    refuse_text("shell = \"\"", TEXTS(":1: shell = : must not be empty"));
    refuse_text("shell = [\"a\"]", TEXTS(":1: shell takes one value"));
    refuse_text("allowed-host = [\"a\" \"b\"]", TEXTS(":1: the list allowed-host lacks a comma"));
    refuse_text("allowed-host = [\"a\",\n", TEXTS(":2: allowed-host has no value"));
    refuse_text("allowed-host = [\"a\"", TEXTS("lacks a comma or its closing ]"));
    refuse_text("allowed-host = [a]", TEXTS("must be in quotes"));
    refuse_text("network = 1.5", TEXTS(":1: network = 1.5: must be true or false"));
    refuse_text("pids = true", TEXTS(":1: pids = true: must be a whole number"));
    refuse_text("port = 70000", TEXTS(":1: port = 70000: out of range", "0 to 65535"));
    refuse_text("backend = \"dockerd\"", TEXTS(":1: backend = dockerd", "docker"));
}

static void hostile_files(void **state)
{
    refuse_bytes("pids = 9\nshell = \"a\0b\"", 22, TEXTS(":2: has a NUL byte"));
    refuse_bytes("\0", 1, TEXTS(":1: has a NUL byte"));
    refuse_text("# fine\n# \xff\n", TEXTS(":2: is not valid UTF-8"));
    refuse_text("# \xed\xa0\x80", TEXTS(":1: is not valid UTF-8"));

    size_t n = LIMIT_CONFIG_FILE_BYTES + 1;
    char *big = xmalloc(n);
    memset(big, '\n', n);
    use_file(big, n - 1);
    config_free(load_ok(ARGS(config_flag), ENV())); /* at the limit */
    drop_file();
    refuse_bytes(big, n, TEXTS("config file"));

    /* One endless line; and a list that never ends. */
    memset(big, 'x', n);
    refuse_bytes(big, n - 1, TEXTS(":1: expected the name"));
    memcpy(big, "e2b-env = [", 11);
    for (size_t i = 11; i + 6 < n; i += 6)
        memcpy(big + i, "'a=b',", 6);
    refuse_bytes(big, 11 + 6 * 20000, TEXTS(":1: e2b-env", "at most 256"));
    free(big);
}

static void missing_file(void **state)
{
    assert_refused(ARGS("--config", "/nonexistent/config.toml"), ENV(), 1, TEXTS("/nonexistent/config.toml"));
    assert_refused(ARGS("--config", "/tmp"), ENV(), 1, TEXTS("/tmp"));
}

static void default_places(void **state)
{
    char folder[] = "/tmp/test-config-home-XXXXXX";
    assert_non_null(mkdtemp(folder));
    char *config = xasprintf("%s/.config", folder);
    char *computer = xasprintf("%s/mcp-sandbox-computer-vm-for-ai", config);
    char *kilntainers = xasprintf("%s/kilntainers", config);
    assert_int_equal(mkdir(config, 0700) | mkdir(computer, 0700) | mkdir(kilntainers, 0700), 0);
    char *files[] = {xasprintf("%s/config.toml", computer), xasprintf("%s/config.toml", kilntainers)};
    for (int i = 0; i < 2; i++) {
        FILE *f = fopen(files[i], "we");
        assert_non_null(f);
        fprintf(f, "pids = %d\n", 100 + i);
        fclose(f);
    }
    char *home = xasprintf("HOME=%s", folder);
    char *xdg = xasprintf("XDG_CONFIG_HOME=%s", config);
    const struct {
        const char *const *argv;
        const char *const *env;
        int64_t pids;
    } cases[] = {
        {ARGS(), (const char *const[]){home, NULL}, 100},
        {K_ARGS(), (const char *const[]){home, NULL}, 101},
        {ARGS("--personality=kilntainers"), (const char *const[]){home, NULL}, 101},
        {ARGS(), ENV(xdg), 100},
        {ARGS(), (const char *const[]){home, "XDG_CONFIG_HOME=/nonexistent", NULL}, 0},
        {ARGS(), (const char *const[]){home, "XDG_CONFIG_HOME=relative", NULL},
         100}, /* as its specification says */
        {ARGS("--pids=7"), (const char *const[]){home, NULL}, 7},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct config *c = load_ok(cases[i].argv, cases[i].env);
        assert_int_equal(config_values(c)->pids, cases[i].pids);
        config_free(c);
    }
    for (int i = 0; i < 2; i++) {
        unlink(files[i]);
        free(files[i]);
    }
    rmdir(computer);
    rmdir(kilntainers);
    rmdir(config);
    assert_int_equal(rmdir(folder), 0);
    free(config);
    free(computer);
    free(kilntainers);
    free(home);
    free(xdg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_forms),    cmocka_unit_test(wrong_files),    cmocka_unit_test(hostile_files),
        cmocka_unit_test(missing_file), cmocka_unit_test(default_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
