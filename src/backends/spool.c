/* Beyond its limit, or after an error (the disk is full), output is dropped: it never ends a command. */
#include "backends/spool.h"

#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/random.h"

void spool_init(struct spool *s, spool_open_fn *open, void *ctx)
{
    *s = (struct spool){.open = open, .ctx = ctx};
    for (int n = 0; n < OUTPUT_STREAMS; n++)
        s->streams[n].fd = -1;
}

static void open_stream(struct spool *s, enum output_stream stream)
{
    char random[RANDOM_HEX_SIZE(4)], name[sizeof(random) + 8];
    random_hex(random, 4);
    snprintf(name, sizeof(name), "%s.%s", random, stream == OUTPUT_STDOUT ? "stdout" : "stderr");
    s->streams[stream].fd = s->open(s->ctx, name, &s->streams[stream].path);
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
