/* tools/call: results, progress, cancellation, limits. */
#include "harness.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"

#define TOOL(id, name) CALL_WITH(id, "tools/call", "{\"name\":\"" name "\"}")
#define ANSWER(id) RESULT(id, "\"content\":[],\"isError\":false")
#define TOOL_ERROR(id, code)                                                                                 \
    RESULT(id, "\"content\":[],\"structuredContent\":{\"code\":\"" code "\"},\"isError\":true")
#define CANCEL(id)                                                                                           \
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":" id              \
    ",\"reason\":\"r\"}}"

static struct harness *session(const struct harness_options *options)
{
    struct harness *h = harness_new(options);
    harness_initialize(h, "2025-11-25");
    return h;
}

static void a_result_is_framed(void **state)
{
    struct harness *h = session(NULL);
    harness_ask(h, TOOL("\"\\u0041\"", "answer"), ANSWER("\"\\u0041\""));
    harness_ask(h, CALL_WITH("1", "tools/call", "{\"name\":\"answer\",\"arguments\":{}}"), ANSWER("1"));
    harness_ask(h, CALL_WITH("1", "tools/call", "{\"name\":\"answer\",\"arguments\":null}"), ANSWER("1"));
    harness_free(h);
}

static void bad_calls_are_errors_of_the_protocol(void **state)
{
    struct harness *h = session(NULL);
    harness_ask(h, CALL("1", "tools/call"),
                ERROR("1", "-32602", "Invalid params: tools/call needs params.name, a string"));
    harness_ask(h, TOOL("1", "nothing"), ERROR("1", "-32602", "Unknown tool: nothing"));
    harness_ask(h, TOOL("1", "answer\\u0000"),
                ERROR("1", "-32602", "Invalid params: tools/call needs params.name, a string without NUL"));
    harness_ask(h, CALL_WITH("1", "tools/call", "{\"name\":\"answer\",\"arguments\":[]}"),
                ERROR("1", "-32602", "Invalid params: params.arguments must be an object"));
    harness_ask(h, TOOL("1", "break"), ERROR("1", "-32603", "it broke"));
    harness_free(h);
}

static void a_running_call_stops_nothing_else(void **state)
{
    struct harness *h = session(NULL);
    harness_tell(h, TOOL("1", "wait"));
    toolset_await_started(h->toolset, 1);
    harness_ask(h, CALL("2", "ping"), RESULT("2", ""));
    harness_ask(h, TOOL("3", "answer"), ANSWER("3"));
    toolset_release(h->toolset);
    harness_expect(h, ANSWER("1"));
    harness_free(h);
}

static void after_a_call_the_next_computer_is_prepared(void **state)
{
    struct harness *h = session(NULL);
    h->computers_record.wanted = PREPARE_NOW;
    assert_int_equal(h->computers_record.prepared, 0);
    harness_ask(h, TOOL("1", "answer"), ANSWER("1"));
    harness_ask(h, TOOL("2", "break"), ERROR("2", "-32603", "it broke"));
    h->computers_record.wanted = PREPARE_NONE;
    harness_ask(h, TOOL("3", "answer"), ANSWER("3"));
    assert_true(pool_close(h->pool, DEADLINE_NONE)); /* that came after the replies */
    assert_int_equal(h->computers_record.prepared, 2);
    harness_free(h);
}

static void stop(void *loop)
{
    loop_stop(loop);
}

/* However many calls there are meanwhile. */
static void what_may_wait_is_prepared_a_moment_later(void **state)
{
    struct harness *h = session(NULL);
    h->computers_record.wanted = PREPARE_LATER;
    harness_ask(h, TOOL("1", "answer"), ANSWER("1"));
    harness_ask(h, TOOL("2", "answer"), ANSWER("2"));
    assert_int_equal(h->computers_record.prepared, 0);
    struct loop_timer *turn = loop_timer_new(h->loop, stop, h->loop);
    loop_timer_start(turn, 1, 1);
    while (h->computers_record.prepared == 0)
        loop_run(h->loop);
    loop_timer_free(turn);
    harness_free(h);
}

static void a_cancelled_call_gets_no_reply(void **state)
{
    struct harness *h = session(NULL);
    harness_tell(h, TOOL("1", "wait"));
    harness_tell(h, TOOL("\"1\"", "wait"));
    toolset_await_started(h->toolset, 2);
    harness_ask(h, CANCEL("\"2\""), NULL); /* unknown */
    harness_ask(h, CANCEL("null"), NULL);
    harness_ask(h, CANCEL("{}"), NULL);
    harness_ask(h, CANCEL("\"\\u0031\""), NULL); /* the second one */
    harness_ask(h, CANCEL("\"1\""), NULL);
    toolset_release(h->toolset);
    harness_expect(h, ANSWER("1"));
    harness_free(h);
}

