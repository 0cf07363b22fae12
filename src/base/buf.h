/* A growable byte buffer that knows its maximum from birth. An append past it fails and changes nothing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/macros.h"

struct buf {
    char *data; /* always followed by a NUL that len doesn't count, once something was appended */
    size_t len;
    size_t cap;
    size_t max; /* of len */
};

#define BUF_INIT(maximum)                                                                                    \
    {                                                                                                        \
        .max = (maximum)                                                                                     \
    }

/* Room for n more bytes at data + len; the caller adds what it wrote to len. */
int buf_reserve(struct buf *b, size_t n) _must_use_;
/* 0, or -1 when the maximum or memory would be exceeded; the content is then as before. */
_must_use_ static inline int buf_append(struct buf *b, const void *bytes, size_t n)
{
    const bool has_room = b->len < b->cap && n < b->cap - b->len && b->len <= b->max && n <= b->max - b->len;
    if (!has_room && buf_reserve(b, n) < 0)
        return -1;
    if (n > 0)
        memcpy(b->data + b->len, bytes, n);
    b->len += n;
    b->data[b->len] = '\0';
    return 0;
}
int buf_append_str(struct buf *b, const char *s) _must_use_;
int buf_append_byte(struct buf *b, char c) _must_use_;
int buf_printf(struct buf *b, const char *fmt, ...) _printf_(2, 3) _must_use_;
void buf_consume(struct buf *b, size_t n); /* drops n bytes from the front */
void buf_clear(struct buf *b);             /* len = 0, memory kept */
void buf_done(struct buf *b);              /* frees the content; b can be used again. Any thread */
void buf_wipe(struct buf *b);              /* the same, and overwrites it first; for secrets, in a buffer
                                            * that had all its room at once: one that grows leaves copies */
/* Moves the content and its maximum into *dst (which is replaced) and leaves b empty. */
void buf_move(struct buf *dst, struct buf *b);
/* The content as a malloced string; b is left empty. */
char *buf_steal(struct buf *b);
/* The data as a C string, "" when empty. */
const char *buf_str(const struct buf *b);
