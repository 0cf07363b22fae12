/* One engine: its address, version and nature, and calls of its API. Source: Docker Engine API v1.41 and
 * later; what Podman's compatible API does differently is in podman.c alone. */
#pragma once

#include <jansson.h>

#include "backends/engine/address.h"
#include "net/http.h"

#define ENGINE_API_OLDEST "1.41"
#define ENGINE_API_NEWEST "1.47" /* that was read */

struct engine {
    struct engine_address address;
    struct http_client *client;
    enum engine_kind kind; /* what answered */
    char api[16];          /* version in use, "1.41" */
    int64_t memory_bytes;
    bool limits_memory, limits_pids, limits_cpu; /* as the engine says */
};

/* Connects, asks what it is, agrees on a version. */
struct engine *engine_connect(const struct engine_options *o, const struct wait *wait, struct error *err);
struct engine *engine_disconnect(struct engine *e);
/* Whether one answers, without waiting for all that engine_connect wants to know. */
bool engine_pings(const struct engine_options *o, const struct wait *wait);

const char *engine_name(const struct engine *e); /* "docker" or "podman", for people */

/* One call with JSON both ways. path: without the version, "/containers/json?all=1". body NULL: none; ret may
 * be NULL. -1: ERR_NOT_FOUND (404), ERR_EXISTS (409), ERR_DENIED (401, 403), ERR_INVALID (400),
 * ERR_UNAVAILABLE (engine gone, 5xx), with the engine's own message. */
int engine_call(struct engine *e, const char *method, const char *path, const json_t *body,
                const struct wait *wait, json_t **ret, struct error *err);
/* The same with any request (its path without version too); statuses above 299 are errors as above, and left
 * in ret->status; 0 there: nobody answered. 304 is none: what was asked for is so already. */
int engine_request(struct engine *e, const struct http_request *request, struct http_response *ret,
                   struct error *err);
/* For streams: attach and exec start. body: JSON or NULL. */
int engine_hijack(struct engine *e, const char *path, const json_t *body, const struct wait *wait,
                  struct http_stream **ret, struct error *err);
