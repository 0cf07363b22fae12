/* JSON-RPC 2.0: what a message is, and the frame around replies. Any thread.
 *
 * Ids and progress tokens go back byte for byte (integers of any size, escapes as they came), so they are
 * kept as spans of the message's own text. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/macros.h"

enum {
    RPC_PARSE_ERROR = -32700,
    RPC_INVALID_REQUEST = -32600,
    RPC_METHOD_NOT_FOUND = -32601,
    RPC_INVALID_PARAMS = -32602,
    RPC_INTERNAL_ERROR = -32603,
    RPC_RESOURCE_NOT_FOUND = -32002,  /* legacy only */
    RPC_HEADER_MISMATCH = -32020,     /* modern only, over HTTP */
    RPC_MISSING_CAPABILITY = -32021,  /* modern only: of the client */
    RPC_UNSUPPORTED_VERSION = -32022, /* modern only */
};

/* Bytes of somebody else; at is NULL when there are none. */
struct span {
    const char *at;
    size_t len;
};

struct rpc_error {
    int code;        /* 0: none */
    int http_status; /* 0: what the code says */
    char message[512];
    json_t *data; /* owned, or NULL */
};
#define RPC_ERROR_INIT                                                                                       \
    {                                                                                                        \
        .code = 0                                                                                            \
    }
/* Cut at the buffer's end. Quoted client input must be UTF-8. */
void rpc_error_set(struct rpc_error *e, int code, const char *fmt, ...) _printf_(3, 4);
void rpc_error_done(struct rpc_error *e);

enum message_kind {
    MESSAGE_REFUSED, /* nothing we can serve: `error` is the answer, to `id` if it could be read */
    MESSAGE_REQUEST,
    MESSAGE_NOTIFICATION,
    MESSAGE_RESPONSE,
    MESSAGE_BATCH, /* an array of anything */
};

struct message {
    enum message_kind kind;
    struct span text;           /* the whole message */
    json_t *root;               /* owned; NULL if it isn't JSON */
    const char *method;         /* inside root */
    const json_t *params;       /* inside root, an object; NULL: none */
    struct span id;             /* inside text, quotes included */
    struct span progress_token; /* inside text; none if not asked for */
    struct rpc_error error;
};

/* The text must stay while the message is used. */
void message_parse(struct message *ret, const char *bytes, size_t n);
void message_done(struct message *m);
/* Splits a batch into its elements, each a message with a value of its own; the batch's value is gone then.
 */
void message_split(struct message *batch, struct message *ret, size_t count);

/* The text of the value at a path of members, which the parsed value has. */
bool message_locate(const struct message *m, const char *const *path, struct span *ret);
/* A string or an integer of any size. */
bool span_is_id(struct span text);
/* What two ids have in common exactly if they are the same JSON value, as text without NUL. */
int id_key(const json_t *value, struct span text, struct buf *ret) _must_use_;

/* {"jsonrpc":"2.0","id":ID,"result":{ ... }}: the writer is left inside the result's object. */
void envelope_open(struct json_writer *w, struct buf *out, struct span id);
void envelope_close(struct json_writer *w);
/* Replaces what is in `out`. No id: null. */
int envelope_error(struct buf *out, struct span id, const struct rpc_error *e) _must_use_;
