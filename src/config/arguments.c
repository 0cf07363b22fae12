/* The command line, one option at a time, as GNU getopt_long reads it: --flag=value, --flag value,
 * unambiguous prefixes, -h.
 *
 * getopt_long itself can't be used for one reason: a prefix is resolved among the flags of the Python program
 * of the same name first, so that a flag that is new here breaks no abbreviation that worked there. Stricter
 * than getopt_long: there are no positional arguments, and a value that looks like a flag has to be attached
 * with '='. */
#include "config/state.h"

#include <string.h>

#include "base/path.h"
#include "base/str.h"

struct match {
    const struct option_row *row;
    bool negated;
    bool exact;
    int count;
    char names[160]; /* of all that match, for a message */
};

static void match_add(struct match *m, const struct option_row *row, const char *flag, const char *given,
                      size_t n)
{
    if (m->exact || strncmp(flag, given, n) != 0)
        return;
    m->exact = flag[n] == '\0';
    m->count = m->exact ? 1 : m->count + 1;
    m->row = row;
    m->negated = flag != row->name;
    size_t used = strlen(m->names);
    snprintf(m->names + used, sizeof(m->names) - used, "%s--%s", used > 0 ? ", " : "", flag);
}

/* Looks the first n bytes of `given` up among the flags that have one of the traits; 0: among all. */
static struct match match_flag(const char *given, size_t n, unsigned traits)
{
    struct match m = {0};
    for (const struct option_row *row = option_rows; row < option_rows + option_row_count; row++) {
        if ((row->traits & OPTION_NO_FLAG) || (traits != 0 && !(row->traits & traits)))
            continue;
        match_add(&m, row, row->name, given, n);
        if (row->negated != NULL && traits != OPTION_SEED_KILNTAINERS) /* that program has --network only */
            match_add(&m, row, row->negated, given, n);
    }
    return m;
}

static int flag_unknown(const char *flag, size_t n, struct error *err)
{
    char name[64];
    snprintf(name, sizeof(name), "%.*s", (int)n, flag);
    const char *near = n < sizeof(name) ? option_near_miss(name, true) : NULL;
    if (near != NULL)
        return error_set(err, ERR_INVALID, "unknown option --%s; did you mean --%s?", name, near);
    return error_set(err, ERR_INVALID, "unknown option --%s; --help lists all", name);
}

/* A flag's value is what follows '=', else the next argument. */
static int take_value(struct arguments *a, const struct option_row *row, const char *attached,
                      const char **ret, struct error *err)
{
    if (attached != NULL) {
        *ret = attached;
        return 0;
    }
    if (a->next >= a->argc)
        return error_set(err, ERR_INVALID, "--%s needs a value: --%s %s", row->name, row->name, row->arg);
    const char *value = a->argv[a->next];
    if (str_has_prefix(value, "--") && !(row->traits & OPTION_DASHES)) {
        return error_set(err, ERR_INVALID, "--%s needs a value; if it is to begin with --, write --%s=%s",
                         row->name, row->name, row->arg);
    }
    a->next++;
    *ret = value;
    return 0;
}

static int long_flag(struct arguments *a, const char *flag, struct argument *ret, struct error *err)
{
    size_t n = strcspn(flag, "=");
    const char *attached = flag[n] == '=' ? flag + n + 1 : NULL;
    struct match m = match_flag(
        flag, n, a->personality == CONFIG_KILNTAINERS ? OPTION_SEED_KILNTAINERS : OPTION_SEED_COMPUTER);
    if (m.count == 0 || n == 0)
        m = match_flag(flag, n, 0);
    if (m.count == 0 || n == 0)
        return flag_unknown(flag, n, err);
    if (m.count > 1)
        return error_set(err, ERR_INVALID, "--%.*s is ambiguous: it may be %s", (int)n, flag, m.names);

    struct argument found = {.row = m.row};
    if (m.row->arg != NULL) {
        if (take_value(a, m.row, attached, &found.value, err) < 0)
            return -1;
    } else if (attached != NULL) {
        return error_set(err, ERR_INVALID, "--%s takes no value", m.negated ? m.row->negated : m.row->name);
    } else if (m.row->type == OPTION_BOOL) {
        found.value = m.negated ? "false" : "true";
    }
    *ret = found;
    return 1;
}

static int short_flag(const char *arg, struct argument *ret, struct error *err)
{
    for (const struct option_row *row = option_rows; row < option_rows + option_row_count; row++) {
        if (row->letter != 0 && arg[1] == row->letter && arg[2] == '\0') {
            *ret = (struct argument){.row = row};
            return 1;
        }
    }
    return error_set(err, ERR_INVALID, "unknown option %.40s; --help lists all", arg);
}

int arguments_next(struct arguments *a, struct argument *ret, struct error *err)
{
    if (a->next >= a->argc)
        return 0;
    const char *arg = a->argv[a->next++];
    if (strcmp(arg, "--") == 0) {
        if (a->next >= a->argc)
            return 0;
        arg = a->argv[a->next];
        a->next = a->argc;
    } else if (str_has_prefix(arg, "--")) {
        return long_flag(a, arg + 2, ret, err);
    } else if (arg[0] == '-' && arg[1] != '\0') {
        return short_flag(arg, ret, err);
    }
    return error_set(err, ERR_INVALID,
                     "unexpected argument '%.60s'; everything is given by options, see --help", arg);
}

enum config_personality arguments_personality(int argc, char *const *argv)
{
    const char *started_as = argc > 0 && argv[0] != NULL ? path_basename(argv[0]) : "";
    enum config_personality personality =
        strcmp(started_as, "kilntainers") == 0 ? CONFIG_KILNTAINERS : CONFIG_COMPUTER;

    struct arguments a = {argc, argv, 1, personality};
    struct argument arg;
    int more;
    while ((more = arguments_next(&a, &arg, NULL)) != 0) {
        if (more < 0 || arg.row->member != offsetof(struct config_values, personality) ||
            arg.row->type != OPTION_ENUM)
            continue;
        for (unsigned i = 0; arg.row->names[i].name != NULL; i++)
            if (strcmp(arg.row->names[i].name, arg.value) == 0)
                personality = (enum config_personality)i;
    }
    return personality;
}

const char *program_name(enum config_personality personality)
{
    return personality == CONFIG_KILNTAINERS ? "kilntainers" : "mcp-sandbox-computer-vm-for-ai";
}

const char *config_program_name(int argc, char *const *argv)
{
    return program_name(arguments_personality(argc, argv));
}
