/* Requests carry numbers, and each asker sends its own. The answers all come on one socket: one of those that
 * wait reads it, hands to each other what is theirs, and passes the reading on when it leaves. No lock is
 * held while anything is waited for. An answer whose asker has given up names a computer that nobody wants:
 * it is killed. */
#include "backends/native/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/native/channel.h"
#include "backends/native/copy.h"
#include "backends/native/ids.h"
#include "backends/native/image.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/spawn.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* newer than the C library's headers */
#endif

#define SETUP_TIMEOUT_NS (10 * NSEC_PER_SEC)
#define CREATE_TIMEOUT_NS (20 * NSEC_PER_SEC)
#define OWN_TIMEOUT_NS (120 * NSEC_PER_SEC) /* of what hostile code has filled */
#define END_TIMEOUT_MS 300                  /* it has nothing to do then; the server's end waits for it */

struct zygote {
    atomic_int refs;
    int control, pidfd;
    pid_t pid;
    atomic_bool outlives; /* us */
    uint32_t flags;       /* GUEST_REPLY_*, of its setup */
    pthread_mutex_t lock; /* of all that follows */
    bool dead;
    uint32_t next_request;
    struct list askers;
    struct zygote_asker *reader; /* which of those that wait reads the socket; NULL: none waits */
};

/* The guest program in memory, sealed: what runs is what we were built with, whatever is on disk. */
static int open_image(struct error *err)
{
    /* Older kernels don't know MFD_EXEC, newer ones may be told to demand it. */
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create("sandbox-guest", flags | MFD_EXEC);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("sandbox-guest", flags);
    if (fd < 0 || fd_write_all(fd, guest_image, guest_image_size) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0) {
        error_errno(err, ERR_UNAVAILABLE, errno, "put the guest program into memory");
        return fd_close(fd);
    }
    return fd;
}

static int start_process(struct zygote *z, struct error *err)
{
    int pair[2];
    char path[64];
    _cleanup_fd_ int image = open_image(err);
    if (image < 0)
        return -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "make a socket pair");
    z->control = pair[0];
    _cleanup_fd_ int far = pair[1];
    /* By our own pid: the child closes its copy of the descriptor before it executes. */
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), image);
    char name[] = "sandbox-zygote";
    char *const argv[] = {name, NULL};
    const int fds[] = {-1, -1, -1, far};
    _Static_assert(GUEST_FD_CONTROL == 3, "the fourth of fds");
    const struct spawn_request request = {
        .path = path, .argv = argv, .env = FAULT_ENVIRONMENT, .fds = fds, .fd_count = 4};
    if (spawn(&request, &z->pid, &z->pidfd, err) < 0)
        return error_prefix(err, "start the zygote");
    return 0;
}

/* Whatever keeps us from a namespace of users is a refusal. */
static int set_up_failed(const struct guest_error *e, struct error *err)
{
    channel_failed(e, err);
    if (err && (e->sys == EPERM || e->sys == EACCES || strcmp(e->stage, "make user namespace") == 0))
        err->code = ERR_DENIED;
    return -1;
}

static int await_set_up(struct zygote *z, const struct wait *wait, int *ret_fd, struct error *err)
{
    struct guest_reply reply = {0};
    if (wait_fd(z->control, POLLIN, wait, NULL, err) < 0)
        return error_prefix(err, "set up the zygote");
    ssize_t n = channel_receive(z->control, &reply, sizeof(reply), ret_fd);
    if (n != sizeof(reply) || reply.type != GUEST_REPLY)
        return error_set(err, ERR_UNAVAILABLE, "set up the zygote: it ended without an answer");
    z->flags = reply.flags;
    return reply.error.stage[0] ? set_up_failed(&reply.error, err) : 0;
}

/* It is in its user namespace and waits for ids. */
static int give_ids(struct zygote *z, const struct subids *subids, const struct wait *wait, struct error *err)
{
    const struct guest_begin begin = {.type = GUEST_BEGIN};
    _cleanup_fd_ int none = -1;
    if (await_set_up(z, wait, &none, err) < 0 || subids_map(subids, z->pid, wait, err) < 0)
        return -1;
    return channel_send(z->control, &begin, sizeof(begin), NULL, 0, NULL, 0, wait, err);
}

static int set_up(struct zygote *z, const struct guest_setup *setup, const struct subids *subids,
                  const int *parents, size_t parent_count, const struct wait *wait, struct error *err)
{
    int fds[GUEST_FDS_MAX];
    struct wait bounded = wait_at_most(wait, clock_now() + SETUP_TIMEOUT_NS);
    const bool needs_ids = setup->flags & GUEST_USERS && !(setup->flags & GUEST_ONE_ID);
    _cleanup_fd_ int self = pidfd_open(getpid(), 0);
    _cleanup_fd_ int base = -1;
    if (self < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "open a pidfd");
    fds[0] = self;
    memcpy(fds + 1, parents, parent_count * sizeof(fds[0]));
    if (channel_send(z->control, setup, sizeof(*setup), NULL, 0, fds, 1 + parent_count, &bounded, err) < 0)
        return error_prefix(err, "set up the zygote");
    if ((needs_ids && give_ids(z, subids, &bounded, err) < 0) || await_set_up(z, &bounded, &base, err) < 0)
        return -1;
    return base < 0 ? 0 : copy_tree(setup->base_dir, base, ".", ID_OURS, err);
}

