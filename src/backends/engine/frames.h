/* Takes a stream of bytes from a container apart: the engine's pieces, and in them the frames of
 * guest/serve_wire.h. Pure: no input or output, so that a fuzzer can drive it. The bytes are hostile. */
#pragma once

#include "backends/engine/pieces.h"
#include "base/buf.h"
#include "base/error.h"
#include "guest/serve_wire.h"

#define FRAMES_NOISE_MAX 1024 /* of what the container says on its standard error; the last is kept */

/* body: frame->size bytes, aligned for any struct. -1 with the error ends the stream. */
typedef int frames_fn(void *ctx, const struct serve_frame *frame, const void *body, struct error *err);

struct frames {
    struct pieces pieces;
    struct buf pending; /* of a frame that isn't complete */
    struct buf noise;
};

void frames_init(struct frames *f);
void frames_done(struct frames *f);
/* -1: what came is no such stream (ERR_UNAVAILABLE), or fn's error. */
int frames_feed(struct frames *f, const void *bytes, size_t n, frames_fn *fn, void *ctx, struct error *err);
/* The same of what a container says on its standard output alone, and on its standard error. */
int frames_feed_plain(struct frames *f, const char *bytes, size_t n, frames_fn *fn, void *ctx,
                      struct error *err);
void frames_keep_noise(struct frames *f, const char *bytes, size_t n);
