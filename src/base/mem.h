/* Allocation of small, bounded things: these abort when memory is out, so callers never check. Sizes that a
 * client or a sandbox controls go through `struct buf`, whose growth is an error instead. */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/macros.h"

void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size);
void *xrealloc_array(void *p, size_t count, size_t size); /* overflow of count * size aborts */
char *xstrdup(const char *s);                             /* NULL gives NULL */
char *xstrndup(const char *s, size_t n);
char *xasprintf(const char *fmt, ...) _printf_(1, 2);
char *xvasprintf(const char *fmt, va_list ap) _printf_(1, 0);

/* Overwrites what nobody else should read, then frees it. Accepts NULL, returns NULL. */
char *secret_free(char *secret);
DEFINE_CLEANUP(char *, secret_free)

/* NULL-terminated arrays of strings. */
void strv_free(char **strv); /* accepts NULL */
size_t strv_len(char *const *strv);
char **strv_copy(char *const *strv);

static inline void cleanup_free(void *p)
{
    free(*(void **)p);
}
DEFINE_CLEANUP(char **, strv_free)
