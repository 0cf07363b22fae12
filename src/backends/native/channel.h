/* Packets with descriptors, over the SEQPACKET sockets of guest/wire.h. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/cancel.h"
#include "base/error.h"
#include "guest/wire.h"

/* Sends one packet made of two parts (the second may be empty), waiting for room only within `wait`.
 * ERR_GONE: the other end is closed. */
int channel_send(int fd, const void *head, size_t head_len, const void *body, size_t body_len, const int *fds,
                 size_t fd_count, const struct wait *wait, struct error *err);
/* Receives one packet without waiting, with at most one descriptor (ret_fd, -1 without one). Returns its
 * length; 0 at the end; -1 with errno, EAGAIN if there is none yet. What is longer than n is cut. */
ssize_t channel_receive(int fd, void *packet, size_t n, int *ret_fd);
/* Turns a step that failed inside the guest into an error of ours; returns -1. ERR_UNSUPPORTED: this machine
 * can't stack file systems in the way that was tried. */
int channel_failed(const struct guest_error *e, struct error *err);
