/* POSTs: to which era and session they belong, and with what status they end. */
#include "harness.h"

#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"

#define V "2026-07-28"
#define META                                                                                                 \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"" V "\","                                      \
    "\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define MODERN(id, method) CALL_WITH(id, method, "{" META "}")
#define MODERN_CALL(id, tool) CALL_WITH(id, "tools/call", "{\"name\":\"" tool "\"," META "}")
#define TOOL(id, name) CALL_WITH(id, "tools/call", "{\"name\":\"" name "\"}")
#define NOTIFICATION(method) "{\"jsonrpc\":\"2.0\",\"method\":\"" method "\"}"
#define CANCEL(id)                                                                                           \
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":" id "}}"

static struct harness *listening(const struct harness_options *options)
{
    struct harness *h = harness_new(options);
    harness_listen(h, NULL);
    return h;
}

static struct exchange_headers calling(const char *tool)
{
    return (struct exchange_headers){NULL, V, "tools/call", tool};
}

/* -- Legacy. */

static void a_session_from_initialize_on(void **state)
{
    struct harness *h = listening(NULL);
    _cleanup_(cleanup_free) char *id = post_initialize(h, "local", "2025-06-18");
    const struct exchange_headers in_it = {.session_id = id, .protocol_version = "2025-06-18"};
    const struct exchange_headers without_version = {.session_id = id};
    assert_int_equal(h->first_replies, 1);
    post_expect(h, "local", &in_it, NOTIFICATION("notifications/initialized"), 202, NO_REPLY);
    post_expect(h, "local", &in_it, CALL("1", "ping"), 200, 0);
    post_expect(h, "local", &in_it, CALL("2", "tools/list"), 200, 0);
    post_expect(h, "local", &without_version, TOOL("3", "answer"), 200, 0);
    post_expect(h, "local", &in_it, TOOL("4", "break"), 200, -32603);
    post_expect(h, "local", &in_it, TOOL("5", "nothing"), 200, -32602);
    post_expect(h, "local", &in_it, CALL("6", "nothing"), 200, -32601);
    post_expect(h, "local", &in_it, CALL("7", "subscriptions/listen"), 200, -32601);
    post_expect(h, "local", &in_it, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", 202, NO_REPLY);
    post_expect(h, "local", &in_it, NOTIFICATION("notifications/never/heard"), 202, NO_REPLY);
    harness_free(h);
}

static void what_belongs_to_no_session_is_refused(void **state)
{
    struct harness *h = listening(NULL);
    _cleanup_(cleanup_free) char *id = post_initialize(h, "anna", "2025-11-25");
    const struct {
        const char *principal, *session, *version, *body;
        int status, code;
    } cases[] = {
        {"anna", NULL, NULL, CALL("1", "ping"), 400, -32600},
        {"anna", NULL, "2025-11-25", CALL("1", "tools/list"), 400, -32600},
        {"anna", NULL, NULL, NOTIFICATION("notifications/initialized"), 400, -32600},
        {"anna", NULL, NULL, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", 400, -32600},
        {"anna", NULL, NULL, "[" CALL("1", "ping") "]", 400, -32600},
        {"anna", "0123456789", NULL, CALL("1", "ping"), 404, -32600},
        {"anna", "", NULL, CALL("1", "ping"), 404, -32600},
        {"anna", "0123456789", NULL, NOTIFICATION("notifications/initialized"), 404, -32600},
        {"bert", id, NULL, CALL("1", "ping"), 404, -32600}, /* another's is as absent */
        {"local", id, NULL, CALL("1", "ping"), 404, -32600},
        {"anna", id, "2025-01-01", CALL("1", "ping"), 400, -32600},
        {"anna", id, "", CALL("1", "ping"), 400, -32600},
        {"anna", id, "v999", NOTIFICATION("notifications/initialized"), 400, -32600},
        {"anna", id, NULL, "{", 400, -32700},
        {"anna", id, NULL, "", 400, -32700},
        {"anna", NULL, NULL, "{\"jsonrpc\":\"2.0\"", 400, -32700},
        {"anna", id, NULL, "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", 400, -32600},
        {"anna", id, NULL, CALL("null", "ping"), 400, -32600},
        {"anna", id, NULL, CALL_WITH("1", "tools/list", "[]"), 400, -32602},
        {"anna", id, NULL, "[" CALL("1", "ping") "]", 400, -32600}, /* no batches in this revision */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct exchange_headers headers = {.session_id = cases[i].session,
                                                 .protocol_version = cases[i].version};
        post_expect(h, cases[i].principal, &headers, cases[i].body, cases[i].status, cases[i].code);
    }
    const struct exchange_headers in_it = {.session_id = id};
    post_expect(h, "anna", &in_it, CALL("1", "ping"), 200, 0);
    harness_free(h);
}

static void errors_echo_the_id(void **state)
{
    struct harness *h = listening(NULL);
    const struct exchange_headers dead = {.session_id = "gone"};
    const struct exchange_headers modern = {NULL, V, "ping", NULL};
    const struct {
        const struct exchange_headers *headers;
        const char *body;
    } cases[] = {{&dead, CALL("\"a\\u0062\"", "ping")}, {&modern, MODERN("\"a\\u0062\"", "ping")}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct post p;
        post_send(h, &p, "local", cases[i].headers, cases[i].body);
        post_await(&p);
        assert_int_equal(p.status, 404);
        assert_non_null(strstr(p.reply, "\"id\":\"a\\u0062\","));
        post_done(&p);
    }
    harness_free(h);
}

static void initialize_with_a_stale_id_begins_anew(void **state)
{
    struct harness *h = listening(NULL);
    const struct exchange_headers stale = {.session_id = "0123"};
    struct post p;
    post_send(h, &p, "local", &stale, INITIALIZE("1", "2025-11-25"));
    post_await(&p);
    assert_int_equal(p.status, 200);
    assert_non_null(p.session_id);
    const struct exchange_headers fresh = {.session_id = p.session_id};
    post_expect(h, "local", &fresh, CALL("1", "ping"), 200, 0);

    struct post again; /* with an id that lives, it is that session's */
    post_send(h, &again, "local", &fresh, INITIALIZE("2", "2025-06-18"));
    post_await(&again);
    assert_int_equal(again.status, 200);
    assert_null(again.session_id);
    assert_string_equal(http_session_version(http_session_find(h->endpoint, "local", p.session_id)),
                        "2025-06-18");
    post_done(&again);
    post_done(&p);
    harness_free(h);
}

static void a_refused_initialize_makes_no_session(void **state)
{
    struct harness *h = harness_new(NULL);
    harness_listen(h, &(struct http_options){.max_sessions = 1});
    for (int i = 0; i < 3; i++) {
        struct post p;
        post_send(h, &p, "local", NULL, CALL("1", "initialize"));
        post_await(&p);
        assert_int_equal(post_error_code(&p), -32602);
        assert_null(p.session_id);
        post_done(&p);
        assert_int_equal(h->sessions_ended, i + 1);
    }
    free(post_initialize(h, "local", "2025-11-25"));
    harness_free(h);
}

static void batches_of_the_revision_that_has_them(void **state)
{
    struct harness *h = listening(NULL);
    _cleanup_(cleanup_free) char *id = post_initialize(h, "local", "2025-03-26");
    const struct exchange_headers in_it = {.session_id = id};
    struct post p;
    post_send(h, &p, "local", &in_it,
              "[" CALL("1", "ping") "," TOOL("2", "answer") "," NOTIFICATION("notifications/x") "]");
    post_await(&p);
    assert_int_equal(p.status, 200);
    assert_string_equal(p.reply, "[" RESULT("1", "") "," RESULT("2", "\"content\":[],\"isError\":false") "]");
    post_done(&p);
    post_expect(h, "local", &in_it, "[" NOTIFICATION("notifications/x") "]", 202, NO_REPLY);
    post_expect(h, "local", &in_it, "[]", 400, -32600);
    post_expect(h, "local", &in_it, "[" MODERN("1", "tools/list") "]", 200, 0);

    post_send(h, &p, "local", &in_it, "[" TOOL("1", "wait") "," TOOL("2", "wait") "]");
    toolset_await_started(h->toolset, 3);
    post_expect(h, "local", &in_it, "[" CANCEL("1") "," CANCEL("2") "]", 202, NO_REPLY);
    post_await(&p);
    assert_null(p.reply);
    post_done(&p);
    harness_free(h);
}

static void a_cancelled_call_ends_without_a_reply(void **state)
{
    struct harness *h = listening(NULL);
    _cleanup_(cleanup_free) char *id = post_initialize(h, "local", "2025-11-25");
    _cleanup_(cleanup_free) char *other = post_initialize(h, "local", "2025-11-25");
    const struct exchange_headers in_it = {.session_id = id}, in_other = {.session_id = other};
    struct post p;
    post_send(h, &p, "local", &in_it, TOOL("7", "wait"));
    toolset_await_started(h->toolset, 1);
    post_expect(h, "local", &in_it, TOOL("7", "answer"), 400, -32600); /* the id is in use here, */
    post_expect(h, "local", &in_other, TOOL("7", "answer"), 200, 0);   /* but not there */
    post_expect(h, "local", &in_other, CANCEL("7"), 202, NO_REPLY);
    assert_false(p.ended);
    post_expect(h, "local", &in_it, CANCEL("7"), 202, NO_REPLY);
    post_await(&p);
    assert_int_equal(p.status, 202);
    assert_null(p.reply);
    post_done(&p);
    harness_free(h);
}

static void a_lost_connection_cancels_nothing(void **state)
{
    struct harness *h = listening(NULL);
    _cleanup_(cleanup_free) char *id = post_initialize(h, "local", "2025-11-25");
    const struct exchange_headers in_it = {.session_id = id};
    struct post p;
    post_send(h, &p, "local", &in_it, TOOL("1", "wait"));
    toolset_await_started(h->toolset, 1);
    assert_ptr_equal(exchange_session(p.exchange), http_session_find(h->endpoint, "local", id));
    assert_false(exchange_abandon(p.exchange));
    toolset_release(h->toolset);
    post_await(&p);
    assert_int_equal(post_error_code(&p), 0);
    post_done(&p);
    harness_free(h);
}

/* -- Modern. */

static void modern_statuses(void **state)
{
#define WRONG_VERSION                                                                                        \
    "{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"v999.0.0\","                                  \
    "\"io.modelcontextprotocol/clientCapabilities\":{}}}"
    static const struct {
        struct exchange_headers headers;
        const char *body;
        int status, code;
    } cases[] = {
        {{NULL, V, "server/discover", NULL}, MODERN("1", "server/discover"), 200, 0},
        {{NULL, V, "tools/list", NULL}, MODERN("1", "tools/list"), 200, 0},
        {{"no-such-session", V, "tools/list", NULL}, MODERN("1", "tools/list"), 200, 0},
        {{NULL, V, "tools/call", "answer"}, MODERN_CALL("1", "answer"), 200, 0},
        {{NULL, V, "tools/call", "nothing"}, MODERN_CALL("1", "nothing"), 200, -32602},
        {{NULL, V, "notifications/x", NULL}, NOTIFICATION("notifications/x"), 202, NO_REPLY},
        {{NULL, V, NULL, NULL}, NOTIFICATION("notifications/x"), 202, NO_REPLY},
        {{NULL, V, "notifications/y", NULL}, NOTIFICATION("notifications/x"), 400, -32020},
        /* nothing that the revision has dropped, or that we don't have */
        {{NULL, V, "initialize", NULL}, MODERN("1", "initialize"), 404, -32601},
        {{NULL, V, "ping", NULL}, MODERN("1", "ping"), 404, -32601},
        {{NULL, V, "logging/setLevel", NULL}, MODERN("1", "logging/setLevel"), 404, -32601},
        {{NULL, V, "resources/subscribe", NULL}, MODERN("1", "resources/subscribe"), 404, -32601},
        {{NULL, V, "subscriptions/listen", NULL}, MODERN("1", "subscriptions/listen"), 404, -32601},
        /* header without body, body without header, both at odds */
        {{NULL, V, "tools/list", NULL}, CALL("1", "tools/list"), 400, -32602},
        {{NULL, V, "initialize", NULL}, INITIALIZE("1", "2025-11-25"), 400, -32602},
        {{NULL, "2027-01-01", "tools/list", NULL}, CALL("1", "tools/list"), 400, -32602},
        {{NULL, NULL, "tools/list", NULL}, MODERN("1", "tools/list"), 400, -32020},
        {{NULL, NULL, NULL, NULL}, CALL("1", "server/discover"), 400, -32602},
        {{NULL, "2025-11-25", "tools/list", NULL}, MODERN("1", "tools/list"), 400, -32020},
        {{NULL, V, "tools/list", NULL}, CALL_WITH("1", "tools/list", WRONG_VERSION), 400, -32020},
        {{NULL, "v999.0.0", "tools/list", NULL}, CALL_WITH("1", "tools/list", WRONG_VERSION), 400, -32022},
        {{NULL, NULL, "tools/list", NULL}, CALL_WITH("1", "tools/list", WRONG_VERSION), 400, -32022},
        {{NULL, V, NULL, NULL}, MODERN("1", "tools/list"), 400, -32020},
        {{NULL, V, "tools/call", "other"}, MODERN_CALL("1", "answer"), 400, -32020},
        /* no messages at all */
        {{NULL, V, NULL, NULL}, "{", 400, -32700},
        {{NULL, V, NULL, NULL}, "[" MODERN("1", "tools/list") "]", 400, -32600},
        {{NULL, V, NULL, NULL}, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", 400, -32600},
        {{NULL, V, NULL, NULL}, "{\"jsonrpc\":\"2.0\",\"id\":1}", 400, -32600},
        {{NULL, V, "tools/list", NULL}, CALL_WITH("1", "tools/list", "[]"), 400, -32602},
    };
    struct harness *h = listening(NULL);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        post_expect(h, "local", &cases[i].headers, cases[i].body, cases[i].status, cases[i].code);
    assert_int_equal(h->computers_record.leased, 1);
    assert_int_equal(h->sessions_ended, 0);
    harness_free(h);
}

static void equal_ids_may_run_at_once(void **state)
{
    struct harness *h = listening(NULL);
    const struct exchange_headers headers = calling("wait");
    const char *const principals[] = {"anna", "anna", "bert"};
    struct post posts[3];
    for (int i = 0; i < 3; i++)
        post_send(h, &posts[i], principals[i], &headers, MODERN_CALL("1", "wait"));
    toolset_await_started(h->toolset, 3);
    assert_int_equal(endpoint_running(h->endpoint), 3);
    post_expect(h, "anna", &(struct exchange_headers){NULL, V, NULL, NULL}, CANCEL("1"), 202, NO_REPLY);
    for (int i = 0; i < 3; i++)
        toolset_release(h->toolset);
    for (int i = 0; i < 3; i++) {
        post_await(&posts[i]);
        assert_int_equal(post_error_code(&posts[i]), 0);
        assert_null(posts[i].session_id);
        post_done(&posts[i]);
    }
    assert_int_equal(endpoint_running(h->endpoint), 0);
    assert_int_equal(h->computers_record.leased, 2); /* one for each principal */
    harness_free(h);
}

static void a_closed_response_is_the_cancel(void **state)
{
    struct harness *h = listening(&(struct harness_options){.max_running = 1});
    const struct exchange_headers headers = calling("wait");
    struct post first, second;
    post_send(h, &first, "local", &headers, MODERN_CALL("1", "wait"));
    post_send(h, &second, "local", &headers, MODERN_CALL("1", "wait"));
    toolset_await_started(h->toolset, 1);
    assert_null(exchange_session(first.exchange));
    assert_true(exchange_abandon(first.exchange));
    toolset_await_started(h->toolset, 2); /* the only thread is free again */
    toolset_release(h->toolset);
    post_await(&second);
    assert_int_equal(post_error_code(&second), 0);
    assert_false(first.ended);
    post_done(&first);
    post_done(&second);
    harness_free(h);
}

static void a_principal_has_so_many_calls_at_once(void **state)
{
    struct harness *h = listening(&(struct harness_options){.max_queued = 2 * LIMIT_IN_FLIGHT_REQUESTS});
    const struct exchange_headers headers = calling("wait");
    struct post *posts = xcalloc(LIMIT_IN_FLIGHT_REQUESTS, sizeof(*posts));
    for (int i = 0; i < LIMIT_IN_FLIGHT_REQUESTS; i++)
        post_send(h, &posts[i], "anna", &headers, MODERN_CALL("1", "wait"));
    const struct exchange_headers answer = calling("answer");
    struct post p, other;
    post_send(h, &p, "anna", &answer, MODERN_CALL("1", "answer"));
    assert_true(p.ended);
    assert_int_equal(post_error_code(&p), -32603);
    assert_non_null(strstr(p.reply, "Limit reached"));
    post_send(h, &other, "bert", &answer, MODERN_CALL("1", "answer"));
    assert_false(other.ended);
    harness_close_endpoint(h, DEADLINE_NONE);
    for (int i = 0; i < LIMIT_IN_FLIGHT_REQUESTS; i++) {
        assert_int_equal(posts[i].status, 503);
        post_done(&posts[i]);
    }
    free(posts);
    post_done(&p);
    post_done(&other);
    harness_free(h);
}

/* -- Both. */

#define TOKEN "\"progressToken\":\"t\""

static void progress_comes_before_the_reply(void **state)
{
    struct harness *h = listening(&(struct harness_options){.progress_interval_ms = 1});
    _cleanup_(cleanup_free) char *id = post_initialize(h, "local", "2025-11-25");
    const struct {
        struct exchange_headers headers;
        const char *body;
    } cases[] = {
        {{.session_id = id}, CALL_WITH("1", "tools/call", "{\"name\":\"wait\",\"_meta\":{" TOKEN "}}")},
        {{NULL, V, "tools/call", "wait"},
         CALL_WITH("1", "tools/call",
                   "{\"name\":\"wait\",\"_meta\":{" TOKEN ",\"io.modelcontextprotocol/protocolVersion\":\"" V
                   "\",\"io.modelcontextprotocol/clientCapabilities\":{}}}")},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct post p;
        post_send(h, &p, "local", &cases[i].headers, cases[i].body);
        while (p.notified_count < 2)
            loop_run(h->loop);
        assert_non_null(strstr(p.notified, "\"method\":\"notifications/progress\""));
        assert_non_null(strstr(p.notified, TOKEN));
        toolset_release(h->toolset);
        post_await(&p);
        assert_int_equal(post_error_code(&p), 0);
        post_done(&p);
    }
    harness_free(h);
}

static char *long_request(const char *members)
{
    return xasprintf("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",%s,\"x\":\"%*s\"}", members,
                     (int)LIMIT_INLINE_PARSE_BYTES, "");
}

static void a_long_body_is_parsed_elsewhere(void **state)
{
    struct harness *h = listening(NULL);
    _cleanup_(cleanup_free) char *id = post_initialize(h, "local", "2025-11-25");
    _cleanup_(cleanup_free) char *legacy = long_request("\"params\":{}");
    _cleanup_(cleanup_free) char *modern = long_request("\"params\":{" META "}");
    const struct exchange_headers in_it = {.session_id = id};
    const struct exchange_headers modern_headers = {NULL, V, "tools/list", NULL};
    struct post posts[3];
    post_send(h, &posts[0], "local", &in_it, legacy);
    post_send(h, &posts[1], "local", &modern_headers, modern);
    post_send(h, &posts[2], "local", &modern_headers, modern);
    for (int i = 0; i < 3; i++)
        assert_false(posts[i].ended);
    assert_true(exchange_abandon(posts[2].exchange)); /* nobody is told, and the worker doesn't mind */
    for (int i = 0; i < 2; i++) {
        post_await(&posts[i]);
        assert_int_equal(posts[i].status, 200);
        assert_int_equal(post_error_code(&posts[i]), 0);
        post_done(&posts[i]);
    }
    post_done(&posts[2]);
    harness_free(h);
}

static void so_much_is_read_at_once_for_one_principal(void **state)
{
    struct harness *h = listening(NULL);
    const struct exchange_headers modern = {NULL, V, "tools/list", NULL};
    _cleanup_(cleanup_free) char *body =
        xasprintf("%s%*s", MODERN("1", "tools/list"), (int)(LIMIT_IN_FLIGHT_BYTES / 2 - KIB), "");
    struct post posts[4];
    post_send(h, &posts[0], "anna", &modern, body);
    post_send(h, &posts[1], "anna", &modern, body);
    post_send(h, &posts[2], "anna", &modern, body);
    assert_true(posts[2].ended);
    assert_int_equal(posts[2].status, 503);
    post_send(h, &posts[3], "bert", &modern, body);
    post_expect(h, "anna", &modern, MODERN("1", "tools/list"), 200, 0); /* short ones are not held up */
    for (int i = 0; i < 4; i++) {
        post_await(&posts[i]);
        assert_int_equal(posts[i].status, i == 2 ? 503 : 200);
        post_done(&posts[i]);
    }
    post_expect(h, "anna", &modern, body, 200, 0);
    harness_free(h);
}

static void what_needs_the_tools_waits_for_them(void **state)
{
    struct harness *h = listening(&(struct harness_options){.tools_later = true});
    _cleanup_(cleanup_free) char *id = post_initialize(h, "local", "2025-11-25");
    const struct exchange_headers in_it = {.session_id = id};
    const struct exchange_headers modern = {NULL, V, "tools/list", NULL};
    struct post posts[3];
    post_send(h, &posts[0], "local", &in_it, CALL("1", "tools/list"));
    post_send(h, &posts[1], "local", &modern, MODERN("1", "tools/list"));
    post_send(h, &posts[2], "local", &modern, MODERN("1", "tools/list"));
    post_expect(h, "local", &in_it, CALL("2", "ping"), 200, 0); /* others don't */
    for (int i = 0; i < 3; i++)
        assert_false(posts[i].ended);
    assert_true(exchange_abandon(posts[2].exchange));
    harness_open(h);
    for (int i = 0; i < 2; i++) {
        assert_true(posts[i].ended);
        assert_int_equal(post_error_code(&posts[i]), 0);
        post_done(&posts[i]);
    }
    post_done(&posts[2]);
    harness_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_from_initialize_on),
        cmocka_unit_test(what_belongs_to_no_session_is_refused),
        cmocka_unit_test(errors_echo_the_id),
        cmocka_unit_test(initialize_with_a_stale_id_begins_anew),
        cmocka_unit_test(a_refused_initialize_makes_no_session),
        cmocka_unit_test(batches_of_the_revision_that_has_them),
        cmocka_unit_test(a_cancelled_call_ends_without_a_reply),
        cmocka_unit_test(a_lost_connection_cancels_nothing),
        cmocka_unit_test(modern_statuses),
        cmocka_unit_test(equal_ids_may_run_at_once),
        cmocka_unit_test(a_closed_response_is_the_cancel),
        cmocka_unit_test(a_principal_has_so_many_calls_at_once),
        cmocka_unit_test(progress_comes_before_the_reply),
        cmocka_unit_test(a_long_body_is_parsed_elsewhere),
        cmocka_unit_test(so_much_is_read_at_once_for_one_principal),
        cmocka_unit_test(what_needs_the_tools_waits_for_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
