/* One POST: its message is understood, its era decided, its session found; then session_route() serves it as
 * over stdio, and what comes back comes here.
 *
 *   modern   the header MCP-Protocol-Version says so, or the body (modern_claims)
 *   legacy   all else. initialize makes a session, unless it comes with one; what else there is needs one
 *
 * Every error is a JSON-RPC error in the body, whatever the status. */
#include "protocol/exchange.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "protocol/routing.h"

#define ERROR_REPLY_BYTES (4 * KIB)

enum era exchange_era(const struct exchange *x)
{
    return x->era;
}

const struct exchange_headers *exchange_headers_of(const struct exchange *x)
{
    return &x->headers;
}

struct http_session *exchange_session(const struct exchange *x)
{
    return x->http;
}

/* -- Holders, and the end. */

static void exchange_free(struct exchange *x)
{
    free((char *)x->headers.session_id);
    free((char *)x->headers.protocol_version);
    free((char *)x->headers.method);
    free((char *)x->headers.name);
    free(x);
}

/* Nothing more goes to the sink. */
static void set_ended(struct exchange *x)
{
    x->ended = true;
    list_unlink(&x->link);
    x->endpoint->exchange_count--;
    if (x->http)
        http_session_touch(x->http);
}

static void end(struct exchange *x, int status, struct buf *reply)
{
    if (x->ended)
        return;
    const struct http_session *made =
        x->made_session && x->http && x->http->session->version ? x->http : NULL;
    const struct exchange_end e = {.status = status, .session_id = made ? made->id : NULL, .reply = reply};
    set_ended(x);
    x->sink.end(x->sink.ctx, &e);
}

void exchange_hold(struct exchange *x)
{
    x->holders++;
}

void exchange_release(struct exchange *x)
{
    if (--x->holders > 0)
        return;
    end(x, 202, NULL); /* a notification, or a call that was cancelled */
    if (x->era == ERA_MODERN)
        expiry_soon(x->endpoint->expiry);
    exchange_free(x);
}

void exchange_hold_for(struct exchange *x, struct call *c)
{
    x->call = c;
    exchange_hold(x);
}

void exchange_release_call(struct exchange *x)
{
    x->call = NULL;
    exchange_release(x);
}

/* -- What comes back. */

void exchange_notify(struct exchange *x, struct buf *message)
{
    if (!x->ended)
        x->sink.notify(x->sink.ctx, message);
}

void exchange_pause(struct exchange *x)
{
    if (!x->ended && x->sink.pause)
        x->sink.pause(x->sink.ctx);
}

static int status_of(enum era era, const struct rpc_error *error)
{
    if (!error)
        return 200;
    if (error->http_status)
        return error->http_status;
    switch (error->code) {
    case RPC_PARSE_ERROR:
    case RPC_INVALID_REQUEST:
    case RPC_HEADER_MISMATCH:
    case RPC_MISSING_CAPABILITY:
    case RPC_UNSUPPORTED_VERSION:
        return 400;
    case RPC_METHOD_NOT_FOUND:
        return era == ERA_MODERN ? 404 : 200;
    default:
        return 200;
    }
}

void exchange_reply(struct exchange *x, struct buf *reply, const struct rpc_error *error)
{
    end(x, status_of(x->era, error), reply);
}

static void refuse(struct exchange *x, struct span id, const struct rpc_error *error)
{
    _cleanup_(buf_done) struct buf reply = BUF_INIT(ERROR_REPLY_BYTES);
    if (envelope_error(&reply, id, error) < 0)
        log_error("A reply was dropped: out of memory");
    exchange_reply(x, &reply, error);
}

static void intake_is_over(struct exchange *x)
{
    x->tenant->intake_bytes -= x->intake_bytes;
    x->intake_bytes = 0;
    x->intake = NULL;
}

static void stop_intake(struct exchange *x)
{
    if (!x->intake)
        return;
    intake_drop(x->intake);
    intake_is_over(x);
    exchange_release(x);
}

void exchange_fail(struct exchange *x, int http_status, const char *why)
{
    const struct span no_id = {NULL, 0};
    struct rpc_error error = RPC_ERROR_INIT;
    rpc_error_set(&error, RPC_INTERNAL_ERROR, "%s", why);
    error.http_status = http_status;
    refuse(x, x->call ? call_id(x->call) : no_id, &error);
    stop_intake(x);
}

bool exchange_abandon(struct exchange *x)
{
    if (x->era == ERA_LEGACY)
        return false;
    set_ended(x);
    if (x->call)
        call_stop(x->call);
    stop_intake(x);
    return true;
}

/* -- What comes in. */

static bool is_modern(const struct exchange *x, const struct message *m)
{
    if (endpoint_is_modern_version(x->headers.protocol_version))
        return true;
    return (m->kind == MESSAGE_REQUEST || m->kind == MESSAGE_NOTIFICATION) && modern_claims(m);
}

