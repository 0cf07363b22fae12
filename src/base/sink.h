/* Where lines go that may be lost but never wait: standard error, or a file. Not for several threads at once.
 *   pipe, terminal   opened anew through /proc/self/fd, so that O_NONBLOCK is on a description of our own;
 *   socket           MSG_DONTWAIT;
 *   file             a plain write;
 *   what is none of these, or can't be opened anew: poll(2) first. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum sink_kind { SINK_POLLED, SINK_PLAIN, SINK_SOCKET };

struct sink {
    int fd;
    enum sink_kind kind;
    bool torn; /* the last line went out in part: its end is missing */
};

/* Standard error as it is, before anything was opened. */
#define SINK_INIT                                                                                            \
    {                                                                                                        \
        .fd = 2                                                                                              \
    }

/* path NULL: standard error, which always works; else the file, made with mode 0600 if it isn't there. -1
 * with errno, and *ret as it was. */
int sink_open(struct sink *ret, const char *path);
void sink_close(struct sink *s);
/* A line with its end. False: not all of it could be written at once. */
bool sink_write(struct sink *s, const char *line, size_t n);
