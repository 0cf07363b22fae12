/* The configuration object: its life, and who set what. */
#include "config/state.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct config *config_new(void)
{
    struct config *c = xcalloc(1, sizeof(*c));
    c->origins = xcalloc(option_row_count, sizeof(*c->origins));
    c->warnings = xcalloc(1, sizeof(*c->warnings));
    return c;
}

struct config *config_free(struct config *c)
{
    if (c == NULL)
        return NULL;
    for (size_t i = 0; i < option_row_count; i++)
        config_clear(c, &option_rows[i]);
    free(c->origins);
    free(c->file);
    strv_free(c->warnings);
    free(c);
    return NULL;
}

const struct config_values *config_values(const struct config *c)
{
    return &c->values;
}

char *const *config_warnings(const struct config *c)
{
    return c->warnings;
}

void config_warn(struct config *c, const char *fmt, ...)
{
    size_t n = strv_len(c->warnings);
    c->warnings = xrealloc_array(c->warnings, n + 2, sizeof(*c->warnings));
    va_list ap;
    va_start(ap, fmt);
    c->warnings[n] = xvasprintf(fmt, ap);
    va_end(ap);
    c->warnings[n + 1] = NULL;
}

void *config_member(const struct config *c, const struct option_row *row)
{
    return (char *)(uintptr_t)&c->values + row->member;
}

const struct origin *config_origin(const struct config *c, const struct option_row *row)
{
    return &c->origins[row - option_rows];
}

bool config_is_explicit(const struct config *c, const struct option_row *row)
{
    enum config_source source = config_origin(c, row)->source;
    return source == SOURCE_FLAG || source == SOURCE_FILE;
}

const char *env_get(char *const *env, const char *name)
{
    size_t n = strlen(name);
    for (; env != NULL && *env != NULL; env++)
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
            return (*env)[n + 1] != '\0' ? *env + n + 1 : NULL;
    return NULL;
}
