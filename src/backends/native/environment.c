/* The defaults are few and fixed, so that a command never sees anything of the server's own environment. */
#include "backends/native/environment.h"

#include <stdbool.h>
#include <string.h>

#include "base/macros.h"
#include "base/mem.h"

/* C.UTF-8, so that programs print what isn't ASCII as it is. */
static const char *const defaults[] = {
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/root",
    "LANG=C.UTF-8",
};

/* The length of NAME= in NAME=VALUE; 0 if it has no such form. */
static size_t name_length(const char *entry)
{
    const char *equals = strchr(entry, '=');
    return equals && equals != entry ? (size_t)(equals - entry) + 1 : 0;
}

static bool is_named_in(const char *entry, char *const *list)
{
    size_t n = name_length(entry);
    for (; *list; list++)
        if (strncmp(entry, *list, n) == 0)
            return true;
    return false;
}

static int append(struct buf *b, const char *entry, uint32_t *count, struct error *err)
{
    if (buf_append(b, entry, strlen(entry) + 1) < 0)
        return error_set(err, ERR_LIMIT, "the command's arguments and environment are larger than %zu bytes",
                         b->max);
    (*count)++;
    return 0;
}

int environment_append(struct buf *b, const char *hostname, char *const *extra, uint32_t *ret_count,
                       struct error *err)
{
    static char *const none[] = {NULL};
    char *const *given = extra ? extra : none;
    uint32_t count = 0;

    for (size_t i = 0; i < ARRAY_LEN(defaults); i++)
        if (!is_named_in(defaults[i], given) && append(b, defaults[i], &count, err) < 0)
            return -1;
    _cleanup_(cleanup_free) char *host = xasprintf("HOSTNAME=%s", hostname);
    if (!is_named_in(host, given) && append(b, host, &count, err) < 0)
        return -1;
    for (char *const *e = given; *e; e++) {
        if (name_length(*e) == 0)
            return error_set(err, ERR_INVALID, "environment entry '%.64s' is not of the form NAME=VALUE", *e);
        if (!is_named_in(*e, e + 1) && append(b, *e, &count, err) < 0)
            return -1;
    }
    *ret_count = count;
    return 0;
}
