/* Allocation that aborts instead of failing. */
#include "base/mem.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static _noreturn_ void out_of_memory(void)
{
    static const char text[] = "out of memory\n";
    if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0) {
        /* Nothing is left to try. */
    }
    abort();
}

void *xmalloc(size_t size)
{
    void *p = malloc(size ? size : 1);
    if (!p)
        out_of_memory();
    return p;
}

void *xcalloc(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size ? size : 1);
    if (!p)
        out_of_memory();
    return p;
}

void *xrealloc_array(void *p, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        out_of_memory();
    p = realloc(p, bytes ? bytes : 1);
    if (!p)
        out_of_memory();
    return p;
}

char *xstrdup(const char *s)
{
    return s ? xstrndup(s, SIZE_MAX) : NULL;
}

char *xstrndup(const char *s, size_t n)
{
    size_t len = strnlen(s, n);
    char *copy = xmalloc(len + 1);
    memcpy(copy, s, len);
    copy[len] = '\0';
    return copy;
}

char *xasprintf(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *s = xvasprintf(fmt, ap);
    va_end(ap);
    return s;
}

char *xvasprintf(const char *fmt, va_list ap)
{
    char *s;
    if (vasprintf(&s, fmt, ap) < 0)
        out_of_memory();
    return s;
}

char *secret_free(char *secret)
{
    if (secret)
        explicit_bzero(secret, strlen(secret));
    free(secret);
    return NULL;
}

void strv_free(char **strv)
{
    if (!strv)
        return;
    for (char **s = strv; *s; s++)
        free(*s);
    free(strv);
}

size_t strv_len(char *const *strv)
{
    size_t n = 0;
    while (strv && strv[n])
        n++;
    return n;
}

char **strv_copy(char *const *strv)
{
    size_t n = strv_len(strv);
    char **copy = xcalloc(n + 1, sizeof(*copy));
    for (size_t i = 0; i < n; i++)
        copy[i] = xstrdup(strv[i]);
    return copy;
}
