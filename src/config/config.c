/* Loading the configuration. Precedence is the order of application: defaults, config file, environment,
 * flags; each source overwrites what the one before has set. */
#include "config/state.h"

#include "base/str.h"

#define COLUMNS_DEFAULT 80
#define COLUMNS_MIN 60
#define COLUMNS_MAX 160

static size_t help_columns(char *const *env)
{
    int64_t columns;
    const char *text = env_get(env, "COLUMNS");
    if (text == NULL || !str_parse_i64(text, &columns))
        return COLUMNS_DEFAULT;
    return columns < COLUMNS_MIN ? COLUMNS_MIN : columns > COLUMNS_MAX ? COLUMNS_MAX : (size_t)columns;
}

/* Finds usage errors before anything else is looked at, and what has to be known first: the action and
 * --config. An action that needs no configuration ends the reading, as in the Python programs. */
static int scan_arguments(struct config *c, struct arguments a, enum config_action *ret_action,
                          struct error *err)
{
    struct argument arg;
    int more;
    enum config_action action = CONFIG_RUN;
    while ((more = arguments_next(&a, &arg, err)) > 0) {
        if (arg.row->type == OPTION_ACTION)
            action = (enum config_action)arg.row->member;
        if (action == CONFIG_HELP || action == CONFIG_VERSION)
            break;
        if ((arg.row->traits & OPTION_FLAG_ONLY) && arg.value != NULL &&
            config_set(c, arg.row, arg.value, &(struct origin){.source = SOURCE_FLAG}, err) < 0)
            return -1;
    }
    if (more < 0)
        return -1;
    *ret_action = action;
    return 0;
}

static int apply_defaults(struct config *c, struct error *err)
{
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        const char *text = option_default(row, c->values.personality == CONFIG_KILNTAINERS);
        if (text != NULL && config_set(c, row, text, &(struct origin){.source = SOURCE_DEFAULT}, err) < 0)
            return -1;
    }
    return 0;
}

static int apply_variable(struct config *c, const struct option_row *row, const char *name, const char *value,
                          struct error *err)
{
    const struct origin origin = {.source = SOURCE_ENVIRONMENT, .name = name};
    struct error why = ERROR_INIT;
    if (config_set(c, row, row->traits & OPTION_PRESENCE ? "true" : value, &origin, &why) == 0)
        return 0;
    /* A variable may be meant for others, or was no error to the Python programs: no reason not to start. */
    if (row->type == OPTION_BOOL || option_groups[row->group].later) {
        config_warn(c, "ignored: %s", why.msg);
        return 0;
    }
    return error_set(err, why.code, "%s", why.msg);
}

static int apply_environment(struct config *c, char *const *env, struct error *err)
{
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        const char *value = NULL;
        for (size_t j = 0; j < ARRAY_LEN(row->env) && row->env[j] != NULL && value == NULL; j++) {
            value = env_get(env, row->env[j]);
            if (value != NULL && apply_variable(c, row, row->env[j], value, err) < 0)
                return -1;
        }
    }
    return 0;
}

static int apply_flags(struct config *c, struct arguments a, struct error *err)
{
    struct argument arg;
    int more;
    while ((more = arguments_next(&a, &arg, err)) > 0)
        if (arg.value != NULL && !(arg.row->traits & OPTION_FLAG_ONLY) &&
            config_set(c, arg.row, arg.value, &(struct origin){.source = SOURCE_FLAG}, err) < 0)
            return -1;
    return more;
}

int config_read(struct config *c, const struct arguments *a, char *const *env, enum config_action *ret_action,
                bool *ret_arguments, struct error *err)
{
    *ret_arguments = true;
    if (scan_arguments(c, *a, ret_action, err) < 0)
        return -1;
    *ret_arguments = false;
    if (apply_defaults(c, err) < 0)
        return -1;
    if (*ret_action == CONFIG_HELP || *ret_action == CONFIG_VERSION)
        return 0;
    if (config_file_read(c, env, err) < 0 || apply_environment(c, env, err) < 0)
        return -1;
    *ret_arguments = true;
    if (apply_flags(c, *a, err) < 0)
        return -1;
    *ret_arguments = false;
    return 0;
}

struct config *config_load(int argc, char *const *argv, char *const *env, enum config_action *ret_action,
                           int *ret_exit, struct error *err)
{
    _cleanup_(cleanup_config_free) struct config *c = config_new();
    c->values.personality = arguments_personality(argc, argv);
    c->columns = help_columns(env);

    const struct arguments arguments = {
        .argc = argc, .argv = argv, .next = 1, .personality = c->values.personality};
    enum config_action action;
    bool in_arguments;
    struct error why = ERROR_INIT;
    int status = config_read(c, &arguments, env, &action, &in_arguments, &why);
    if (status == 0 && action != CONFIG_HELP && action != CONFIG_VERSION)
        status = state_dir_resolve(c, env, &why) < 0 ? -1 : rules_check(c, &why);
    if (status < 0) {
        *ret_exit = in_arguments && why.code == ERR_INVALID ? 2 : 1;
        error_set(err, why.code, "%s", why.msg);
        return NULL;
    }
    *ret_action = action;
    return TAKE_PTR(c);
}
