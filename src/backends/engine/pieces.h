/* The engine's own framing of a stream that carries standard output and standard error: pieces with a header
 * of 8 bytes, {stream, 0, 0, 0, big-endian size}. Source: Engine API, ContainerAttach, "Stream format". Pure;
 * the bytes are hostile. */
#pragma once

#include <stddef.h>

#include "base/error.h"

enum piece_stream { PIECE_STDIN, PIECE_STDOUT, PIECE_STDERR };

struct pieces {
    unsigned char head[8];
    size_t have; /* bytes of the header */
    size_t left; /* bytes of its piece that are still to come */
};

/* Part of a piece. -1 with the error ends the stream. */
typedef int pieces_fn(void *ctx, enum piece_stream stream, const char *bytes, size_t n, struct error *err);

/* -1: no such stream (ERR_UNAVAILABLE), or fn's error. An empty struct pieces is the beginning. */
int pieces_feed(struct pieces *p, const char *bytes, size_t n, pieces_fn *fn, void *ctx, struct error *err);
