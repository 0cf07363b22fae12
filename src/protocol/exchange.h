/* Inside of protocol/ over HTTP: what endpoint.c and exchange.c share, and what they are to the rest. */
#pragma once

#include "protocol/endpoint.h"
#include "protocol/session.h"

/* One principal. */
struct tenant {
    struct endpoint *endpoint;
    struct session *session; /* of its modern calls; NULL before the first */
    int sessions;            /* legacy ones, until they begin to close */
    size_t intake_bytes;     /* of messages that are being understood, or wait for the tools */
    char principal[LIMIT_PRINCIPAL_BYTES + 1];
};

#define SESSION_ID_BYTES 20 /* of random */

struct http_session {
    struct list link; /* in endpoint->sessions, until all of it is gone */
    struct endpoint *endpoint;
    struct tenant *tenant;
    struct session *session;
    char id[2 * SESSION_ID_BYTES + 1];
    void *slot;
    int holds;
    int64_t last_use;
    struct loop_timer *idle;
    bool ended; /* it is closing, and nobody finds it any more */
};

/* An exchange is open until it was answered, given up by its client, or nobody is left who could answer: what
 * holds it is its intake, a call, a batch. It is freed with the last of those, perhaps long after its end. */
struct exchange {
    struct list link; /* in endpoint->exchanges, while it is open */
    struct endpoint *endpoint;
    struct tenant *tenant;
    struct exchange_headers headers; /* copies */
    struct exchange_sink sink;
    enum era era;
    struct intake *intake;     /* NULL: it is over */
    size_t intake_bytes;       /* its part of the tenant's */
    struct http_session *http; /* legacy, once it is known */
    struct call *call;         /* unless it is part of a batch */
    bool made_session;         /* by this initialize */
    bool ended;
    int holders;
};

struct endpoint {
    struct endpoint_options options;
    struct protocol *protocol;
    struct map *tenants; /* by principal */
    struct map *by_id;   /* of http_session, those that haven't ended */
    struct list sessions;
    int session_count; /* those that haven't ended */
    struct list exchanges;
    int exchange_count;
    struct expiry *expiry;

    bool closing;
    int going; /* what has yet to say that it is gone */
    char *left_behind;
    struct loop_timer *late;
    struct loop_post gone;
    void (*on_done)(void *arg, const char *left_behind);
    void *arg;
};

/* exchange.c */
enum era exchange_era(const struct exchange *x);
const struct exchange_headers *exchange_headers_of(const struct exchange *x);
void exchange_hold(struct exchange *x);
void exchange_release(struct exchange *x); /* the last one ends it, if it has no reply until then */
/* The same for a call that is the whole of it. */
void exchange_hold_for(struct exchange *x, struct call *c);
void exchange_release_call(struct exchange *x);
/* The content is taken; nothing happens if it has ended. */
void exchange_notify(struct exchange *x, struct buf *message);
void exchange_pause(struct exchange *x);
void exchange_reply(struct exchange *x, struct buf *reply, const struct rpc_error *error);
/* Ends it with an error to whatever it waits for. */
void exchange_fail(struct exchange *x, int http_status, const char *why);

/* endpoint.c */
/* NULL with the error if there are too many. */
struct http_session *http_session_new(struct tenant *t, struct rpc_error *error);
struct tenant *endpoint_tenant(struct endpoint *e, const char *principal);
struct session *tenant_session(struct tenant *t); /* for modern calls */
void http_session_touch(struct http_session *s);

/* expiry.c: has computers whose lease is over removed. */
struct expiry *expiry_new(struct protocol *p, double lease_s);
void expiry_soon(struct expiry *x); /* a lease may have begun */
/* No computer is looked at any more; on_idle once no worker is at it. */
void expiry_stop(struct expiry *x, void (*on_idle)(void *arg), void *arg);
struct expiry *expiry_free(struct expiry *x); /* after on_idle, or when the pool is closed */
