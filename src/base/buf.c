/* The bounded byte buffer. Capacity doubles, so that appending is linear over all; realloc(3) of a large
 * block moves pages instead of copying (mremap), and memory that was never written costs nothing. */
#include "base/buf.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define CAP_MIN 64
/* A large block is fresh pages of the kernel's, each of which costs more when it is first touched than to
 * fill it. So the last few that were freed are kept for the next buffers that need as much. */
#define KEPT_BLOCKS 2
#define KEPT_BYTES_MIN (256UL * 1024)
#define KEPT_BYTES_MAX (3072UL * 1024)

struct kept {
    size_t cap;
};
static _Atomic(struct kept *) kept_blocks[KEPT_BLOCKS];

static void block_free(void *data, size_t cap)
{
    if (cap >= KEPT_BYTES_MIN && cap <= KEPT_BYTES_MAX) {
        struct kept *block = data;
        block->cap = cap;
        for (size_t i = 0; i < KEPT_BLOCKS; i++) {
            struct kept *none = NULL;
            if (atomic_compare_exchange_strong(&kept_blocks[i], &none, block))
                return;
        }
    }
    free(data);
}

/* One of at least *cap bytes, which becomes what it has; or NULL. */
static char *block_take(size_t *cap)
{
    for (size_t i = 0; i < KEPT_BLOCKS; i++) {
        struct kept *block = atomic_exchange(&kept_blocks[i], NULL);
        if (block && block->cap >= *cap) {
            *cap = block->cap;
            return (char *)block;
        }
        if (block)
            block_free(block, block->cap);
    }
    return NULL;
}

int buf_reserve(struct buf *b, size_t n)
{
    if (b->max == SIZE_MAX || b->len > b->max || n > b->max - b->len)
        return -1;
    size_t needed = b->len + n + 1;
    if (needed <= b->cap)
        return 0;

    size_t cap = b->cap < CAP_MIN ? CAP_MIN : b->cap > SIZE_MAX / 2 ? needed : b->cap * 2;
    if (cap > b->max + 1)
        cap = b->max + 1;
    if (cap < needed)
        cap = needed;
    char *data = b->cap < KEPT_BYTES_MIN && cap >= KEPT_BYTES_MIN ? block_take(&cap) : NULL;
    if (data) {
        memcpy(data, buf_str(b), b->len + 1);
        free(b->data);
    } else {
        data = realloc(b->data, cap);
    }
    if (!data)
        return -1;
    b->data = data;
    b->cap = cap;
    return 0;
}

int buf_append_str(struct buf *b, const char *s)
{
    return buf_append(b, s, strlen(s));
}

int buf_append_byte(struct buf *b, char c)
{
    return buf_append(b, &c, 1);
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0 || buf_reserve(b, (size_t)n) < 0)
        return -1;

    va_start(ap, fmt);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
    return 0;
}

void buf_consume(struct buf *b, size_t n)
{
    if (n > b->len)
        n = b->len;
    if (n == 0)
        return;
    b->len -= n;
    memmove(b->data, b->data + n, b->len);
    b->data[b->len] = '\0';
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    if (b->data)
        b->data[0] = '\0';
}

void buf_done(struct buf *b)
{
    block_free(b->data, b->cap);
    *b = (struct buf)BUF_INIT(b->max);
}

void buf_wipe(struct buf *b)
{
    if (b->data)
        explicit_bzero(b->data, b->len);
    buf_done(b);
}

void buf_move(struct buf *dst, struct buf *b)
{
    block_free(dst->data, dst->cap);
    *dst = *b;
    *b = (struct buf)BUF_INIT(dst->max);
}

char *buf_steal(struct buf *b)
{
    if (!b->data)
        return xstrdup("");
    char *s = b->data;
    s[b->len] = '\0';
    *b = (struct buf)BUF_INIT(b->max);
    return s;
}

const char *buf_str(const struct buf *b)
{
    if (!b->data)
        return "";
    b->data[b->len] = '\0'; /* after buf_reserve() and a caller's own writing there is none */
    return b->data;
}
