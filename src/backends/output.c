/* Two phases. Whole: everything fits, each stream is one buffer; beside it runs the count of its bytes that
 * were among the first half of the limit to come. Cut, from the first byte that doesn't fit: each buffer
 * keeps just that count as the stream's head, and what follows lives in a ring, its tail. The change itself
 * loses nothing, since what was kept by then is heads and tails of exactly the limit at most; after it the
 * heads are full and only tails move. */
#include "backends/output.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct ring {
    char *data;
    size_t cap, start, len;
};

struct stream {
    struct buf head;
    size_t head_len; /* of head: what stays when it is cut */
    struct ring tail;
    uint64_t total;
    bool spooling;
};

struct output {
    size_t limit, head_limit, tail_limit;
    size_t head_used;
    bool cut;
    output_spool_fn *spool;
    void *ctx;
    struct stream streams[OUTPUT_STREAMS];
};

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The ring's content is two pieces at most: piece 0 from start, piece 1 from the beginning. */
static size_t ring_piece(const struct ring *r, int piece, const char **ret)
{
    size_t first = min_size(r->len, r->cap - r->start);
    *ret = !r->data ? "" : piece == 0 ? r->data + r->start : r->data;
    return piece == 0 ? first : r->len - first;
}

static void ring_drop(struct ring *r, size_t n)
{
    r->len -= n;
    r->start = r->len ? (r->start + n) % r->cap : 0;
}

static int ring_grow(struct ring *r, size_t need, size_t max)
{
    if (need <= r->cap)
        return 0;
    size_t cap = min_size(max, need > r->cap * 2 ? need : r->cap * 2);
    char *data = malloc(cap);
    if (!data)
        return -1;
    const char *piece;
    size_t n = ring_piece(r, 0, &piece);
    memcpy(data, piece, n);
    size_t m = ring_piece(r, 1, &piece);
    memcpy(data + n, piece, m);
    free(r->data);
    *r = (struct ring){.data = data, .cap = cap, .len = r->len};
    return 0;
}

/* Without memory the ring is emptied: what it held counts as omitted, and what it holds next has no gap. */
static void ring_append(struct ring *r, const char *bytes, size_t n, size_t max)
{
    if (n == 0)
        return;
    if (ring_grow(r, r->len + n, max) < 0) {
        ring_drop(r, r->len);
        return;
    }
    size_t end = (r->start + r->len) % r->cap;
    size_t first = min_size(n, r->cap - end);
    memcpy(r->data + end, bytes, first);
    memcpy(r->data, bytes + first, n - first);
    r->len += n;
}

static void spool_all_kept(struct output *o, enum output_stream which)
{
    struct stream *s = &o->streams[which];
    if (s->spooling || !o->spool)
        return;
    s->spooling = true;
    o->spool(o->ctx, which, buf_str(&s->head), s->head.len, true);
    for (int i = 0; i < 2; i++) {
        const char *piece;
        size_t n = ring_piece(&s->tail, i, &piece);
        if (n)
            o->spool(o->ctx, which, piece, n, false);
    }
}

static void enter_cut_phase(struct output *o)
{
    o->cut = true;
    o->head_used = o->head_limit;
    for (int i = 0; i < OUTPUT_STREAMS; i++) {
        struct stream *s = &o->streams[i];
        if (s->head.len == s->head_len)
            continue;
        ring_append(&s->tail, s->head.data + s->head_len, s->head.len - s->head_len, o->tail_limit);
        s->head.len = s->head_len;
        s->head.data[s->head.len] = '\0';
    }
}

/* In the whole phase: appends while it fits. Returns how many bytes were taken. */
static size_t add_whole(struct output *o, struct stream *s, const char *bytes, size_t n)
{
    size_t kept = o->streams[OUTPUT_STDOUT].head.len + o->streams[OUTPUT_STDERR].head.len;
    size_t to_head = min_size(n, o->head_limit - o->head_used);
    size_t take = n <= o->limit - kept ? n : to_head;
    if (buf_append(&s->head, bytes, take) < 0)
        return 0;
    s->head_len += to_head;
    o->head_used += to_head;
    return take;
}

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

static void add_to_tail(struct output *o, enum output_stream which, const char *bytes, size_t n)
{
    enum output_stream other_which = which == OUTPUT_STDOUT ? OUTPUT_STDERR : OUTPUT_STDOUT;
    struct stream *s = &o->streams[which], *other = &o->streams[other_which];
    size_t want = s->tail.len + n;
    size_t keep = tail_share(o->tail_limit, want, other->tail.len);
    size_t other_keep = min_size(other->tail.len, o->tail_limit - keep);

    if (other_keep < other->tail.len) {
        spool_all_kept(o, other_which);
        ring_drop(&other->tail, other->tail.len - other_keep);
    }
    if (keep < want)
        spool_all_kept(o, which);
    if (s->spooling)
        o->spool(o->ctx, which, bytes, n, false);
    size_t old = min_size(want - keep, s->tail.len); /* dropped of what is there, then of what comes */
    ring_drop(&s->tail, old);
    size_t skip = want - keep - old;
    ring_append(&s->tail, bytes + skip, n - skip, o->tail_limit);
}

struct output *output_new(size_t limit, output_spool_fn *spool, void *ctx)
{
    struct output *o = xcalloc(1, sizeof(*o));
    o->limit = limit;
    o->head_limit = limit / 2;
    o->tail_limit = limit - o->head_limit;
    o->spool = spool;
    o->ctx = ctx;
    for (int i = 0; i < OUTPUT_STREAMS; i++)
        o->streams[i].head.max = limit;
    return o;
}

void output_add(struct output *o, enum output_stream stream, const void *bytes, size_t n)
{
    struct stream *s = &o->streams[stream];
    const char *p = bytes;
    s->total += n;
    if (!o->cut) {
        size_t taken = add_whole(o, s, p, n);
        if (taken == n)
            return;
        p += taken;
        n -= taken;
        enter_cut_phase(o);
    }
    add_to_tail(o, stream, p, n);
}

void output_finish(struct output *o, struct exec_result *ret)
{
    struct exec_stream *results[OUTPUT_STREAMS] = {&ret->out, &ret->err};
    for (int i = 0; i < OUTPUT_STREAMS; i++) {
        struct stream *s = &o->streams[i];
        struct exec_stream *r = results[i];
        bool complete = s->head.len + s->tail.len == s->total;
        r->tail.max = o->limit;
        struct buf *into = complete ? &s->head : &r->tail;
        for (int piece = 0; piece < 2; piece++) {
            const char *data;
            size_t n = ring_piece(&s->tail, piece, &data);
            if (n && buf_append(into, data, n) < 0)
                break; /* no memory: the rest counts as omitted */
        }
        buf_move(&r->head, &s->head);
        r->total = s->total;
        r->omitted = s->total - r->head.len - r->tail.len;
    }
}

struct output *output_free(struct output *o)
{
    if (!o)
        return NULL;
    for (int i = 0; i < OUTPUT_STREAMS; i++) {
        buf_done(&o->streams[i].head);
        free(o->streams[i].tail.data);
    }
    free(o);
    return NULL;
}
