/* The path is resolved by init inside the computer, so whatever hostile code has made of /tmp, what we get is
 * a new file of the computer's own. Beyond its limit, or after an error (the disk is full), output is
 * dropped: it never ends a command. */
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
#include "base/random.h"

#define FOLDER "/tmp/command-output"
#define OPEN_TIMEOUT_NS (2 * NSEC_PER_SEC)

void spool_init(struct spool *s, struct native_instance *i)
{
    *s = (struct spool){.instance = i};
    for (int n = 0; n < OUTPUT_STREAMS; n++)
        s->streams[n].fd = -1;
}

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

static void open_stream(struct spool *s, enum output_stream stream)
{
    char name[RANDOM_HEX_SIZE(4)];
    random_hex(name, 4);
    char *path = xasprintf(FOLDER "/%s.%s", name, stream == OUTPUT_STDOUT ? "stdout" : "stderr");
    s->streams[stream].fd = open_inside(s->instance, path);
    if (s->streams[stream].fd >= 0)
        s->streams[stream].path = path;
    else
        free(path);
}

void spool_write(void *ctx, enum output_stream stream, const void *bytes, size_t n, bool first)
{
    struct spool *s = ctx;
    if (first)
        open_stream(s, stream);
    if (s->streams[stream].fd < 0)
        return;
    uint64_t room = s->streams[stream].cut ? 0 : LIMIT_SPOOL_BYTES - s->streams[stream].written;
    size_t fits = n < room ? n : (size_t)room;
    if (fd_write_all(s->streams[stream].fd, bytes, fits) < 0 || fits < n)
        s->streams[stream].cut = true;
    /* Also of what failed, a part may be there: our place in the file tells. */
    off_t place = s->streams[stream].cut ? lseek(s->streams[stream].fd, 0, SEEK_CUR) : -1;
    s->streams[stream].written = place >= 0 ? (uint64_t)place : s->streams[stream].written + fits;
}

void spool_finish(struct spool *s, struct exec_result *ret)
{
    struct exec_stream *results[OUTPUT_STREAMS] = {&ret->out, &ret->err};
    for (int n = 0; n < OUTPUT_STREAMS; n++) {
        s->streams[n].fd = fd_close(s->streams[n].fd);
        results[n]->path = TAKE_PTR(s->streams[n].path);
        results[n]->path_bytes = s->streams[n].written;
    }
}
