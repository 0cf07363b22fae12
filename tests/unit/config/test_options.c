/* Every row of the options table, from every source. The table itself is walked, so that a new row is tested
 * by being there. */
#include "helper.h"

#include "base/str.h"

/* A value that differs from the default: as it is given, and as it is shown. */
struct sample {
    char given[64];
    char shown[80];
};

static const char *last_name(const struct option_row *row, bool want_default)
{
    const struct option_name *name = row->names;
    while (name[1].name != NULL)
        name++;
    return want_default ? row->names[0].name : name->name;
}

/* variant 0 and 1 differ from each other too. */
static struct sample sample_of(const struct option_row *row, int variant)
{
    struct sample s;
    const char *def = option_default(row, false);
    double number = row->min + 1 + variant;
    switch (row->type) {
    case OPTION_BOOL:
        snprintf(s.given, sizeof(s.given), "%s",
                 (strcmp(def, "true") == 0) == (variant == 0) ? "false" : "true");
        break;
    case OPTION_INTEGER:
    case OPTION_SIZE:
    case OPTION_NUMBER:
    case OPTION_SECONDS:
        if (def != NULL && strtod(def, NULL) < row->min + 3)
            number = row->min + 5 + variant;
        snprintf(s.given, sizeof(s.given), "%.15g", number);
        break;
    case OPTION_ENUM:
        snprintf(s.given, sizeof(s.given), "%s", last_name(row, variant == 1));
        break;
    case OPTION_PATH:
        snprintf(s.given, sizeof(s.given), "/some/path%d", variant);
        break;
    case OPTION_STRING:
    case OPTION_LIST:
    case OPTION_ACTION:
    default:
        snprintf(s.given, sizeof(s.given), "key=text%d", variant);
        break;
    }
    bool quoted = row->type == OPTION_STRING || row->type == OPTION_PATH || row->type == OPTION_ENUM;
    const char *before = quoted ? "\"" : row->type == OPTION_LIST ? "[\"" : "";
    const char *after = quoted ? "\"" : row->type == OPTION_LIST ? "\"]" : "";
    snprintf(s.shown, sizeof(s.shown), "%s%s%s", before, s.given, after);
    return s;
}

/* All sources but no rules, which refuse much of what this version lacks. Any of the three may be NULL. */
static struct config *read_config(char *flag, const char *line, char *variable)
{
    char *path = line != NULL ? write_file(line, strlen(line)) : NULL;
    char *config_flag = path != NULL ? xasprintf("--config=%s", path) : flag;
    const char *const argv[] = {"program", config_flag, path != NULL ? flag : NULL, NULL};
    const char *const env[] = {"HOME=/nonexistent", variable, NULL};
    struct arguments a = {.argc = args_count(argv), .argv = as_main(argv), .next = 1};
    struct config *c = config_new();
    enum config_action action;
    bool in_arguments;
    struct error err = ERROR_INIT;
    if (config_read(c, &a, as_main(env), &action, &in_arguments, &err) < 0)
        fail_msg("%s, %s, %s: %s", flag, line, variable, err.msg);
    if (path != NULL) {
        free(config_flag);
        remove_file(path);
    }
    return c;
}

static void assert_value(struct config *c, const struct option_row *row, const char *expected,
                         enum config_source source)
{
    char *value = value_of(c, row);
    if (strcmp(value, expected) != 0)
        fail_msg("%s is %s, expected %s", row->name, value, expected);
    if (config_origin(c, row)->source != source)
        fail_msg("%s comes from source %d, expected %d", row->name, config_origin(c, row)->source, source);
    free(value);
    config_free(c);
}

static char *flag_of(const struct option_row *row, const struct sample *s)
{
    if (row->type == OPTION_BOOL && strcmp(s->given, "false") == 0)
        return row->negated != NULL ? xasprintf("--%s", row->negated) : NULL;
    return row->type == OPTION_BOOL ? xasprintf("--%s", row->name)
                                    : xasprintf("--%s=%s", row->name, s->given);
}

static char *variable_of(const struct option_row *row, size_t i, const struct sample *s)
{
    return xasprintf("%s=%s", row->env[i], s->given);
}

static void each_flag(void **state)
{
    size_t tested = 0;
    for (const struct option_row *row = option_rows; row < option_rows + option_row_count; row++) {
        struct sample s = sample_of(row, 0);
        if (row->type == OPTION_ACTION || (row->traits & OPTION_NO_FLAG))
            continue;
        char *flag = flag_of(row, &s);
        if (flag == NULL)
            continue;
        if (strcmp(row->name, "config") != 0) { /* which would have to exist: each_key has it */
            assert_value(read_config(flag, NULL, NULL), row, s.shown, SOURCE_FLAG);
            tested++;
        }
        free(flag);
    }
    assert_true(tested > 60);
}

