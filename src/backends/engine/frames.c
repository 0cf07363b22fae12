/* A piece of the engine's may hold half a frame, or many; a frame may be spread over many pieces. What isn't
 * a whole frame yet is kept, at most one of them. */
#include "backends/engine/frames.h"

#include <string.h>

void frames_init(struct frames *f)
{
    *f = (struct frames){
        .pending = BUF_INIT(sizeof(struct serve_frame) + SERVE_FRAME_MAX),
        .noise = BUF_INIT(FRAMES_NOISE_MAX),
    };
}

void frames_done(struct frames *f)
{
    buf_done(&f->pending);
    buf_done(&f->noise);
}

void frames_keep_noise(struct frames *f, const char *bytes, size_t n)
{
    if (n > FRAMES_NOISE_MAX) {
        bytes += n - FRAMES_NOISE_MAX;
        n = FRAMES_NOISE_MAX;
    }
    if (f->noise.len + n > FRAMES_NOISE_MAX)
        buf_consume(&f->noise, f->noise.len + n - FRAMES_NOISE_MAX);
    if (buf_append(&f->noise, bytes, n) < 0)
        return; /* out of memory: only words are lost */
}

/* How many bytes `pending` lacks until it says more: its header, or the whole frame. 0: it is whole. */
static size_t missing(const struct buf *pending)
{
    struct serve_frame frame;
    if (pending->len < sizeof(frame))
        return sizeof(frame) - pending->len;
    memcpy(&frame, pending->data, sizeof(frame));
    return sizeof(frame) + frame.size - pending->len;
}

static int check_header(const struct buf *pending, struct error *err)
{
    struct serve_frame frame;
    memcpy(&frame, pending->data, sizeof(frame));
    if (frame.size <= SERVE_FRAME_MAX && frame.type >= SERVE_HELLO && frame.type <= SERVE_PONG)
        return 0;
    return error_set(err, ERR_UNAVAILABLE, "what the computer's first process says makes no sense");
}

static int deliver(struct frames *f, frames_fn *fn, void *ctx, struct error *err)
{
    /* The header has 12 bytes: what follows it is moved to where any struct may stand. */
    _Alignas(16) char body[SERVE_FRAME_MAX];
    struct serve_frame frame;
    memcpy(&frame, f->pending.data, sizeof(frame));
    memcpy(body, f->pending.data + sizeof(frame), frame.size);
    buf_clear(&f->pending);
    return fn(ctx, &frame, body, err);
}

int frames_feed_plain(struct frames *f, const char *bytes, size_t n, frames_fn *fn, void *ctx,
                      struct error *err)
{
    while (n > 0) {
        size_t wanted = missing(&f->pending);
        size_t taken = wanted < n ? wanted : n;
        if (buf_append(&f->pending, bytes, taken) < 0)
            return error_set(err, ERR_LIMIT, "out of memory");
        bytes += taken;
        n -= taken;
        if (f->pending.len == sizeof(struct serve_frame) && check_header(&f->pending, err) < 0)
            return -1;
        if (missing(&f->pending) == 0 && deliver(f, fn, ctx, err) < 0)
            return -1;
    }
    return 0;
}

/* Where a frame goes while pieces are taken apart. */
struct feeding {
    struct frames *frames;
    frames_fn *fn;
    void *ctx;
};

static int on_piece(void *ctx, enum piece_stream stream, const char *bytes, size_t n, struct error *err)
{
    const struct feeding *f = ctx;
    if (stream != PIECE_STDERR)
        return frames_feed_plain(f->frames, bytes, n, f->fn, f->ctx, err);
    frames_keep_noise(f->frames, bytes, n);
    return 0;
}

int frames_feed(struct frames *f, const void *bytes, size_t n, frames_fn *fn, void *ctx, struct error *err)
{
    struct feeding feeding = {f, fn, ctx};
    return pieces_feed(&f->pieces, bytes, n, on_piece, &feeding, err);
}
