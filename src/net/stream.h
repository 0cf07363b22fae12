/* A stream from within: the connection of a request, before it may become what callers know. */
#pragma once

#include "base/limits.h"
#include "net/client.h"
#include "net/remote.h"

#define STREAM_READ_BYTES (16 * KIB) /* at once */

struct http_stream {
    struct http_stream *next; /* while idle */
    int fd;                   /* ours, unless there is a remote */
    struct remote *remote;    /* libcurl's connection */
    bool tls;                 /* bytes go through it, one call at a time, none of which blocks */
    pthread_mutex_t lock;     /* that */
    struct buf early;         /* was read, and not yet consumed */
};

struct http_stream *stream_open(const struct http_client *c, const struct wait *wait, struct error *err);
/* Reads once, to the end of `early`; as recv(2) on a socket that doesn't block. ENOBUFS: `early` is full. */
ssize_t stream_fill(struct http_stream *s);
/* Nothing was read that nobody asked for, and it isn't the end. */
bool stream_is_quiet(struct http_stream *s);
DEFINE_CLEANUP(struct http_stream *, http_stream_free)
