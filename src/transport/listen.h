/* Listening sockets: TCP, a unix socket, or what a service manager has opened for us. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

#define LISTEN_MAX 16 /* sockets of one server */
#define LISTEN_NAME_SIZE 128

struct listening {
    int fds[LISTEN_MAX]; /* non-blocking; -1: given away */
    /* "127.0.0.1:8080", "[::1]:8080", "unix:/run/x.sock" (cut if it is long), with the port that it became */
    char names[LISTEN_MAX][LISTEN_NAME_SIZE];
    size_t count;
    bool is_exposed; /* other machines may get to one of them */
    char *path;      /* of our own unix socket, to be removed; NULL: none */
    dev_t device;
    ino_t inode;
};

#define LISTENING_INIT                                                                                       \
    {                                                                                                        \
        .count = 0                                                                                           \
    }

/* Each adds to *l, or leaves it as it was. */

/* On each address of `host`, a name or an address; NULL or "": on all of this machine. Port 0: a free one,
 * the same for all addresses. */
int listen_tcp(struct listening *l, const char *host, int port, struct error *err);
/* Mode 0600. A socket that nobody answers on is replaced, anything else is left alone and is an error. */
int listen_unix(struct listening *l, const char *path, struct error *err);
/* What sd_listen_fds(3) would find, if it is for this process; none is no error. The environment is cleared
 * of it, so that no child takes it for its own. */
int listen_inherited(struct listening *l, struct error *err);

/* The descriptors belong to somebody else from here on. */
void listening_give(struct listening *l);
/* Closes what was not given away, and removes our unix socket, if it is still ours. */
void listening_done(struct listening *l);
