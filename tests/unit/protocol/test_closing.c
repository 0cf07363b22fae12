/* The end of a session, with calls running and computers that won't go. */
#include "harness.h"

#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"

#define TOOL(id, name) CALL_WITH(id, "tools/call", "{\"name\":\"" name "\"}")

static struct harness *session(void)
{
    struct harness *h = harness_new(NULL);
    harness_initialize(h, "2025-11-25");
    return h;
}

static void an_idle_session_closes(void **state)
{
    struct harness *h = session();
    harness_close(h, DEADLINE_NONE);
    assert_true(h->computers_record.killed);
    assert_true(h->computers_record.ended);
    assert_null(h->left_behind);
    harness_free(h);
}

static void running_calls_are_cancelled_and_nothing_is_sent(void **state)
{
    struct harness *h = session();
    harness_tell(h, TOOL("1", "wait"));
    harness_tell(h, TOOL("2", "wait"));
    toolset_await_started(h->toolset, 2);
    harness_close(h, DEADLINE_NONE);
    assert_true(h->computers_record.ended);
    assert_null(h->left_behind);
    assert_int_equal(h->received_count, 0);
    harness_free(h);
}

static void computers_stay_until_the_calls_are_over(void **state)
{
    struct harness *h = session();
    harness_tell(h, TOOL("1", "stubborn"));
    toolset_await_started(h->toolset, 1);
    harness_close(h, clock_now());
    assert_true(h->computers_record.killed);
    assert_false(h->computers_record.ended);
    assert_string_equal(h->left_behind, "calls are still running and hold its computers");
    toolset_release(h->toolset);
    harness_free(h);
}

static void what_could_not_be_removed_is_named(void **state)
{
    struct harness *h = session();
    h->computers_record.end_error = "computer keen-fox-1234 can't be removed";
    harness_close(h, clock_deadline_after(10));
    assert_string_equal(h->left_behind, "computer keen-fox-1234 can't be removed");
    harness_free(h);
}

static void a_message_being_parsed_is_waited_for(void **state)
{
    struct harness *h = session();
    char *text = xasprintf("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\",\"params\":{\"x\":\"%*s\"}}",
                           (int)LIMIT_INLINE_PARSE_BYTES, "");
    harness_tell(h, text);
    free(text);
    harness_close(h, DEADLINE_NONE);
    assert_int_equal(h->received_count, 0);
    assert_true(h->computers_record.ended);
    harness_free(h);
}

static void an_open_batch_closes_silently(void **state)
{
    struct harness *h = harness_new(NULL);
    harness_initialize(h, "2025-03-26");
    harness_tell(h, "[" CALL("1", "ping") "," TOOL("2", "wait") "]");
    toolset_await_started(h->toolset, 1);
    harness_close(h, DEADLINE_NONE);
    assert_int_equal(h->received_count, 0);
    harness_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idle_session_closes),
        cmocka_unit_test(running_calls_are_cancelled_and_nothing_is_sent),
        cmocka_unit_test(computers_stay_until_the_calls_are_over),
        cmocka_unit_test(what_could_not_be_removed_is_named),
        cmocka_unit_test(a_message_being_parsed_is_waited_for),
        cmocka_unit_test(an_open_batch_closes_silently),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