static void each_variable(void **state)
{
    for (const struct option_row *row = option_rows; row < option_rows + option_row_count; row++) {
        struct sample s = sample_of(row, 0);
        for (size_t i = 0; i < ARRAY_LEN(row->env) && row->env[i] != NULL; i++) {
            char *variable = variable_of(row, i, &s);
            assert_value(read_config(NULL, NULL, variable), row, s.shown, SOURCE_ENVIRONMENT);
            /* An empty variable is none. */
            strchr(variable, '=')[1] = '\0';
            struct config *plain = read_config(NULL, NULL, NULL);
            char *def = value_of(plain, row);
            assert_value(read_config(NULL, NULL, variable), row, def, SOURCE_DEFAULT);
            free(def);
            config_free(plain);
            free(variable);
        }
    }
}

static void each_key(void **state)
{
    for (const struct option_row *row = option_rows; row < option_rows + option_row_count; row++) {
        if (row->traits & OPTION_FLAG_ONLY)
            continue;
        struct sample s = sample_of(row, 0);
        char *line = xasprintf("%s = %s\n", row->name, s.shown);
        assert_value(read_config(NULL, line, NULL), row, s.shown, SOURCE_FILE);
        free(line);
    }
}

static void flag_over_environment_over_file(void **state)
{
    for (const struct option_row *row = option_rows; row < option_rows + option_row_count; row++) {
        if (row->traits & OPTION_FLAG_ONLY)
            continue;
        struct sample low = sample_of(row, 0);
        struct sample high = sample_of(row, 1);
        char *line = xasprintf("%s = %s", row->name, low.shown);
        char *flag = row->traits & OPTION_NO_FLAG ? NULL : flag_of(row, &high);
        if (flag != NULL)
            assert_value(read_config(flag, line, NULL), row, high.shown, SOURCE_FLAG);
        if (row->env[0] != NULL && !(row->traits & OPTION_PRESENCE)) {
            char *variable = variable_of(row, 0, &high);
            assert_value(read_config(NULL, line, variable), row, high.shown, SOURCE_ENVIRONMENT);
            free(variable);
            variable = variable_of(row, 0, &low);
            if (flag != NULL)
                assert_value(read_config(flag, NULL, variable), row, high.shown, SOURCE_FLAG);
            free(variable);
        }
        free(flag);
        free(line);
    }
}

/* One step beyond either end of a range is refused with flag, value and range; the ends are fine. */
static void each_range(void **state)
{
    for (const struct option_row *row = option_rows; row < option_rows + option_row_count; row++) {
        char range[OPTION_RANGE_SIZE];
        if (*option_range(row, range) == '\0' || (row->traits & OPTION_NO_FLAG))
            continue;
        bool whole = row->type == OPTION_INTEGER || row->type == OPTION_SIZE;
        double step = whole ? 1 : 0.001;
        double wrong[] = {row->min - step, row->max + step};
        for (size_t i = 0; i < ARRAY_LEN(wrong) && wrong[i] < 9e18; i++) {
            char *flag = xasprintf("--%s=%.15g", row->name, wrong[i]);
            assert_refused(ARGS(flag), ENV(), 1, TEXTS(row->name, strchr(flag, '=') + 1, range));
            free(flag);
        }
        double right[] = {row->min, row->max < 9e18 ? row->max : 9e18};
        for (size_t i = 0; i < ARRAY_LEN(right); i++) {
            char *flag = xasprintf("--%s=%.*g", row->name, whole ? 19 : 15, right[i]);
            config_free(read_config(flag, NULL, NULL));
            free(flag);
        }
        char *flag = xasprintf("--%s=many", row->name);
        assert_refused(ARGS(flag), ENV(), 2, TEXTS(row->name, "many", "must be a"));
        free(flag);
    }
}

static void table_is_sound(void **state)
{
    for (const struct option_row *row = option_rows; row < option_rows + option_row_count; row++) {
        assert_ptr_equal(option_find(row->name), row); /* names are unique */
        assert_true(row->help != NULL && row->help[strlen(row->help) - 1] == '.');
        assert_true((row->arg == NULL) == (row->type == OPTION_BOOL || row->type == OPTION_ACTION));
        assert_true((row->names != NULL) == (row->type == OPTION_ENUM));
        assert_true(row->type != OPTION_BOOL || row->def != NULL);
        assert_true(!(row->traits & OPTION_NO_FLAG) || row->env[0] != NULL);
        assert_false(row->type == OPTION_LIST && row->env[0] != NULL);
        for (const struct option_row *other = option_rows; other < row; other++)
            assert_true(row->type == OPTION_ACTION || other->type == OPTION_ACTION ||
                        other->member != row->member);
    }
    assert_null(option_find("nothing"));
}

