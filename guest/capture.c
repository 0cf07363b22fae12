/* The first half of the limit is the heads', first come first served; what follows lives in two rings, the
 * tails, which share the other half. While everything fits, nothing is written to disk; what has gone out is
 * remembered for that case until the file is begun. A file that can't be written (the disk is full) is cut
 * there: it never ends a command. */
#include "guest/capture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "guest/file.h"
#include "guest/frames.h"
#include "guest/memory.h"

#define MEMORY_STEP 4096U
#define PIECE_MIN (16U << 10) /* of a tail: no frames of crumbs when the queue is nearly full */

/* --- rings --- */

/* Without memory the ring is emptied, so that what it holds next has no gap. */
static void append(struct ring *r, const char *bytes, size_t n, size_t max)
{
    const size_t old = r->size, size = ring_size_for(r, n, max);
    if (n == 0)
        return;
    if (size > old) {
        const size_t rounded = min_size(max, max_size(size, MEMORY_STEP));
        char *memory = memory_take(rounded);
        if (!memory) {
            ring_drop(r, r->used);
            return;
        }
        memory_give(ring_move(r, memory, rounded), old);
    }
    ring_append(r, bytes, n);
}

/* --- files --- */

static void spool_open(struct capture *c, unsigned stream)
{
    struct capture_stream *s = &c->streams[stream];
    struct guest_error unused;
    uint32_t number;
    if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != (ssize_t)sizeof(number))
        return;
    int length = snprintf(s->spool_path, sizeof(s->spool_path), "%s/%08x.%s", c->spool_dir, number,
                          stream == 0 ? "stdout" : "stderr");
    if (length < (int)sizeof(s->spool_path))
        s->spool = file_make(s->spool_path, &unused);
}

static void spool_write(struct capture *c, struct capture_stream *s, const char *bytes, size_t n)
{
    while (n > 0 && s->spool >= 0 && !s->spool_ended) {
        size_t fits = min_size(n, c->spool_limit - (size_t)s->spooled);
        ssize_t written = fits > 0 ? write(s->spool, bytes, fits) : -1;
        if (written < 0 && fits > 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            s->spool_ended = true;
            return;
        }
        s->spooled += (uint64_t)written;
        bytes += written;
        n -= (size_t)written;
    }
}

static void forget_head(struct capture_stream *s)
{
    s->head = memory_give(s->head, s->head_size);
    s->head_size = s->head_used = 0;
}

/* A stream is about to lose bytes for the first time. */
static void begin_spool(struct capture *c, unsigned stream)
{
    struct capture_stream *s = &c->streams[stream];
    if (s->spools)
        return;
    s->spools = true;
    if (!c->spool_dir[0] || s->spool_ended)
        return;
    spool_open(c, stream);
    spool_write(c, s, s->head, s->head_used);
    forget_head(s);
    for (int i = 0; i < 2; i++) {
        const char *piece;
        size_t n = ring_piece(&s->tail, i, &piece);
        spool_write(c, s, piece, n);
    }
}

/* A file that lacks its beginning is not begun. */
static void remember_head(struct capture *c, struct capture_stream *s, const char *bytes, size_t n)
{
    if (!c->spool_dir[0] || s->spool_ended)
        return;
    if (s->head_used + n > s->head_size) {
        const size_t size = max_size(max_size(s->head_used + n, s->head_size * 2), MEMORY_STEP);
        char *head = memory_grow(s->head, s->head_size, size);
        if (!head) {
            s->spool_ended = true;
            forget_head(s);
            return;
        }
        s->head = head;
        s->head_size = size;
    }
    memcpy(s->head + s->head_used, bytes, n);
    s->head_used += n;
}

/* --- adding --- */

static void add_to_tail(struct capture *c, unsigned stream, const char *bytes, size_t n)
{
    struct capture_stream *s = &c->streams[stream], *other = &c->streams[1 - stream];
    size_t want = s->tail.used + n;
    size_t keep = tail_share(c->tail_limit, want, other->tail.used);
    size_t other_keep = min_size(other->tail.used, c->tail_limit - keep);

    if (other_keep < other->tail.used) {
        begin_spool(c, 1 - stream);
        ring_drop(&other->tail, other->tail.used - other_keep);
    }
    if (keep < want)
        begin_spool(c, stream);
    if (s->spools)
        spool_write(c, s, bytes, n);
    size_t old = min_size(want - keep, s->tail.used); /* dropped of what is there, then of what comes */
    ring_drop(&s->tail, old);
    size_t skip = want - keep - old;
    append(&s->tail, bytes + skip, n - skip, c->tail_limit);
}

void capture_init(struct capture *c, uint32_t id, uint32_t output_limit, uint32_t spool_limit,
                  const char *spool_dir)
{
    *c = (struct capture){.id = id, .spool_limit = spool_limit, .spool_dir = spool_limit ? spool_dir : ""};
    c->head_left = output_limit / 2;
    c->tail_limit = output_limit - c->head_left;
    c->streams[0].spool = c->streams[1].spool = -1;
}

bool capture_is_ready(const struct capture *c)
{
    return c->head_left == 0 || frames_room() >= CAPTURE_CHUNK;
}

void capture_add(struct capture *c, unsigned stream, const char *bytes, size_t n)
{
    struct capture_stream *s = &c->streams[stream];
    const struct serve_output head = {.stream = stream, .part = 0};
    size_t first = min_size(n, c->head_left);
    s->total += n;
    if (first > 0) {
        frames_put(SERVE_OUTPUT, c->id, &head, sizeof(head), bytes, first);
        remember_head(c, s, bytes, first);
        c->head_left -= first;
    }
    if (n > first)
        add_to_tail(c, stream, bytes + first, n - first);
}

/* --- the end --- */

bool capture_send_tails(struct capture *c)
{
    for (uint32_t stream = 0; stream < 2; stream++) {
        struct capture_stream *s = &c->streams[stream];
        const struct serve_output head = {.stream = stream, .part = 1};
        while (s->tail.used > 0) {
            const char *piece;
            size_t n = min_size(ring_piece(&s->tail, 0, &piece), CAPTURE_CHUNK);
            if (frames_room() < min_size(n, PIECE_MIN))
                return false;
            n = min_size(n, frames_room());
            frames_put(SERVE_OUTPUT, c->id, &head, sizeof(head), piece, n);
            ring_drop(&s->tail, n);
        }
    }
    return true;
}

void capture_tell(const struct capture *c, struct serve_end *ret)
{
    for (unsigned i = 0; i < 2; i++) {
        const struct capture_stream *s = &c->streams[i];
        ret->total[i] = s->total;
        ret->spooled[i] = s->spooled;
        if (s->spooled > 0)
            memcpy(ret->spool_path[i], s->spool_path, sizeof(s->spool_path));
    }
}

void capture_done(struct capture *c)
{
    for (unsigned i = 0; i < 2; i++) {
        struct capture_stream *s = &c->streams[i];
        forget_head(s);
        s->tail.data = memory_give(s->tail.data, s->tail.size);
        if (s->spool < 0)
            continue;
        close(s->spool);
        s->spool = -1;
        if (s->spooled == 0)
            unlink(s->spool_path);
    }
}
