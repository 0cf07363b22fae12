/* What the files of protocol/ share: the server, a session, a request on its way. Loop thread only, except
 * where a line says otherwise.
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
    char *server_info; /* JSON text: {"name":...,"title":...,"version":...} */
    bool first_reply_told;
};

struct session {
    struct list link; /* in protocol->sessions */
    struct protocol *protocol;
    char principal[LIMIT_PRINCIPAL_BYTES + 1];
    struct session_sink sink;
    struct computer_session *computers; /* NULL before protocol_open() */
    const char *version;                /* the legacy revision agreed on by initialize; NULL before */

    struct list calls; /* in flight */
    struct map *calls_by_id;
    size_t call_bytes;     /* of their messages */
    struct parse *parsing; /* a long message on a worker, or one that waits for the tools: nothing else is
                              taken meanwhile */
    void (*on_resume)(void *arg);
    void *on_resume_arg;

    struct closing *closing; /* once session_close was called */
};

enum era { ERA_LEGACY, ERA_MODERN };

/* The replies to a batch are one message, sent when the last of them is ready. */
struct batch;

struct request {
    struct session *session;
    struct message *message;
    struct batch *batch; /* or NULL */
    enum era era;
    struct buf reply;
    struct json_writer writer; /* to reply; inside the result's object while a handler runs */
};

enum answer {
    ANSWER_RESULT, /* the members of the result are written */
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
bool modern_claims(const struct message *m);
/* What every modern result has, written at its beginning; and what a cacheable one has besides. */
void modern_open(struct request *r);
void modern_cache_hints(struct request *r);

/* methods.c: the same in both eras. */
#define SERVER_CAPABILITIES                                                                                  \
    "{\"tools\":{\"listChanged\":false},\"resources\":{\"subscribe\":false,\"listChanged\":false},"          \
    "\"prompts\":{\"listChanged\":false}}"
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
void calls_cancel_all(struct session *s);
/* Those whose job the closed pool will never bring back. */
void calls_free_all(struct session *s);

/* batch.c */
void batch_serve(struct session *s, struct message *m);
void batch_add(struct batch *b, struct span id, struct buf *reply);
void batch_hold(struct batch *b);    /* a reply, or none, will come later */
void batch_release(struct batch *b); /* it came; the last one sends the batch's reply */

/* session.c: b is NULL for what isn't part of a batch. */
void session_route(struct session *s, struct message *m, struct batch *b);
/* Sends a reply, or adds it to its batch. The content is taken. */
void session_deliver(struct session *s, struct batch *b, struct span id, struct buf *reply);
/* Goes on with the message that waits for the tools, if there is one. */
void session_wake(struct session *s);
void session_free(struct session *s);

/* closing.c: goes on with the closing, if nothing more stands in its way. */
void session_closing_step(struct session *s);
/* What the deadline had left of the session is given up. */
void session_closing_free(struct session *s);
