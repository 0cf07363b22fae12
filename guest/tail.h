/* The ends of two streams that share one limit, as both sides of the channel keep them: each in a ring of its
 * own, for which the caller has the memory. */
#pragma once

#include <stddef.h>
#include <string.h>

struct ring {
    char *data; /* NULL: nothing yet */
    size_t size, start, used;
};

static inline size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The content is two pieces at most: piece 0 from start, piece 1 from the beginning. */
static inline size_t ring_piece(const struct ring *r, int piece, const char **ret)
{
    size_t first = min_size(r->used, r->size - r->start);
    *ret = !r->data ? "" : piece == 0 ? r->data + r->start : r->data;
    return piece == 0 ? first : r->used - first;
}

/* Of its oldest bytes. */
static inline void ring_drop(struct ring *r, size_t n)
{
    r->used -= n;
    r->start = r->used ? (r->start + n) % r->size : 0;
}

/* How large it should be to take n more bytes, at most max in all: its size, if they fit. */
static inline size_t ring_size_for(const struct ring *r, size_t n, size_t max)
{
    size_t need = r->used + n;
    return need <= r->size ? r->size : min_size(max, max_size(need, r->size * 2));
}

/* Goes on in this memory, which is large enough. Returns the old one, NULL if there was none. */
static inline char *ring_move(struct ring *r, char *memory, size_t size)
{
    char *old = r->data;
    const char *piece;
    size_t n = ring_piece(r, 0, &piece);
    memcpy(memory, piece, n);
    size_t m = ring_piece(r, 1, &piece);
    memcpy(memory + n, piece, m);
    *r = (struct ring){.data = memory, .size = size, .used = n + m};
    return old;
}

/* They fit, and there are some. */
static inline void ring_append(struct ring *r, const char *bytes, size_t n)
{
    size_t end = (r->start + r->used) % r->size;
    size_t first = min_size(n, r->size - end);
    memcpy(r->data + end, bytes, first);
    memcpy(r->data, bytes + first, n - first);
    r->used += n;
}

/* How many of its `mine` bytes a tail may keep beside another of `other` bytes: the longer one gives way. */
static inline size_t tail_share(size_t limit, size_t mine, size_t other)
{
    if (mine <= limit && other <= limit - mine)
        return mine;
    size_t half = mine > other ? (limit + 1) / 2 : limit / 2;
    if (mine <= half)
        return mine;
    return other <= limit - half ? limit - other : half;
}
