/* Events that can be had again: ids, what is replayed, what is forgotten and when. */
#include "transport/streams.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "tests/unit/base/check.h"

static struct streams_budget budget;

static struct streams *session(void)
{
    streams_budget_init(&budget, 256 * MIB);
    return streams_new(&budget, "alice");
}

static struct buf text_of(const char *s)
{
    struct buf b = BUF_INIT(1 * MIB);
    assert_int_equal(buf_append_str(&b, s), 0);
    return b;
}

static void add(struct stream *s, const char *text, const char *expected)
{
    _cleanup_(buf_done) struct buf b = text_of(text), out = BUF_INIT(1 * MIB);
    assert_true(stream_add(s, &b, &out));
    assert_string_equal(buf_str(&out), expected);
}

static void assert_replay(struct streams *all, const char *id, const char *expected)
{
    uint64_t after = 0;
    _cleanup_(buf_done) struct buf out = BUF_INIT(1 * MIB);
    struct stream *s = streams_find(all, id, &after);
    assert_non_null(s);
    assert_true(stream_replay(s, after, &out));
    assert_string_equal(buf_str(&out), expected);
}

static void what_came_after_an_event_is_replayed(void **state)
{
    struct streams *all = session();
    struct stream *one = stream_new(all), *two = stream_new(all);
    _cleanup_(buf_done) struct buf first = BUF_INIT(KIB);
    assert_true(stream_add(one, NULL, &first));
    assert_string_equal(buf_str(&first), "id: 1-0\ndata: \n\n");
    add(one, "{\"a\":1}", "id: 1-1\nevent: message\ndata: {\"a\":1}\n\n");
    add(two, "{\"b\":1}", "id: 2-0\nevent: message\ndata: {\"b\":1}\n\n");
    add(one, "{\"a\":2}", "id: 1-2\nevent: message\ndata: {\"a\":2}\n\n");
    assert_replay(all, "1-0",
                  "id: 1-1\nevent: message\ndata: {\"a\":1}\n\n"
                  "id: 1-2\nevent: message\ndata: {\"a\":2}\n\n");
    assert_replay(all, "1-1", "id: 1-2\nevent: message\ndata: {\"a\":2}\n\n");
    assert_replay(all, "1-2", "");
    assert_replay(all, "2-0", "");
    stream_end(one, false);
    assert_replay(all, "1-1", "id: 1-2\nevent: message\ndata: {\"a\":2}\n\n");
    streams_free(all);
}

static void ids_that_never_were_are_not_found(void **state)
{
    static const char *const wrong[] = {"",
                                        "1",
                                        "1-",
                                        "-1",
                                        "1-1",
                                        "2-0",
                                        "1-0 ",
                                        " 1-0",
                                        "1-0-0",
                                        "a-0",
                                        "1-x",
                                        "99999999999999999999999-0",
                                        "1-99999999999999999999999",
                                        "1--0",
                                        "+1-0"};
    struct streams *all = session();
    uint64_t after;
    add(stream_new(all), "{}", "id: 1-0\nevent: message\ndata: {}\n\n");
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        assert_null(streams_find(all, wrong[i], &after));
    assert_non_null(streams_find(all, "1-0", &after));
    streams_free(all);
}

static void streams_that_ended_make_room_for_others(void **state)
{
    struct streams *all = session();
    uint64_t after;
    struct stream *read = stream_new(all), *open = stream_new(all);
    add(read, "{}", "id: 1-0\nevent: message\ndata: {}\n\n");
    stream_set_reader(read, &after);
    stream_end(read, false);
    for (int i = 0; i < 1000; i++) {
        struct stream *s = stream_new(all);
        _cleanup_(buf_done) struct buf text = text_of("{}"), out = BUF_INIT(KIB);
        assert_true(stream_add(s, &text, &out));
        stream_end(s, true);
    }
    add(open, "{}", "id: 2-0\nevent: message\ndata: {}\n\n");
    assert_null(streams_find(all, "3-0", &after));
    assert_non_null(streams_find(all, "1002-0", &after));
    assert_non_null(streams_find(all, "1-0", &after)); /* somebody reads it */
    assert_non_null(streams_find(all, "2-0", &after)); /* not ended */
    streams_free(all);
}

/* What took long, and has just come, isn't forgotten before what came long ago. */
static void the_first_to_end_is_the_first_forgotten(void **state)
{
    struct streams *all = session();
    struct stream *slow = stream_new(all);
    for (int i = 0; i < 40; i++) {
        struct stream *s = stream_new(all);
        stream_end(s, false);
    }
    add(slow, "{}", "id: 1-0\nevent: message\ndata: {}\n\n");
    add(slow, "{}", "id: 1-1\nevent: message\ndata: {}\n\n");
    stream_end(slow, false);
    assert_replay(all, "1-0", "id: 1-1\nevent: message\ndata: {}\n\n");
    streams_free(all);
}

