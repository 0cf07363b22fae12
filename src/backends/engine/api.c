/* The version is agreed on by /_ping, the one call that needs none; everything after it bears the version in
 * its path. */
#include "backends/engine/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/engine/contact.h"
#include "backends/engine/podman.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

#define CONNECT_TIMEOUT_NS (60 * NSEC_PER_SEC) /* an engine that is just being started takes its time */
#define MESSAGE_MAX 300

/* "1.41" as 1041; 0: no version. */
static int parse_version(const char *text)
{
    if (!text || text[0] < '1' || text[0] > '9' || text[1] != '.')
        return 0;
    size_t digits = strspn(text + 2, "0123456789");
    if (digits < 1 || digits > 3 || text[2 + digits])
        return 0;
    return (text[0] - '0') * 1000 + (int)strtol(text + 2, NULL, 10);
}

static enum error_code code_of_status(int status)
{
    static const struct {
        int status;
        enum error_code code;
    } codes[] = {{400, ERR_INVALID},   {401, ERR_DENIED}, {403, ERR_DENIED},
                 {404, ERR_NOT_FOUND}, {409, ERR_EXISTS}, {501, ERR_UNSUPPORTED}};
    for (size_t i = 0; i < ARRAY_LEN(codes); i++)
        if (codes[i].status == status)
            return codes[i].code;
    return ERR_UNAVAILABLE;
}

/* What Podman says with 500 of a container that went while it was at it. Source: its define/errors.go. */
static bool tells_absence(const struct http_response *r, const json_t *body)
{
    static const char *const causes[] = {"no such container", "container has already been removed"};
    const char *cause = r->status == 500 ? json_get_string(body, "cause") : NULL;
    for (size_t i = 0; cause && i < ARRAY_LEN(causes); i++)
        if (strcmp(cause, causes[i]) == 0)
            return true;
    return false;
}

/* The engine's own words: {"message": ...}, or whatever it sent, on one line, its beginning if it is long. */
static int refused(const struct engine *e, const struct http_response *r, struct error *err)
{
    struct error ignored = ERROR_INIT;
    _cleanup_(cleanup_json_decref) json_t *body = json_parse(buf_str(&r->body), r->body.len, &ignored);
    const char *message = json_get_string(body, "message");
    if (!message)
        message = buf_str(&r->body);
    _cleanup_(cleanup_free) char *words = contact_beginning(message, MESSAGE_MAX);
    const enum error_code code = tells_absence(r, body) ? ERR_NOT_FOUND : code_of_status(r->status);
    return error_set(err, code, "%s answered %d: %s", engine_name(e), r->status,
                     words[0] ? words : "nothing more");
}

const char *engine_name(const struct engine *e)
{
    return e->kind == ENGINE_PODMAN ? "podman" : "docker";
}

int engine_request(struct engine *e, const struct http_request *request, struct http_response *ret,
                   struct error *err)
{
    struct http_request ours = *request;
    _cleanup_(cleanup_free) char *path = xasprintf("/v%s%s", e->api, request->path);
    ours.path = path;
    if (http_do(e->client, &ours, ret, err) < 0)
        return error_prefix(err, "%s at %s", engine_name(e), e->address.text);
    if (ret->status < 300 || ret->status == 304)
        return 0;
    refused(e, ret, err);
    http_response_done(ret);
    return -1;
}

int engine_call(struct engine *e, const char *method, const char *path, const json_t *body,
                const struct wait *wait, json_t **ret, struct error *err)
{
    _cleanup_(cleanup_free) char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    const struct http_request request = {
        .method = method,
        .path = path,
        .body = text,
        .body_len = text ? strlen(text) : 0,
        .content_type = text ? "application/json" : NULL,
        .wait = *wait,
    };
    _cleanup_(http_response_done) struct http_response response = {0};
    if (engine_request(e, &request, &response, err) < 0)
        return -1;
    if (!ret)
        return 0;
    struct error why = ERROR_INIT;
    json_t *value = json_parse(buf_str(&response.body), response.body.len, &why);
    if (!value)
        return error_set(err, ERR_UNAVAILABLE, "%s answered %s %s with no JSON: %s", engine_name(e), method,
                         path, why.msg);
    *ret = value;
    return 0;
}

