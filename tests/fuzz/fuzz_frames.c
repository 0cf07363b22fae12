/* Fuzz: what comes from a container, on its way to frames. The first byte says where reads end. However it is
 * cut, the same frames come out of it, within their limits. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "backends/engine/frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A sum over all that came. */
struct seen {
    uint64_t hash;
    size_t count;
};

static int take(void *ctx, const struct serve_frame *frame, const void *body, struct error *err)
{
    struct seen *s = ctx;
    const uint8_t *bytes = body;
    assert(frame->size <= SERVE_FRAME_MAX && frame->type >= SERVE_HELLO && frame->type <= SERVE_PONG);
    for (size_t i = 0; i < frame->size; i++)
        s->hash = s->hash * 31 + bytes[i];
    s->hash = s->hash * 31 + frame->type + ((uint64_t)frame->id << 32) + frame->size;
    s->count++;
    return frame->id == 0xdead ? error_set(err, ERR_BUSY, "enough") : 0;
}

static struct seen feed(const uint8_t *data, size_t size, size_t cut, int *ret)
{
    struct frames f;
    struct seen seen = {0};
    struct error err = ERROR_INIT;
    *ret = 0;
    frames_init(&f);
    for (size_t at = 0; at < size && *ret == 0; at += cut)
        *ret = frames_feed(&f, data + at, size - at < cut ? size - at : cut, take, &seen, &err);
    assert(*ret == 0 || (err.msg[0] && (err.code == ERR_UNAVAILABLE || err.code == ERR_BUSY)));
    assert(f.noise.len <= FRAMES_NOISE_MAX && f.pending.len <= sizeof(struct serve_frame) + SERVE_FRAME_MAX);
    frames_done(&f);
    return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int whole_result, cut_result;
    if (size < 1)
        return 0;
    const size_t cut = data[0] + 1U;
    const struct seen whole = feed(data + 1, size - 1, size, &whole_result);
    const struct seen pieces = feed(data + 1, size - 1, cut, &cut_result);
    assert(whole_result == cut_result && whole.hash == pieces.hash && whole.count == pieces.count);
    return 0;
}
