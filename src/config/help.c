/* --help and --version, made from the options table. */
#include "config/state.h"

#include <string.h>

#define TEXT_COLUMN 26 /* where descriptions begin */
#define TEXT_MAX 4096

const char *config_version(void)
{
    return VERSION;
}

void config_print_version(const struct config *c, FILE *to)
{
    fprintf(to, "%s %s\n", program_name(c->values.personality), config_version());
}

/* Appends "; what value", or " (what value" as the first one. */
static void add_note(struct buf *to, bool *open, const char *what, const char *value)
{
    (void)!buf_printf(to, "%s%s%s", *open ? "; " : " (", what, value);
    *open = true;
}

static void add_names(struct buf *to, const struct option_row *row)
{
    for (int later = 0; later <= 1; later++) {
        bool first = true;
        for (const struct option_name *name = row->names; name->name != NULL; name++) {
            if (name->later == later) {
                const char *lead = !first ? ", " : later ? " Not in this version: " : " One of: ";
                (void)!buf_printf(to, "%s%s", lead, name->name);
                first = false;
            }
        }
        (void)!buf_append_str(to, first ? "" : ".");
    }
}

void option_describe(const struct option_row *row, bool kilntainers, struct buf *to)
{
    (void)!buf_append_str(to, row->help);
    if (row->names != NULL)
        add_names(to, row);
    if (row->type == OPTION_LIST)
        (void)!buf_append_str(to, " Repeatable.");
    bool open = false;
    char range[OPTION_RANGE_SIZE];
    if (*option_range(row, range) != '\0')
        add_note(to, &open, "", range);
    const char *def = option_default(row, kilntainers);
    if (row->type == OPTION_BOOL)
        def = strcmp(def, "true") == 0 ? "on" : "off";
    if (def != NULL || row->def_told != NULL)
        add_note(to, &open, "default: ", def != NULL ? def : row->def_told);
    if (row->traits & OPTION_NO_FLAG)
        add_note(to, &open, "in the config file: ", row->name);
    else if (row->env[0] != NULL)
        add_note(to, &open, "environment: ", row->env[0]);
    for (size_t i = 1; i < ARRAY_LEN(row->env) && row->env[i] != NULL; i++)
        (void)!buf_printf(to, ", %s", row->env[i]);
    (void)!buf_append_str(to, open ? ")" : "");
    if (row->traits & OPTION_LATER)
        (void)!buf_append_str(to, " Not in this version.");
}

void option_usage(const struct option_row *row, struct buf *to)
{
    if (row->traits & OPTION_NO_FLAG) {
        (void)!buf_append_str(to, row->env[0]);
        return;
    }
    if (row->letter != 0)
        (void)!buf_printf(to, "-%c, ", row->letter);
    (void)!buf_printf(to, "--%s", row->name);
    if (row->negated != NULL)
        (void)!buf_printf(to, ", --%s", row->negated);
    if (row->arg != NULL)
        (void)!buf_printf(to, " %s", row->arg);
}

/* Prints words from column `at` on, those of further lines from `indent` on. */
static void print_wrapped(const char *text, size_t at, size_t indent, size_t columns, FILE *to)
{
    bool line_start = true;
    if (at > indent) {
        fputc('\n', to);
        at = 0;
    }
    while (*text != '\0') {
        size_t n = strcspn(text, " ");
        if (!line_start && at + 1 + n > columns) {
            fputc('\n', to);
            at = 0;
            line_start = true;
        }
        int pad = line_start ? (int)(indent - at) : 1;
        fprintf(to, "%*s%.*s", pad, "", (int)n, text);
        at += (size_t)pad + n;
        line_start = false;
        text += n;
        text += *text == ' ';
    }
    fputc('\n', to);
}

static void print_option(const struct config *c, const struct option_row *row, FILE *to)
{
    _cleanup_(buf_done) struct buf usage = BUF_INIT(TEXT_MAX);
    _cleanup_(buf_done) struct buf text = BUF_INIT(TEXT_MAX);
    option_usage(row, &usage);
    option_describe(row, c->values.personality == CONFIG_KILNTAINERS, &text);
    fprintf(to, "  %s", buf_str(&usage));
    /* Two blanks at least between both. */
    size_t at = 2 + usage.len;
    print_wrapped(buf_str(&text), at + 2 > TEXT_COLUMN ? TEXT_COLUMN + 1 : at, TEXT_COLUMN, c->columns, to);
}

void config_print_help(const struct config *c, FILE *to)
{
    const char *name = program_name(c->values.personality);
    fprintf(to, "Usage: %s [OPTION]...\n\n", name);
    print_wrapped("An MCP server that gives AI agents isolated Linux computers. MCP clients start it and "
                  "talk to it over standard input and output; with --transport http it serves many of them, "
                  "over HTTP.",
                  0, 0, c->columns, to);
    for (int group = 0; group < GROUP_COUNT; group++) {
        fprintf(to, "\n%s%s:\n", option_groups[group].title,
                option_groups[group].later ? " (not in this version)" : "");
        for (size_t i = 0; i < option_row_count; i++)
            if ((int)option_rows[i].group == group)
                print_option(c, &option_rows[i], to);
    }
    fputc('\n', to);
    print_wrapped("Flags win over the environment, which wins over the config file. Flags may be shortened "
                  "as long as they stay unambiguous. Exit status: 0 ended as asked, 1 could not start, or "
                  "had to leave something for the next start to remove, or lost replies, 2 wrong usage.",
                  0, 0, c->columns, to);
}
