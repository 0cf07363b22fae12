/* The one event loop, over libuv. Everything in transport/ and protocol/ runs on its thread. Handles close
 * asynchronously (libuv's contract), hidden here: after *_free no callback comes any more. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct loop;
struct loop_watch;
struct loop_timer;
struct loop_signal;

struct loop *loop_new(struct error *err);
/* Everything made on it must be freed; posts that wait are dropped. Returns NULL. */
struct loop *loop_free(struct loop *loop);
void loop_run(struct loop *loop);  /* until loop_stop; the calling thread becomes the loop's thread */
void loop_stop(struct loop *loop); /* loop thread only */
bool loop_is_current(const struct loop *loop);

/* Runs fn(arg) on the loop thread, in the order of the calls. Any thread. Never fails, never blocks: the node
 * lives in the caller's object, one per possible post, and is free again when fn is called. */
struct loop_post {
    struct loop_post *next;
    void (*fn)(void *arg);
    void *arg;
};
void loop_post(struct loop *loop, struct loop_post *post);

/* Descriptors: events is POLLIN and POLLOUT of poll(2), 0 pauses; LOOP_HANGUP alone tells only that the other
 * side went away, however much there is to read. An fd has one watch at most. What can't be polled (regular
 * files, /dev/null) is always ready, as for poll(2). revents may carry POLLHUP and POLLERR; they are also
 * told as POLLIN. After an error (POLLERR: the reader of a pipe is gone) the watch pauses until it is set
 * again. The fd stays the caller's, its flags too. NULL, with errno, if the fd is bad or already watched. */
#define LOOP_HANGUP POLLRDHUP
typedef void loop_watch_fn(void *arg, short revents);
struct loop_watch *loop_watch_new(struct loop *loop, int fd, loop_watch_fn *fn, void *arg);
void loop_watch_set(struct loop_watch *w, short events);
struct loop_watch *loop_watch_free(struct loop_watch *w);

/* Timers: one-shot with period_ms 0. Restarting replaces. */
typedef void loop_timer_fn(void *arg);
struct loop_timer *loop_timer_new(struct loop *loop, loop_timer_fn *fn, void *arg);
void loop_timer_start(struct loop_timer *t, int64_t after_ms, int64_t period_ms);
void loop_timer_stop(struct loop_timer *t);
struct loop_timer *loop_timer_free(struct loop_timer *t);

typedef void loop_signal_fn(void *arg, int signo);
struct loop_signal *loop_signal_new(struct loop *loop, int signo, loop_signal_fn *fn, void *arg);
struct loop_signal *loop_signal_free(struct loop_signal *s);
