/* The answer to a call of gRPC as it comes in by HTTP/2: heads and trailers line by line, and a body of
 * messages, each behind a byte of flags and its length. Nothing here waits or knows of connections.
 *
 *     head, messages, trailers with the status      or      a head with the status alone
 *
 * Source: github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md */
#pragma once

#include "net/grpc.h"

struct grpc_answer {
    const char *where; /* for people */
    int http_status;   /* of the last head; 0: there was none */
    bool http2;
    char content_type[96];
    int code; /* -1: no status came */
    char message[GRPC_WORDS_MAX];
    struct buf details;
    size_t head_bytes; /* of all heads and trailers */
    struct buf in;     /* of the body, what wasn't taken yet */
};

void grpc_answer_init(struct grpc_answer *a, const char *where);
void grpc_answer_done(struct grpc_answer *a);

/* One line of a head or trailer, with its end or without. -1: ERR_LIMIT, it is too much. */
int grpc_answer_line(struct grpc_answer *a, const char *line, size_t n, struct error *err);
/* More of the body. -1: it is too much, or no body of gRPC. */
int grpc_answer_body(struct grpc_answer *a, const void *bytes, size_t n, struct error *err);
/* 1: the next message is in *ret, whose content it replaces; 0: it isn't all there yet; -1: it can't be one.
 */
int grpc_answer_take(struct grpc_answer *a, struct buf *ret, struct error *err);
/* What the answer came to, once it is complete and its messages are taken. 0: GRPC_OK. */
int grpc_answer_end(struct grpc_answer *a, struct grpc_status *ret, struct error *err);
