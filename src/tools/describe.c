/* Filling in of a tool's description. What an option says replaces all of it, or comes after it. */
#include "tools/describe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/path.h"

#define DESCRIPTION_MAX (64 * KIB)

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

static char *fill_in(const char *template, const struct fact *facts, size_t count)
{
    struct buf text = BUF_INIT(DESCRIPTION_MAX);
    for (const char *p = template; *p;) {
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
    char timeout[32], limit[32];
    options->backend->ops->describe(options->backend, &d);
    snprintf(timeout, sizeof(timeout), "%.10g", options->default_timeout_s);
    snprintf(limit, sizeof(limit), "%zu", options->output_limit);
    const struct fact facts[] = {
        {"{environment}", d.environment}, {"{shell}", path_basename(d.shell)},
        {"{network}", d.network},         {"{limits}", d.limits},
        {"{timeout}", timeout},           {"{output_limit}", limit},
    };
    if (options->description_override)
        return xstrdup(options->description_override);
    _cleanup_(cleanup_free) char *text = fill_in(template, facts, ARRAY_LEN(facts));
    return options->description_extra ? xasprintf("%s\n\n%s", text, options->description_extra)
                                      : TAKE_PTR(text);
}
