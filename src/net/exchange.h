/* One request and its answer over one connection, in HTTP/1.1 (RFC 9112).
 *
 *     send the request -> read the head -> read the body, or leave the stream to the caller
 *
 * A peer may answer before it has read all: then the rest isn't sent. Nothing is read beyond the answer that
 * can't be given back: it stays in the stream. */
#pragma once

#include "net/head.h"
#include "net/stream.h"

struct exchange {
    struct http_client *client;
    const struct http_request *request;
    struct http_stream *stream;
    size_t sent;  /* bytes of the request that the connection took */
    bool partial; /* it wasn't sent to its end */
    bool lost;    /* the connection ended before a byte of the answer */
    struct head head;
    struct http_response response;
};

void exchange_init(struct exchange *x, struct http_client *c, const struct http_request *r);
void exchange_done(struct exchange *x);

/* -1, ERR_INVALID: a part of it would end the line that it belongs to. */
int request_check(const struct http_request *r, struct error *err);
/* protocol: to upgrade to; NULL: none. */
int exchange_send(struct exchange *x, const char *protocol, struct error *err);
int exchange_read_head(struct exchange *x, struct error *err);
int exchange_read_body(struct exchange *x, struct error *err);
/* The request has no effect on the peer. */
bool exchange_is_harmless(const struct exchange *x);
/* The answer has no declared end but that of the connection. */
bool exchange_is_endless(const struct exchange *x);
/* It was sent and read to its end, so its connection may serve the next one. */
bool exchange_is_reusable(const struct exchange *x);

/* Steps of reading a body. After a wait that was over each can be done again: what had come is in `early`. */
/* Reads more into `early`. 1: something came; 0: it is the end. */
int exchange_fill(struct exchange *x, struct error *err);
/* The same, where the answer can't be over yet. */
int exchange_fill_more(struct exchange *x, struct error *err);
/* Makes `early` begin with a whole line; its length, with its end. -1 with the error. */
ssize_t exchange_read_line(struct exchange *x, struct error *err);
/* Of the head, or of a chunked body's trailer. *ret_empty: it ended there. */
int exchange_take_line(struct exchange *x, bool *ret_empty, struct error *err);
/* The size of the chunk that follows; 0: it is the last one, and the trailer follows. */
int exchange_chunk_begin(struct exchange *x, int64_t *ret, struct error *err);
int exchange_chunk_end(struct exchange *x, struct error *err);
