/* The event loop over libuv. uv_close(3) finishes in a later turn of the loop, so each handle is an
 * allocation of its own, freed by its close callback: for the caller it is gone at once.
 *
 * Posts are a list behind a mutex, appended to at the end, and one uv_async_t that wakes the loop; the loop
 * takes the whole list at a time, so posts made meanwhile wait for the next turn and can't starve
 * descriptors. */
#include "base/loop.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <uv.h>

#include "base/fd.h"
#include "base/macros.h"
#include "base/mem.h"

struct loop {
    uv_loop_t uv;
    uv_async_t wake;
    _Atomic pthread_t thread;
    pthread_mutex_t lock; /* guards the list of posts */
    struct loop_post *first, **last;
};

struct loop_watch {
    union {
        uv_handle_t any;
        uv_poll_t poll;
        uv_idle_t idle; /* for what epoll(7) refuses: called in each turn */
    } handle;
    bool is_pollable;
    short events;
    loop_watch_fn *fn;
    void *arg;
};

struct loop_timer {
    uv_timer_t handle;
    loop_timer_fn *fn;
    void *arg;
};

struct loop_signal {
    uv_signal_t handle;
    loop_signal_fn *fn;
    void *arg;
};

static void free_data(uv_handle_t *handle)
{
    free(handle->data);
}

static void run_posts(uv_async_t *wake)
{
    struct loop *l = wake->data;
    pthread_mutex_lock(&l->lock);
    struct loop_post *post = l->first;
    l->first = NULL;
    l->last = &l->first;
    pthread_mutex_unlock(&l->lock);

    while (post) {
        struct loop_post *next = post->next;
        post->fn(post->arg); /* post may be gone or in use again afterwards */
        post = next;
    }
}

struct loop *loop_new(struct error *err)
{
    struct loop *l = xcalloc(1, sizeof(*l));
    int failed = uv_loop_init(&l->uv);
    if (failed) {
        error_set(err, ERR_LIMIT, "start the event loop: %s", uv_strerror(failed));
        free(l);
        return NULL;
    }
    failed = uv_async_init(&l->uv, &l->wake, run_posts);
    if (failed) {
        error_set(err, ERR_LIMIT, "start the event loop: %s", uv_strerror(failed));
        uv_loop_close(&l->uv);
        free(l);
        return NULL;
    }
    l->wake.data = l;
    l->last = &l->first;
    pthread_mutex_init(&l->lock, NULL);
    atomic_init(&l->thread, pthread_self());
    return l;
}

static void assert_closing(uv_handle_t *handle, void *arg)
{
    assert(uv_is_closing(handle));
}

struct loop *loop_free(struct loop *l)
{
    if (!l)
        return NULL;
    uv_close((uv_handle_t *)&l->wake, NULL);
    while (uv_loop_close(&l->uv) == UV_EBUSY) {
        uv_walk(&l->uv, assert_closing, NULL);
        uv_run(&l->uv, UV_RUN_ONCE);
    }
    pthread_mutex_destroy(&l->lock);
    free(l);
    return NULL;
}

void loop_run(struct loop *l)
{
    atomic_store(&l->thread, pthread_self());
    uv_run(&l->uv, UV_RUN_DEFAULT);
}

void loop_stop(struct loop *l)
{
    uv_stop(&l->uv);
}

bool loop_is_current(const struct loop *l)
{
    return pthread_equal(atomic_load(&l->thread), pthread_self());
}

void loop_post(struct loop *l, struct loop_post *post)
{
    post->next = NULL;
    pthread_mutex_lock(&l->lock);
    bool was_empty = !l->first;
    *l->last = post;
    l->last = &post->next;
    /* Under the lock: afterwards the post may run, and end the loop. */
    if (was_empty)
        uv_async_send(&l->wake);
    pthread_mutex_unlock(&l->lock);
}

static short revents_of(int status, int events)
{
    if (status < 0)
        return POLLERR | POLLIN;
    short revents = 0;
    if (events & UV_READABLE)
        revents |= POLLIN;
    if (events & UV_WRITABLE)
        revents |= POLLOUT;
    if (events & UV_DISCONNECT)
        revents |= POLLHUP | POLLIN;
    return revents;
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct loop_watch *w = handle->data;
    if (status < 0)
        w->events = 0; /* libuv has stopped it */
    w->fn(w->arg, revents_of(status, events));
}

