/* Inside of transport/'s HTTP: what its files share. http.c has the paths and the end, turn.c what happens on
 * /mcp.
 *
 * A turn is one request on /mcp and its answer. It lives until both the peer is done with it (on_gone) and
 * its exchange has ended.
 *
 *   POST  an exchange begins. If it ends soon, its reply is the whole answer, as JSON. With the first
 *         notification, or after a while, the answer becomes an event stream.
 *   GET   an event stream: of nothing (legacy clients want one to listen on), or, with Last-Event-ID, the
 * rest of one that was cut off.
 *
 * In a legacy session the events go through a `struct stream`, which keeps them: the turn of the POST feeds
 * it, the one of the POST or of a later GET reads it. */
#pragma once

#include "base/list.h"
#include "transport/http.h"
#include "transport/streams.h"

#define PRINCIPAL_SIZE (LIMIT_PRINCIPAL_BYTES + 1)

/* DRAINING: calls that run may still end. ENDING: they are ended. FLUSHING: their answers go out. */
enum http_stage { HTTP_SERVING, HTTP_DRAINING, HTTP_ENDING, HTTP_FLUSHING };

struct http {
    struct http_options options;
    struct http_server *server;
    struct endpoint *endpoint;
    struct http_figures figures;

    struct list turns;       /* all */
    struct list waiting;     /* turns that may have to become streams soon, or be refused */
    int delayed;             /* refusals that wait */
    bool was_large;          /* a message since the last keepalive */
    struct loop_timer *tick; /* runs while any of `waiting` is there */
    bool ticking;
    struct loop_timer *keepalive;
    struct streams_budget budget; /* of what legacy sessions keep */

    enum http_stage stage;
    int64_t calls_deadline, deadline, flush_deadline;
    struct loop_timer *stop_timer;
    char left_behind[512];
    void (*on_done)(void *arg, const char *left_behind);
    void *arg;
};

/* http.c: answers a request with a small text. extra: one more header, or NULL. */
void http_answer(struct http *h, struct http_request *r, int status, const char *type, const char *text,
                 const struct http_header *extra);
/* The headers that every answer has: CORS. Returns how many, at most HTTP_COMMON_HEADERS. */
#define HTTP_COMMON_HEADERS 3
size_t http_common_headers(const struct http *h, const struct http_request *r,
                           struct http_header ret[HTTP_COMMON_HEADERS]);

/* turn.c */
/* A request on /mcp whose head is there: answered, or given a turn. */
void turn_begin(struct http *h, struct http_request *r, const char *principal);
/* Refuses it with 401, after a while. */
void turn_refuse(struct http *h, struct http_request *r, const char *why, int64_t delay_ms);
/* The body is there too. */
void turn_receive(struct http *h, struct http_request *r, const char *body, size_t n);
void turn_gone(struct http *h, struct http_request *r, bool sent);
/* Who asks; NULL: the request has no turn, or that has nobody. */
const char *turn_principal(struct http_request *r);
int turns_streaming(const struct http *h); /* open event streams */
void turns_tick(struct http *h);
void turns_keep_alive(struct http *h);
/* A session has ended: its streams do, too. */
void turns_end_session(struct http *h, void *slot);
