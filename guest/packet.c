/* Sending and receiving of packets with descriptors: see packet.h. */
#include "guest/packet.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int) * GUEST_FDS_MAX)];
};

static void take_descriptors(struct packet *packet, struct msghdr *message)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        packet->fd_count = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(packet->fds, CMSG_DATA(c), sizeof(int) * packet->fd_count);
    }
}

int packet_receive(int socket, struct packet *packet, int flags)
{
    union control control;
    struct iovec data = {packet->bytes, sizeof(packet->bytes)};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    packet->fd_count = 0;
    ssize_t size = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
    if (size < 0)
        return errno == EAGAIN || errno == EINTR || errno == ENOMEM || errno == ENOBUFS ? -1 : 0;
    take_descriptors(packet, &message);
    packet->size = (size_t)size;
    packet->cut = message.msg_flags & (MSG_TRUNC | MSG_CTRUNC);
    if (size == 0)
        packet_close_fds(packet);
    return size > 0;
}

int packet_take_fd(struct packet *packet, unsigned index)
{
    if (index >= packet->fd_count)
        return -1;
    int fd = packet->fds[index];
    packet->fds[index] = -1;
    return fd;
}

void packet_close_fds(struct packet *packet)
{
    for (unsigned i = 0; i < packet->fd_count; i++)
        if (packet->fds[i] >= 0)
            close(packet->fds[i]);
    packet->fd_count = 0;
}

int packet_send(int socket, const void *bytes, size_t size, int fd, int flags)
{
    union control control;
    struct iovec data = {(void *)bytes, size};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(sizeof(int));
        memset(&control, 0, sizeof(control));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &fd, sizeof(int));
    }
    return sendmsg(socket, &message, flags | MSG_NOSIGNAL) == (ssize_t)size ? 0 : -1;
}
