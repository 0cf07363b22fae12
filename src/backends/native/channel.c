/* See wire.h. */
#include "backends/native/channel.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "guest/wire.h"

union descriptors {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int) * GUEST_FDS_MAX)];
};

int channel_send(int fd, const void *head, size_t head_len, const void *body, size_t body_len, const int *fds,
                 size_t fd_count, const struct wait *wait, struct error *err)
{
    struct iovec parts[2] = {{(void *)head, head_len}, {(void *)body, body_len}};
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = body_len ? 2 : 1};
    union descriptors control = {.bytes = {0}};
    if (fd_count) {
        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
        control.head = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int) * fd_count)};
        memcpy(CMSG_DATA(&control.head), fds, sizeof(int) * fd_count);
    }
    for (;;) {
        if (sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
            return 0;
        if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN)
            return error_set(err, ERR_GONE, "the other end has closed the channel");
        if (errno != EAGAIN && errno != EINTR)
            return error_errno(err, ERR_UNAVAILABLE, errno, "send a request");
        if (wait_fd(fd, POLLOUT, wait, NULL, err) < 0)
            return -1;
    }
}

/* The first descriptor is taken, any other closed: nobody may fill our table. */
static int take_descriptor(struct msghdr *m)
{
    int first = -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (first < 0)
                first = fd;
            else
                fd_close(fd);
        }
    }
    return first;
}

ssize_t channel_receive(int fd, void *packet, size_t n, int *ret_fd)
{
    struct iovec part = {packet, n};
    union descriptors control = {.bytes = {0}};
    struct msghdr m = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control)};
    ssize_t got;
    /* ECONNRESET, told once: the other end closed and left something of ours unread; its last words stay. */
    do {
        got = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (got < 0 && (errno == EINTR || errno == ECONNRESET));
    if (got < 0)
        return -1;
    *ret_fd = take_descriptor(&m);
    return got;
}

static bool is_about_stacking(const char *stage)
{
    return strcmp(stage, "mount overlay") == 0 || strcmp(stage, "idmap base") == 0;
}

int channel_failed(const struct guest_error *e, struct error *err)
{
    struct guest_error safe = *e;
    safe.stage[sizeof(safe.stage) - 1] = safe.text[sizeof(safe.text) - 1] = '\0';
    enum error_code code = ERR_UNAVAILABLE;
    if (safe.sys == ENOMEM || safe.sys == EAGAIN || safe.sys == ENOSPC)
        code = ERR_LIMIT;
    else if (is_about_stacking(safe.stage))
        code = ERR_UNSUPPORTED;
    return error_set(err, code, "%s: %s%s%s", safe.stage, strerror(safe.sys), safe.text[0] ? ": " : "",
                     safe.text);
}
