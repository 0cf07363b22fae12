/* The order, for Docker: what was named (--docker-host or DOCKER_HOST, the docker context in use), the usual
 * places, CONTAINER_HOST. For Podman: --docker-host, CONTAINER_HOST, DOCKER_HOST (as users of podman-docker
 * have it), the usual places, a service of our own. Each asks only for what is its own: Docker's sockets are
 * no answer for who wants Podman, nor the other way round. */
#include "backends/engine/address.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/engine/address_parse.h"
#include "backends/engine/contexts.h"
#include "backends/engine/dial.h"
#include "backends/engine/service.h"
#include "backends/engine/usual_places.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/spawn.h"
#include "base/str.h"

void engine_address_done(struct engine_address *a)
{
    dialer_free(a->dialer);
    service_stop(a->service);
    char *const strings[] = {a->text,     a->origin,     a->unix_path, a->url,       a->ssh,
                             a->ssh_port, a->ssh_socket, a->ca_file,   a->cert_file, a->key_file};
    for (size_t i = 0; i < ARRAY_LEN(strings); i++)
        free(strings[i]);
    *a = (struct engine_address){0};
}

static bool given(const char *text)
{
    return text && *text;
}

static enum engine_kind kind_of(const char *engine)
{
    return given(engine) && str_has_prefix(path_basename(engine), "podman") ? ENGINE_PODMAN : ENGINE_DOCKER;
}

/* --- what was named --- */

/* The option and the variable come as one value. */
static bool docker_host_is_variable(const struct engine_options *o)
{
    const char *variable = getenv("DOCKER_HOST");
    return variable && strcmp(variable, o->docker_host) == 0;
}

static void name_docker_host(const struct engine_options *o, struct endpoint *ret)
{
    bool folder = given(o->cert_path);
    *ret = (struct endpoint){
        .host = xstrdup(o->docker_host),
        .origin = xstrdup(docker_host_is_variable(o) ? "DOCKER_HOST" : "--docker-host"),
        .tls_folder = folder ? xstrdup(o->cert_path) : contexts_folder(),
        .tls = o->tls_verify || folder,
        .insecure = folder && !o->tls_verify, /* as Docker's libraries read these two variables */
        .tls_needed = folder,
    };
}

/* Podman knows no variables for TLS. */
static void name_container_host(const struct engine_options *o, struct endpoint *ret)
{
    *ret = (struct endpoint){.host = xstrdup(o->container_host), .origin = xstrdup("CONTAINER_HOST")};
}

/* ret->host stays NULL if nothing was named. */
static int find_named(const struct engine_options *o, enum engine_kind kind, struct endpoint *ret,
                      struct error *err)
{
    bool docker_host = given(o->docker_host);
    bool container_host = kind == ENGINE_PODMAN && given(o->container_host);
    if (docker_host && !(container_host && docker_host_is_variable(o)))
        name_docker_host(o, ret);
    else if (container_host)
        name_container_host(o, ret);
    else if (kind == ENGINE_DOCKER)
        return contexts_current(o->context, ret, err);
    return 0;
}

/* One file of a folder, if it is there. */
static int use_file(const char *folder, const char *name, char **ret, struct error *err)
{
    _cleanup_(cleanup_free) char *path = path_join(folder, name);
    if (access(path, R_OK) == 0)
        *ret = TAKE_PTR(path);
    else if (errno != ENOENT)
        return error_errno(err, ERR_INVALID, errno, "read %s", path);
    return 0;
}

static int use_tls(struct engine_address *a, const struct endpoint *e, struct error *err)
{
    a->insecure = e->insecure;
    if (!e->tls_folder || !e->tls)
        return 0;
    if (use_file(e->tls_folder, "ca.pem", &a->ca_file, err) < 0 ||
        use_file(e->tls_folder, "cert.pem", &a->cert_file, err) < 0 ||
        use_file(e->tls_folder, "key.pem", &a->key_file, err) < 0)
        return -1;
    if (!a->cert_file != !a->key_file)
        return error_set(err, ERR_INVALID, "%s has %s and no %s: TLS takes both", e->tls_folder,
                         a->cert_file ? "cert.pem" : "key.pem", a->cert_file ? "key.pem" : "cert.pem");
    if (e->tls_needed && !a->ca_file && !a->cert_file)
        return error_set(err, ERR_INVALID, "DOCKER_CERT_PATH: %s has neither ca.pem nor cert.pem and key.pem",
                         e->tls_folder);
    return 0;
}

