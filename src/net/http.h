/* HTTP/1.1 requests to one peer. Straight-line code for workers: every call blocks within its `struct wait`.
 * Whatever a peer answers is hostile input: status line, headers and body have limits. Redirects are not
 * followed, proxies of the environment not asked.
 *
 * Connections to a host, and their TLS, are libcurl's, which is loaded for the first client that needs one:
 * it is too dear for a server that never does. On sockets that we connect ourselves libcurl is no help: 7.88
 * connects even those that it is told are connected. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "base/error.h"

/* Where a peer is. Exactly one of unix_path, dial, and neither (then `url` says host and port). */
struct http_address {
    const char *url; /* "http://docker" or "https://host:2376": scheme and Host header of each request */
    const char *unix_path; /* connect to this socket instead */
    /* Makes a connected stream socket by other means, such as a child's standard input and output; closed by
     * the client. -1 with the error. */
    int (*dial)(void *ctx, const struct wait *wait, struct error *err);
    void *dial_ctx;        /* borrowed for the client's life */
    const char *ca_file;   /* https, which is for hosts only: NULL is the system's */
    const char *cert_file; /* https: our own certificate and key, or NULL */
    const char *key_file;
    bool insecure; /* https: take any certificate */
};

struct http_client;
/* Connects to nothing yet. NULL: ERR_INVALID, the address makes no sense; ERR_UNAVAILABLE, libcurl is needed
 * and can't be loaded; the message says what to install. */
struct http_client *http_client_new(const struct http_address *address, struct error *err);
/* No request runs any more. Returns NULL. */
struct http_client *http_client_free(struct http_client *c);

struct http_header {
    const char *name, *value;
};

/* Takes a piece of a body as it comes; -1 with the error ends the request with it. */
typedef int http_sink_fn(void *ctx, const void *bytes, size_t n, struct error *err);
/* Gives the next piece of a request's body: how much was put into buf, 0 at its end, -1 with the error. */
typedef ssize_t http_source_fn(void *ctx, void *buf, size_t size, struct error *err);

/* Strings are borrowed for the call. */
struct http_request {
    const char *method; /* "GET" */
    const char *path;   /* with its query, encoded: "/v1.41/containers/json?all=1" */
    const struct http_header *headers;
    size_t header_count;
    const void *body; /* NULL: none, unless `source` is set (then it is sent chunked) */
    size_t body_len;
    http_source_fn *source;
    const char *content_type; /* of the body */
    http_sink_fn *sink;       /* takes the body of a 2xx answer instead of response.body; NULL: none */
    void *ctx;                /* of source and sink */
    size_t max_body;          /* of what is kept in response.body; 0: LIMIT_HTTP_BODY_BYTES */
    struct wait wait;
};

struct http_response {
    int status;      /* 100-599 */
    struct buf body; /* of a 2xx without a sink, and of every other answer */
    char content_type[96];
    struct buf headers; /* "name: value\n" each, names in lower case */
};
void http_response_done(struct http_response *r);
/* The value of a header, name in lower case; NULL: there is none. malloced. */
char *http_response_header(const struct http_response *r, const char *name);

/* Sends it and reads the whole answer. 0: there is one, of whatever status; -1: ERR_UNAVAILABLE (can't
 * connect, cut short, malformed; says to whom), ERR_TIMEOUT and the token's codes, ERR_LIMIT (body or headers
 * too long), the sink's error. A connection that was kept and turned out to be dead is replaced once if the
 * request can safely be repeated. */
int http_do(struct http_client *c, const struct http_request *request, struct http_response *ret,
            struct error *err);

/* An answer whose body is read piece by piece, for as long as it takes. One thread at a time. */
struct http_reply;
/* As http_do(), but of a 2xx only the head is read: *ret is then the rest, else NULL and ret_response is the
 * whole answer (it is set either way). request->sink isn't used; its method is kept, so it is a literal. */
int http_open(struct http_client *c, const struct http_request *request, struct http_reply **ret,
              struct http_response *ret_response, struct error *err);
/* The next bytes of it, as soon as there are some; 0 at its end, -1 with the error as of http_do(). After
 * ERR_TIMEOUT and a token's code it can be read on. */
ssize_t http_reply_read(struct http_reply *r, void *buf, size_t size, const struct wait *wait,
                        struct error *err);
/* Any thread: whoever reads sees its end, or an error, soon. */
void http_reply_cut(struct http_reply *r);
/* One that was read to its end leaves its connection to the next request. Accepts NULL, returns NULL. */
struct http_reply *http_reply_close(struct http_reply *r);

/* A connection that has left HTTP behind, by "101 Switching Protocols" or, as some engines do, by a 200 with
 * a stream of no declared length. One thread at a time may read and another one write. */
struct http_stream;
/* The request is sent with "Connection: Upgrade" and "Upgrade: PROTOCOL". 0: *ret is the stream, or NULL if
 * the peer refused, which response tells (ret_response is set either way). */
int http_upgrade(struct http_client *c, const struct http_request *request, const char *protocol,
                 struct http_stream **ret, struct http_response *ret_response, struct error *err);
/* To poll; bytes may be ready without it (TLS), so read until EAGAIN first. */
int http_stream_fd(const struct http_stream *s);
/* As read(2) and send(2) on a non-blocking socket: bytes, 0 at the end, or -1 with errno. Never SIGPIPE.
 * After EAGAIN the next write must begin with the same bytes: TLS may have taken them already. */
ssize_t http_stream_read(struct http_stream *s, void *buf, size_t size);
ssize_t http_stream_write(struct http_stream *s, const void *bytes, size_t n);
/* No more will be written: the peer sees the end of its input. Not every transport can; -1 then. */
int http_stream_end(struct http_stream *s);
struct http_stream *http_stream_free(struct http_stream *s);

/* bytes as part of a path or query, percent-encoded; everything but unreserved characters. malloced. */
char *http_encode(const char *text);
