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

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* --- rings --- */

/* The content is two pieces at most: piece 0 from start, piece 1 from the beginning. */
static size_t ring_piece(const struct capture_stream *s, int piece, const char **ret)
{
    size_t first = min_size(s->ring_used, s->ring_size - s->ring_start);
    *ret = piece == 0 ? s->ring + s->ring_start : s->ring;
    return piece == 0 ? first : s->ring_used - first;
}

static void ring_drop(struct capture_stream *s, size_t n)
{
    s->ring_used -= n;
    s->ring_start = s->ring_used ? (s->ring_start + n) % s->ring_size : 0;
}

static int ring_grow(struct capture_stream *s, size_t need, size_t max)
{
    if (need <= s->ring_size)
        return 0;
    const size_t size = min_size(max, max_size(max_size(need, s->ring_size * 2), MEMORY_STEP));
    char *ring = memory_take(size);
    if (!ring)
        return -1;
    size_t at = 0;
    for (int i = 0; i < 2 && s->ring; i++) {
        const char *piece;
        size_t n = ring_piece(s, i, &piece);
        memcpy(ring + at, piece, n);
        at += n;
    }
    memory_give(s->ring, s->ring_size);
    s->ring = ring;
    s->ring_size = size;
    s->ring_start = 0;
    return 0;
}

/* Without memory the ring is emptied, so that what it holds next has no gap. */
static void ring_append(struct capture_stream *s, const char *bytes, size_t n, size_t max)
{
    if (n == 0)
        return;
    if (ring_grow(s, s->ring_used + n, max) < 0) {
        ring_drop(s, s->ring_used);
        return;
    }
    size_t end = (s->ring_start + s->ring_used) % s->ring_size;
    size_t first = min_size(n, s->ring_size - end);
    memcpy(s->ring + end, bytes, first);
    memcpy(s->ring, bytes + first, n - first);
    s->ring_used += n;
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
    for (int i = 0; i < 2 && s->ring; i++) {
        const char *piece;
        size_t n = ring_piece(s, i, &piece);
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

/* How many of its `mine` bytes a tail may keep beside another of `other` bytes. */
static size_t tail_share(size_t tail_limit, size_t mine, size_t other)
{
    if (mine <= tail_limit && other <= tail_limit - mine)
        return mine;
    size_t half = mine > other ? (tail_limit + 1) / 2 : tail_limit / 2;
    if (mine <= half)
        return mine;
    return other <= tail_limit - half ? tail_limit - other : half;
}

static void add_to_tail(struct capture *c, unsigned stream, const char *bytes, size_t n)
{
    struct capture_stream *s = &c->streams[stream], *other = &c->streams[1 - stream];
    size_t want = s->ring_used + n;
    size_t keep = tail_share(c->tail_limit, want, other->ring_used);
    size_t other_keep = min_size(other->ring_used, c->tail_limit - keep);

    if (other_keep < other->ring_used) {
        begin_spool(c, 1 - stream);
        ring_drop(other, other->ring_used - other_keep);
    }
    if (keep < want)
        begin_spool(c, stream);
    if (s->spools)
        spool_write(c, s, bytes, n);
    size_t old = min_size(want - keep, s->ring_used); /* dropped of what is there, then of what comes */
    ring_drop(s, old);
    size_t skip = want - keep - old;
    ring_append(s, bytes + skip, n - skip, c->tail_limit);
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
        while (s->ring_used > 0) {
            const char *piece;
            size_t n = min_size(ring_piece(s, 0, &piece), CAPTURE_CHUNK);
            if (frames_room() < min_size(n, PIECE_MIN))
                return false;
            n = min_size(n, frames_room());
            frames_put(SERVE_OUTPUT, c->id, &head, sizeof(head), piece, n);
            ring_drop(s, n);
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
        s->ring = memory_give(s->ring, s->ring_size);
        if (s->spool < 0)
            continue;
        close(s->spool);
        s->spool = -1;
        if (s->spooled == 0)
            unlink(s->spool_path);
    }
}
