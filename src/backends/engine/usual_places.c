/* See usual_places.h. A place that nothing is at is one of many, and only named; one that is there and can't
 * be used is what the user wants to know of, and comes first. */
#include "backends/engine/usual_places.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/engine/contact.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

#define TRIED_MAX 4096

enum base { ANYWHERE, RUNTIME, HOME };

static const struct place {
    enum engine_kind kind;
    enum base base;
    const char *path;
    const char *if_denied; /* what to do */
} places[] = {
    {ENGINE_DOCKER, ANYWHERE, "/var/run/docker.sock", "join the group docker, or use rootless Docker"},
    {ENGINE_DOCKER, RUNTIME, "docker.sock"},
    {ENGINE_DOCKER, HOME, ".docker/run/docker.sock"},
    {ENGINE_DOCKER, HOME, ".docker/desktop/docker.sock"},
    {ENGINE_DOCKER, HOME, ".colima/default/docker.sock"},
    {ENGINE_DOCKER, HOME, ".colima/docker.sock"},
    {ENGINE_DOCKER, HOME, ".rd/docker.sock"},
    {ENGINE_DOCKER, HOME, ".orbstack/run/docker.sock"},
    {ENGINE_DOCKER, HOME, ".lima/default/sock/docker.sock"},
    {ENGINE_PODMAN, RUNTIME, "podman/podman.sock"},
    {ENGINE_PODMAN, ANYWHERE, "/run/podman/podman.sock", "it is root's: use your own Podman"},
};

/* Malloced; NULL if the base isn't known. */
static char *path_of(const struct place *p)
{
    if (p->base == ANYWHERE)
        return xstrdup(p->path);
    const char *folder = getenv(p->base == HOME ? "HOME" : "XDG_RUNTIME_DIR");
    if (folder && path_is_absolute(folder))
        return path_join(folder, p->path);
    /* Where systemd puts it; services and cron jobs lack the variable. */
    return p->base == RUNTIME ? xasprintf("/run/user/%u/%s", (unsigned)geteuid(), p->path) : NULL;
}

static char *shown(const struct place *p, const char *path)
{
    return p->base == HOME ? xasprintf("~/%s", p->path) : xstrdup(path);
}

/* What is cut off is no more than the end of a long list. */
static void append(struct buf *b, const char *separator, const char *text)
{
    if (buf_printf(b, "%s%s", b->len > 0 ? separator : "", text) < 0)
        return;
}

static void describe(const struct place *p, const char *path, int sys, struct buf *unusable,
                     struct buf *absent)
{
    char words[128];
    _cleanup_(cleanup_free) char *name = shown(p, path);
    if (sys == ENOENT || sys == ENOTDIR) {
        append(absent, ", ", name);
        return;
    }
    bool denied = (sys == EACCES || sys == EPERM) && p->if_denied;
    const char *why = sys == ECONNREFUSED ? "nobody listens there" : strerror_r(sys, words, sizeof(words));
    _cleanup_(cleanup_free) char *line = xasprintf("%s: %s%s%s%s", name, why, denied ? " (" : "",
                                                   denied ? p->if_denied : "", denied ? ")" : "");
    append(unusable, "; ", line);
}

char *usual_places_find(enum engine_kind kind, char **ret_tried, char **ret_unusable)
{
    _cleanup_(buf_done) struct buf unusable = BUF_INIT(TRIED_MAX);
    _cleanup_(buf_done) struct buf absent = BUF_INIT(TRIED_MAX);
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        const struct place *p = &places[i];
        _cleanup_(cleanup_free) char *path = p->kind == kind ? path_of(p) : NULL;
        if (!path)
            continue;
        _cleanup_fd_ int fd = contact_connect(path);
        if (fd >= 0 || errno == EAGAIN) /* or busy, which is an answer too */
            return TAKE_PTR(path);
        describe(p, path, errno, &unusable, &absent);
    }
    if (ret_tried)
        *ret_tried = xasprintf("%s%s%s%s", buf_str(&unusable), unusable.len > 0 && absent.len > 0 ? "; " : "",
                               absent.len > 0 ? "no such file: " : "", buf_str(&absent));
    if (ret_unusable && unusable.len > 0)
        *ret_unusable = buf_steal(&unusable);
    return NULL;
}
