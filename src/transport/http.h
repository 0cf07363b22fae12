/* Streamable HTTP: the listener, its paths, and who may use them. Loop thread only. */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "base/loop.h"
#include "protocol/endpoint.h"
#include "transport/access.h"
#include "transport/http_server.h"

struct request_log;

/* What is counted here. */
#define HTTP_STATUSES 600
struct http_figures {
    struct http_server_counts server;
    int sessions, streams, running;
    uint64_t answers[HTTP_STATUSES]; /* by status */
};

struct http_options {
    struct loop *loop;
    struct protocol *protocol;
    struct access *access; /* borrowed */
    const char *name;      /* for GET / */
    const int *listeners;  /* taken over */
    size_t listener_count;
    struct http_server_limits limits;
    double session_timeout_s;
    struct request_log *log; /* borrowed; NULL: none is kept */
    /* Whether computers can be made, for /readyz; ret_why: the reason why not, NULL: it isn't known yet. */
    bool (*ready)(void *ctx, const char **ret_why);
    /* Appends the text of /metrics. -1: it doesn't fit. */
    int (*figures)(void *ctx, const struct http_figures *f, struct buf *ret);
    void *ctx;
    int max_sessions, max_sessions_per_principal;
};
struct http;
struct http *http_new(const struct http_options *options, struct error *err);
/* Accepts nothing more; calls may end until `calls_deadline`, then they are cancelled; sessions and computers
 * are ended by `deadline`. on_done: as session_close()'s, once. */
void http_close(struct http *h, int64_t calls_deadline, int64_t deadline,
                void (*on_done)(void *arg, const char *left_behind), void *arg);
/* After on_done. Returns NULL. */
struct http *http_free(struct http *h);