int engine_hijack(struct engine *e, const char *path, const json_t *body, const struct wait *wait,
                  struct http_stream **ret, struct error *err)
{
    _cleanup_(cleanup_free) char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    _cleanup_(cleanup_free) char *full = xasprintf("/v%s%s", e->api, path);
    const struct http_request request = {
        .method = "POST",
        .path = full,
        .body = text,
        .body_len = text ? strlen(text) : 0,
        .content_type = text ? "application/json" : NULL,
        .wait = *wait,
    };
    _cleanup_(http_response_done) struct http_response response = {0};
    struct http_stream *stream = NULL;
    if (http_upgrade(e->client, &request, "tcp", &stream, &response, err) < 0)
        return error_prefix(err, "%s at %s", engine_name(e), e->address.text);
    if (!stream)
        return refused(e, &response, err);
    *ret = stream;
    return 0;
}

static int ping(struct engine *e, const struct wait *wait, struct error *err)
{
    const struct http_request request = {.method = "GET", .path = "/_ping", .wait = *wait};
    _cleanup_(http_response_done) struct http_response response = {0};
    if (http_do(e->client, &request, &response, err) < 0)
        return error_prefix(err, "no engine answers at %s (%s)", e->address.text, e->address.origin);
    if (response.status != 200)
        return error_set(err, ERR_UNAVAILABLE, "what answers at %s (%s) is no engine: status %d",
                         e->address.text, e->address.origin, response.status);
    _cleanup_(cleanup_free) char *api = http_response_header(&response, "api-version");
    int theirs = parse_version(api);
    if (theirs < parse_version(ENGINE_API_OLDEST))
        return error_set(err, ERR_UNAVAILABLE,
                         "the engine at %s speaks version %.20s of the API, and %s is needed (Docker 20.10, "
                         "Podman 4): update it",
                         e->address.text, api ? api : "?", ENGINE_API_OLDEST);
    int newest = parse_version(ENGINE_API_NEWEST), agreed = theirs < newest ? theirs : newest;
    snprintf(e->api, sizeof(e->api), "%d.%d", agreed / 1000, agreed % 1000);
    e->kind = podman_is(&response) ? ENGINE_PODMAN : ENGINE_DOCKER;
    return 0;
}

static int learn(struct engine *e, const struct wait *wait, struct error *err)
{
    _cleanup_(cleanup_json_decref) json_t *info = NULL;
    if (engine_call(e, "GET", "/info", NULL, wait, &info, err) < 0)
        return -1;
    const char *os = json_get_string(info, "OSType");
    if (os && strcmp(os, "linux") != 0)
        return error_set(err, ERR_UNSUPPORTED,
                         "the engine at %s runs %.40s containers, and computers are Linux", e->address.text,
                         os);
    e->memory_bytes = json_integer_value(json_object_get(info, "MemTotal"));
    e->limits_memory = json_is_true(json_object_get(info, "MemoryLimit"));
    e->limits_pids = json_is_true(json_object_get(info, "PidsLimit"));
    e->limits_cpu = json_is_true(json_object_get(info, "CpuCfsQuota"));
    return 0;
}

static struct engine *reach(const struct engine_options *o, const struct wait *wait, struct error *err)
{
    struct engine *e = xcalloc(1, sizeof(*e));
    if (engine_address_find(o, wait, &e->address, err) < 0) {
        free(e);
        return NULL;
    }
    e->kind = e->address.kind;
    e->client = engine_address_client(&e->address, err);
    if (!e->client || ping(e, wait, err) < 0)
        return engine_disconnect(e);
    return e;
}

struct engine *engine_connect(const struct engine_options *o, const struct wait *wait, struct error *err)
{
    struct wait bounded = wait_at_most(wait, clock_now() + CONNECT_TIMEOUT_NS);
    struct engine *e = reach(o, &bounded, err);
    return e && learn(e, &bounded, err) < 0 ? engine_disconnect(e) : e;
}

bool engine_pings(const struct engine_options *o, const struct wait *wait)
{
    struct engine *e = reach(o, wait, NULL);
    engine_disconnect(e);
    return e != NULL;
}

struct engine *engine_disconnect(struct engine *e)
{
    if (!e)
        return NULL;
    http_client_free(e->client);
    engine_address_done(&e->address);
    free(e);
    return NULL;
}