static int use_endpoint(const struct endpoint *e, struct engine_address *a, struct error *err)
{
    if (address_parse(e->host, e->tls, a, err) < 0)
        return error_prefix(err, "%s", e->origin);
    a->origin = xstrdup(e->origin);
    if (a->ssh)
        a->dialer = dialer_new(a);
    return str_has_prefix(a->url, "https:") ? use_tls(a, e, err) : 0;
}

/* --- what was not --- */

static void use_socket(const char *path, const char *origin, struct engine_address *a)
{
    a->unix_path = xstrdup(path);
    a->url = xstrdup("http://docker");
    a->text = xasprintf("unix://%s", path);
    a->origin = xstrdup(origin);
}

/* The program that --engine names, or the one in PATH; NULL: there is none. Malloced. */
static char *find_podman(const struct engine_options *o)
{
    return strchr(o->engine, '/') ? xstrdup(o->engine) : spawn_find(o->engine);
}

static int use_service(const struct engine_options *o, const char *tried, const struct wait *wait,
                       struct engine_address *a, struct error *err)
{
    _cleanup_(cleanup_free) char *program = find_podman(o);
    if (!program)
        return error_set(err, ERR_UNAVAILABLE,
                         "no Podman was found: install it, give --engine its path, or name its socket with "
                         "CONTAINER_HOST. Tried: %s; podman in PATH: there is none",
                         tried);
    a->service = service_start(program, o->state_dir, wait, err);
    if (!a->service)
        return error_prefix(err, "no Podman answers and none could be started");
    use_socket(service_socket(a->service), "a service that was started for it", a);
    free(a->text); /* the socket's name is another each time, and records tell engines apart by this */
    a->text = xstrdup("podman's own service");
    return 0;
}

static int find_unnamed(const struct engine_options *o, const struct wait *wait, struct engine_address *a,
                        struct error *err)
{
    _cleanup_(cleanup_free) char *tried = NULL;
    _cleanup_(cleanup_free) char *path = usual_places_find(a->kind, &tried, NULL);
    if (path) {
        use_socket(path, "a usual place", a);
        return 0;
    }
    if (a->kind == ENGINE_PODMAN)
        return use_service(o, tried, wait, a, err);
    if (given(o->container_host)) {
        _cleanup_(endpoint_done) struct endpoint named = {0};
        name_container_host(o, &named);
        return use_endpoint(&named, a, err);
    }
    return error_set(err, ERR_UNAVAILABLE,
                     "no Docker was found: start it, or say where it is with --docker-host. Tried: %s",
                     tried);
}

int engine_address_find(const struct engine_options *o, const struct wait *wait, struct engine_address *ret,
                        struct error *err)
{
    _cleanup_(endpoint_done) struct endpoint named = {0};
    _cleanup_(engine_address_done) struct engine_address found = {.kind = kind_of(o->engine)};
    if (find_named(o, found.kind, &named, err) < 0)
        return -1;
    int failed = named.host ? use_endpoint(&named, &found, err) : find_unnamed(o, wait, &found, err);
    if (failed < 0)
        return -1;
    *ret = found;
    found = (struct engine_address){0};
    return 0;
}

int engine_address_check(const struct engine_options *o, struct error *err)
{
    _cleanup_(endpoint_done) struct endpoint named = {0};
    _cleanup_(engine_address_done) struct engine_address found = {.kind = kind_of(o->engine)};
    if (find_named(o, found.kind, &named, err) < 0)
        return -1;
    return named.host ? use_endpoint(&named, &found, err) : 0;
}

char *engine_address_hindrance(const struct engine_options *o)
{
    char *unusable = NULL;
    free(usual_places_find(kind_of(o->engine), NULL, &unusable));
    return unusable;
}

bool engine_address_likely(const struct engine_options *o)
{
    _cleanup_(endpoint_done) struct endpoint named = {0};
    struct error ignored = ERROR_INIT;
    enum engine_kind kind = kind_of(o->engine);
    if (find_named(o, kind, &named, &ignored) < 0)
        return false;
    if (named.host || given(o->container_host))
        return true;
    _cleanup_(cleanup_free) char *path = usual_places_find(kind, NULL, NULL);
    return path != NULL;
}

struct http_client *engine_address_client(const struct engine_address *a, struct error *err)
{
    const struct http_address address = {
        .url = a->url,
        .unix_path = a->unix_path,
        .dial = a->dialer ? dialer_dial : NULL,
        .dial_ctx = a->dialer,
        .ca_file = a->ca_file,
        .cert_file = a->cert_file,
        .key_file = a->key_file,
        .insecure = a->insecure,
    };
    return http_client_new(&address, err);
}
