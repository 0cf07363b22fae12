/* What happens on /mcp: POST, GET and DELETE, and the event streams that answers become (MCP 2025-11-25 and
 * 2026-07-28, basic/transports). */
#include "transport/turn.h"

#include <assert.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"

/* A reply that takes longer comes as a stream. In the legacy era soon, since only a stream can be resumed
 * after its connection broke; in the modern one before clients and proxies think that we are dead. */
#define LEGACY_STREAM_MS 500
#define MODERN_STREAM_MS 10000
#define TICK_MS 250
#define RETRY_MS 1000    /* what a client waits before it resumes */
#define DELAYED_MAX 256  /* refusals that wait; beyond, they don't */
#define FIRST_BYTES 4096 /* of a stream's beginning */
#define LIMIT_REPLAY_BYTES (80 * MIB)
#define LARGE_BYTES (1 * MIB) /* of a message: after it the allocator keeps too much for an idle server */

/* The first revision whose clients understand an event without content. */
#define FIRST_PRIMED "2025-11-25"

enum turn_state {
    TURN_READING,   /* the body isn't there */
    TURN_WAITING,   /* for the exchange */
    TURN_STREAMING, /* the answer is an event stream */
    TURN_ANSWERED,
    TURN_REFUSED, /* 401, later */
};

struct turn {
    struct list link;    /* in http->turns */
    struct list waiting; /* in http->waiting, or nowhere */
    struct http *http;
    struct http_request *request; /* NULL: the peer has gone */
    enum turn_state state;
    char principal[PRINCIPAL_SIZE];
    int64_t since, due; /* due: of a refusal */
    const char *why;    /* of a refusal */

    struct exchange *exchange; /* NULL: none, or ended */
    bool in_exchange;          /* it has not ended */
    struct stream *feeds;      /* NULL: none. What the exchange sends goes there */
    struct stream *reads;      /* NULL: none */
    struct http_session *held; /* by the stream of a GET */
    void *slot;                /* the session's streams, while feeds, reads or held is there */
};

static struct turn *turn_new(struct http *h, struct http_request *r, enum turn_state state)
{
    struct turn *t = xcalloc(1, sizeof(*t));
    *t = (struct turn){.http = h, .request = r, .state = state, .since = clock_now()};
    list_init(&t->waiting);
    list_append(&h->turns, &t->link);
    *http_request_slot(r) = t;
    return t;
}

static void stop_reading(struct turn *t)
{
    if (t->reads)
        stream_set_reader(t->reads, NULL);
    t->reads = NULL;
    if (t->held)
        http_session_release(TAKE_PTR(t->held));
}

/* When neither side needs it any more. */
static void turn_settle(struct turn *t)
{
    if (t->request || t->in_exchange)
        return;
    stop_reading(t);
    list_unlink(&t->waiting);
    list_unlink(&t->link);
    free(t);
}

static void wait_for_tick(struct turn *t)
{
    struct http *h = t->http;
    list_append(&h->waiting, &t->waiting);
    if (!h->ticking)
        loop_timer_start(h->tick, TICK_MS, TICK_MS);
    h->ticking = true;
}

/* -- Refusals. */

/* An error of JSON-RPC without an id, for what isn't the protocol's to answer: clients show its text. */
static void refuse(struct http *h, struct http_request *r, int status, const char *why,
                   const struct http_header *extra)
{
    char text[512];
    snprintf(text, sizeof(text),
             "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,\"message\":\"%s\"}}", why);
    http_answer(h, r, status, "application/json", text, extra);
}

static void refuse_now(struct http *h, struct http_request *r, const char *why)
{
    const struct http_header challenge = {"WWW-Authenticate", "Bearer"};
    char text[256];
    snprintf(text, sizeof(text), "{\"error\":\"unauthorized\",\"message\":\"%s\"}", why);
    http_answer(h, r, 401, "application/json", text, &challenge);
}

void turn_refuse(struct http *h, struct http_request *r, const char *why, int64_t delay_ms)
{
    if (h->delayed >= DELAYED_MAX) {
        refuse_now(h, r, why);
        return;
    }
    struct turn *t = turn_new(h, r, TURN_REFUSED);
    t->why = why;
    t->due = t->since + delay_ms * NSEC_PER_MSEC;
    h->delayed++;
    wait_for_tick(t);
}

/* -- Heads. */

