/* Cancel tokens, and the one way to wait that respects them. */
#include "base/cancel.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/mem.h"

struct cancel {
    atomic_int refs;
    atomic_int why;       /* enum error_code; written under the lock, read anywhere */
    pthread_mutex_t lock; /* orders the first cancel_fd() against cancel_fire() */
    int fd;               /* -1 until somebody asked for it */
    struct list beneath;  /* of node, under our lock; they hold references to us */
    struct list node;     /* under the lock of `above` */
    struct cancel *above; /* NULL: none */
};

struct cancel *cancel_new(void)
{
    struct cancel *c = xcalloc(1, sizeof(*c));
    atomic_init(&c->refs, 1);
    atomic_init(&c->why, ERR_NONE);
    pthread_mutex_init(&c->lock, NULL);
    c->fd = -1;
    list_init(&c->beneath);
    list_init(&c->node);
    return c;
}

struct cancel *cancel_new_beneath(struct cancel *above)
{
    struct cancel *c = cancel_new();
    if (!above)
        return c;
    c->above = cancel_ref(above);
    pthread_mutex_lock(&above->lock);
    list_append(&above->beneath, &c->node);
    const enum error_code why = cancel_why(above);
    pthread_mutex_unlock(&above->lock);
    if (why != ERR_NONE)
        cancel_fire(c, why);
    return c;
}

struct cancel *cancel_ref(struct cancel *c)
{
    if (c)
        atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

struct cancel *cancel_unref(struct cancel *c)
{
    if (!c || atomic_fetch_sub(&c->refs, 1) > 1)
        return NULL;
    if (c->above) {
        pthread_mutex_lock(&c->above->lock);
        list_unlink(&c->node);
        pthread_mutex_unlock(&c->above->lock);
        cancel_unref(c->above);
    }
    fd_close(c->fd);
    pthread_mutex_destroy(&c->lock);
    free(c);
    return NULL;
}

/* Locks go from above down only; under that of `above`, what is beneath stays. */
static bool fire(struct cancel *c, enum error_code why)
{
    pthread_mutex_lock(&c->lock);
    bool first = atomic_load(&c->why) == ERR_NONE;
    if (first) {
        atomic_store(&c->why, (int)why);
        if (c->fd >= 0)
            eventfd_write(c->fd, 1); /* can't fail: the counter is 0 */
        list_for_each (node, &c->beneath)
            fire(list_entry(node, struct cancel, node), why);
    }
    pthread_mutex_unlock(&c->lock);
    return first;
}

/* Whoever is woken may let go of the last reference but ours. */
bool cancel_fire(struct cancel *c, enum error_code why)
{
    cancel_ref(c);
    const bool first = fire(c, why);
    cancel_unref(c);
    return first;
}

enum error_code cancel_why(const struct cancel *c)
{
    return c ? (enum error_code)atomic_load(&c->why) : ERR_NONE;
}

int cancel_fd(struct cancel *c)
{
    if (!c)
        return -1;
    pthread_mutex_lock(&c->lock);
    if (c->fd < 0)
        c->fd = eventfd(atomic_load(&c->why) != ERR_NONE, EFD_CLOEXEC | EFD_NONBLOCK);
    int fd = c->fd;
    pthread_mutex_unlock(&c->lock);
    return fd;
}

struct wait wait_at_most(const struct wait *wait, int64_t latest)
{
    int64_t deadline = wait->deadline < latest ? wait->deadline : latest;
    return (struct wait){.deadline = deadline, .cancel = wait->cancel};
}

int wait_check(const struct wait *wait, struct error *err)
{
    enum error_code why = cancel_why(wait->cancel);
    if (why == ERR_CANCELLED)
        return error_set(err, why, "cancelled by the client");
    if (why == ERR_DELETED)
        return error_set(err, why, "the computer was deleted while it was in use");
    if (why != ERR_NONE)
        return error_set(err, why, "stopped: %s", error_code_name(why));
    if (wait->deadline != DEADLINE_NONE && clock_now() >= wait->deadline)
        return error_set(err, ERR_TIMEOUT, "the time limit was reached");
    return 0;
}

bool wait_was_over(const struct error *why)
{
    return why->code == ERR_TIMEOUT || why->code == ERR_CANCELLED || why->code == ERR_DELETED;
}

int wait_fd(int fd, short events, const struct wait *wait, short *ret_revents, struct error *err)
{
    struct pollfd fds[] = {{.fd = fd, .events = events}, {.fd = cancel_fd(wait->cancel), .events = POLLIN}};
    if ((wait->cancel && fds[1].fd < 0) || (events && fd < 0)) /* waiting would not end before the limits */
        return error_errno(err, ERR_LIMIT, errno, "no descriptor left to wait with");

    for (;;) {
        /* First the limits: a descriptor that is always ready must not outrun them. */
        if (wait_check(wait, err) < 0)
            return -1;
        int n = poll(fds, 2, clock_poll_timeout(wait->deadline));
        if (n < 0 && errno != EINTR)
            return error_errno(err, ERR_INTERNAL, errno, "poll");
        if (n > 0 && fds[0].revents && !fds[1].revents) {
            if (ret_revents)
                *ret_revents = fds[0].revents;
            return 0;
        }
    }
}

int wait_pause(const struct wait *wait, int64_t ns, struct error *err)
{
    const struct wait pause = wait_at_most(wait, clock_now() + ns);
    wait_fd(-1, 0, &pause, NULL, NULL);
    return wait_check(wait, err);
}
