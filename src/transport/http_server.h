/* HTTP/1.1 towards clients, over libmicrohttpd in the loop: requests in, whole or streamed responses out.
 * Knows nothing of MCP. Loop thread only.
 *
 * What arrives here has passed the framing guard: one Host, one Content-Length or `Transfer-Encoding:
 * chunked` and never both, headers within the limits. Everything else was answered with 400 and a closed
 * connection, and is only counted (RFC 9112, sections 3.2, 6.1 and 6.3).
 *
 * A request's life:
 *   on_head     method, path and headers are there, the body isn't: go on, or answer at once
 *   on_request  the body is there too: answer, now or later, whole or as a stream
 *   on_gone     the peer went away before the answer was all sent, or it has been sent: forget the request */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/loop.h"

struct http_server;
struct http_request;

struct http_server_limits {
    int connections;          /* more are not accepted until one closes */
    int connections_per_peer; /* by address; 0: no limit (unix sockets have none) */
    size_t body_bytes;        /* beyond: 413, without having kept it */
    double head_seconds;      /* for all of the headers (slow clients) */
    double body_seconds;      /* without any progress of the body */
    double idle_seconds;      /* a kept-alive connection without a request */
    double write_seconds;     /* without any progress of an answer that has bytes to send */
    size_t queue_bytes;       /* a stream's bytes that wait for a slow reader; beyond: on_gone */
    size_t unread_bytes;      /* the same of all answers together; beyond: no long one is sent */
};

struct http_server_options {
    struct loop *loop;
    const int *listeners; /* bound and listening; the server's from here on */
    size_t listener_count;
    struct http_server_limits limits;
    /* May answer at once; the body is then read away within limits, and on_request not called. */
    void (*on_head)(void *ctx, struct http_request *r);
    /* The body is there until it returns. */
    void (*on_request)(void *ctx, struct http_request *r, const char *body, size_t n);
    /* The last that is heard of r. sent: the whole answer went to the kernel. */
    void (*on_gone)(void *ctx, struct http_request *r, bool sent);
    void *ctx;
};
struct http_server *http_server_new(const struct http_server_options *options, struct error *err);
void http_server_stop_accepting(struct http_server *s); /* listeners are closed; answers go on */
/* Every request gets its on_gone; connections are closed. Returns NULL. */
struct http_server *http_server_free(struct http_server *s);

struct http_server_counts {
    int connections;
    uint64_t accepted, requests;
    uint64_t refused_framing, refused_limit, cut_slow;
};
struct http_server_counts http_server_count(const struct http_server *s);

/* -- A request. Strings live as long as it does. */

const char *http_request_method(const struct http_request *r);
const char *http_request_path(const struct http_request *r);  /* as it came, without host and query */
const char *http_request_query(const struct http_request *r); /* NULL: none */
/* Whom it means, "name:port": what an absolute target says, else the header Host; NULL: nobody. */
const char *http_request_host(const struct http_request *r);
/* By name, in any case; NULL: absent. Surrounding white space is gone. *ret_count (may be NULL): how often it
 * came; the first is returned. Not after http_reply_begin(). */
const char *http_request_header(const struct http_request *r, const char *name, int *ret_count);
/* "127.0.0.1", "::1", "unix". */
const char *http_request_peer(const struct http_request *r);
bool http_request_peer_is_loopback(const struct http_request *r); /* or a unix socket */
/* Of a unix socket's peer (SO_PEERCRED); -1 for others. */
uid_t http_request_peer_uid(const struct http_request *r);
/* For a log: 0 before there was an answer; bytes of its content so far; ns since the request began. */
int http_request_status(const struct http_request *r);
size_t http_request_answered(const struct http_request *r);
int64_t http_request_age(const struct http_request *r);
void **http_request_slot(struct http_request *r); /* the user's own */

/* -- Its answer. Names and values are ours, without CR or LF. */

struct http_header {
    const char *name, *value;
};
/* Whole: the content of *body is taken (NULL: empty). Where too much waits for readers already, a long one
 * isn't sent, and the connection is given up. */
void http_reply(struct http_request *r, int status, const struct http_header *headers, size_t count,
                struct buf *body);
/* As a stream, of unknown length; the connection ends with it. */
void http_reply_begin(struct http_request *r, int status, const struct http_header *headers, size_t count);
/* The content of *bytes is taken. False: too much waits for the reader, the connection is given up; on_gone
 * comes from the loop, not from within. */
bool http_reply_write(struct http_request *r, struct buf *bytes);
size_t http_reply_queued(const struct http_request *r);
void http_reply_end(struct http_request *r); /* what waits is still sent */