/* Even if the tool didn't look at its token and brings a result. */
static void a_result_that_comes_after_the_cancellation_is_dropped(void **state)
{
    struct harness *h = session(NULL);
    harness_tell(h, TOOL("1", "stubborn"));
    toolset_await_started(h->toolset, 1);
    harness_ask(h, CANCEL("1"), NULL);
    harness_ask(h, TOOL("1", "answer"),
                ERROR("1", "-32600", "Invalid request: a request with this id is still running"));
    toolset_release(h->toolset);
    for (bool taken = true; taken;) { /* until the worker is back */
        harness_ask(h, TOOL("2", "answer"), ANSWER("2"));
        harness_tell(h, TOOL("1", "answer"));
        char *reply = harness_read(h);
        taken = strcmp(reply, ANSWER("1")) != 0;
        free(reply);
    }
    harness_free(h);
}

static void a_waiting_call_can_be_cancelled(void **state)
{
    struct harness *h = session(&(struct harness_options){.max_running = 2});
    harness_tell(h, TOOL("1", "wait")); /* one principal may run half */
    toolset_await_started(h->toolset, 1);
    harness_tell(h, TOOL("2", "wait"));
    harness_ask(h, CANCEL("2"), NULL);
    harness_tell(h, TOOL("3", "answer"));
    toolset_release(h->toolset);
    harness_expect(h, ANSWER("1"));
    harness_expect(h, ANSWER("3"));
    harness_free(h);
}

static void an_id_in_flight_is_refused(void **state)
{
    struct harness *h = session(NULL);
    harness_tell(h, TOOL("\"a\"", "wait"));
    harness_ask(h, CALL("\"\\u0061\"", "ping"),
                ERROR("\"\\u0061\"", "-32600", "Invalid request: a request with this id is still running"));
    harness_ask(h, CALL("\"b\"", "ping"), RESULT("\"b\"", ""));
    toolset_release(h->toolset);
    harness_expect(h, ANSWER("\"a\""));
    harness_ask(h, CALL("\"a\"", "ping"), RESULT("\"a\"", ""));
    harness_free(h);
}

static void calls_in_flight_are_limited(void **state)
{
    struct harness *h = session(&(struct harness_options){.max_queued = 2 * LIMIT_IN_FLIGHT_REQUESTS});
    char request[128];
    for (int i = 0; i < LIMIT_IN_FLIGHT_REQUESTS; i++) {
        snprintf(request, sizeof(request), TOOL("%d", "wait"), i);
        harness_tell(h, request);
    }
    harness_ask(
        h, TOOL("\"more\"", "answer"),
        ERROR("\"more\"", "-32603",
              "Limit reached: 1024 calls are running in this session; wait for one of them, or cancel it"));
    harness_ask(h, CANCEL("7"), NULL);
    harness_free(h);
}

static void a_call_without_a_place_in_the_queue_is_a_tool_error(void **state)
{
    struct harness *h = session(&(struct harness_options){.max_running = 2, .max_queued = 1});
    harness_tell(h, TOOL("1", "wait"));
    toolset_await_started(h->toolset, 1);
    harness_tell(h, TOOL("2", "answer"));
    harness_tell(h, TOOL("3", "answer"));
    harness_expect(h, TOOL_ERROR("3", "limit"));
    toolset_release(h->toolset);
    harness_expect(h, ANSWER("1"));
    harness_expect(h, ANSWER("2"));
    harness_free(h);
}

static void a_call_that_waits_too_long_is_a_tool_error(void **state)
{
    struct harness *h = session(&(struct harness_options){.max_running = 2});
    harness_tell(h, TOOL("1", "wait"));
    toolset_await_started(h->toolset, 1);
    toolset_set_deadline(h->toolset, clock_now());
    harness_tell(h, TOOL("2", "answer"));
    harness_expect(h, TOOL_ERROR("2", "timeout"));
    harness_free(h);
}

static double progress_of(const char *message, const char *token)
{
    char *begin = xasprintf(
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%s,"
        "\"progress\":",
        token);
    assert_memory_equal(message, begin, strlen(begin));
    char *end;
    double progress = strtod(message + strlen(begin), &end);
    assert_string_equal(end, ",\"message\":\"running for 0 s\"}}");
    free(begin);
    return progress;
}

static void progress_is_told_while_a_call_runs(void **state)
{
    struct harness *h = session(&(struct harness_options){.progress_interval_ms = 1});
    harness_tell(
        h, CALL_WITH("1", "tools/call", "{\"name\":\"wait\",\"_meta\":{\"progressToken\":\"\\u0074\"}}"));
    double last = 0;
    for (int i = 0; i < 5; i++) {
        char *message = harness_read(h);
        double progress = progress_of(message, "\"\\u0074\"");
        assert_true(progress > last);
        last = progress;
        free(message);
    }
    toolset_release(h->toolset);
    for (bool replied = false; !replied;) {
        char *message = harness_read(h);
        replied = strcmp(message, ANSWER("1")) == 0;
        if (!replied)
            progress_of(message, "\"\\u0074\"");
        free(message);
    }
    harness_ask(h, TOOL("2", "answer"), ANSWER("2"));
    harness_free(h);
}

