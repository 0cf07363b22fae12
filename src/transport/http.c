/* Paths, and the way to them: Host and Origin first, then the token, then what was asked for.
 *
 *   /mcp            the protocol (turn.c)
 *   /               what this is, as JSON
 *   /healthz        the process lives; whoever asks, under whatever name
 *   /readyz         computers can be made } for whoever may watch (access.h)
 *   /metrics        figures               }
 *   /.well-known/   nothing: clients look there for an authorization server, and there is none
 *
 * End (enum http_stage): the listeners close; calls that run may end until calls_deadline; then sessions and
 * their computers are ended; then the last answers are sent. */
#include "transport/http.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "transport/request_log.h"
#include "transport/turn.h"

#define KEEPALIVE_MS 15000
#define STOP_TICK_MS 20
#define FLUSH_SECONDS 0.3 /* for the last answers to reach the kernel */
#define ANSWER_BYTES (16 * KIB)
#define METRICS_BYTES (1 * MIB)

size_t http_common_headers(const struct http *h, const struct http_request *r,
                           struct http_header ret[HTTP_COMMON_HEADERS])
{
    const char *origin = http_request_header(r, "Origin", NULL);
    if (!origin || !access_is_listed_origin(h->options.access, origin))
        return 0;
    ret[0] = (struct http_header){"Access-Control-Allow-Origin", origin};
    ret[1] = (struct http_header){"Access-Control-Expose-Headers", "Mcp-Session-Id, WWW-Authenticate"};
    ret[2] = (struct http_header){"Vary", "Origin"};
    return 3;
}

void http_answer(struct http *h, struct http_request *r, int status, const char *type, const char *text,
                 const struct http_header *extra)
{
    struct http_header headers[HTTP_COMMON_HEADERS + 2];
    size_t n = http_common_headers(h, r, headers);
    _cleanup_(buf_done) struct buf body = BUF_INIT(ANSWER_BYTES);
    if (type)
        headers[n++] = (struct http_header){"Content-Type", type};
    if (extra)
        headers[n++] = *extra;
    if (buf_append_str(&body, text) < 0)
        log_error("An answer was cut: out of memory");
    http_reply(r, status, headers, n, &body);
}

/* -- Paths. */

static void serve_index(struct http *h, struct http_request *r)
{
    char text[256];
    snprintf(text, sizeof(text), "{\"name\":\"%s\",\"mcp_endpoint\":\"/mcp\",\"health\":\"/healthz\"}",
             h->options.name);
    http_answer(h, r, 200, "application/json", text, NULL);
}

static void serve_health(struct http *h, struct http_request *r)
{
    http_answer(h, r, 200, "application/json", "{\"status\":\"ok\"}", NULL);
}

static void serve_ready(struct http *h, struct http_request *r)
{
    const char *why = NULL;
    _cleanup_(buf_done) struct buf text = BUF_INIT(ANSWER_BYTES);
    struct json_writer w;
    bool ready = h->options.ready(h->options.ctx, &why);
    jw_init(&w, &text);
    jw_begin_object(&w);
    jw_key(&w, "status");
    jw_string(&w, ready ? "ok" : why ? "unavailable" : "starting");
    if (why) {
        jw_key(&w, "reason");
        jw_string(&w, why);
    }
    jw_end_object(&w);
    http_answer(h, r, ready ? 200 : 503, "application/json", buf_str(&text), NULL);
}

static void serve_metrics(struct http *h, struct http_request *r)
{
    const struct http_header type = {"Content-Type", "text/plain; version=0.0.4; charset=utf-8"};
    _cleanup_(buf_done) struct buf text = BUF_INIT(METRICS_BYTES);
    h->figures.server = http_server_count(h->server);
    h->figures.sessions = endpoint_sessions(h->endpoint);
    h->figures.streams = turns_streaming(h);
    h->figures.running = endpoint_running(h->endpoint);
    if (h->options.figures(h->options.ctx, &h->figures, &text) < 0)
        http_answer(h, r, 500, "text/plain", "Too many figures.\n", NULL);
    else
        http_reply(r, 200, &type, 1, &text);
}

struct path {
    const char *path;
    void (*serve)(struct http *h, struct http_request *r);
    bool any_host; /* probes don't know our name */
    bool watching; /* for those who may watch */
};
static const struct path paths[] = {
    {.path = "/", .serve = serve_index},
    {.path = "/healthz", .serve = serve_health, .any_host = true},
    {.path = "/readyz", .serve = serve_ready, .watching = true},
    {.path = "/metrics", .serve = serve_metrics, .watching = true},
};