static void serve(struct exchange *x, struct session *s, struct message *m)
{
    const struct origin from = {.session = s, .exchange = x};
    session_route(&from, m);
}

static void serve_modern(struct exchange *x, struct message *m)
{
    struct rpc_error error = RPC_ERROR_INIT;
    struct session *s = NULL;
    if (m->kind == MESSAGE_BATCH || m->kind == MESSAGE_RESPONSE)
        rpc_error_set(&error, RPC_INVALID_REQUEST,
                      "Invalid request: protocol version 2026-07-28 takes one request or notification");
    else if (m->kind != MESSAGE_NOTIFICATION ||
             (routing_check_version(&x->headers, m, &error) && routing_check_target(&x->headers, m, &error)))
        s = tenant_session(x->tenant);
    if (s)
        serve(x, s, m);
    else
        refuse(x, m->id, &error);
}

static bool is_initialize(const struct message *m)
{
    return m->kind == MESSAGE_REQUEST && strcmp(m->method, "initialize") == 0;
}

/* A client that has lost its session, or whose session we have lost, comes again with the id that it knows.
 */
static struct http_session *find_or_make_session(struct exchange *x, const struct message *m,
                                                 struct rpc_error *error)
{
    const char *id = x->headers.session_id;
    struct http_session *s = id ? http_session_find(x->endpoint, x->tenant->principal, id) : NULL;
    if (s)
        return s;
    if (is_initialize(m)) {
        x->made_session = true;
        return http_session_new(x->tenant, error);
    }
    rpc_error_set(error, RPC_INVALID_REQUEST,
                  id ? "Invalid request: this session has ended, or never was; send initialize for a new one"
                     : "Invalid request: the header Mcp-Session-Id is missing; send initialize first, or the "
                       "params._meta of protocol version 2026-07-28");
    error->http_status = id ? 404 : 400;
    return NULL;
}

static void serve_legacy(struct exchange *x, struct message *m)
{
    struct rpc_error error = RPC_ERROR_INIT;
    const char *version = x->headers.protocol_version;
    if (m->kind == MESSAGE_REFUSED) {
        refuse(x, m->id, &m->error);
        return;
    }
    if (version && !legacy_knows(version)) {
        rpc_error_set(&error, RPC_INVALID_REQUEST,
                      "Invalid request: the header MCP-Protocol-Version names no known version");
        refuse(x, m->id, &error);
        return;
    }
    x->http = find_or_make_session(x, m, &error);
    if (!x->http) {
        refuse(x, m->id, &error);
        return;
    }
    struct http_session *s = x->http;
    bool made = x->made_session;
    serve(x, s->session, m);
    if (made && !s->session->version)
        http_session_end(s); /* its initialize was refused */
}

static void understood(void *arg, struct message *m)
{
    struct exchange *x = arg;
    intake_is_over(x);
    if (is_modern(x, m)) {
        x->era = ERA_MODERN;
        serve_modern(x, m);
    } else {
        serve_legacy(x, m);
    }
    exchange_release(x);
}

static struct exchange *exchange_new(struct endpoint *e, const char *principal,
                                     const struct exchange_headers *h, const struct exchange_sink *sink)
{
    struct exchange *x = xcalloc(1, sizeof(*x));
    *x = (struct exchange){.endpoint = e, .tenant = endpoint_tenant(e, principal), .sink = *sink};
    x->headers = (struct exchange_headers){.session_id = xstrdup(h->session_id),
                                           .protocol_version = xstrdup(h->protocol_version),
                                           .method = xstrdup(h->method),
                                           .name = xstrdup(h->name)};
    x->era = endpoint_is_modern_version(h->protocol_version) ? ERA_MODERN : ERA_LEGACY;
    list_append(&e->exchanges, &x->link);
    e->exchange_count++;
    return x;
}

struct exchange *exchange_begin(struct endpoint *e, const char *principal,
                                const struct exchange_headers *headers, const char *bytes, size_t n,
                                const struct exchange_sink *sink)
{
    struct exchange *x = exchange_new(e, principal, headers, sink);
    x->holders = 1; /* this function */
    if (e->closing) {
        exchange_fail(x, 503, "The server is ending");
    } else if (x->tenant->intake_bytes + n > LIMIT_IN_FLIGHT_BYTES) {
        exchange_fail(x, 503, "Limit reached: other long messages are being read; send it again in a moment");
    } else {
        exchange_hold(x);
        x->tenant->intake_bytes += x->intake_bytes = n;
        x->intake = intake_begin(e->protocol, bytes, n, understood, x);
    }
    bool over = x->ended || x->holders == 1;
    exchange_release(x);
    return over ? NULL : x;
}
