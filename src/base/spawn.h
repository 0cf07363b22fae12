/* Starting programs from a threaded process: posix_spawn(3) only, never fork. */
#pragma once

#include <sys/types.h>

#include "base/error.h"

#define SPAWN_FDS_MAX 16

struct spawn_request {
    const char *path; /* no PATH search */
    char *const *argv;
    char *const *env; /* NULL: empty */
    const int *fds;   /* become 0, 1, 2, ... in the child; -1: /dev/null. Nothing else is inherited */
    int fd_count;     /* at most SPAWN_FDS_MAX */
};
/* The child has a session of its own, default signal actions and an empty mask. ret_pidfd (may be NULL) is
 * close-on-exec. */
int spawn(const struct spawn_request *request, pid_t *ret_pid, int *ret_pidfd, struct error *err);
/* Asks a child to end (SIGTERM), ends it if it hasn't after so long, and collects it. */
void spawn_end(int pidfd, int patience_ms);
/* The first program of that name (without a slash) in PATH's absolute folders, malloced; NULL: there is none.
 */
char *spawn_find(const char *name);
