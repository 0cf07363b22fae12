/* The defaults are few and fixed, so that a command never sees anything of the server's own environment. */
#include "backends/native/environment.h"

#include <stdbool.h>
#include <string.h>

#include "base/macros.h"
#include "base/mem.h"
#include "base/path.h"

/* C.UTF-8, so that programs print what isn't ASCII as it is. */
static const char *const defaults[] = {
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
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

static int append_default(struct buf *b, const char *name, const char *value, char *const *own,
                          char *const *given, uint32_t *count, struct error *err)
{
    _cleanup_(cleanup_free) char *entry = xasprintf("%s=%s", name, value);
    return is_named_in(entry, given) || is_named_in(entry, own) ? 0 : append(b, entry, count, err);
}

/* What is named again further on counts. */
static int append_given(struct buf *b, char *const *given, char *const *further, uint32_t *count,
                        struct error *err)
{
    for (char *const *e = given; *e; e++) {
        if (name_length(*e) == 0)
            return error_set(err, ERR_INVALID, "environment entry '%.64s' is not of the form NAME=VALUE", *e);
        if (!is_named_in(*e, e + 1) && !is_named_in(*e, further) && append(b, *e, count, err) < 0)
            return -1;
    }
    return 0;
}

int environment_append(struct buf *b, const char *hostname, const char *home, char *const *own,
                       char *const *extra, uint32_t *ret_count, struct error *err)
{
    static char *const none[] = {NULL};
    char *const *given = extra ? extra : none;
    uint32_t count = 0;
    own = own ? own : none;

    for (size_t i = 0; i < ARRAY_LEN(defaults); i++)
        if (!is_named_in(defaults[i], given) && !is_named_in(defaults[i], own) &&
            append(b, defaults[i], &count, err) < 0)
            return -1;
    _cleanup_(cleanup_free) char *temporary = home ? path_join(home, "tmp") : NULL;
    if (append_default(b, "HOSTNAME", hostname, own, given, &count, err) < 0 ||
        append_default(b, "HOME", home ? home : "/root", own, given, &count, err) < 0 ||
        (temporary && append_default(b, "TMPDIR", temporary, own, given, &count, err) < 0))
        return -1;
    if (append_given(b, own, given, &count, err) < 0 || append_given(b, given, none, &count, err) < 0)
        return -1;
    *ret_count = count;
    return 0;
}
