/* Sessions over HTTP: how they are found, and how they end. */
#include "harness.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

#define SHORT_S 0.005
#define TOOL(id, name) CALL_WITH(id, "tools/call", "{\"name\":\"" name "\"}")

static struct harness *listening(const struct http_options *options)
{
    struct harness *h = harness_new(NULL);
    harness_listen(h, options);
    return h;
}

static void ids_cannot_be_guessed(void **state)
{
    struct harness *h = listening(NULL);
    char *ids[50];
    for (int i = 0; i < 50; i++) {
        ids[i] = post_initialize(h, "local", "2025-11-25");
        assert_true(strlen(ids[i]) >= 32);
        assert_int_equal(strspn(ids[i], "0123456789abcdef"), strlen(ids[i]));
        for (int j = 0; j < i; j++)
            assert_string_not_equal(ids[i], ids[j]);
    }
    for (int i = 0; i < 50; i++)
        free(ids[i]);
    harness_free(h);
}

static void sessions_are_their_principals(void **state)
{
    struct harness *h = listening(NULL);
    _cleanup_(cleanup_free) char *id = post_initialize(h, "anna", "2025-06-18");
    struct http_session *s = http_session_find(h->endpoint, "anna", id);
    assert_non_null(s);
    assert_string_equal(http_session_version(s), "2025-06-18");
    assert_null(http_session_find(h->endpoint, "bert", id));
    assert_null(http_session_find(h->endpoint, "anna", ""));
    harness_free(h);
}

static void run_until_ended(struct harness *h, int sessions)
{
    while (h->sessions_ended < sessions)
        loop_run(h->loop);
}

static void an_idle_session_ends(void **state)
{
    struct harness *h = listening(&(struct http_options){.session_timeout_s = SHORT_S});
    _cleanup_(cleanup_free) char *id = post_initialize(h, "local", "2025-11-25");
    const struct exchange_headers in_it = {.session_id = id};
    int slot;
    *http_session_slot(http_session_find(h->endpoint, "local", id)) = &slot;
    run_until_ended(h, 1);
    assert_ptr_equal(h->last_slot, &slot);
    assert_null(http_session_find(h->endpoint, "local", id));
    post_expect(h, "local", &in_it, CALL("1", "ping"), 404, -32600);
    while (h->computers_record.ended < 1) { /* its computers go on a worker */
        struct post p;
        post_send(h, &p, "local", &in_it, CALL("1", "ping"));
        post_done(&p);
    }
    harness_free(h);
}

/* Others that began later have ended, and it hasn't. */
static void outlives_others(struct harness *h, const char *id)
{
    for (int i = 0; i < 4; i++) {
        int before = h->sessions_ended;
        free(post_initialize(h, "local", "2025-11-25"));
        run_until_ended(h, before + 1);
        assert_non_null(http_session_find(h->endpoint, "other", id));
    }
}

static void a_running_call_is_use(void **state)
{
    struct harness *h = listening(&(struct http_options){.session_timeout_s = SHORT_S});
    _cleanup_(cleanup_free) char *id = post_initialize(h, "other", "2025-11-25");
    const struct exchange_headers in_it = {.session_id = id};
    struct post p;
    post_send(h, &p, "other", &in_it, TOOL("1", "wait"));
    exchange_abandon(p.exchange); /* a lost connection changes nothing about that */
    outlives_others(h, id);
    toolset_release(h->toolset);
    post_await(&p);
    assert_int_equal(post_error_code(&p), 0);
    run_until_ended(h, 5);
    assert_null(http_session_find(h->endpoint, "other", id));
    post_done(&p);
    harness_free(h);
}

static void an_open_stream_is_use(void **state)
{
    struct harness *h = listening(&(struct http_options){.session_timeout_s = SHORT_S});
    _cleanup_(cleanup_free) char *id = post_initialize(h, "other", "2025-11-25");
    struct http_session *s = http_session_find(h->endpoint, "other", id);
    http_session_hold(s);
    http_session_hold(s);
    http_session_release(s);
    outlives_others(h, id);
    http_session_release(s);
    run_until_ended(h, 5);
    assert_null(http_session_find(h->endpoint, "other", id));
    harness_free(h);
}

