/* See zygote.h. Nothing needs a lock: a request is one packet, and its answer comes on a line of its own. */
#include "backends/wasm/zygote.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/native/channel.h"
#include "backends/wasm/process.h"
#include "base/fd.h"
#include "base/mem.h"

#define SAID_MAX 1024
#define END_TIMEOUT_MS 300

struct wasm_zygote {
    atomic_int refs;
    int control, pidfd, said;
};

static int await_ready(struct wasm_zygote *z, const struct wait *wait, struct error *err)
{
    char ready = 0;
    if (wait_fd(z->control, POLLIN, wait, NULL, err) < 0)
        return error_prefix(err, "load the module");
    if (recv(z->control, &ready, sizeof(ready), MSG_DONTWAIT) == sizeof(ready) && ready == WASM_READY)
        return 0;
    _cleanup_(buf_done) struct buf said = BUF_INIT(SAID_MAX);
    int ended = process_end(z->pidfd, z->said, wait, &said, err);
    z->pidfd = fd_close(z->pidfd);
    return ended < 0 ? -1 : error_set(err, ERR_UNAVAILABLE, "the engine ended before the module was loaded");
}

struct wasm_zygote *wasm_zygote_start(const char *library, bool fuel, int code, const struct wait *wait,
                                      struct error *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        error_errno(err, ERR_LIMIT, errno, "make a socket pair");
        return NULL;
    }
    _cleanup_fd_ int far = pair[1];
    struct wasm_zygote *z = xcalloc(1, sizeof(*z));
    atomic_init(&z->refs, 1);
    z->control = pair[0];
    z->pidfd = z->said = -1;
    const struct process p = {.kind = "zygote",
                              .library = library,
                              .fuel = fuel,
                              .in = -1,
                              .out = -1,
                              .control = far,
                              .code = code};
    int started = process_start(&p, &z->pidfd, &z->said, err);
    far = fd_close(far); /* so that its end is the end of the socket */
    return started < 0 || await_ready(z, wait, err) < 0 ? wasm_zygote_unref(z) : z;
}

struct wasm_zygote *wasm_zygote_ref(struct wasm_zygote *z)
{
    atomic_fetch_add(&z->refs, 1);
    return z;
}

/* It ends by itself when the control socket is closed. */
static void end(struct wasm_zygote *z)
{
    struct pollfd p = {.fd = z->pidfd, .events = POLLIN};
    siginfo_t info;
    if (poll(&p, 1, END_TIMEOUT_MS) <= 0)
        pidfd_send_signal(z->pidfd, SIGKILL, NULL, 0);
    while (waitid(P_PIDFD, (id_t)z->pidfd, &info, WEXITED) < 0 && errno == EINTR)
        ;
}

struct wasm_zygote *wasm_zygote_unref(struct wasm_zygote *z)
{
    if (!z || atomic_fetch_sub(&z->refs, 1) > 1)
        return NULL;
    fd_close(z->control);
    if (z->pidfd >= 0)
        end(z);
    fd_close(z->pidfd);
    fd_close(z->said);
    free(z);
    return NULL;
}

bool wasm_zygote_alive(const struct wasm_zygote *z)
{
    struct pollfd p = {.fd = z->pidfd, .events = POLLIN};
    return poll(&p, 1, 0) == 0;
}

int wasm_zygote_send(struct wasm_zygote *z, const struct wasm_request *request, const int fds[WASM_FDS],
                     const struct wait *wait, struct error *err)
{
    return channel_send(z->control, request, sizeof(*request), NULL, 0, fds, WASM_FDS, wait, err);
}
