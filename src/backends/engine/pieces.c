/* A read may end anywhere: in a header, in a piece. */
#include "backends/engine/pieces.h"

#include <string.h>

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Takes bytes of a header; how many. */
static size_t take_head(struct pieces *p, const char *bytes, size_t n)
{
    if (p->have == sizeof(p->head))
        p->have = 0;
    size_t taken = smaller(sizeof(p->head) - p->have, n);
    memcpy(p->head + p->have, bytes, taken);
    p->have += taken;
    if (p->have == sizeof(p->head))
        p->left = (size_t)p->head[4] << 24 | (size_t)p->head[5] << 16 | (size_t)p->head[6] << 8 |
                  (size_t)p->head[7];
    return taken;
}

int pieces_feed(struct pieces *p, const char *bytes, size_t n, pieces_fn *fn, void *ctx, struct error *err)
{
    while (n > 0) {
        size_t taken;
        if (p->left == 0) {
            taken = take_head(p, bytes, n);
            if (p->head[0] > PIECE_STDERR)
                return error_set(err, ERR_UNAVAILABLE, "the engine's stream makes no sense");
        } else {
            taken = smaller(p->left, n);
            if (fn(ctx, (enum piece_stream)p->head[0], bytes, taken, err) < 0)
                return -1;
            p->left -= taken;
        }
        bytes += taken;
        n -= taken;
    }
    return 0;
}
