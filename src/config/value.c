/* From text to values: one parser per type of option, and the words for what is wrong. */
#include "config/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/str.h"
#include "base/utf8.h"

/* Enum members are set and read through unsigned int, which is what the compilers make of enums without
 * negative constants. */
_Static_assert(sizeof(enum config_backend) == sizeof(unsigned), "an enum member is an unsigned int");

void config_clear(struct config *c, const struct option_row *row)
{
    void *member = config_member(c, row);
    if (row->type == OPTION_STRING || row->type == OPTION_PATH) {
        free(*(char **)member);
        *(char **)member = NULL;
    } else if (row->type == OPTION_LIST) {
        strv_free(*(char ***)member);
        *(char ***)member = NULL;
    }
}

static int out_of_range(const struct option_row *row, struct error *err)
{
    char range[OPTION_RANGE_SIZE];
    return error_set(err, ERR_LIMIT, "out of range; must be %s", option_range(row, range));
}

static int range_check(const struct option_row *row, double value, struct error *err)
{
    return value < row->min || value > row->max ? out_of_range(row, err) : 0;
}

/* Is it a whole number, however large? Then it is out of range rather than not a number. */
static bool is_whole(const char *text)
{
    text += *text == '-' || *text == '+';
    return *text != '\0' && strspn(text, "0123456789") == strlen(text);
}

static int parse_bool(const struct option_row *row, const char *text, void *member, struct error *err)
{
    if (!str_parse_bool(text, member))
        return error_set(err, ERR_INVALID, "must be true or false");
    return 0;
}

static int parse_integer(const struct option_row *row, const char *text, void *member, struct error *err)
{
    int64_t value;
    if (!str_parse_i64(text, &value)) {
        return is_whole(text) ? out_of_range(row, err)
                              : error_set(err, ERR_INVALID, "must be a whole number");
    }
    if (range_check(row, (double)value, err) < 0)
        return -1;
    *(int64_t *)member = value;
    return 0;
}

static int parse_size(const struct option_row *row, const char *text, void *member, struct error *err)
{
    int64_t value;
    if (!str_parse_size(text, &value)) {
        return is_whole(text)
                   ? out_of_range(row, err)
                   : error_set(err, ERR_INVALID, "must be a size, such as 1048576, 512k, 512m or 2g");
    }
    if (range_check(row, (double)value, err) < 0)
        return -1;
    *(int64_t *)member = value;
    return 0;
}

static int parse_number(const struct option_row *row, const char *text, void *member, struct error *err)
{
    double value;
    if (!str_parse_double(text, &value)) {
        return error_set(err, ERR_INVALID,
                         row->type == OPTION_SECONDS ? "must be a number of seconds" : "must be a number");
    }
    if (range_check(row, value, err) < 0)
        return -1;
    *(double *)member = value;
    return 0;
}

static int parse_enum(const struct option_row *row, const char *text, void *member, struct error *err)
{
    char names[200] = "";
    for (unsigned i = 0; row->names[i].name != NULL; i++) {
        if (strcmp(row->names[i].name, text) == 0) {
            *(unsigned *)member = i;
            return 0;
        }
        size_t used = strlen(names);
        snprintf(names + used, sizeof(names) - used, "%s%s", i > 0 ? ", " : "", row->names[i].name);
    }
    return error_set(err, ERR_INVALID, "must be one of %s", names);
}

/* What every text has to be, whatever it means. */
static int text_check(const char *text, struct error *err)
{
    if (*text == '\0')
        return error_set(err, ERR_INVALID, "must not be empty; leave the option out instead");
    if (!utf8_valid(text, strlen(text)))
        return error_set(err, ERR_INVALID, "must be valid UTF-8");
    return 0;
}

static int parse_string(const struct option_row *row, const char *text, void *member, struct error *err)
{
    if (text_check(text, err) < 0)
        return -1;
    free(*(char **)member);
    *(char **)member = xstrdup(text);
    return 0;
}

