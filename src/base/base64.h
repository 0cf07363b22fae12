/* Base64, standard alphabet with padding (RFC 4648 section 4). */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

int base64_append(struct buf *b, const void *bytes, size_t n) _must_use_;
/* Strict: standard alphabet, right padding, no blanks, zero spare bits. The message names the offset of the
 * first wrong byte. ret is a buf that the caller set up with its maximum; over it: ERR_LIMIT. */
int base64_decode(const char *text, size_t n, struct buf *ret, struct error *err);
/* The same of what may be in the alphabet of URLs (RFC 4648 section 5), and may lack the padding. */
int base64_decode_loosely(const char *text, size_t n, struct buf *ret, struct error *err);