static void delete_ends_calls_and_computers(void **state)
{
    struct harness *h = listening(NULL);
    _cleanup_(cleanup_free) char *id = post_initialize(h, "local", "2025-11-25");
    _cleanup_(cleanup_free) char *other = post_initialize(h, "local", "2025-11-25");
    const struct exchange_headers in_it = {.session_id = id}, in_other = {.session_id = other};
    struct post gone, stays;
    post_send(h, &gone, "local", &in_it, TOOL("\"one\"", "wait"));
    post_send(h, &stays, "local", &in_other, TOOL("1", "wait"));
    toolset_await_started(h->toolset, 2);
    http_session_end(http_session_find(h->endpoint, "local", id));
    assert_true(gone.ended);
    assert_int_equal(gone.status, 404);
    assert_non_null(strstr(gone.reply, "\"id\":\"one\","));
    assert_int_equal(h->sessions_ended, 1);
    assert_true(h->computers_record.killed);
    assert_null(http_session_find(h->endpoint, "local", id));
    post_expect(h, "local", &in_it, CALL("1", "ping"), 404, -32600);
    assert_false(stays.ended);
    toolset_release(h->toolset);
    post_await(&stays);
    assert_int_equal(stays.status, 200);
    post_done(&gone);
    post_done(&stays);
    harness_free(h);
}

/* Removing takes its time, which the loop hasn't got. */
static void computers_wait_for_a_worker_to_remove_them(void **state)
{
    struct harness *h = harness_new(&(struct harness_options){.max_running = 1, .max_queued = 1});
    harness_listen(h, NULL);
    _cleanup_(cleanup_free) char *busy = post_initialize(h, "local", "2025-11-25");
    _cleanup_(cleanup_free) char *ends = post_initialize(h, "local", "2025-11-25");
    const struct exchange_headers in_busy = {.session_id = busy};
    struct post runs, waits;
    post_send(h, &runs, "local", &in_busy, TOOL("1", "stubborn"));
    toolset_await_started(h->toolset, 1);
    post_send(h, &waits, "local", &in_busy, TOOL("2", "answer"));
    assert_false(waits.ended); /* the queue is full now */
    http_session_end(http_session_find(h->endpoint, "local", ends));
    assert_int_equal(h->computers_record.ended, 0);
    toolset_release(h->toolset);
    post_await(&waits);
    assert_int_equal(post_error_code(&waits), 0);
    post_await(&runs);
    post_done(&runs);
    post_done(&waits);
    harness_close_endpoint(h, DEADLINE_NONE);
    assert_int_equal(h->computers_record.ended, 2);
    harness_free(h);
}

static void sessions_are_limited(void **state)
{
    struct harness *h = listening(&(struct http_options){.max_sessions = 3, .max_sessions_per_principal = 2});
    char *first = post_initialize(h, "anna", "2025-11-25");
    free(post_initialize(h, "anna", "2025-11-25"));
    post_expect(h, "anna", NULL, INITIALIZE("1", "2025-11-25"), 503, -32603);
    free(post_initialize(h, "bert", "2025-11-25"));
    post_expect(h, "bert", NULL, INITIALIZE("1", "2025-11-25"), 503, -32603);
    http_session_end(http_session_find(h->endpoint, "anna", first));
    free(first);
    free(post_initialize(h, "bert", "2025-11-25"));
    post_expect(h, "bert", NULL, INITIALIZE("1", "2025-11-25"), 503, -32603);
    harness_free(h);
}

#define MODERN_META                                                                                          \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                                 \
    "\"io.modelcontextprotocol/clientCapabilities\":{}}"
static const struct exchange_headers modern_wait = {NULL, "2026-07-28", "tools/call", "wait"};
#define MODERN_WAIT CALL_WITH("2", "tools/call", "{\"name\":\"wait\"," MODERN_META "}")

static void the_end_of_all(void **state)
{
    struct harness *h = listening(NULL);
    _cleanup_(cleanup_free) char *id = post_initialize(h, "anna", "2025-11-25");
    free(post_initialize(h, "bert", "2025-11-25"));
    const struct exchange_headers in_it = {.session_id = id};
    struct post legacy, modern, late;
    post_send(h, &legacy, "anna", &in_it, TOOL("1", "wait"));
    post_send(h, &modern, "anna", &modern_wait, MODERN_WAIT);
    toolset_await_started(h->toolset, 2);
    assert_int_equal(endpoint_running(h->endpoint), 2);
    harness_close_endpoint(h, DEADLINE_NONE);
    assert_null(h->left_behind);
    assert_int_equal(h->sessions_ended, 2);
    assert_int_equal(endpoint_running(h->endpoint), 0);
    assert_int_equal(legacy.status, 503);
    assert_non_null(strstr(legacy.reply, "\"id\":1,"));
    assert_int_equal(modern.status, 503);
    assert_non_null(strstr(modern.reply, "\"id\":2,"));
    assert_int_equal(h->computers_record.ended, 3); /* two sessions', and what anna's leases hold */
    post_send(h, &late, "anna", NULL, INITIALIZE("1", "2025-11-25"));
    assert_int_equal(late.status, 503);
    post_done(&legacy);
    post_done(&modern);
    post_done(&late);
    harness_free(h);
}

