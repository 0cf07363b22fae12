/* UTF-8 as RFC 3629 has it: no surrogates, no overlong forms, nothing over U+10FFFF. NUL is a character. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* The length of the first character, or of the maximal ill-formed subsequence there (*ret_valid false). n >
 * 0. */
size_t utf8_next(const void *bytes, size_t n, bool *ret_valid);
bool utf8_valid(const void *bytes, size_t n);
/* Appends the bytes, each maximal ill-formed subsequence replaced by one U+FFFD (Unicode 15, 3.9 D93b). */
int utf8_append_lossy(struct buf *b, const void *bytes, size_t n) _must_use_;
/* The length of what that appends. */
size_t utf8_lossy_length(const void *bytes, size_t n);
/* The length, at most n, of the longest prefix that does not cut a character in two. Ill-formed bytes count
 * as characters of their own. */
size_t utf8_boundary(const void *bytes, size_t n);
/* How many bytes at the front only make sense as the rest of a character that was cut off before: 0 to 3. */
size_t utf8_leading_fragment(const void *bytes, size_t n);
