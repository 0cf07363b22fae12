/* One packet of a SOCK_SEQPACKET socket with the descriptors beside it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "guest/wire.h"

struct packet {
    _Alignas(8) char bytes[GUEST_PACKET_MAX];
    size_t size;
    bool cut; /* it was longer, or descriptors are missing */
    int fds[GUEST_FDS_MAX];
    unsigned fd_count;
};

/* 1: one packet, whose descriptors are close-on-exec and owned by it; 0: the other end is gone; -1: nothing
 * there now. */
int packet_receive(int socket, struct packet *packet, int flags);
/* The descriptor moves out. */
int packet_take_fd(struct packet *packet, unsigned index);
void packet_close_fds(struct packet *packet);
/* fd -1: none. */
int packet_send(int socket, const void *bytes, size_t size, int fd, int flags);