struct zygote *zygote_start(const struct guest_setup *setup, const struct subids *subids, const int *parents,
                            size_t parent_count, const struct wait *wait, struct error *err)
{
    struct zygote *z = xcalloc(1, sizeof(*z));
    atomic_init(&z->refs, 1);
    z->control = z->pidfd = -1;
    pthread_mutex_init(&z->lock, NULL);
    list_init(&z->askers);
    if (start_process(z, err) < 0 || set_up(z, setup, subids, parents, parent_count, wait, err) < 0)
        return zygote_unref(z);
    FAULT_POINT("start.zygote-ready");
    return z;
}

struct zygote *zygote_ref(struct zygote *z)
{
    atomic_fetch_add(&z->refs, 1);
    return z;
}

/* It ends by itself when the control socket is closed. */
static void end_process(struct zygote *z)
{
    struct pollfd p = {.fd = z->pidfd, .events = POLLIN};
    if (poll(&p, 1, END_TIMEOUT_MS) <= 0)
        pidfd_send_signal(z->pidfd, SIGKILL, NULL, 0);
    siginfo_t info;
    waitid(P_PIDFD, (id_t)z->pidfd, &info, WEXITED);
}

struct zygote *zygote_unref(struct zygote *z)
{
    if (!z || atomic_fetch_sub(&z->refs, 1) > 1)
        return NULL;
    fd_close(z->control);
    if (z->pidfd >= 0 && !z->outlives)
        end_process(z);
    fd_close(z->pidfd);
    pthread_mutex_destroy(&z->lock);
    free(z);
    return NULL;
}

void zygote_outlives(struct zygote *z)
{
    z->outlives = true;
}

bool zygote_hides_proc(const struct zygote *z)
{
    return z->flags & GUEST_REPLY_PROC_HIDDEN;
}

bool zygote_alive(struct zygote *z)
{
    struct pollfd p = {.fd = z->pidfd, .events = POLLIN};
    return poll(&p, 1, 0) == 0;
}

/* Under the lock. */
static struct zygote_asker *find_waiting(const struct zygote *z)
{
    list_for_each (node, &z->askers) {
        struct zygote_asker *a = list_entry(node, struct zygote_asker, node);
        if (a->waits)
            return a;
    }
    return NULL;
}

static void leave(struct zygote *z, struct zygote_asker *a)
{
    pthread_mutex_lock(&z->lock);
    list_unlink(&a->node);
    if (z->reader == a) {
        z->reader = find_waiting(z);
        if (z->reader)
            cancel_fire(z->reader->event, ERR_BUSY);
    }
    pthread_mutex_unlock(&z->lock);
    cancel_unref(a->event);
}

/* Under the lock. */
static void hand_over(struct zygote *z, const struct guest_reply *reply, int pidfd)
{
    list_for_each (node, &z->askers) {
        struct zygote_asker *a = list_entry(node, struct zygote_asker, node);
        if (a->request != reply->request || a->done)
            continue;
        a->reply = *reply;
        a->pidfd = pidfd;
        a->done = true;
        cancel_fire(a->event, ERR_BUSY);
        return;
    }
    if (pidfd >= 0)
        pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
    fd_close(pidfd);
}

/* Under the lock. */
static void fail_all(struct zygote *z)
{
    z->dead = true;
    list_for_each (node, &z->askers)
        cancel_fire(list_entry(node, struct zygote_asker, node)->event, ERR_BUSY);
}

static void read_replies(struct zygote *z)
{
    for (;;) {
        struct guest_reply reply;
        int pidfd = -1;
        ssize_t n = channel_receive(z->control, &reply, sizeof(reply), &pidfd);
        if (n < 0 && errno == EAGAIN)
            return;
        pthread_mutex_lock(&z->lock);
        bool good = n == sizeof(reply) && reply.type == GUEST_REPLY;
        if (good)
            hand_over(z, &reply, pidfd);
        else
            fail_all(z);
        pthread_mutex_unlock(&z->lock);
        if (!good) {
            fd_close(pidfd);
            return;
        }
    }
}

static int await_reply(struct zygote *z, struct zygote_asker *a, const struct wait *wait, struct error *err)
{
    for (;;) {
        pthread_mutex_lock(&z->lock);
        bool done = a->done, dead = z->dead, reader = z->reader == a;
        pthread_mutex_unlock(&z->lock);
        if (done)
            return 0;
        if (dead)
            return error_set(err, ERR_UNAVAILABLE,
                             "the zygote process has died; the next attempt starts a new one");
        if (wait_fd(reader ? z->control : cancel_fd(a->event), POLLIN, wait, NULL, err) < 0)
            return -1;
        if (reader)
            read_replies(z);
    }
}

