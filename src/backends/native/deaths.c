#include "backends/native/deaths.h"

#include <poll.h>
#include <sys/epoll.h>

#include "base/fd.h"

#define AT_A_TIME 64

void deaths_init(struct deaths *d)
{
    pthread_mutex_init(&d->lock, NULL);
    d->epoll = epoll_create1(EPOLL_CLOEXEC);
}

void deaths_done(struct deaths *d)
{
    d->epoll = fd_close(d->epoll);
    pthread_mutex_destroy(&d->lock);
}

static void await_locked(struct deaths *d, struct death *one, int pidfd)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = one}; /* told once */
    one->is_awaited = d->epoll >= 0 && epoll_ctl(d->epoll, EPOLL_CTL_ADD, pidfd, &event) == 0;
}

static void learn_locked(struct deaths *d)
{
    struct epoll_event events[AT_A_TIME];
    int n;
    do {
        n = epoll_wait(d->epoll, events, AT_A_TIME, 0);
        for (int i = 0; i < n; i++)
            ((struct death *)events[i].data.ptr)->is_known = true;
    } while (n == AT_A_TIME);
}

static bool has_ended(int pidfd)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    return poll(&p, 1, 0) != 0;
}

bool deaths_tell(struct deaths *d, struct death *one, int pidfd)
{
    pthread_mutex_lock(&d->lock);
    if (!one->is_awaited)
        await_locked(d, one, pidfd);
    if (one->is_awaited && !one->is_known)
        learn_locked(d);
    const bool is_awaited = one->is_awaited, is_known = one->is_known;
    pthread_mutex_unlock(&d->lock);
    return is_awaited ? is_known : has_ended(pidfd);
}

void deaths_forget(struct deaths *d, struct death *one, int pidfd)
{
    pthread_mutex_lock(&d->lock);
    if (one->is_awaited)
        epoll_ctl(d->epoll, EPOLL_CTL_DEL, pidfd, NULL);
    *one = (struct death){0};
    pthread_mutex_unlock(&d->lock);
}
