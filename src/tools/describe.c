/* Filling in of a tool's description. What an option says replaces all of it, or comes after it. */
#include "tools/describe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/str.h"

#define DESCRIPTION_MAX (64 * KIB)

/* What holds where there is a shell. */
#define USAGE                                                                                                \
    "- Each call is independent: files persist within the computer, but shell variables and the current "    \
    "directory do not. Chain with && or set working_directory.\n"                                            \
    "- To write a file, pass its content as stdin, which needs no quoting: command \"cat > "                 \
    "/root/notes.txt\".\n"                                                                                   \
    "- Background processes (&) keep running after the call."

struct fact {
    const char *name; /* with its braces */
    const char *value;
};

/* Length of the first name among the facts at `p`, with its value; 0: none is there. */
static size_t match(const struct fact *facts, size_t count, const char *p, const char **ret_value)
{
    for (size_t i = 0; i < count; i++)
        if (strncmp(p, facts[i].name, strlen(facts[i].name)) == 0) {
            *ret_value = facts[i].value;
            return strlen(facts[i].name);
        }
    return 0;
}

/* A line that begins with the name of a transport is for that one only. From the end of a line to the end of
 * those that are not for us. */
static const char *skip_lines(const char *p, const char *not_for_us)
{
    while (*p == '\n' && str_has_prefix(p + 1, not_for_us))
        p = strchrnul(p + 1, '\n');
    return p;
}

static char *fill_in(const char *template, const struct fact *facts, size_t count, const char *not_for_us)
{
    struct buf text = BUF_INIT(DESCRIPTION_MAX);
    for (const char *p = template; *(p = skip_lines(p, not_for_us));) {
        const char *value;
        size_t name = match(facts, count, p, &value);
        int r = name ? buf_append_str(&text, value) : buf_append_byte(&text, *p);
        if (r < 0)
            abort(); /* the facts and the template are our own, and short */
        p += name ? name : 1;
    }
    return buf_steal(&text);
}

char *describe_tool(const char *template, const struct toolset_options *options)
{
    struct backend_description d = {0};
    char timeout[32], limit[32], lease[32];
    const bool http = options->lease_s > 0;
    options->backend->ops->describe(options->backend, &d);
    snprintf(timeout, sizeof(timeout), "%.10g", options->default_timeout_s);
    snprintf(limit, sizeof(limit), "%zu", options->output_limit);
    snprintf(lease, sizeof(lease), "%.10g", options->lease_s);
    const struct fact facts[] = {
        {"{place}", d.place ? d.place : "as root and from /"},
        {"{environment}", d.environment},
        {"{shell}", path_basename(d.shell)},
        {"{usage}", d.usage ? d.usage : USAGE},
        {"{network}", d.network},
        {"{limits}", d.limits},
        {"{timeout}", timeout},
        {"{output_limit}", limit},
        {"{lease}", lease},
        {http ? "{http}" : "{stdio}", ""},
    };
    if (options->description_override)
        return xstrdup(options->description_override);
    _cleanup_(cleanup_free) char *text =
        fill_in(template, facts, ARRAY_LEN(facts), http ? "{stdio}" : "{http}");
    return options->description_extra ? xasprintf("%s\n\n%s", text, options->description_extra)
                                      : TAKE_PTR(text);
}
