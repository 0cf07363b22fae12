/* Batches, which only sessions of 2025-03-26 may send. */
#include "harness.h"

#include <string.h>

#include "base/limits.h"
#include "base/mem.h"

#define ONLY                                                                                                 \
    ERROR("null", "-32600",                                                                                  \
          "Invalid request: batches belong to protocol version 2025-03-26 only; send one message at a time")
#define PING(id) CALL(id, "ping")

static void only_one_revision_has_batches(void **state)
{
    static const char *const others[] = {"2024-11-05", "2025-06-18", "2025-11-25"};
    struct harness *h = harness_new(NULL);
    harness_ask(h, "[" PING("1") "]", ONLY);
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        harness_initialize(h, others[i]);
        harness_ask(h, "[" PING("1") "]", ONLY);
    }
    harness_free(h);
}

static struct harness *batch_session(void)
{
    struct harness *h = harness_new(NULL);
    harness_initialize(h, "2025-03-26");
    return h;
}

static void replies_come_as_one_array(void **state)
{
    struct harness *h = batch_session();
    harness_ask(
        h, "[" PING("1") ",{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"},7," PING("\"b\"") "]",
        "[" RESULT("1", "") "," ERROR(
            "null", "-32600", "Invalid request: a message is a JSON object") "," RESULT("\"b\"", "") "]");
    harness_ask(h, "[" INITIALIZE("1", "2025-11-25") "]",
                "[" ERROR("1", "-32600", "Invalid request: initialize can't be part of a batch") "]");
    harness_ask(h, "[" CALL("1", "server/discover") "]",
                "[" ERROR("1", "-32600", "Invalid request: the revision 2026-07-28 has no batches") "]");
    harness_free(h);
}

static void notifications_alone_get_no_reply(void **state)
{
    struct harness *h = batch_session();
    harness_ask(h, "[{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}]", NULL);
    harness_free(h);
}

static void the_size_is_limited(void **state)
{
    struct harness *h = batch_session();
    struct buf b = BUF_INIT(64 * KIB);
    harness_ask(h, "[]", ERROR("null", "-32600", "Invalid request: an empty batch"));
    for (size_t i = 0; i <= LIMIT_BATCH_MESSAGES; i++)
        assert_true(buf_printf(&b, "%s" PING("%zu"), i ? "," : "[", i) >= 0);
    assert_int_equal(buf_append_byte(&b, ']'), 0);
    harness_ask(h, buf_str(&b), ERROR("null", "-32600", "Invalid request: a batch of more than 64 messages"));
    buf_done(&b);
    harness_free(h);
}

static void the_array_waits_for_its_calls(void **state)
{
    struct harness *h = batch_session();
    harness_tell(h, "[" CALL_WITH("1", "tools/call", "{\"name\":\"wait\"}") "," PING("2") "," CALL_WITH(
                        "3", "tools/call", "{\"name\":\"wait\"}") "]");
    toolset_await_started(h->toolset, 2);
    harness_ask(h, PING("4"), RESULT("4", ""));
    harness_ask(
        h, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":3}}", NULL);
    toolset_release(h->toolset);
    harness_expect(h, "[" RESULT("2", "") "," RESULT("1", "\"content\":[],\"isError\":false") "]");
    harness_free(h);
}

static void a_batch_of_cancelled_calls_gets_no_reply(void **state)
{
    struct harness *h = batch_session();
    harness_tell(h, "[" CALL_WITH("1", "tools/call", "{\"name\":\"wait\"}") "]");
    harness_tell(h,
                 "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}");
    harness_tell(h, CALL_WITH("2", "tools/call", "{\"name\":\"wait\"}"));
    toolset_release(h->toolset);
    harness_expect(h, RESULT("2", "\"content\":[],\"isError\":false"));
    harness_free(h);
}

static void replies_too_long_together_become_errors(void **state)
{
    struct harness *h = batch_session();
    char *half =
        xasprintf("{\"name\":\"repeat\",\"arguments\":{\"size\":%lu}}", LIMIT_RESULT_BYTES / 2 + 64 * KIB);
    char *request = xasprintf(
        "[" CALL_WITH("1", "tools/call", "%s") "," CALL_WITH("2", "tools/call", "%s") "]", half, half);
    harness_tell(h, request);
    char *reply = harness_read(h);
    size_t length = strlen(reply);
    assert_true(length > LIMIT_RESULT_BYTES / 2 && length < LIMIT_RESULT_BYTES);
    const char *error = strstr(reply, "\"error\":{\"code\":-32603");
    assert_non_null(error);
    assert_string_equal(reply + length - 3, "}}]");
    free(reply);
    free(request);
    free(half);
    harness_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_one_revision_has_batches),
        cmocka_unit_test(replies_come_as_one_array),
        cmocka_unit_test(notifications_alone_get_no_reply),
        cmocka_unit_test(the_size_is_limited),
        cmocka_unit_test(the_array_waits_for_its_calls),
        cmocka_unit_test(a_batch_of_cancelled_calls_gets_no_reply),
        cmocka_unit_test(replies_too_long_together_become_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
