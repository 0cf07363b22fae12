/* What is kept of two streams that share a limit. Bytes are told apart by value, so that order and exactness
 * show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backends/output.h"
#include "base/mem.h"

struct spooled {
    struct buf bytes[OUTPUT_STREAMS];
    int firsts[OUTPUT_STREAMS];
};

static void record_spool(void *ctx, enum output_stream stream, const void *bytes, size_t n, bool first)
{
    struct spooled *s = ctx;
    s->firsts[stream] += first;
    assert_int_equal(s->firsts[stream], 1); /* the first piece comes first, once */
    assert_int_equal(buf_append(&s->bytes[stream], bytes, n), 0);
}

struct fixture {
    struct output *o;
    struct spooled spooled;
    struct exec_result result;
};

static void start(struct fixture *f, size_t limit)
{
    *f = (struct fixture){0};
    for (int i = 0; i < OUTPUT_STREAMS; i++)
        f->spooled.bytes[i].max = 16U << 20;
    f->o = output_new(limit, record_spool, &f->spooled);
}

static void add(struct fixture *f, enum output_stream stream, const char *text)
{
    output_add(f->o, stream, text, strlen(text));
}

static void finish(struct fixture *f)
{
    output_finish(f->o, &f->result);
    f->o = output_free(f->o);
}

static void done(struct fixture *f)
{
    exec_result_done(&f->result);
    for (int i = 0; i < OUTPUT_STREAMS; i++)
        buf_done(&f->spooled.bytes[i]);
}

static void assert_stream(const struct exec_stream *s, const char *head, const char *tail, uint64_t omitted)
{
    assert_string_equal(buf_str(&s->head), head);
    assert_string_equal(buf_str(&s->tail), tail);
    assert_int_equal(s->omitted, omitted);
    assert_int_equal(s->total, strlen(head) + strlen(tail) + omitted);
}

static void test_nothing(void **state)
{
    struct fixture f;
    start(&f, 10);
    finish(&f);
    assert_stream(&f.result.out, "", "", 0);
    assert_stream(&f.result.err, "", "", 0);
    done(&f);
}

static void test_fits_exactly(void **state)
{
    struct fixture f;
    start(&f, 10);
    add(&f, OUTPUT_STDOUT, "0123");
    add(&f, OUTPUT_STDERR, "abc");
    add(&f, OUTPUT_STDOUT, "456");
    finish(&f);
    assert_stream(&f.result.out, "0123456", "", 0);
    assert_stream(&f.result.err, "abc", "", 0);
    assert_int_equal(f.spooled.firsts[OUTPUT_STDOUT], 0);
    done(&f);
}

static void test_one_stream_may_have_all(void **state)
{
    struct fixture f;
    start(&f, 10);
    add(&f, OUTPUT_STDERR, "0123456789");
    finish(&f);
    assert_stream(&f.result.err, "0123456789", "", 0);
    done(&f);
}

static void test_one_byte_over(void **state)
{
    struct fixture f;
    start(&f, 10);
    add(&f, OUTPUT_STDOUT, "0123456789");
    add(&f, OUTPUT_STDOUT, "X");
    finish(&f);
    assert_stream(&f.result.out, "01234", "6789X", 1);
    assert_string_equal(buf_str(&f.spooled.bytes[OUTPUT_STDOUT]), "0123456789X");
    assert_int_equal(f.spooled.firsts[OUTPUT_STDERR], 0);
    done(&f);
}

static void test_one_big_piece(void **state)
{
    struct fixture f;
    start(&f, 7); /* odd: 3 for heads, 4 for tails */
    add(&f, OUTPUT_STDOUT, "abcdefghijklmnopqrstuvwxyz");
    finish(&f);
    assert_stream(&f.result.out, "abc", "wxyz", 19);
    assert_string_equal(buf_str(&f.spooled.bytes[OUTPUT_STDOUT]), "abcdefghijklmnopqrstuvwxyz");
    done(&f);
}

static void test_heads_go_to_who_comes_first(void **state)
{
    struct fixture f;
    start(&f, 12);
    add(&f, OUTPUT_STDERR, "ee");
    add(&f, OUTPUT_STDOUT, "0123456789");
    add(&f, OUTPUT_STDOUT, "ABCDEF");
    finish(&f);
    assert_stream(&f.result.err, "ee", "", 0);
    assert_stream(&f.result.out, "0123", "ABCDEF", 6);
    done(&f);
}

/* A message at the very end is kept, whatever the other stream has flooded before. */
static void test_late_error_message(void **state)
{
    struct fixture f;
    start(&f, 20);
    for (int i = 0; i < 100; i++)
        add(&f, OUTPUT_STDOUT, "0123456789");
    add(&f, OUTPUT_STDERR, "oops");
    finish(&f);
    assert_stream(&f.result.err, "oops", "", 0);
    assert_stream(&f.result.out, "0123456789", "456789", 984);
    assert_int_equal(f.spooled.firsts[OUTPUT_STDERR], 0);
    assert_int_equal(f.spooled.bytes[OUTPUT_STDOUT].len, 1000);
    done(&f);
}

