/* --print-config: the effective values as a config file that means the same, each with where it came from.
 * What is at its default stands in a comment, since saying `network = true` is not the same as not saying it;
 * secrets do too. */
#include "config/state.h"

#include <inttypes.h>

#include "base/str.h"

static int format_text(struct buf *to, const char *text)
{
    int status = buf_append_byte(to, '"');
    for (; *text != '\0' && status == 0; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            status = buf_printf(to, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            status = buf_printf(to, "\\u%04X", c);
        else
            status = buf_append_byte(to, (char)c);
    }
    return status == 0 ? buf_append_byte(to, '"') : status;
}

static int format_list(struct buf *to, char *const *list)
{
    int status = buf_append_byte(to, '[');
    for (size_t i = 0; list[i] != NULL && status == 0; i++) {
        status = i > 0 ? buf_append_str(to, ", ") : 0;
        status = status == 0 ? format_text(to, list[i]) : status;
    }
    return status == 0 ? buf_append_byte(to, ']') : status;
}

static int format_number(struct buf *to, double value)
{
    char text[40];
    double back;
    snprintf(text, sizeof(text), "%.15g", value);
    if (!str_parse_double(text, &back) || back < value || back > value)
        snprintf(text, sizeof(text), "%.17g", value);
    return buf_append_str(to, text);
}

unsigned config_enum(const struct config *c, const struct option_row *row)
{
    return *(const unsigned *)config_member(c, row);
}

int config_format(const struct config *c, const struct option_row *row, struct buf *to)
{
    const void *member = config_member(c, row);
    const char *text;
    char *const *list;
    double number;
    int64_t integer;
    switch (row->type) {
    case OPTION_BOOL:
        return buf_append_str(to, *(const bool *)member ? "true" : "false");
    case OPTION_STRING:
    case OPTION_PATH:
        text = *(char *const *)member;
        return text != NULL ? format_text(to, text) : 0;
    case OPTION_INTEGER:
    case OPTION_SIZE:
        integer = *(const int64_t *)member;
        return integer != 0 || row->min <= 0 ? buf_printf(to, "%" PRId64, integer) : 0;
    case OPTION_NUMBER:
    case OPTION_SECONDS:
        number = *(const double *)member;
        return number > 0 ? format_number(to, number) : 0;
    case OPTION_ENUM:
        return format_text(to, row->names[config_enum(c, row)].name);
    case OPTION_LIST:
        list = *(char *const *const *)member;
        return list != NULL ? format_list(to, list) : 0;
    case OPTION_ACTION:
    default:
        return 0;
    }
}

/* The rest of the line is a comment: nothing in a path may end it. */
static void print_origin(const struct origin *origin, FILE *to)
{
    static const char *const sources[] = {[SOURCE_DEFAULT] = "default",
                                          [SOURCE_FILE] = "file ",
                                          [SOURCE_ENVIRONMENT] = "environment ",
                                          [SOURCE_FLAG] = "flag"};
    fprintf(to, "  # %s", sources[origin->source]);
    for (const char *p = origin->name; p != NULL && *p != '\0'; p++)
        fputc((unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p, to);
    if (origin->source == SOURCE_FILE)
        fprintf(to, ":%d", origin->line);
    fputc('\n', to);
}

static void print_row(const struct config *c, const struct option_row *row, FILE *to)
{
    _cleanup_(buf_done) struct buf value = BUF_INIT(CONFIG_TEXT_MAX);
    if (config_format(c, row, &value) < 0 || value.len == 0)
        return; /* not set */
    const struct origin *origin = config_origin(c, row);
    bool secret = row->traits & OPTION_SECRET;
    fprintf(to, "%s%s = %s", secret || origin->source == SOURCE_DEFAULT ? "# " : "", row->name,
            secret ? "\"(set)\"" : buf_str(&value));
    print_origin(origin, to);
}

void config_print(const struct config *c, FILE *to)
{
    fputs("# ", to);
    config_print_version(c, to);
    for (int group = 0; group < GROUP_COUNT; group++) {
        fprintf(to, "\n# %s\n", option_groups[group].title);
        for (size_t i = 0; i < option_row_count; i++)
            if ((int)option_rows[i].group == group && !(option_rows[i].traits & OPTION_FLAG_ONLY))
                print_row(c, &option_rows[i], to);
    }
}
