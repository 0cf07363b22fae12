/* What the files of protocol/ share: the server, a session, a request on its way. Loop thread only, except
 * where a line says otherwise. What HTTP needs besides is in exchange.h.
 *
 * A request lives on the stack of session_receive() while its method's handler runs, and is answered there.
 * Only tools/call takes longer: it moves what it needs into a `struct call`, which is then the request in
 * flight, until its worker is done. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/pool.h"
#include "protocol/jsonrpc.h"
#include "protocol/protocol.h"

/* A result, and the frame around it. */
#define LIMIT_REPLY_BYTES (LIMIT_RESULT_BYTES + 64 * KIB)
/* Every byte of an id may have become an escape. */
#define LIMIT_ID_KEY_BYTES (6 * LIMIT_REQUEST_ID_BYTES + 2)

struct protocol {
    struct protocol_options options;
    struct list sessions;
    struct list intakes_parsing, intakes_waiting;
    char *server_info; /* JSON text: {"name":...,"title":...,"version":...} */
    bool first_reply_told;
    bool prepares_later;
    struct loop_timer *later; /* see call_prepare_later() */
};

struct session {
    struct list link; /* in protocol->sessions */
    struct protocol *protocol;
    char principal[LIMIT_PRINCIPAL_BYTES + 1];
    struct session_sink sink;
    struct computer_session *computers; /* NULL before protocol_open() */
    const char *version;                /* the legacy revision agreed on by initialize; NULL before */
    double lease_s;                     /* > 0: all of a principal's modern calls over HTTP; see below */

    struct list calls; /* in flight */
    size_t call_count;
    size_t call_bytes; /* of their messages */
    struct map *calls_by_id;
    struct list asks;      /* requests to the client that wait for its response */
    struct intake *intake; /* a long message on a worker, or one that waits for the tools: nothing else is
                              taken meanwhile */
    void (*on_resume)(void *arg);
    void *on_resume_arg;

    struct closing *closing; /* once session_close was called */
};

/* For modern calls over HTTP. Two clients may use equal ids at the same time, so that nothing is found by its
 * id; and computers are held by leases. */
struct session *session_new_shared(struct protocol *p, const char *principal, double lease_s);

enum era { ERA_LEGACY, ERA_MODERN };

/* The replies to a batch are one message, sent when the last of them is ready. */
struct batch;
struct exchange;
struct call;

/* Where a message came from, which is where goes what comes of it. */
struct origin {
    struct session *session;
    struct exchange *exchange; /* the POST that brought it; NULL over stdio */
    struct batch *batch;       /* whose part it is; NULL: none's */
};

struct request {
    struct origin from;
    struct message *message;
    enum era era;
    struct buf reply;
    struct json_writer writer; /* to reply; inside the result's object while a handler runs */
};

enum answer {
    ANSWER_RESULT, /* the members of the result are written */
    ANSWER_ROUND,  /* likewise, of one that isn't complete */
    ANSWER_ERROR,  /* *error says why; what was written doesn't matter */
    ANSWER_LATER,  /* the reply was moved away, and will be delivered */
};

struct method {
    const char *name;
    enum answer (*serve)(struct request *r, struct rpc_error *error);
    bool cacheable; /* modern: the result says how long it holds */
    bool greets;    /* the first of a session */
};

/* legacy.c, modern.c: NULL with the error if the era doesn't have this method, or not now. */
const struct method *legacy_method(const struct request *r, struct rpc_error *error);
const struct method *modern_method(const struct request *r, struct rpc_error *error);
bool legacy_knows(const char *version);
bool modern_claims(const struct message *m);
const char *modern_version(const struct message *m); /* that it claims; NULL: none */
/* What every modern result has, at its beginning and at its end; and what a cacheable one has besides. */
void modern_open(struct request *r);
void modern_close(struct request *r, bool complete);
#define MODERN_CLOSE ",\"resultType\":\"complete\"" /* the same, as text */
void modern_cache_hints(struct request *r);

/* methods.c: the same in both eras. */
void write_capabilities(struct request *r);
enum answer serve_tools_list(struct request *r, struct rpc_error *error);
enum answer serve_prompts_list(struct request *r, struct rpc_error *error);
enum answer serve_prompts_get(struct request *r, struct rpc_error *error);
enum answer serve_resources_list(struct request *r, struct rpc_error *error);
enum answer serve_resource_templates_list(struct request *r, struct rpc_error *error);
enum answer serve_resources_read(struct request *r, struct rpc_error *error);
/* A string member of params, without NUL; or NULL and the error. */
const char *require_param(const struct request *r, const char *name, struct rpc_error *error);

/* call.c */
enum answer serve_tools_call(struct request *r, struct rpc_error *error);
void call_cancel(struct session *s, const struct message *notification);
void call_prepare_later(void *protocol); /* a timer's: makes ahead what may wait */
/* Nobody wants its reply any more. */
void call_stop(struct call *c);
struct span call_id(const struct call *c);
void calls_cancel_all(struct session *s);
/* Those whose job the closed pool will never bring back. */
void calls_free_all(struct session *s);

/* ask.c: what tools may want of the client. */
struct tool_client *ask_client_new(const struct origin *from, struct cancel *cancel);
/* When its tool has returned. Accepts NULL; returns NULL. */
struct tool_client *ask_client_free(struct tool_client *c);
void ask_answer(struct session *s, const struct message *response);

/* batch.c */
void batch_serve(const struct origin *from, struct message *m);
void batch_add(struct batch *b, struct span id, struct buf *reply);
void batch_hold(struct batch *b);    /* a reply, or none, will come later */
void batch_release(struct batch *b); /* it came; the last one sends the batch's reply */

/* intake.c: understanding messages, short ones at once, long ones on a worker. One that is about the tools
 * waits until they are there. */
struct intake;
typedef void intake_fn(void *arg, struct message *m);
/* Calls fn once, now (NULL is returned then) or later. The bytes are the caller's again on return. */
struct intake *intake_begin(struct protocol *p, const char *bytes, size_t n, intake_fn *fn, void *arg);
struct intake *intake_drop(struct intake *i); /* fn is not called any more. Accepts NULL; returns NULL */
void intakes_init(struct protocol *p);
void intakes_wake(struct protocol *p);     /* the tools are there */
void intakes_free_all(struct protocol *p); /* the pool is closed */

/* session.c */
void session_route(const struct origin *from, struct message *m);
/* Hands a reply on to where its request came from. The content is taken. error: what it says; NULL: a result.
 */
void session_deliver(const struct origin *to, struct span id, struct buf *reply,
                     const struct rpc_error *error);
void session_free(struct session *s);

/* closing.c: goes on with the closing, if nothing more stands in its way. */
void session_closing_step(struct session *s);
/* What the deadline had left of the session is given up. */
void session_closing_free(struct session *s);
