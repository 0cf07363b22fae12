#include "backends/engine/podman.h"

#include <string.h>

#include "base/mem.h"
#include "base/str.h"

bool podman_is(const struct http_response *ping)
{
    _cleanup_(cleanup_free) char *version = http_response_header(ping, "libpod-api-version");
    return version != NULL;
}

bool podman_is_passing(const struct error *why)
{
    return strstr(why->msg, "container state improper") != NULL;
}

bool podman_is_taken(const struct engine *e, const struct error *why)
{
    return e->kind == ENGINE_PODMAN && strstr(why->msg, "is already in use");
}

bool podman_is_refusal(const struct engine *e, int exit_code, const char *words)
{
    return e->kind == ENGINE_PODMAN && exit_code >= 125 && exit_code <= 127 &&
           str_has_prefix(words, "Error: ") && strstr(words, ": OCI ");
}

bool podman_is_noise(const struct engine *e, const char *bytes, size_t n)
{
    static const char begin[] = "Error: ", within[] = " unixpacket @->/proc/self/fd/";
    return e->kind == ENGINE_PODMAN && n > strlen(begin) && memcmp(bytes, begin, strlen(begin)) == 0 &&
           memmem(bytes, n, within, strlen(within));
}

void podman_adapt_create(const struct engine *e, json_t *body)
{
    if (e->kind != ENGINE_PODMAN)
        return;
    json_t *host = json_object_get(body, "HostConfig");
    /* Its log drivers have other names; "none" is the same. */
    json_t *log = json_object_get(host, "LogConfig");
    if (log && !json_object_get(log, "Type"))
        json_object_set_new(log, "Type", json_string("none"));
    /* "No health check" makes it look for systemd's timers all the same. */
    json_object_del(body, "Healthcheck");
    /* Its init is a package that is often missing, and then nothing starts. */
    json_object_set_new(host, "Init", json_false());
}
