/* One end of a byte stream, read or written without ever blocking. What is shared with other processes, the
 * file description with its O_NONBLOCK, is left alone where the kernel offers a way: pipes and terminals are
 * opened anew, sockets have flags per call. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/error.h"

struct channel {
    int fd; /* private: close-on-exec, a number nobody expects */
    bool is_socket;
    int shared_flags; /* to put back at the end; -1: the description is our own */
};

#define CHANNEL_NONE                                                                                         \
    {                                                                                                        \
        .fd = -1, .shared_flags = -1                                                                         \
    }

/* From a descriptor, which stays as it is. access: O_RDONLY or O_WRONLY. */
int channel_open(struct channel *ret, int fd, int access, struct error *err);
void channel_close(struct channel *c); /* an unopened one is fine */

/* As read(2) and writev(2), EAGAIN included; EINTR doesn't come. */
ssize_t channel_read(const struct channel *c, void *bytes, size_t n);
ssize_t channel_write(const struct channel *c, const struct iovec *parts, int count);