static const struct path *find_path(const char *path)
{
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        if (strcmp(paths[i].path, path) == 0)
            return &paths[i];
    return NULL;
}

/* A browser asks before it sends what a page wants (Fetch standard, CORS preflight). */
static void serve_preflight(struct http_request *r, const char *origin)
{
    const struct http_header headers[] = {
        {"Access-Control-Allow-Origin", origin},
        {"Access-Control-Allow-Methods", "GET, POST, DELETE"},
        {"Access-Control-Allow-Headers",
         "Authorization, Content-Type, Accept, Mcp-Session-Id, MCP-Protocol-Version, Mcp-Method, Mcp-Name, "
         "Last-Event-ID"},
        {"Access-Control-Max-Age", "7200"},
        {"Vary", "Origin"},
    };
    http_reply(r, 204, headers, ARRAY_LEN(headers), NULL);
}

static bool is_mcp(const char *path)
{
    return strcmp(path, "/mcp") == 0 || strcmp(path, "/mcp/") == 0;
}

static void serve_mcp(struct http *h, struct http_request *r, const struct access_request *who)
{
    const char *why = "";
    const char *principal = access_identify(h->options.access, who, &why);
    if (principal)
        turn_begin(h, r, principal);
    else if (who->authorization)
        turn_refuse(h, r, why, access_refusal_delay(h->options.access, http_request_peer(r)));
    else
        turn_refuse(h, r, why, 0);
}

static void serve_path(struct http *h, struct http_request *r, const struct path *path,
                       const struct access_request *who)
{
    const struct http_header allow = {"Allow", "GET, HEAD"}, challenge = {"WWW-Authenticate", "Bearer"};
    const char *method = http_request_method(r);
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        http_answer(h, r, 405, "text/plain", "This path is for GET.\n", &allow);
    else if (path->watching && !access_may_watch(h->options.access, who))
        http_answer(h, r, 401, "text/plain", "This path wants the token of --metrics-token-file.\n",
                    &challenge);
    else
        path->serve(h, r);
}

/* Of two, another reader might believe the other one. Others of these names' kind may come as a list. */
static const char *const once[] = {
    "Authorization", "Content-Encoding",     "Content-Type", "Expect",         "Last-Event-ID",
    "Mcp-Method",    "MCP-Protocol-Version", "Mcp-Name",     "Mcp-Session-Id", "Origin",
};

static bool says_twice(const struct http_request *r)
{
    for (size_t i = 0; i < ARRAY_LEN(once); i++) {
        int count;
        http_request_header(r, once[i], &count);
        if (count > 1)
            return true;
    }
    return false;
}

static bool says_other_than(const struct http_request *r, const char *name, const char *value)
{
    const char *said = http_request_header(r, name, NULL);
    return said && strcasecmp(said, value) != 0;
}

/* Refuses what no path takes. False: nothing of it. */
static bool refuse_head(struct http *h, struct http_request *r)
{
    if (says_twice(r))
        http_answer(h, r, 400, "text/plain", "A header came twice of which there can be one only.\n", NULL);
    else if (says_other_than(r, "Expect", "100-continue"))
        http_answer(h, r, 417, "text/plain", "Expect can only be 100-continue.\n", NULL);
    else if (says_other_than(r, "Content-Encoding", "identity"))
        http_answer(h, r, 415, "text/plain", "Content-Encoding can only be identity.\n", NULL);
    else
        return false;
    return true;
}

static void on_head(void *ctx, struct http_request *r)
{
    struct http *h = ctx;
    if (refuse_head(h, r))
        return;
    const struct path *path = find_path(http_request_path(r));
    const char *why = "";
    const struct access_request who = {
        .host = http_request_host(r),
        .origin = http_request_header(r, "Origin", NULL),
        .authorization = http_request_header(r, "Authorization", NULL),
        .unix_socket = http_request_peer_uid(r) != (uid_t)-1,
        .peer_uid = http_request_peer_uid(r),
        .is_loopback = http_request_peer_is_loopback(r),
    };
    if (!(path && path->any_host) && !access_admit(h->options.access, &who, &why))
        http_answer(h, r, 403, "text/plain", why, NULL);
    else if (strcmp(http_request_method(r), "OPTIONS") == 0 && who.origin &&
             access_is_listed_origin(h->options.access, who.origin))
        serve_preflight(r, who.origin);
    else if (path)
        serve_path(h, r, path, &who);
    else if (is_mcp(http_request_path(r)))
        serve_mcp(h, r, &who);
    else
        http_answer(h, r, 404, "text/plain", "There is nothing here; MCP is at /mcp.\n", NULL);
}