static void no_progress_is_told_without_a_token(void **state)
{
    struct harness *h = session(&(struct harness_options){.progress_interval_ms = 1});
    harness_tell(h, TOOL("1", "wait"));
    toolset_await_started(h->toolset, 1);
    harness_tell(h, CALL_WITH("2", "tools/call", "{\"name\":\"wait\",\"_meta\":{\"progressToken\":7}}"));
    for (int i = 0; i < 3; i++) { /* time enough for the first call's */
        char *message = harness_read(h);
        progress_of(message, "7");
        free(message);
    }
    harness_free(h);
}

static void a_long_message_keeps_its_place(void **state)
{
    struct harness *h = session(NULL);
    struct buf b = BUF_INIT(2 * LIMIT_MESSAGE_BYTES);
    assert_true(
        buf_printf(
            &b, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"wait\",") >=
        0);
    assert_int_equal(buf_append_str(&b, "\"arguments\":{\"stdin\":\""), 0);
    assert_int_equal(buf_reserve(&b, LIMIT_MESSAGE_BYTES), 0);
    memset(b.data + b.len, 'x', LIMIT_MESSAGE_BYTES);
    b.len += LIMIT_MESSAGE_BYTES;
    assert_int_equal(buf_append_str(&b, "\"}}}"), 0);
    session_receive(h->session, b.data, b.len);
    buf_done(&b);
    assert_false(session_accepts(h->session));
    harness_ask(h, CALL("1", "ping"),
                ERROR("1", "-32600", "Invalid request: a request with this id is still running"));
    toolset_release(h->toolset);
    harness_expect(h, ANSWER("1"));
    harness_free(h);
}

static void a_long_message_does_not_wait_for_busy_workers(void **state)
{
    struct harness *h = session(&(struct harness_options){.max_running = 1});
    harness_tell(h, TOOL("1", "wait"));
    toolset_await_started(h->toolset, 1);
    char *text = xasprintf("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\",\"params\":{\"x\":\"%*s\"}}",
                           (int)LIMIT_INLINE_PARSE_BYTES, "");
    harness_ask(h, text, RESULT("2", ""));
    free(text);
    harness_free(h);
}

static void a_refused_message_is_told(void **state)
{
    struct harness *h = session(NULL);
    struct error why = ERROR_INIT;
    error_set(&why, ERR_LIMIT, "too long");
    session_refuse(h->session, &why);
    harness_expect(h, ERROR("null", "-32600", "Invalid request: too long"));
    harness_free(h);
}

static void each_call_is_reported(void **state)
{
    static const struct {
        const char *tool;
        enum error_code outcome;
    } cases[] = {{"answer", ERR_NONE}, {"fail", ERR_GONE}, {"break", ERR_INTERNAL}};
    struct harness *h = session(NULL);
    harness_ask(h, CALL_WITH("1", "tools/call", "{\"name\":\"nothing\"}"),
                ERROR("1", "-32602", "Unknown tool: nothing"));
    assert_int_equal(h->reports, 0); /* that was none */
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(cleanup_free) char *request =
            xasprintf(CALL_WITH("1", "tools/call", "{\"name\":\"%s\"}"), cases[i].tool);
        harness_tell(h, request);
        _cleanup_(cleanup_free) char *reply = harness_read(h);
        assert_int_equal(h->reports, i + 1);
        assert_int_equal(h->report.outcome, cases[i].outcome);
        assert_int_equal(h->report.reply_bytes, strlen(reply));
        assert_true(h->report.duration_ns > 0);
        assert_string_equal(h->report_tool, cases[i].tool);
        assert_string_equal(h->report_principal, "local");
    }
    harness_tell(h, CALL_WITH("1", "tools/call", "{\"name\":\"wait\"}"));
    harness_ask(
        h, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}", NULL);
    harness_close(h, DEADLINE_NONE);
    assert_int_equal(h->reports, 4);
    assert_int_equal(h->report.outcome, ERR_CANCELLED);
    assert_int_equal(h->report.reply_bytes, 0);
    harness_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_is_framed),
        cmocka_unit_test(bad_calls_are_errors_of_the_protocol),
        cmocka_unit_test(a_running_call_stops_nothing_else),
        cmocka_unit_test(after_a_call_the_next_computer_is_prepared),
        cmocka_unit_test(what_may_wait_is_prepared_a_moment_later),
        cmocka_unit_test(a_cancelled_call_gets_no_reply),
        cmocka_unit_test(a_result_that_comes_after_the_cancellation_is_dropped),
        cmocka_unit_test(a_waiting_call_can_be_cancelled),
        cmocka_unit_test(an_id_in_flight_is_refused),
        cmocka_unit_test(calls_in_flight_are_limited),
        cmocka_unit_test(a_call_without_a_place_in_the_queue_is_a_tool_error),
        cmocka_unit_test(a_call_that_waits_too_long_is_a_tool_error),
        cmocka_unit_test(progress_is_told_while_a_call_runs),
        cmocka_unit_test(no_progress_is_told_without_a_token),
        cmocka_unit_test(a_long_message_keeps_its_place),
        cmocka_unit_test(a_long_message_does_not_wait_for_busy_workers),
        cmocka_unit_test(a_refused_message_is_told),
        cmocka_unit_test(each_call_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
