/* Two phases. Whole: everything fits, each stream is one buffer; beside it runs the count of its bytes that
 * were among the first half of the limit to come. Cut, from the first byte that doesn't fit: each buffer
 * keeps just that count as the stream's head, and what follows lives in a ring, its tail. The change itself
 * loses nothing, since what was kept by then is heads and tails of exactly the limit at most; after it the
 * heads are full and only tails move. */
#include "backends/output.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "guest/tail.h"

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

/* Without memory the ring is emptied: what it held counts as omitted, and what it holds next has no gap. */
static void append(struct ring *r, const char *bytes, size_t n, size_t max)
{
    const size_t size = ring_size_for(r, n, max);
    if (n == 0)
        return;
    if (size > r->size) {
        char *memory = malloc(size);
        if (!memory) {
            ring_drop(r, r->used);
            return;
        }
        free(ring_move(r, memory, size));
    }
    ring_append(r, bytes, n);
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
        append(&s->tail, s->head.data + s->head_len, s->head.len - s->head_len, o->tail_limit);
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

static void add_to_tail(struct output *o, enum output_stream which, const char *bytes, size_t n)
{
    enum output_stream other_which = which == OUTPUT_STDOUT ? OUTPUT_STDERR : OUTPUT_STDOUT;
    struct stream *s = &o->streams[which], *other = &o->streams[other_which];
    size_t want = s->tail.used + n;
    size_t keep = tail_share(o->tail_limit, want, other->tail.used);
    size_t other_keep = min_size(other->tail.used, o->tail_limit - keep);

    if (other_keep < other->tail.used) {
        spool_all_kept(o, other_which);
        ring_drop(&other->tail, other->tail.used - other_keep);
    }
    if (keep < want)
        spool_all_kept(o, which);
    if (s->spooling)
        o->spool(o->ctx, which, bytes, n, false);
    size_t old = min_size(want - keep, s->tail.used); /* dropped of what is there, then of what comes */
    ring_drop(&s->tail, old);
    size_t skip = want - keep - old;
    append(&s->tail, bytes + skip, n - skip, o->tail_limit);
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
        bool complete = s->head.len + s->tail.used == s->total;
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
