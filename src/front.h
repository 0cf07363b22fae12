/* What clients reach us by: standard input and output, or a listener for HTTP. Loop thread only. */
#pragma once

#include "base/error.h"
#include "base/loop.h"
#include "config/config_values.h"
#include "protocol/protocol.h"
#include "transport/http.h"

struct front_options {
    struct loop *loop;
    struct protocol *protocol;
    const struct config_values *values;
    const char *name;
    void (*on_end)(void *ctx);                      /* the one client has gone; over HTTP there is no such */
    bool (*ready)(void *ctx, const char **ret_why); /* as in struct http_options */
    int (*figures)(void *ctx, const struct http_figures *f, struct buf *ret);
    void *ctx;
};
struct front;
/* Over HTTP, what it listens on is logged. ERR_UNAVAILABLE: it can't be listened on; ERR_INVALID: a file of
 * tokens. */
struct front *front_new(const struct front_options *options, struct error *err);
/* Whether it serves on when the process that started us has ended. */
bool front_is_daemon(const struct front *f);
/* SIGHUP: reads anew what may change. False: nothing may, so it means the end. */
bool front_reload(struct front *f);
/* Replies couldn't be written: see stdio_has_lost(). */
bool front_has_lost(const struct front *f);
/* Ends the sessions, as session_close() does. Returns the deadline. */
int64_t front_close(struct front *f, void (*on_done)(void *arg, const char *left_behind), void *arg);
struct front *front_free(struct front *f); /* after on_done; returns NULL */
