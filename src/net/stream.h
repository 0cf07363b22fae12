/* A stream from within: upgrade.c makes it, stream.c is what callers use. */
#pragma once

#include "net/client.h"

struct http_stream {
    int fd;            /* ours, unless there is a lane */
    struct lane *lane; /* libcurl's connection; NULL: a socket that we connected */
    bool tls;          /* bytes go through libcurl, which `lock` guards: one call at a time, none blocks */
    pthread_mutex_t lock;
    struct buf early; /* read, but not consumed; what is left of it after the head belongs to the stream */
};

/* Connects. early_max: of what is read ahead. */
struct http_stream *stream_open(struct http_client *c, size_t early_max, const struct wait *wait,
                                struct error *err);
/* From the peer itself, past `early`. */
ssize_t stream_receive(struct http_stream *s, void *buf, size_t size);