static void typed_values(void **state)
{
    struct config *c =
        load_ok(ARGS("--timeout", "2.5", "--memory=1.5g", "--pids", "64", "--cpu=0.5", "--output-limit", "4k",
                     "--shell=/bin/zsh", "--log-level", "debug", "--log-format=json", "--no-network",
                     "--state-dir=/srv/state", "--max-computers=3", "--warm-pool=0"),
                ENV());
    const struct config_values *v = config_values(c);
    assert_true(v->timeout_s > 2.49 && v->timeout_s < 2.51);
    assert_int_equal(v->memory, 3LL << 29);
    assert_int_equal(v->pids, 64);
    assert_true(v->cpu > 0.49 && v->cpu < 0.51);
    assert_int_equal(v->output_limit, 4096);
    assert_string_equal(v->shell, "/bin/zsh");
    assert_int_equal(v->log_level, LOG_DEBUG);
    assert_int_equal(v->log_format, CONFIG_LOG_JSON);
    assert_false(v->network);
    assert_string_equal(v->state_dir, "/srv/state");
    assert_int_equal(v->max_computers, 3);
    assert_int_equal(v->warm_pool, 0);
    config_free(c);
}

static void defaults_by_name(void **state)
{
    struct config *c = load_ok(ARGS(), ENV());
    const struct config_values *v = config_values(c);
    assert_int_equal(v->personality, CONFIG_COMPUTER);
    assert_int_equal(v->backend, CONFIG_AUTO);
    assert_int_equal(v->transport, CONFIG_STDIO);
    assert_true(v->network);
    assert_true(v->timeout_s > 119.9 && v->timeout_s < 120.1);
    assert_int_equal(v->output_limit, 2097152);
    assert_true(v->cpu <= 0 && v->memory == 0 && v->pids == 0); /* each backend has its own */
    assert_int_equal(v->port, 8435);
    assert_int_equal(v->warm_pool, 4);
    assert_null(v->shell);
    assert_null(v->image);
    assert_string_equal(v->modal_app_name, "mcp-sandbox-computer-vm-for-ai");
    assert_null(config_warnings(c)[0]);
    config_free(c);

    c = load_ok(K_ARGS(), ENV());
    v = config_values(c);
    assert_int_equal(v->personality, CONFIG_KILNTAINERS);
    assert_false(v->network);
    assert_string_equal(v->modal_app_name, "kilntainers");
    config_free(c);

    c = load_ok(ARGS("--personality", "kilntainers"), ENV());
    assert_int_equal(config_values(c)->personality, CONFIG_KILNTAINERS);
    assert_false(config_values(c)->network);
    config_free(c);
}

static void lifecycle_variable(void **state)
{
    static const struct {
        const char *text;
        bool value;
    } cases[] = {{"true", true},   {"1", true},      {"yes", true}, {"ON", true},
                 {" True ", true}, {"false", false}, {"0", false},  {"maybe", false}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char *variable = xasprintf("ENABLE_LIFECYCLE_TOOLS=%s", cases[i].text);
        struct config *c = load_ok(ARGS(), ENV(variable));
        assert_int_equal(config_values(c)->lifecycle_tools, cases[i].value);
        /* Nonsense is told to be ignored; the rest goes without a word. */
        assert_int_equal(config_warnings(c)[0] != NULL, strcmp(cases[i].text, "maybe") == 0);
        config_free(c);

        c = load_ok(K_ARGS(), ENV(variable));
        assert_false(config_values(c)->lifecycle_tools);
        config_free(c);
        free(variable);
    }
}

static void state_directory(void **state)
{
    struct config *c = load_ok(ARGS(), ENV("STATE_DIRECTORY=/var/lib/a:/var/lib/b"));
    assert_string_equal(config_values(c)->state_dir, "/var/lib/a");
    config_free(c);
    c = load_ok(ARGS("--state-dir=/x:y"), ENV("STATE_DIRECTORY=/var/lib/a"));
    assert_string_equal(config_values(c)->state_dir, "/x:y");
    config_free(c);
    /* Both names share it. */
    c = load_ok(K_ARGS(), ENV("XDG_STATE_HOME=/xdg"));
    assert_string_equal(config_values(c)->state_dir, geteuid() == 0
                                                         ? "/var/lib/mcp-sandbox-computer-vm-for-ai"
                                                         : "/xdg/mcp-sandbox-computer-vm-for-ai");
    config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_is_sound),
        cmocka_unit_test(each_flag),
        cmocka_unit_test(each_variable),
        cmocka_unit_test(each_key),
        cmocka_unit_test(flag_over_environment_over_file),
        cmocka_unit_test(each_range),
        cmocka_unit_test(typed_values),
        cmocka_unit_test(defaults_by_name),
        cmocka_unit_test(lifecycle_variable),
        cmocka_unit_test(state_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