static void on_idle(uv_idle_t *handle)
{
    struct loop_watch *w = handle->data;
    w->fn(w->arg, w->events);
}

/* uv_poll_init(3) makes the descriptor non-blocking, which all processes that share its description would
 * see. */
static int init_poll(struct loop *l, uv_poll_t *handle, int fd)
{
    int flags = fcntl(fd, F_GETFL);
    int failed = uv_poll_init(&l->uv, handle, fd);
    if (!failed && !(flags & O_NONBLOCK))
        fcntl(fd, F_SETFL, flags);
    return failed;
}

struct loop_watch *loop_watch_new(struct loop *l, int fd, loop_watch_fn *fn, void *arg)
{
    struct loop_watch *w = xcalloc(1, sizeof(*w));
    int failed = init_poll(l, &w->handle.poll, fd);
    w->is_pollable = failed != UV_EPERM;
    if (failed == UV_EPERM)
        failed = uv_idle_init(&l->uv, &w->handle.idle);
    if (failed) {
        free(w);
        errno = -failed;
        return NULL;
    }
    w->handle.any.data = w;
    w->fn = fn;
    w->arg = arg;
    return w;
}

void loop_watch_set(struct loop_watch *w, short events)
{
    if (events == w->events)
        return;
    w->events = events;
    if (!w->is_pollable) {
        if (events & (POLLIN | POLLOUT))
            uv_idle_start(&w->handle.idle, on_idle);
        else
            uv_idle_stop(&w->handle.idle);
        return;
    }
    int uv_events = (events & POLLIN ? UV_READABLE : 0) | (events & POLLOUT ? UV_WRITABLE : 0) |
                    (events & LOOP_HANGUP ? UV_DISCONNECT : 0);
    if (uv_events)
        uv_poll_start(&w->handle.poll, uv_events, on_poll);
    else
        uv_poll_stop(&w->handle.poll);
}

struct loop_watch *loop_watch_free(struct loop_watch *w)
{
    if (w)
        uv_close(&w->handle.any, free_data);
    return NULL;
}

static void on_timer(uv_timer_t *handle)
{
    struct loop_timer *t = handle->data;
    t->fn(t->arg);
}

struct loop_timer *loop_timer_new(struct loop *l, loop_timer_fn *fn, void *arg)
{
    struct loop_timer *t = xcalloc(1, sizeof(*t));
    uv_timer_init(&l->uv, &t->handle);
    t->handle.data = t;
    t->fn = fn;
    t->arg = arg;
    return t;
}

void loop_timer_start(struct loop_timer *t, int64_t after_ms, int64_t period_ms)
{
    /* libuv counts from the start of the loop's turn, which may be a while ago. */
    uv_update_time(t->handle.loop);
    uv_timer_start(&t->handle, on_timer, after_ms > 0 ? (uint64_t)after_ms : 0, (uint64_t)period_ms);
}

void loop_timer_stop(struct loop_timer *t)
{
    uv_timer_stop(&t->handle);
}

struct loop_timer *loop_timer_free(struct loop_timer *t)
{
    if (t)
        uv_close((uv_handle_t *)&t->handle, free_data);
    return NULL;
}

static void on_signal(uv_signal_t *handle, int signo)
{
    struct loop_signal *s = handle->data;
    s->fn(s->arg, signo);
}

struct loop_signal *loop_signal_new(struct loop *l, int signo, loop_signal_fn *fn, void *arg)
{
    struct loop_signal *s = xcalloc(1, sizeof(*s));
    int failed = uv_signal_init(&l->uv, &s->handle);
    if (failed) {
        free(s);
        errno = -failed;
        return NULL;
    }
    s->handle.data = s;
    s->fn = fn;
    s->arg = arg;
    failed = uv_signal_start(&s->handle, on_signal, signo);
    if (failed) {
        loop_signal_free(s);
        errno = -failed;
        return NULL;
    }
    return s;
}

struct loop_signal *loop_signal_free(struct loop_signal *s)
{
    if (s)
        uv_close((uv_handle_t *)&s->handle, free_data);
    return NULL;
}