static void what_was_delivered_is_kept_only_if_small(void **state)
{
    struct streams *all = session();
    struct stream *s = stream_new(all);
    uint64_t after = 0;
    _cleanup_(buf_done) struct buf big = BUF_INIT(1 * MIB), out = BUF_INIT(2 * MIB);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(buf_append_byte(&big, 'x'), 0);
    assert_true(stream_add(s, NULL, &out));
    assert_true(stream_add(s, &big, &out));
    stream_set_reader(s, &after);
    stream_end(s, true);
    assert_ptr_equal(streams_find(all, "1-0", &after), s);
    assert_false(stream_replay(s, 0, &out));
    assert_true(stream_replay(s, 1, &out)); /* there is nothing after it */
    streams_free(all);
}

static void memory_is_bounded_and_gaps_are_told(void **state)
{
    struct streams *all = session();
    struct stream *s = stream_new(all);
    _cleanup_(buf_done) struct buf big = BUF_INIT(8 * MIB), out = BUF_INIT(16 * MIB);
    assert_int_equal(buf_reserve(&big, 7 * MIB), 0);
    memset(big.data, 'x', 7 * MIB);
    big.len = 7 * MIB;
    int kept = 0;
    while (kept < 100) {
        buf_clear(&out);
        if (!stream_add(s, &big, &out))
            break;
        kept++;
    }
    assert_in_range(kept, 5, 20);
    assert_true(out.len > big.len); /* it goes out live all the same */
    buf_clear(&out);
    assert_false(stream_replay(s, 0, &out));
    streams_free(all);
}

/* How many sessions can each have an event of so many bytes kept, `most` at the utmost. */
static int keep_in_sessions(struct streams *ret[], int most, const char *principal, size_t n)
{
    _cleanup_(buf_done) struct buf big = BUF_INIT(8 * MIB), out = BUF_INIT(16 * MIB);
    assert_int_equal(buf_reserve(&big, n), 0);
    memset(big.data, 'x', n);
    big.len = n;
    for (int i = 0; i < most; i++) {
        buf_clear(&out);
        ret[i] = streams_new(&budget, principal);
        bool kept = stream_add(stream_new(ret[i]), &big, &out);
        assert_true(out.len > n);
        if (!kept) {
            ret[i] = streams_free(ret[i]);
            return i;
        }
    }
    return most;
}

static void all_sessions_share_a_budget_and_no_principal_has_it_all(void **state)
{
    struct streams *a[100], *b[100], *c[100];
    streams_budget_init(&budget, 16 * MIB);
    assert_int_equal(keep_in_sessions(a, 100, "alice", 1 * MIB), 7);
    assert_int_equal(keep_in_sessions(b, 100, "bob", 1 * MIB), 7);
    assert_int_equal(keep_in_sessions(c, 100, "carol", 1 * MIB), 1);
    assert_in_range(budget.bytes, 15 * MIB, 16 * MIB);

    /* What a session frees, others have; and it makes room with its own before it gives up. */
    c[0] = streams_free(c[0]);
    assert_int_equal(keep_in_sessions(c, 1, "bob", 1 * KIB), 1);
    streams_free(c[0]);
    stream_end(streams_find(b[0], "1-0", &(uint64_t){0}), false);
    _cleanup_(buf_done) struct buf more = BUF_INIT(8 * MIB), out = BUF_INIT(16 * MIB);
    assert_int_equal(buf_reserve(&more, 1 * MIB), 0);
    memset(more.data, 'y', 1 * MIB);
    more.len = 1 * MIB;
    assert_true(stream_add(stream_new(b[0]), &more, &out));
    assert_null(streams_find(b[0], "1-0", &(uint64_t){0}));
    assert_non_null(streams_find(b[0], "2-0", &(uint64_t){0}));
    assert_non_null(streams_find(b[1], "1-0", &(uint64_t){0}));

    for (int i = 0; i < 7; i++) {
        streams_free(a[i]);
        streams_free(b[i]);
    }
    assert_int_equal(budget.bytes, 0);
    assert_true(list_empty(&budget.users));
}

static void a_session_has_so_many_open_streams(void **state)
{
    struct streams *all = session();
    int n = 0;
    while (n < 100000 && stream_new(all))
        n++;
    assert_in_range(n, 64, 99999);
    streams_free(all);
    assert_null(streams_free(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_came_after_an_event_is_replayed),
        cmocka_unit_test(ids_that_never_were_are_not_found),
        cmocka_unit_test(streams_that_ended_make_room_for_others),
        cmocka_unit_test(the_first_to_end_is_the_first_forgotten),
        cmocka_unit_test(what_was_delivered_is_kept_only_if_small),
        cmocka_unit_test(memory_is_bounded_and_gaps_are_told),
        cmocka_unit_test(all_sessions_share_a_budget_and_no_principal_has_it_all),
        cmocka_unit_test(a_session_has_so_many_open_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
