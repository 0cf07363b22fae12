/* The engine's own framing of two streams in one: wherever a read ends, the same comes out. */
#include "backends/engine/pieces.h"

#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "tests/unit/base/check.h"

struct seen {
    struct buf streams[3];
    bool refuses;
};

static int take(void *ctx, enum piece_stream stream, const char *bytes, size_t n, struct error *err)
{
    struct seen *s = ctx;
    assert_true(n > 0);
    assert_int_equal(buf_append(&s->streams[stream], bytes, n), 0);
    return s->refuses ? error_set(err, ERR_LIMIT, "enough") : 0;
}

static void seen_init(struct seen *s)
{
    *s = (struct seen){0};
    for (int i = 0; i < 3; i++)
        s->streams[i].max = 4096;
}

static void seen_done(struct seen *s)
{
    for (int i = 0; i < 3; i++)
        buf_done(&s->streams[i]);
}

static const char input[] = "\1\0\0\0\0\0\0\3one"
                            "\2\0\0\0\0\0\0\0" /* nothing, which is no end */
                            "\2\0\0\0\0\0\0\5error"
                            "\0\0\0\0\0\0\0\1i"
                            "\1\1\2\3\0\0\1\0"; /* what is between stream and size means nothing */

static void test_any_cut_gives_the_same(void **state)
{
    char bytes[sizeof(input) - 1 + 256];
    memcpy(bytes, input, sizeof(input) - 1);
    memset(bytes + sizeof(input) - 1, 'x', 256);
    for (size_t cut = 1; cut <= sizeof(bytes); cut++) {
        struct pieces p = {0};
        struct seen s;
        struct error err = ERROR_INIT;
        seen_init(&s);
        for (size_t at = 0; at < sizeof(bytes); at += cut) {
            size_t n = sizeof(bytes) - at < cut ? sizeof(bytes) - at : cut;
            if (pieces_feed(&p, bytes + at, n, take, &s, &err) < 0)
                fail_msg("cut %zu: %s", cut, err.msg);
        }
        assert_int_equal(s.streams[PIECE_STDOUT].len, 3 + 256);
        assert_memory_equal(s.streams[PIECE_STDOUT].data, "onexxx", 6);
        assert_string_equal(buf_str(&s.streams[PIECE_STDERR]), "error");
        assert_string_equal(buf_str(&s.streams[PIECE_STDIN]), "i");
        seen_done(&s);
    }
}

static void test_no_such_stream(void **state)
{
    static const char *const inputs[] = {"\3\0\0\0\0\0\0\1x", "Welcome!", "\377"};
    for (size_t i = 0; i < ARRAY_LEN(inputs); i++) {
        struct pieces p = {0};
        struct seen s;
        struct error err = ERROR_INIT;
        seen_init(&s);
        assert_int_equal(pieces_feed(&p, inputs[i], 1, take, &s, &err), -1); /* as soon as it is known */
        assert_int_equal(err.code, ERR_UNAVAILABLE);
        seen_done(&s);
    }
}

static void test_who_takes_them_may_refuse(void **state)
{
    struct pieces p = {0};
    struct seen s;
    struct error err = ERROR_INIT;
    seen_init(&s);
    s.refuses = true;
    assert_int_equal(pieces_feed(&p, input, sizeof(input) - 1, take, &s, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_string_equal(buf_str(&s.streams[PIECE_STDOUT]), "one");
    seen_done(&s);
}

static void test_the_largest_piece(void **state)
{
    struct pieces p = {0};
    struct seen s;
    seen_init(&s);
    assert_int_equal(pieces_feed(&p, "\1\0\0\0\377\377\377\377abc", 11, take, &s, NULL), 0);
    assert_string_equal(buf_str(&s.streams[PIECE_STDOUT]), "abc");
    assert_int_equal(p.left, 0xffffffffU - 3);
    seen_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_cut_gives_the_same),
        cmocka_unit_test(test_no_such_stream),
        cmocka_unit_test(test_who_takes_them_may_refuse),
        cmocka_unit_test(test_the_largest_piece),
    };
    return cmocka_run_group_tests_name("engine: pieces", tests, NULL, NULL);
}