static void test_both_flood(void **state)
{
    struct fixture f;
    start(&f, 16);
    for (int i = 0; i < 50; i++) {
        add(&f, OUTPUT_STDOUT, "o");
        add(&f, OUTPUT_STDERR, "e");
    }
    add(&f, OUTPUT_STDOUT, "OOOO");
    add(&f, OUTPUT_STDERR, "EEEE");
    finish(&f);
    assert_stream(&f.result.out, "oooo", "OOOO", 46);
    assert_stream(&f.result.err, "eeee", "EEEE", 46);
    assert_int_equal(f.spooled.bytes[OUTPUT_STDOUT].len, 54);
    assert_int_equal(f.spooled.bytes[OUTPUT_STDERR].len, 54);
    done(&f);
}

/* A stream loses bytes because the other one grows: it is spooled before that, complete. */
static void test_loss_by_the_other(void **state)
{
    struct fixture f;
    start(&f, 8);
    add(&f, OUTPUT_STDOUT, "01234567");
    add(&f, OUTPUT_STDERR, "e");
    assert_string_equal(buf_str(&f.spooled.bytes[OUTPUT_STDOUT]), "01234567");
    assert_int_equal(f.spooled.firsts[OUTPUT_STDERR], 0);
    finish(&f);
    assert_stream(&f.result.out, "0123", "567", 1);
    assert_stream(&f.result.err, "e", "", 0);
    done(&f);
}

static void test_no_limit_left(void **state)
{
    struct fixture f;
    start(&f, 0);
    add(&f, OUTPUT_STDOUT, "abc");
    finish(&f);
    assert_stream(&f.result.out, "", "", 3);
    assert_string_equal(buf_str(&f.spooled.bytes[OUTPUT_STDOUT]), "abc");
    done(&f);
}

static void test_no_spool(void **state)
{
    struct exec_result r = {0};
    struct output *o = output_new(4, NULL, NULL);
    output_add(o, OUTPUT_STDOUT, "abcdefgh", 8);
    output_finish(o, &r);
    output_free(o);
    assert_stream(&r.out, "ab", "gh", 4);
    exec_result_done(&r);
}

/* Against a model that keeps everything: pieces of all sizes on both streams, limits around the sizes. */
static void test_against_model(void **state)
{
    srand(1);
    for (int round = 0; round < 3000; round++) {
        struct fixture f;
        struct buf all[OUTPUT_STREAMS] = {BUF_INIT(1U << 20), BUF_INIT(1U << 20)};
        size_t limit = (size_t)(rand() % 64), written = 0;
        start(&f, limit);
        for (int i = rand() % 12; i > 0; i--) {
            enum output_stream stream = rand() % 2 ? OUTPUT_STDOUT : OUTPUT_STDERR;
            char piece[32];
            size_t n = (size_t)(rand() % 20);
            for (size_t k = 0; k < n; k++)
                piece[k] = (char)('!' + (all[stream].len + k) % 90);
            output_add(f.o, stream, piece, n);
            assert_int_equal(buf_append(&all[stream], piece, n), 0);
            written += n;
        }
        finish(&f);
        const struct exec_stream *results[] = {&f.result.out, &f.result.err};
        size_t kept = 0;
        for (int i = 0; i < OUTPUT_STREAMS; i++) {
            const struct exec_stream *s = results[i];
            assert_int_equal(s->total, all[i].len);
            assert_int_equal(s->total, s->head.len + s->omitted + s->tail.len);
            assert_memory_equal(buf_str(&s->head), buf_str(&all[i]), s->head.len);
            assert_memory_equal(buf_str(&s->tail), buf_str(&all[i]) + all[i].len - s->tail.len, s->tail.len);
            assert_true(s->omitted > 0 || s->tail.len == 0);
            assert_int_equal(f.spooled.firsts[i], s->omitted > 0);
            if (s->omitted > 0)
                assert_string_equal(buf_str(&f.spooled.bytes[i]), buf_str(&all[i]));
            kept += s->head.len + s->tail.len;
            buf_done(&all[i]);
        }
        assert_int_equal(kept, written < limit ? written : limit); /* no byte of the limit is wasted */
        done(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_fits_exactly),
        cmocka_unit_test(test_one_stream_may_have_all),
        cmocka_unit_test(test_one_byte_over),
        cmocka_unit_test(test_one_big_piece),
        cmocka_unit_test(test_heads_go_to_who_comes_first),
        cmocka_unit_test(test_late_error_message),
        cmocka_unit_test(test_both_flood),
        cmocka_unit_test(test_loss_by_the_other),
        cmocka_unit_test(test_no_limit_left),
        cmocka_unit_test(test_no_spool),
        cmocka_unit_test(test_against_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