static int parse_path(const struct option_row *row, const char *text, void *member, struct error *err)
{
    const bool is_stderr = (row->traits & OPTION_OR_STDERR) && strcmp(text, "-") == 0;
    if (is_stderr || path_is_absolute(text))
        return parse_string(row, text, member, err);
    if (text_check(text, err) < 0)
        return -1;
    _cleanup_(cleanup_free) char *cwd = getcwd(NULL, 0);
    if (cwd == NULL) {
        return error_errno(err, ERR_LIMIT, errno,
                           "must be absolute, as the working directory can't be found out");
    }
    _cleanup_(cleanup_free) char *path = path_join(cwd, text);
    return parse_string(row, path, member, err);
}

static int parse_list_element(const struct option_row *row, const char *text, void *member, struct error *err)
{
    if (text_check(text, err) < 0)
        return -1;
    const char *equals = strchr(text, '=');
    if ((row->traits & OPTION_PAIRS) && (equals == NULL || equals == text))
        return error_set(err, ERR_INVALID, "must have the form KEY=VALUE");
    char ***list = member;
    size_t n = *list == NULL ? 0 : strv_len(*list);
    if (n >= LIMIT_CONFIG_LIST)
        return error_set(err, ERR_LIMIT, "too many; at most %d are possible", LIMIT_CONFIG_LIST);
    *list = xrealloc_array(*list, n + 2, sizeof(**list));
    (*list)[n] = xstrdup(text);
    (*list)[n + 1] = NULL;
    return 0;
}

typedef int parse_fn(const struct option_row *row, const char *text, void *member, struct error *err);
static parse_fn *const parsers[] = {
    [OPTION_BOOL] = parse_bool,       [OPTION_STRING] = parse_string, [OPTION_PATH] = parse_path,
    [OPTION_INTEGER] = parse_integer, [OPTION_NUMBER] = parse_number, [OPTION_SECONDS] = parse_number,
    [OPTION_SIZE] = parse_size,       [OPTION_ENUM] = parse_enum,     [OPTION_LIST] = parse_list_element,
};

int config_set(struct config *c, const struct option_row *row, const char *text, const struct origin *origin,
               struct error *err)
{
    struct origin *now = &c->origins[row - option_rows];
    if (row->type == OPTION_LIST && now->source != origin->source)
        config_clear(c, row);
    if (parsers[row->type](row, text, config_member(c, row), err) < 0) {
        char subject[SUBJECT_SIZE];
        return error_prefix(err, "%s", config_subject(row, origin, text, subject));
    }
    *now = *origin;
    return 0;
}

/* A text that came from outside, fit for a line of a terminal: at most 60 bytes, nothing unprintable. */
static void append_shown(struct buf *to, const char *text)
{
    size_t n = strlen(text);
    size_t shown = n > 60 ? utf8_boundary(text, 57) : n;
    size_t start = to->len;
    if (utf8_append_lossy(to, text, shown) < 0 || (shown < n && buf_append_str(to, "...") < 0))
        return; /* cut */
    for (size_t i = start; i < to->len; i++)
        if ((unsigned char)to->data[i] < 0x20 || to->data[i] == 0x7f)
            to->data[i] = '?';
}

/* As it was given: a switch that is off has a name of its own for that. */
static const char *flag_name(const struct option_row *row, const char *text)
{
    const bool off = row->type == OPTION_BOOL && strcmp(text, "false") == 0;
    return off && row->negated ? row->negated : row->name;
}

const char *config_subject(const struct option_row *row, const struct origin *origin, const char *text,
                           char buf[SUBJECT_SIZE])
{
    _cleanup_(buf_done) struct buf shown = BUF_INIT(1024);
    if (row->traits & OPTION_SECRET)
        text = "(hidden)";
    append_shown(&shown, text);
    const char *value = buf_str(&shown);
    switch (origin->source) {
    case SOURCE_FLAG:
        snprintf(buf, SUBJECT_SIZE, "--%s%s%s", flag_name(row, value), row->type == OPTION_BOOL ? "" : " ",
                 row->type == OPTION_BOOL ? "" : value);
        break;
    case SOURCE_ENVIRONMENT:
        snprintf(buf, SUBJECT_SIZE, "%s=%s", origin->name, value);
        break;
    case SOURCE_FILE:
        snprintf(buf, SUBJECT_SIZE, "%.100s:%d: %s = %s", origin->name, origin->line, row->name, value);
        break;
    case SOURCE_DEFAULT:
    default:
        snprintf(buf, SUBJECT_SIZE, "%s", flag_name(row, value));
        break;
    }
    return buf;
}