/* Whether a header like Accept has the type, or a range that it is in. */
static bool accepts(const char *header, const char *type, const char *range)
{
    for (const char *at = header; at && *at;) {
        at += strspn(at, " \t,");
        size_t n = strcspn(at, ";, \t");
        if ((n == strlen(type) && strncasecmp(at, type, n) == 0) ||
            (n == strlen(range) && strncasecmp(at, range, n) == 0) || (n == 3 && memcmp(at, "*/*", 3) == 0))
            return true;
        at += strcspn(at, ",");
    }
    return false;
}

static bool accepts_events(const struct http_request *r)
{
    const char *accept = http_request_header(r, "Accept", NULL);
    return !accept || accepts(accept, "text/event-stream", "text/*");
}

static bool accepts_json(const struct http_request *r)
{
    const char *accept = http_request_header(r, "Accept", NULL);
    return !accept || accepts(accept, "application/json", "application/*");
}

static void begin_post(struct http *h, struct http_request *r, const char *principal)
{
    const char *type = http_request_header(r, "Content-Type", NULL);
    if (!type || strncasecmp(type, "application/json", 16) != 0 || (type[16] && !strchr("; \t", type[16]))) {
        refuse(h, r, 415, "Content-Type must be application/json", NULL);
    } else if (!accepts_json(r) || !accepts_events(r)) {
        refuse(h, r, 406, "Accept must have both application/json and text/event-stream", NULL);
    } else if (h->stage != HTTP_SERVING) {
        const struct http_header later = {"Retry-After", "1"};
        refuse(h, r, 503, "the server is about to end", &later);
    } else {
        struct turn *t = turn_new(h, r, TURN_READING);
        snprintf(t->principal, sizeof(t->principal), "%s", principal);
    }
}

/* The legacy session that a GET or DELETE is about; NULL: it was answered. */
static struct http_session *require_session(struct http *h, struct http_request *r, const char *principal)
{
    const struct http_header allow = {"Allow", "POST"};
    const char *id = http_request_header(r, "Mcp-Session-Id", NULL);
    if (!id) {
        refuse(h, r, 405, "without Mcp-Session-Id there is only POST here", &allow);
        return NULL;
    }
    struct http_session *s = http_session_find(h->endpoint, principal, id);
    if (!s)
        refuse(h, r, 404, "there is no such session; send initialize to begin another", NULL);
    return s;
}

static void serve_delete(struct http *h, struct http_request *r, const char *principal)
{
    struct http_session *s = require_session(h, r, principal);
    if (!s)
        return;
    http_session_end(s);
    http_answer(h, r, 204, NULL, "", NULL);
}

/* -- Streams. */

