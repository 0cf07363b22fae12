/* The bounded buffer: content, its maximum, and handing it on. */
#include "base/buf.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "tests/unit/base/check.h"

static void appends_add_up_and_end_in_nul(void **state)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT(100);
    assert_string_equal(buf_str(&b), "");
    assert_int_equal(buf_append(&b, "abc", 3), 0);
    assert_int_equal(buf_append_str(&b, "def"), 0);
    assert_int_equal(buf_append_byte(&b, '!'), 0);
    assert_int_equal(buf_printf(&b, " %d %s", 42, "x"), 0);
    assert_int_equal(b.len, 12);
    assert_string_equal(b.data, "abcdef! 42 x");
}

static void maximum_is_exact_and_failure_changes_nothing(void **state)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT(5);
    assert_int_equal(buf_append(&b, "abc", 3), 0);
    assert_int_equal(buf_append(&b, "def", 3), -1);
    assert_int_equal(buf_printf(&b, "%s", "def"), -1);
    assert_int_equal(buf_reserve(&b, 3), -1);
    assert_int_equal(buf_reserve(&b, SIZE_MAX), -1);
    assert_string_equal(buf_str(&b), "abc");
    assert_int_equal(buf_append(&b, "de", 2), 0);
    assert_int_equal(buf_append_byte(&b, 'f'), -1);
    assert_int_equal(buf_append(&b, "", 0), 0);
    assert_string_equal(buf_str(&b), "abcde");
}

static void zero_maximum_takes_nothing(void **state)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT(0);
    assert_int_equal(buf_append(&b, "", 0), 0);
    assert_int_equal(buf_append_byte(&b, 'a'), -1);
    assert_int_equal(b.len, 0);
}

static void grows_to_its_maximum_in_small_steps(void **state)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT(100000);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(buf_append_byte(&b, (char)i), 0);
    assert_int_equal(buf_append_byte(&b, 'x'), -1);
    for (int i = 0; i < 100000; i++)
        if (b.data[i] != (char)i)
            fail_msg("byte %d is wrong", i);
}

static void reserved_room_is_the_callers(void **state)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT(1000);
    assert_int_equal(buf_append_str(&b, "x"), 0);
    assert_int_equal(buf_reserve(&b, 999), 0);
    memset(b.data + b.len, 'y', 999);
    b.len += 999;
    assert_int_equal(strlen(buf_str(&b)), 1000);
}

static void consume_drops_the_front(void **state)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT(10);
    assert_int_equal(buf_append_str(&b, "abcdef"), 0);
    buf_consume(&b, 2);
    assert_string_equal(buf_str(&b), "cdef");
    buf_consume(&b, 0);
    assert_string_equal(buf_str(&b), "cdef");
    buf_consume(&b, 100);
    assert_string_equal(buf_str(&b), "");
    assert_int_equal(buf_append_str(&b, "0123456789"), 0);
}

static void clear_and_done_leave_it_usable(void **state)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT(3);
    assert_int_equal(buf_append_str(&b, "abc"), 0);
    buf_clear(&b);
    assert_string_equal(buf_str(&b), "");
    assert_int_equal(buf_append_str(&b, "def"), 0);
    buf_done(&b);
    assert_int_equal(b.len, 0);
    assert_int_equal(buf_append_str(&b, "ghi"), 0);
    assert_int_equal(buf_append_str(&b, "j"), -1);
}

static void move_replaces_the_target(void **state)
{
    _cleanup_(buf_done) struct buf from = BUF_INIT(10), to = BUF_INIT(2);
    assert_int_equal(buf_append_str(&from, "content"), 0);
    assert_int_equal(buf_append_str(&to, "xx"), 0);
    buf_move(&to, &from);
    assert_string_equal(buf_str(&to), "content");
    assert_string_equal(buf_str(&from), "");
    assert_int_equal(buf_append_str(&from, "0123456789"), 0);
    assert_int_equal(buf_append_str(&to, "more"), -1);
}

static void steal_gives_a_string(void **state)
{
    struct buf b = BUF_INIT(10);
    _cleanup_(cleanup_free) char *empty = buf_steal(&b);
    assert_string_equal(empty, "");
    assert_int_equal(buf_append_str(&b, "abc"), 0);
    _cleanup_(cleanup_free) char *s = buf_steal(&b);
    assert_string_equal(s, "abc");
    assert_null(b.data);
}

/* Their blocks are used again, also by one that needs more than there was. */
static void large_ones_follow_each_other(void **state)
{
    char piece[1000];
    for (int round = 0; round < 6; round++) {
        _cleanup_(buf_done) struct buf one = BUF_INIT(8 * MIB), other = BUF_INIT(MIB);
        const size_t count = round % 2 ? 4000 : 900;
        for (size_t i = 0; i < count; i++) {
            memset(piece, (char)('a' + (i + (size_t)round) % 26), sizeof(piece));
            assert_int_equal(buf_append(&one, piece, sizeof(piece)), 0);
            assert_int_equal(buf_append(&other, piece, sizeof(piece)), i < MIB / 1000 ? 0 : -1);
        }
        for (size_t i = 0; i < count; i++) {
            memset(piece, (char)('a' + (i + (size_t)round) % 26), sizeof(piece));
            assert_memory_equal(one.data + 1000 * i, piece, sizeof(piece));
            if (i < MIB / 1000)
                assert_memory_equal(other.data + 1000 * i, piece, sizeof(piece));
        }
        assert_int_equal(strlen(buf_str(&one)), one.len);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_add_up_and_end_in_nul),
        cmocka_unit_test(maximum_is_exact_and_failure_changes_nothing),
        cmocka_unit_test(zero_maximum_takes_nothing),
        cmocka_unit_test(grows_to_its_maximum_in_small_steps),
        cmocka_unit_test(reserved_room_is_the_callers),
        cmocka_unit_test(consume_drops_the_front),
        cmocka_unit_test(clear_and_done_leave_it_usable),
        cmocka_unit_test(move_replaces_the_target),
        cmocka_unit_test(steal_gives_a_string),
        cmocka_unit_test(large_ones_follow_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
