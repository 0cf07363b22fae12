/* Descriptors that never block, without changing what others share with us. */
#include "transport/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

/* Away from 0, 1 and 2, and from the small numbers that scripts pass to children. */
#define FIRST_FD 10

static int reopen(int fd, int access)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, access | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
}

int channel_open(struct channel *ret, int fd, int access, struct error *err)
{
    struct channel c = CHANNEL_NONE;
    struct stat st;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fstat(fd, &st) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "Can't use descriptor %d for the protocol", fd);
    c.is_socket = S_ISSOCK(st.st_mode);
    /* Fails for a pipe of another user or without a reader, and where /proc is missing. */
    _cleanup_fd_ int own = S_ISFIFO(st.st_mode) || isatty(fd) ? reopen(fd, access) : -1;
    c.fd = fcntl(own >= 0 ? own : fd, F_DUPFD_CLOEXEC, FIRST_FD);
    if (c.fd < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "Can't duplicate descriptor %d", fd);
    if (own < 0) {
        c.shared_flags = flags;
        if (!c.is_socket)
            fd_set_nonblocking(c.fd, true);
    }
    *ret = c;
    return 0;
}

void channel_close(struct channel *c)
{
    if (c->fd >= 0 && c->shared_flags >= 0)
        fcntl(c->fd, F_SETFL, c->shared_flags);
    c->fd = fd_close(c->fd);
}

ssize_t channel_read(const struct channel *c, void *bytes, size_t n)
{
    ssize_t r;
    do {
        r = c->is_socket ? recv(c->fd, bytes, n, MSG_DONTWAIT) : read(c->fd, bytes, n);
    } while (r < 0 && errno == EINTR);
    return r;
}

ssize_t channel_write(const struct channel *c, const struct iovec *parts, int count)
{
    struct msghdr msg = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
    ssize_t r;
    do {
        r = c->is_socket ? sendmsg(c->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) : writev(c->fd, parts, count);
    } while (r < 0 && errno == EINTR);
    return r;
}