/* request: its type is there, and its number comes second. */
static int ask(struct zygote *z, void *request, size_t size, const int *fds, size_t fd_count,
               const struct wait *wait, struct zygote_asker *a, struct error *err)
{
    *a = (struct zygote_asker){.pidfd = -1, .event = cancel_new()};
    pthread_mutex_lock(&z->lock);
    a->request = ++z->next_request;
    list_append(&z->askers, &a->node);
    pthread_mutex_unlock(&z->lock);
    ((uint32_t *)request)[1] = a->request;
    if (channel_send(z->control, request, size, NULL, 0, fds, fd_count, wait, err) == 0)
        return 0;
    if (err && err->code == ERR_GONE)
        error_set(err, ERR_UNAVAILABLE, "the zygote process has died; the next attempt starts a new one");
    leave(z, a);
    return -1;
}

_Static_assert(offsetof(struct guest_create, request) == sizeof(uint32_t), "comes second");
_Static_assert(offsetof(struct guest_name, request) == sizeof(uint32_t), "comes second");
_Static_assert(offsetof(struct guest_own, request) == sizeof(uint32_t), "comes second");

int zygote_ask(struct zygote *z, struct guest_create *request, const int *fds, size_t fd_count,
               const struct wait *wait, struct zygote_asker *a, struct error *err)
{
    request->type = GUEST_CREATE;
    return ask(z, request, sizeof(*request), fds, fd_count, wait, a, err);
}

/* 0: a->reply says that it worked; a->pidfd may hold a descriptor in any case. */
static int await_success(struct zygote *z, struct zygote_asker *a, int64_t timeout_ns,
                         const struct wait *wait, struct error *err)
{
    int64_t latest = clock_now() + timeout_ns;
    struct wait bounded = wait_at_most(wait, latest);
    pthread_mutex_lock(&z->lock);
    a->waits = true;
    if (!z->reader)
        z->reader = a;
    pthread_mutex_unlock(&z->lock);
    int failed = await_reply(z, a, &bounded, err);
    leave(z, a);
    if (failed == 0)
        return a->reply.error.stage[0] ? channel_failed(&a->reply.error, err) : 0;
    if (a->pidfd >= 0)
        pidfd_send_signal(a->pidfd, SIGKILL, NULL, 0);
    if (err && err->code == ERR_TIMEOUT && bounded.deadline == latest)
        error_set(err, ERR_UNAVAILABLE, "the zygote process does not answer");
    return -1;
}

int zygote_await(struct zygote *z, struct zygote_asker *a, const struct wait *wait, pid_t *ret_pid,
                 int *ret_pidfd, struct error *err)
{
    int failed = await_success(z, a, CREATE_TIMEOUT_NS, wait, err);
    _cleanup_fd_ int pidfd = a->pidfd;
    if (failed < 0)
        return -1;
    if (pidfd < 0)
        return error_set(err, ERR_INTERNAL, "the zygote answered without a descriptor");
    *ret_pid = a->reply.pid;
    *ret_pidfd = TAKE_FD(pidfd);
    return 0;
}

int zygote_ask_name(struct zygote *z, pid_t pid, const char *hostname, int lock, const struct wait *wait,
                    struct zygote_asker *a, struct error *err)
{
    struct guest_name request = {.type = GUEST_NAME, .pid = pid};
    snprintf(request.hostname, sizeof(request.hostname), "%s", hostname);
    return ask(z, &request, sizeof(request), &lock, lock < 0 ? 0 : 1, wait, a, err);
}

int zygote_await_name(struct zygote *z, struct zygote_asker *a, const struct wait *wait, struct error *err)
{
    int failed = await_success(z, a, CREATE_TIMEOUT_NS, wait, err);
    fd_close(a->pidfd);
    return failed;
}

int zygote_own(struct zygote *z, const char *folder, uint32_t id, const struct wait *wait, struct error *err)
{
    struct guest_own request = {.type = GUEST_OWN, .id = id};
    struct zygote_asker a;
    if (strlen(folder) >= sizeof(request.folder))
        return error_set(err, ERR_INVALID, "the computer's folder has too long a path: %s", folder);
    strcpy(request.folder, folder);
    if (ask(z, &request, sizeof(request), NULL, 0, wait, &a, err) < 0)
        return -1;
    int failed = await_success(z, &a, OWN_TIMEOUT_NS, wait, err);
    fd_close(a.pidfd);
    return failed;
}

void zygote_forget(struct zygote *z, struct zygote_asker *a)
{
    leave(z, a);
    if (a->pidfd >= 0)
        pidfd_send_signal(a->pidfd, SIGKILL, NULL, 0);
    a->pidfd = fd_close(a->pidfd);
}
