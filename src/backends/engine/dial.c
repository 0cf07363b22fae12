/* Who owns what: the caller gets one end of the socket pair, and nobody tells us when it is closed. So a
 * thread per connection, its keeper, holds the other end beside the child, and polls it: a hang-up there
 * means that the caller is done, and the child is ended; a child that ended by itself is reaped, and giving
 * up the far end tells the caller. The keeper also reads the child's standard error, all its life (a full or
 * a broken pipe would harm the child), and keeps the end of it.
 *
 * Were the server killed, the child would see the end of its input and pass it on: the far side then ends it.
 */
#include "backends/engine/dial.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/engine/contact.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/spawn.h"
#include "base/thread.h"

#define CONNECTIONS_MAX 1024
#define SAID_MAX (4 * KIB)
#define END_TIMEOUT_MS 1000 /* for a child that was asked to end */
#define ARGV_MAX 24

struct dialer {
    char *destination, *port;
    char *socket_option; /* for the program on the far side, or NULL */
    const char *program; /* there */
    struct cancel *stop;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t idle;
    int connections;
};

struct connection {
    atomic_int refs; /* the keeper's, and its maker's */
    struct dialer *dialer;
    int far, said_fd, pidfd;
    pthread_mutex_t lock; /* of said */
    struct buf said;
};

struct dialer *dialer_new(const struct engine_address *a)
{
    struct dialer *d = xcalloc(1, sizeof(*d));
    bool podman = a->kind == ENGINE_PODMAN;
    d->destination = xstrdup(a->ssh);
    d->port = xstrdup(a->ssh_port);
    d->program = podman ? "podman" : "docker";
    d->socket_option =
        a->ssh_socket ? xasprintf("%s=unix://%s", podman ? "--url" : "--host", a->ssh_socket) : NULL;
    d->stop = cancel_new();
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->idle, NULL);
    return d;
}

struct dialer *dialer_free(struct dialer *d)
{
    if (!d)
        return NULL;
    cancel_fire(d->stop, ERR_CANCELLED);
    pthread_mutex_lock(&d->lock);
    while (d->connections > 0)
        pthread_cond_wait(&d->idle, &d->lock);
    pthread_mutex_unlock(&d->lock);
    cancel_unref(d->stop);
    pthread_cond_destroy(&d->idle);
    pthread_mutex_destroy(&d->lock);
    free(d->destination);
    free(d->port);
    free(d->socket_option);
    free(d);
    return NULL;
}

/* --- counting --- */

static int connection_count(struct dialer *d, struct error *err)
{
    pthread_mutex_lock(&d->lock);
    bool room = d->connections < CONNECTIONS_MAX;
    d->connections += room;
    pthread_mutex_unlock(&d->lock);
    if (!room)
        return error_set(err, ERR_LIMIT, "there are %d connections to %s already", CONNECTIONS_MAX,
                         d->destination);
    return 0;
}

static void connection_uncount(struct dialer *d)
{
    pthread_mutex_lock(&d->lock);
    if (--d->connections == 0)
        pthread_cond_broadcast(&d->idle);
    pthread_mutex_unlock(&d->lock);
}

static void connection_unref(struct connection *c)
{
    if (atomic_fetch_sub(&c->refs, 1) > 1)
        return;
    struct dialer *dialer = c->dialer;
    fd_close(c->far);
    fd_close(c->said_fd);
    fd_close(c->pidfd);
    pthread_mutex_destroy(&c->lock);
    buf_done(&c->said);
    free(c);
    connection_uncount(dialer);
}

/* --- the keeper --- */

/* All that is there; false at the end. */
static bool listen_to(struct connection *c)
{
    for (;;) {
        char bytes[1024];
        ssize_t n = read(c->said_fd, bytes, sizeof(bytes));
        if (n <= 0)
            return n < 0 && (errno == EAGAIN || errno == EINTR);
        pthread_mutex_lock(&c->lock);
        if (c->said.len + (size_t)n > c->said.max)
            buf_consume(&c->said, c->said.len + (size_t)n - c->said.max);
        if (buf_append(&c->said, bytes, (size_t)n) < 0) /* out of memory: better no words than half of them */
            buf_clear(&c->said);
        pthread_mutex_unlock(&c->lock);
    }
}

