/* The path is resolved by init inside the computer, so whatever hostile code has made of /tmp, what we get is
 * a new file of the computer's own. */
#include "backends/native/spool.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/native/channel.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

#define FOLDER "/tmp/command-output" /* beneath what is the computer's own */
#define OPEN_TIMEOUT_NS (2 * NSEC_PER_SEC)

/* Asks init for a new file. Returns its descriptor or -1. */
static int open_inside(struct native_instance *i, const char *path)
{
    struct guest_open request = {.type = GUEST_OPEN};
    struct guest_opened reply;
    struct wait wait = {.deadline = clock_now() + OPEN_TIMEOUT_NS};
    int pair[2], fd = -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    _cleanup_fd_ int ours = pair[0];
    _cleanup_fd_ int theirs = pair[1];
    snprintf(request.path, sizeof(request.path), "%s", path);
    if (channel_send(i->channel, &request, sizeof(request), NULL, 0, &theirs, 1, &wait, NULL) < 0)
        return -1;
    theirs = fd_close(theirs);
    if (wait_fd(ours, POLLIN, &wait, NULL, NULL) < 0 || channel_receive(ours, &reply, sizeof(reply), &fd) < 0)
        return -1;
    struct stat st;
    return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? fd : fd_close(fd);
}

int native_spool_open(void *ctx, const char *name, char **ret_path)
{
    struct native_instance *i = ctx;
    _cleanup_(cleanup_free) char *home = instance_home(i);
    _cleanup_(cleanup_free) char *path = xasprintf("%s" FOLDER "/%s", home ? home : "", name);
    int fd = open_inside(i, path);
    if (fd >= 0)
        *ret_path = TAKE_PTR(path);
    return fd;
}