static void begin_stream(struct turn *t)
{
    struct http_header headers[HTTP_COMMON_HEADERS + 3] = {
        {"Content-Type", "text/event-stream"}, {"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
    size_t n = 3 + http_common_headers(t->http, t->request, headers + 3);
    http_reply_begin(t->request, 200, headers, n);
    t->state = TURN_STREAMING;
}

static struct streams *streams_of(struct turn *t, struct http_session *s, const char *principal)
{
    void **slot = http_session_slot(s);
    if (!*slot)
        *slot = streams_new(&t->http->budget, principal);
    t->slot = *slot;
    return *slot;
}

/* What was waited for as one answer is a stream from here on; in a legacy session one that is kept. */
static void become_stream(struct turn *t)
{
    struct http_session *s = exchange_session(t->exchange);
    begin_stream(t);
    list_unlink(&t->waiting);
    t->feeds = s ? stream_new(streams_of(t, s, t->principal)) : NULL;
    if (!t->feeds)
        return;
    t->reads = t->feeds;
    stream_set_reader(t->reads, t);
    if (strcmp(http_session_version(s), FIRST_PRIMED) < 0)
        return;
    struct buf first = BUF_INIT(FIRST_BYTES);
    if (buf_printf(&first, "retry: %d\n", RETRY_MS) == 0)
        stream_add(t->feeds, NULL, &first);
    http_reply_write(t->request, &first);
}

static void see_size(struct http *h, size_t bytes)
{
    h->was_large = h->was_large || bytes > LARGE_BYTES;
}

/* An event on its way to whoever reads. */
static void send_event(struct turn *t, const struct buf *message)
{
    see_size(t->http, message->len);
    struct turn *reader = t->feeds ? stream_reader(t->feeds) : t;
    struct buf event = BUF_INIT(message->len + KIB);
    if (t->feeds)
        stream_add(t->feeds, message, &event);
    else if (event_append(&event, message) < 0)
        log_error("An event was dropped: out of memory");
    if (reader && reader->request && reader->state == TURN_STREAMING)
        http_reply_write(reader->request, &event);
    buf_done(&event);
}

static void end_events(struct turn *t)
{
    struct turn *reader = t->feeds ? stream_reader(t->feeds) : t;
    if (reader && reader->request && reader->state == TURN_STREAMING) {
        reader->state = TURN_ANSWERED;
        http_reply_end(reader->request);
    }
    if (t->feeds)
        stream_end(TAKE_PTR(t->feeds), false);
}

static void resume(struct http *h, struct turn *t, struct streams *streams, const char *last_event_id)
{
    uint64_t after = 0;
    struct stream *s = streams_find(streams, last_event_id, &after);
    _cleanup_(buf_done) struct buf missed = BUF_INIT(LIMIT_REPLAY_BYTES);
    if (!s || !stream_replay(s, after, &missed)) {
        refuse(h, t->request, 400, "the events after this Last-Event-ID are not kept any more", NULL);
        t->state = TURN_ANSWERED;
        return;
    }
    struct turn *before = stream_reader(s);
    if (before) { /* a connection of which we don't know yet that it is dead */
        before->reads = NULL;
        before->state = TURN_ANSWERED;
        http_reply_end(before->request);
    }
    t->reads = s;
    stream_set_reader(s, t);
    begin_stream(t);
    if (missed.len > 0)
        http_reply_write(t->request, &missed);
    if (stream_has_ended(s)) {
        t->state = TURN_ANSWERED;
        http_reply_end(t->request);
    }
}

static void serve_get(struct http *h, struct http_request *r, const char *principal)
{
    if (!accepts_events(r)) {
        refuse(h, r, 406, "Accept must have text/event-stream", NULL);
        return;
    }
    struct http_session *s = require_session(h, r, principal);
    if (!s)
        return;
    const char *last_event_id = http_request_header(r, "Last-Event-ID", NULL);
    struct turn *t = turn_new(h, r, TURN_WAITING);
    t->held = s;
    http_session_hold(s);
    struct streams *streams = streams_of(t, s, principal);
    if (last_event_id)
        resume(h, t, streams, last_event_id);
    else
        begin_stream(t);
}

void turn_begin(struct http *h, struct http_request *r, const char *principal)
{
    const struct http_header allow = {"Allow", "GET, POST, DELETE, OPTIONS"};
    const char *method = http_request_method(r);
    const char *version = http_request_header(r, "MCP-Protocol-Version", NULL);
    bool modern = version && endpoint_is_modern_version(version);
    const struct http_header only_post = {"Allow", "POST, OPTIONS"};
    if (strcmp(method, "POST") == 0)
        begin_post(h, r, principal);
    else if (modern || (strcmp(method, "GET") != 0 && strcmp(method, "DELETE") != 0))
        refuse(h, r, 405, "this method is not for this path", modern ? &only_post : &allow);
    else if (strcmp(method, "GET") == 0)
        serve_get(h, r, principal);
    else
        serve_delete(h, r, principal);
}

/* -- Exchanges. */

static void on_pause(void *ctx)
{
    struct turn *t = ctx;
    if (t->state == TURN_WAITING && t->request)
        become_stream(t);
    struct turn *reader = t->feeds ? stream_reader(t->feeds) : NULL;
    if (reader && reader->request && reader->state == TURN_STREAMING) {
        reader->state = TURN_ANSWERED;
        http_reply_end(reader->request);
    }
}

static void on_notify(void *ctx, struct buf *message)
{
    struct turn *t = ctx;
    if (t->state == TURN_WAITING && t->request)
        become_stream(t);
    if (t->request || t->feeds)
        send_event(t, message);
    buf_done(message);
}

static void answer_whole(struct turn *t, const struct exchange_end *end)
{
    struct http_header headers[HTTP_COMMON_HEADERS + 2];
    size_t n = http_common_headers(t->http, t->request, headers);
    if (end->reply) {
        headers[n++] = (struct http_header){"Content-Type", "application/json"};
        see_size(t->http, end->reply->len);
    }
    if (end->session_id)
        headers[n++] = (struct http_header){"Mcp-Session-Id", end->session_id};
    t->state = TURN_ANSWERED;
    http_reply(t->request, end->status, headers, n, end->reply);
}

static void on_end(void *ctx, const struct exchange_end *end)
{
    struct turn *t = ctx;
    t->exchange = NULL;
    t->in_exchange = false;
    list_unlink(&t->waiting);
    if (t->state == TURN_WAITING && t->request) {
        answer_whole(t, end);
    } else if (t->request || t->feeds) {
        if (end->reply)
            send_event(t, end->reply);
        end_events(t);
    }
    turn_settle(t);
}

void turn_receive(struct http *h, struct http_request *r, const char *body, size_t n)
{
    struct turn *t = *http_request_slot(r);
    const struct exchange_headers headers = {
        .session_id = http_request_header(r, "Mcp-Session-Id", NULL),
        .protocol_version = http_request_header(r, "MCP-Protocol-Version", NULL),
        .method = http_request_header(r, "Mcp-Method", NULL),
        .name = http_request_header(r, "Mcp-Name", NULL),
    };
    if (!t || t->state != TURN_READING)
        return;
    t->state = TURN_WAITING;
    t->in_exchange = true;
    see_size(h, n);
    wait_for_tick(t);
    const struct exchange_sink sink = {.notify = on_notify, .pause = on_pause, .end = on_end, .ctx = t};
    struct exchange *x = exchange_begin(h->endpoint, t->principal, &headers, body, n, &sink);
    if (x)
        t->exchange = x;
}

void turn_gone(struct http *h, struct http_request *r, bool sent)
{
    struct turn *t = *http_request_slot(r);
    if (!t)
        return;
    t->request = NULL;
    if (t->state == TURN_REFUSED)
        h->delayed--;
    if (t->reads && sent && stream_has_ended(t->reads))
        stream_end(t->reads, true);
    stop_reading(t);
    if (t->exchange && exchange_abandon(t->exchange)) {
        t->exchange = NULL;
        t->in_exchange = false;
    }
    list_unlink(&t->waiting);
    turn_settle(t);
}

const char *turn_principal(struct http_request *r)
{
    const struct turn *t = *http_request_slot(r);
    return t && t->principal[0] ? t->principal : NULL;
}

int turns_streaming(const struct http *h)
{
    int n = 0;
    for (const struct list *node = h->turns.next; node != &h->turns; node = node->next)
        n += list_entry(node, struct turn, link)->state == TURN_STREAMING;
    return n;
}

/* -- Time. */

void turns_tick(struct http *h)
{
    int64_t now = clock_now();
    list_for_each (node, &h->waiting) {
        struct turn *t = list_entry(node, struct turn, waiting);
        if (t->state == TURN_REFUSED && now >= t->due) {
            list_unlink(&t->waiting);
            t->state = TURN_ANSWERED;
            h->delayed--;
            refuse_now(h, t->request, t->why);
        } else if (t->state == TURN_WAITING && t->exchange) {
            int64_t patience = exchange_session(t->exchange) ? LEGACY_STREAM_MS : MODERN_STREAM_MS;
            if (now - t->since >= patience * NSEC_PER_MSEC)
                become_stream(t);
        }
    }
    if (list_empty(&h->waiting)) {
        loop_timer_stop(h->tick);
        h->ticking = false;
    }
}

void turns_keep_alive(struct http *h)
{
    if (h->was_large)
        malloc_trim(0);
    h->was_large = false;
    list_for_each (node, &h->turns) {
        struct turn *t = list_entry(node, struct turn, link);
        if (t->state != TURN_STREAMING || !t->request || http_reply_queued(t->request) > 0)
            continue;
        struct buf comment = BUF_INIT(64);
        if (buf_append_str(&comment, ": keepalive\n\n") == 0)
            http_reply_write(t->request, &comment);
        buf_done(&comment);
    }
}

void turns_end_session(struct http *h, void *slot)
{
    list_for_each (node, &h->turns) {
        struct turn *t = list_entry(node, struct turn, link);
        if (!slot || t->slot != slot)
            continue;
        t->slot = NULL;
        t->feeds = t->reads = NULL;
        t->held = NULL;
        if (t->state == TURN_STREAMING && t->request) {
            t->state = TURN_ANSWERED;
            http_reply_end(t->request);
        }
    }
    streams_free(slot);
}