/* Until the child has ended, or its connection was closed, or the dialer is. */
static void watch(struct connection *c)
{
    struct pollfd p[] = {
        {.fd = c->pidfd, .events = POLLIN},
        {.fd = c->far}, /* a hang-up needs no asking */
        {.fd = cancel_fd(c->dialer->stop), .events = POLLIN},
        {.fd = c->said_fd, .events = POLLIN},
    };
    while (!p[0].revents && !p[1].revents && !p[2].revents) {
        if (poll(p, ARRAY_LEN(p), -1) < 0 && errno != EINTR)
            return;
        if (p[3].revents && !listen_to(c))
            p[3].fd = -1;
    }
}

static void *keep(void *arg)
{
    struct connection *c = arg;
    watch(c);
    spawn_end(c->pidfd, END_TIMEOUT_MS);
    listen_to(c);
    /* Not just closed: a program that ssh left behind, such as a shared connection's, may hold a copy. */
    shutdown(c->far, SHUT_RDWR);
    connection_unref(c);
    return NULL;
}

static int start_keeper(struct connection *c)
{
    atomic_fetch_add(&c->refs, 1);
    return thread_start(NULL, keep, c);
}

/* --- dialing --- */

static int start_ssh(const struct dialer *d, int far, int said, int *ret_pidfd, struct error *err)
{
    _cleanup_(cleanup_free) char *ssh = spawn_find("ssh");
    if (!ssh)
        return error_set(err, ERR_UNAVAILABLE, "there is no ssh in PATH: install openssh-client");
    const char *argv[ARGV_MAX] = {"ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=30"};
    size_t n = 6;
    if (d->port) {
        argv[n++] = "-p";
        argv[n++] = d->port;
    }
    argv[n++] = "--";
    argv[n++] = d->destination;
    argv[n++] = d->program;
    if (d->socket_option)
        argv[n++] = d->socket_option;
    argv[n++] = "system";
    argv[n++] = "dial-stdio";
    const int fds[] = {far, far, said};
    const struct spawn_request request = {
        .path = ssh, .argv = (char *const *)argv, .env = environ, .fds = fds, .fd_count = ARRAY_LEN(fds)};
    pid_t pid;
    return spawn(&request, &pid, ret_pidfd, err);
}

/* A connection with its child and its keeper; *ret_near is the caller's end. */
static struct connection *connection_new(struct dialer *d, int *ret_near, struct error *err)
{
    int pair[2] = {-1, -1}, said[2] = {-1, -1};
    if (connection_count(d, err) < 0)
        return NULL;
    struct connection *c = xcalloc(1, sizeof(*c));
    atomic_init(&c->refs, 1);
    pthread_mutex_init(&c->lock, NULL);
    c->dialer = d;
    c->pidfd = -1;
    c->said.max = SAID_MAX;
    bool made = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0 &&
                pipe2(said, O_CLOEXEC) == 0 && fd_set_nonblocking(said[0], true) == 0;
    if (!made)
        error_errno(err, ERR_LIMIT, errno, "make a socket pair and a pipe");
    c->far = pair[1];
    c->said_fd = said[0];
    _cleanup_fd_ int near = pair[0];
    _cleanup_fd_ int said_there = said[1];
    int failed = made ? start_ssh(d, c->far, said_there, &c->pidfd, err) : -1;
    if (failed == 0) {
        failed = start_keeper(c);
        if (failed) {
            error_errno(err, ERR_LIMIT, failed, "start a thread for ssh");
            spawn_end(c->pidfd, END_TIMEOUT_MS);
            atomic_fetch_sub(&c->refs, 1);
        }
    }
    if (failed) {
        connection_unref(c);
        return NULL;
    }
    *ret_near = TAKE_FD(near);
    return c;
}

/* What ssh said is what went wrong, if it said anything. */
static int explain(struct connection *c, struct error *err)
{
    pthread_mutex_lock(&c->lock);
    _cleanup_(cleanup_free) char *said = contact_words(buf_str(&c->said), c->said.len);
    pthread_mutex_unlock(&c->lock);
    const struct dialer *d = c->dialer;
    if (!err)
        return -1;
    if (*said)
        return error_set(err, err->code, "ssh %s: %s", d->destination, said);
    return error_prefix(err, "ssh %s %s system dial-stdio", d->destination, d->program);
}

int dialer_dial(void *ctx, const struct wait *wait, struct error *err)
{
    _cleanup_fd_ int near = -1;
    struct connection *c = connection_new(ctx, &near, err);
    if (!c)
        return -1;
    int failed = contact_ping(near, wait, err);
    if (failed < 0)
        explain(c, err);
    connection_unref(c);
    return failed < 0 ? -1 : TAKE_FD(near);
}
