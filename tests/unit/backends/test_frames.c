/* Frames of the guest in the engine's pieces: wherever a read or a piece ends, the same comes out. */
#include "backends/engine/frames.h"

#include <stdint.h>
#include <string.h>

#include "base/macros.h"
#include "tests/unit/base/check.h"

#define FRAMES 5

struct seen {
    struct serve_frame frames[FRAMES + 1];
    char first[FRAMES + 1]; /* byte of each body */
    size_t count;
    enum error_code refuses;
};

static int take(void *ctx, const struct serve_frame *frame, const void *body, struct error *err)
{
    struct seen *s = ctx;
    assert_true(s->count <= FRAMES);
    assert_int_equal((uintptr_t)body % _Alignof(struct serve_end), 0);
    for (size_t i = 0; i < frame->size; i++)
        assert_int_equal(((const char *)body)[i], ((const char *)body)[0]);
    s->first[s->count] = frame->size ? *(const char *)body : 0;
    s->frames[s->count++] = *frame;
    return s->refuses ? error_set(err, s->refuses, "enough") : 0;
}

static const struct serve_frame sent[FRAMES] = {
    {12, SERVE_HELLO, 0},
    {0, SERVE_PONG, 0},
    {1, SERVE_OUTPUT, UINT32_MAX},
    {SERVE_FRAME_MAX, SERVE_OUTPUT, 7},
    {13, SERVE_END, 7},
};

static void append_all(struct buf *b)
{
    for (size_t i = 0; i < FRAMES; i++) {
        assert_int_equal(buf_append(b, &sent[i], sizeof(sent[i])), 0);
        for (size_t n = 0; n < sent[i].size; n++)
            assert_int_equal(buf_append_byte(b, (char)('a' + i)), 0);
    }
}

static void check_seen(const struct seen *s)
{
    assert_int_equal(s->count, FRAMES);
    assert_memory_equal(s->frames, sent, sizeof(sent));
    for (size_t i = 0; i < FRAMES; i++)
        assert_int_equal(s->first[i], sent[i].size ? 'a' + (int)i : 0);
}

static void feed(struct frames *f, const struct buf *bytes, size_t cut, struct seen *s)
{
    struct error err = ERROR_INIT;
    for (size_t at = 0; at < bytes->len; at += cut) {
        size_t n = bytes->len - at < cut ? bytes->len - at : cut;
        if (frames_feed(f, bytes->data + at, n, take, s, &err) < 0)
            fail_msg("cut %zu at %zu: %s", cut, at, err.msg);
    }
}

static const size_t cuts[] = {1,  2,  3,  5,   7,    8,     11,    12,    13,
                              19, 20, 21, 100, 4096, 65535, 65536, 65537, 1 << 20};

/* In pieces of `size` bytes, each with a word on standard error between. */
static void append_in_pieces(struct buf *to, const struct buf *bytes, size_t size)
{
    for (size_t at = 0; at < bytes->len; at += size) {
        size_t n = bytes->len - at < size ? bytes->len - at : size;
        const unsigned char head[8] = {1,
                                       0,
                                       0,
                                       0,
                                       (unsigned char)(n >> 24),
                                       (unsigned char)(n >> 16),
                                       (unsigned char)(n >> 8),
                                       (unsigned char)n};
        assert_int_equal(buf_append(to, head, sizeof(head)), 0);
        assert_int_equal(buf_append(to, bytes->data + at, n), 0);
        assert_int_equal(buf_append(to, "\2\0\0\0\0\0\0\5word ", 13), 0);
    }
}

static void test_pieces_and_frames_have_other_ends(void **state)
{
    static const size_t sizes[] = {1, 11, 12, 13, 1000, 70000};
    _cleanup_(buf_done) struct buf bytes = BUF_INIT(1 << 18);
    append_all(&bytes);
    for (size_t size = 0; size < ARRAY_LEN(sizes); size++) {
        _cleanup_(buf_done) struct buf pieces = BUF_INIT(4 << 20);
        append_in_pieces(&pieces, &bytes, sizes[size]);
        for (size_t i = 0; i < ARRAY_LEN(cuts); i++) {
            struct frames f;
            struct seen s = {0};
            frames_init(&f);
            feed(&f, &pieces, cuts[i], &s);
            check_seen(&s);
            assert_true(f.noise.len > 0 && f.noise.len <= FRAMES_NOISE_MAX);
            assert_string_equal(buf_str(&f.noise) + f.noise.len - 5, "word ");
            frames_done(&f);
        }
    }
}

static void test_the_last_noise_is_kept(void **state)
{
    char piece[8 + 3 * FRAMES_NOISE_MAX] = {2, 0, 0, 0, 0, 0, 3 * FRAMES_NOISE_MAX / 256, 0};
    struct frames f;
    frames_init(&f);
    memset(piece + 8, 'a', 3 * FRAMES_NOISE_MAX);
    memcpy(piece + sizeof(piece) - 3, "end", 3);
    assert_int_equal(frames_feed(&f, piece, sizeof(piece), take, NULL, NULL), 0);
    assert_int_equal(f.noise.len, FRAMES_NOISE_MAX);
    assert_string_equal(buf_str(&f.noise) + FRAMES_NOISE_MAX - 3, "end");
    frames_done(&f);
}

static void test_what_is_no_frame(void **state)
{
    static const struct serve_frame heads[] = {
        {SERVE_FRAME_MAX + 1, SERVE_OUTPUT, 1},
        {UINT32_MAX, SERVE_OUTPUT, 1},
        {0, 0, 1},
        {0, SERVE_PONG + 1, 1},
        {4, UINT32_MAX, 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
        struct frames f;
        struct seen s = {0};
        struct error err = ERROR_INIT;
        char piece[8 + sizeof(heads[i])] = {1, 0, 0, 0, 0, 0, 0, sizeof(heads[i])};
        memcpy(piece + 8, &heads[i], sizeof(heads[i]));
        frames_init(&f);
        assert_int_equal(frames_feed(&f, piece, sizeof(piece) - 1, take, &s, &err), 0);
        assert_int_equal(frames_feed(&f, piece + sizeof(piece) - 1, 1, take, &s, &err), -1);
        assert_int_equal(err.code, ERR_UNAVAILABLE);
        assert_int_equal(s.count, 0);
        frames_done(&f);
    }
}

static void test_who_takes_them_may_refuse(void **state)
{
    struct frames f;
    struct seen s = {.refuses = ERR_BUSY};
    struct error err = ERROR_INIT;
    _cleanup_(buf_done) struct buf bytes = BUF_INIT(1 << 18);
    _cleanup_(buf_done) struct buf pieces = BUF_INIT(1 << 18);
    append_all(&bytes);
    append_in_pieces(&pieces, &bytes, bytes.len);
    frames_init(&f);
    assert_int_equal(frames_feed(&f, pieces.data, pieces.len, take, &s, &err), -1);
    assert_int_equal(err.code, ERR_BUSY);
    assert_int_equal(s.count, 1);
    frames_done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_and_frames_have_other_ends),
        cmocka_unit_test(test_the_last_noise_is_kept),
        cmocka_unit_test(test_what_is_no_frame),
        cmocka_unit_test(test_who_takes_them_may_refuse),
    };
    return cmocka_run_group_tests_name("engine: frames", tests, NULL, NULL);
}