static void on_request(void *ctx, struct http_request *r, const char *body, size_t n)
{
    turn_receive(ctx, r, body, n);
}

static void on_gone(void *ctx, struct http_request *r, bool sent)
{
    struct http *h = ctx;
    int status = http_request_status(r);
    if (status > 0 && status < HTTP_STATUSES)
        h->figures.answers[status]++;
    if (h->options.log)
        request_log_write(h->options.log, r, turn_principal(r), sent);
    turn_gone(h, r, sent);
}

static void on_session_end(void *ctx, void *slot)
{
    turns_end_session(ctx, slot);
}

static void on_tick(void *arg)
{
    turns_tick(arg);
}

static void on_keepalive(void *arg)
{
    turns_keep_alive(arg);
}

/* -- Beginning and end. */

static void tell_done(struct http *h)
{
    loop_timer_stop(h->stop_timer);
    h->on_done(h->arg, h->left_behind[0] ? h->left_behind : NULL);
}

static void on_endpoint_closed(void *arg, const char *left_behind)
{
    struct http *h = arg;
    h->stage = HTTP_FLUSHING;
    h->flush_deadline = clock_deadline_after(FLUSH_SECONDS);
    snprintf(h->left_behind, sizeof(h->left_behind), "%s", left_behind ? left_behind : "");
}

static void on_stop_tick(void *arg)
{
    struct http *h = arg;
    if (h->stage == HTTP_FLUSHING && (list_empty(&h->turns) || clock_now() >= h->flush_deadline)) {
        tell_done(h);
    } else if (h->stage == HTTP_DRAINING &&
               (endpoint_running(h->endpoint) == 0 || clock_now() >= h->calls_deadline)) {
        h->stage = HTTP_ENDING;
        endpoint_close(h->endpoint, h->deadline, on_endpoint_closed, h);
    }
}

void http_close(struct http *h, int64_t calls_deadline, int64_t deadline,
                void (*on_done)(void *arg, const char *left_behind), void *arg)
{
    h->stage = HTTP_DRAINING;
    h->calls_deadline = calls_deadline;
    h->deadline = deadline;
    h->on_done = on_done;
    h->arg = arg;
    http_server_stop_accepting(h->server);
    loop_timer_start(h->stop_timer, 0, STOP_TICK_MS);
}

struct http *http_new(const struct http_options *o, struct error *err)
{
    struct http *h = xcalloc(1, sizeof(*h));
    h->options = *o;
    list_init(&h->turns);
    list_init(&h->waiting);
    streams_budget_init(&h->budget, LIMIT_KEPT_EVENTS_BYTES);
    h->tick = loop_timer_new(o->loop, on_tick, h);
    h->keepalive = loop_timer_new(o->loop, on_keepalive, h);
    h->stop_timer = loop_timer_new(o->loop, on_stop_tick, h);
    h->endpoint = endpoint_new(&(struct endpoint_options){
        .protocol = o->protocol,
        .session_timeout_s = o->session_timeout_s,
        .max_sessions = o->max_sessions,
        .max_sessions_per_principal = o->max_sessions_per_principal,
        .on_session_end = on_session_end,
        .ctx = h,
    });
    h->server = http_server_new(
        &(struct http_server_options){
            .loop = o->loop,
            .listeners = o->listeners,
            .listener_count = o->listener_count,
            .limits = o->limits,
            .on_head = on_head,
            .on_request = on_request,
            .on_gone = on_gone,
            .ctx = h,
        },
        err);
    if (!h->server)
        return http_free(h);
    loop_timer_start(h->keepalive, KEEPALIVE_MS, KEEPALIVE_MS);
    return h;
}

/* The server first: each of its requests is then heard of a last time. */
struct http *http_free(struct http *h)
{
    if (!h)
        return NULL;
    h->server = http_server_free(h->server);
    h->endpoint = endpoint_free(h->endpoint);
    h->tick = loop_timer_free(h->tick);
    h->keepalive = loop_timer_free(h->keepalive);
    h->stop_timer = loop_timer_free(h->stop_timer);
    free(h);
    return NULL;
}
