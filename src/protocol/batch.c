/* Batches, which only the revision 2025-03-26 has: an array of messages, answered by one array when the last
 * of the replies is there. */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "protocol/exchange.h"

struct batch {
    struct origin from; /* of the batch: itself no part of one */
    struct buf replies; /* "[" and what has come so far */
    size_t open;        /* who may still bring a reply: the loop over its messages, and calls */
};

#define ERROR_REPLY_BYTES (4 * KIB)

static int append_reply(struct batch *b, const struct buf *reply)
{
    size_t before = b->replies.len;
    if (buf_append_byte(&b->replies, before == 0 ? '[' : ',') == 0 &&
        buf_append(&b->replies, reply->data, reply->len) == 0)
        return 0;
    b->replies.len = before;
    return -1;
}

void batch_add(struct batch *b, struct span id, struct buf *reply)
{
    if (b->replies.len + reply->len < LIMIT_REPLY_BYTES && append_reply(b, reply) == 0)
        return;
    _cleanup_(buf_done) struct buf instead = BUF_INIT(ERROR_REPLY_BYTES);
    struct rpc_error too_long = RPC_ERROR_INIT;
    rpc_error_set(&too_long, RPC_INTERNAL_ERROR,
                  "The replies to this batch are too long together; call on its own");
    if (envelope_error(&instead, id, &too_long) < 0 || append_reply(b, &instead) < 0)
        log_error("A reply to a batch was dropped: out of memory");
}

void batch_hold(struct batch *b)
{
    b->open++;
}

void batch_release(struct batch *b)
{
    const struct span no_id = {NULL, 0};
    if (--b->open > 0)
        return;
    if (b->replies.len > 0 && buf_append_byte(&b->replies, ']') == 0)
        session_deliver(&b->from, no_id, &b->replies, NULL);
    buf_done(&b->replies);
    if (b->from.exchange)
        exchange_release(b->from.exchange);
    free(b);
}

static void refuse_batch(const struct origin *from, const char *why)
{
    struct message m = {.kind = MESSAGE_REFUSED};
    rpc_error_set(&m.error, RPC_INVALID_REQUEST, "Invalid request: %s", why);
    session_route(from, &m);
}

static bool opens_session(const struct message *m)
{
    return m->kind == MESSAGE_REQUEST && strcmp(m->method, "initialize") == 0;
}

/* What is legal in a message of its own but not here. */
static void restrict_element(struct message *m)
{
    if (m->kind != MESSAGE_REQUEST)
        return;
    const char *why = opens_session(m)   ? "initialize can't be part of a batch"
                      : modern_claims(m) ? "the revision 2026-07-28 has no batches"
                                         : NULL;
    if (!why)
        return;
    m->kind = MESSAGE_REFUSED;
    rpc_error_set(&m->error, RPC_INVALID_REQUEST, "Invalid request: %s", why);
}

static struct batch *batch_new(const struct origin *from)
{
    struct batch *b = xcalloc(1, sizeof(*b));
    *b = (struct batch){.from = *from, .open = 1};
    b->replies.max = LIMIT_REPLY_BYTES + LIMIT_BATCH_MESSAGES * ERROR_REPLY_BYTES;
    if (from->exchange)
        exchange_hold(from->exchange);
    return b;
}

void batch_serve(const struct origin *from, struct message *m)
{
    const char *version = from->session->version;
    size_t n = json_array_size(m->root);
    if (!version || strcmp(version, "2025-03-26") != 0) {
        refuse_batch(from, "batches belong to protocol version 2025-03-26 only; send one message at a time");
        return;
    }
    if (n == 0 || n > LIMIT_BATCH_MESSAGES) {
        refuse_batch(from, n == 0 ? "an empty batch" : "a batch of more than 64 messages");
        return;
    }
    struct message elements[LIMIT_BATCH_MESSAGES];
    message_split(m, elements, n);
    struct batch *b = batch_new(from);
    const struct origin part = {from->session, from->exchange, b};
    for (size_t i = 0; i < n; i++) {
        restrict_element(&elements[i]);
        session_route(&part, &elements[i]);
        message_done(&elements[i]);
    }
    batch_release(b);
}