static void the_end_of_all_is_told_what_was_left(void **state)
{
    struct harness *h = listening(NULL);
    free(post_initialize(h, "local", "2025-11-25"));
    h->computers_record.end_error = "computer keen-fox-1234 can't be removed";
    harness_close_endpoint(h, DEADLINE_NONE);
    assert_string_equal(h->left_behind, "computer keen-fox-1234 can't be removed");
    harness_free(h);
}

/* A call that doesn't end, in a session that was deleted before: nobody waits for it for ever. */
static void the_end_of_all_is_told_in_time(void **state)
{
    struct harness *h = listening(NULL);
    _cleanup_(cleanup_free) char *id = post_initialize(h, "local", "2025-11-25");
    const struct exchange_headers in_it = {.session_id = id};
    struct post p;
    post_send(h, &p, "local", &in_it, TOOL("1", "stubborn"));
    toolset_await_started(h->toolset, 1);
    http_session_end(http_session_find(h->endpoint, "local", id));
    harness_close_endpoint(h, clock_now());
    assert_non_null(h->left_behind);
    toolset_release(h->toolset);
    post_done(&p);
    harness_free(h);
}

static void leases_are_looked_at_when_they_may_be_over(void **state)
{
    struct harness *h = listening(&(struct http_options){.session_timeout_s = SHORT_S});
    struct post p;
    h->computers_record.expires_again = clock_now();
    post_send(h, &p, "local", &modern_wait, MODERN_WAIT);
    toolset_release(h->toolset);
    post_await(&p);
    assert_int_equal(post_error_code(&p), 0);
    post_done(&p);
    for (int sessions = 1; h->computers_record.expired < 2; sessions++) { /* something to run the loop for */
        free(post_initialize(h, "local", "2025-11-25"));
        run_until_ended(h, sessions);
    }
    harness_free(h);
}

/* Whoever looks at the leases may have missed the one that begins meanwhile. */
static void a_lease_that_begins_during_a_look_is_looked_at(void **state)
{
    struct harness *h = harness_new(&(struct harness_options){.max_running = 1});
    harness_listen(h, &(struct http_options){.session_timeout_s = SHORT_S});
    const struct exchange_headers headers = {NULL, "2026-07-28", "tools/call", "stubborn"};
    struct post p;
    post_send(h, &p, "local", &modern_wait, MODERN_WAIT);
    toolset_release(h->toolset);
    post_await(&p);
    post_done(&p);
    post_send(h, &p, "local", &headers,
              CALL_WITH("2", "tools/call", "{\"name\":\"stubborn\"," MODERN_META "}"));
    toolset_await_started(h->toolset, 2);
    free(post_initialize(h, "local", "2025-11-25"));
    run_until_ended(h,
                    1); /* so the timer of the leases, which is older, has fired: the look is in the queue */
    assert_int_equal(h->computers_record.expired, 0);
    toolset_release(h->toolset);
    post_await(&p);
    post_done(&p);
    for (int sessions = 2; h->computers_record.expired < 2; sessions++) {
        free(post_initialize(h, "local", "2025-11-25"));
        run_until_ended(h, sessions);
    }
    harness_free(h);
}

static void legacy_calls_have_no_leases(void **state)
{
    struct harness *h = listening(NULL);
    _cleanup_(cleanup_free) char *id = post_initialize(h, "local", "2025-11-25");
    const struct exchange_headers in_it = {.session_id = id};
    post_expect(h, "local", &in_it, TOOL("1", "answer"), 200, 0);
    assert_int_equal(h->computers_record.leased, 0);
    harness_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_cannot_be_guessed),
        cmocka_unit_test(sessions_are_their_principals),
        cmocka_unit_test(an_idle_session_ends),
        cmocka_unit_test(a_running_call_is_use),
        cmocka_unit_test(an_open_stream_is_use),
        cmocka_unit_test(delete_ends_calls_and_computers),
        cmocka_unit_test(computers_wait_for_a_worker_to_remove_them),
        cmocka_unit_test(sessions_are_limited),
        cmocka_unit_test(the_end_of_all),
        cmocka_unit_test(the_end_of_all_is_told_what_was_left),
        cmocka_unit_test(the_end_of_all_is_told_in_time),
        cmocka_unit_test(leases_are_looked_at_when_they_may_be_over),
        cmocka_unit_test(a_lease_that_begins_during_a_look_is_looked_at),
        cmocka_unit_test(legacy_calls_have_no_leases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
