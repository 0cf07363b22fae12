/* What the http stage measures with: a client of a few lines over plain sockets, so that it is the servers
 * that take the time. Anything that goes wrong ends the bench. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "bench.h"

/* Our server over HTTP, at a port of its own. */
struct site {
    struct subject subject;
    int port;
};
void site_start(struct site *s, const struct bench *b);
/* SIGTERM, and its end. */
void site_end(struct site *s);

#define VISITOR_SESSION_SIZE 160

/* A client with one connection, which is opened again where the server closes it. */
struct visitor {
    int fd, port;
    char session[VISITOR_SESSION_SIZE]; /* empty: none */
    struct buf in;                      /* the answer, head and all */
    double since;                       /* when its request went out, in ms */
};
void visitor_open(struct visitor *v, int port);
void visitor_close(struct visitor *v);
/* body: NULL for a GET. */
void visitor_write(const struct visitor *v, const char *body, struct buf *ret);
void visitor_send(struct visitor *v, const struct buf *request);
/* Reads once; whether the answer is there. A stream's is when it has ended. */
bool visitor_read(struct visitor *v);
/* Sends, and reads until it is; the time of it in ms. */
double visitor_ask(struct visitor *v, const struct buf *request);
/* A session of its own, beginning to end of the handshake. */
void visitor_initialize(struct visitor *v);
/* The head of an event stream that then stays open. */
void visitor_listen(struct visitor *v);
/* The result of a command with exit code 0, or the bench's end. */
void visitor_check_success(const struct visitor *v);
