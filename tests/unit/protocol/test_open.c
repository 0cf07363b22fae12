/* Tools that come later than the first messages. */
#include "harness.h"

#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"

#define TOOLS "\"tools\":[{\"name\":\"answer\"}]"
#define DISCOVER                                                                                             \
    CALL_WITH("1", "server/discover",                                                                        \
              "{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                      \
              "\"io.modelcontextprotocol/clientCapabilities\":{}}}")

static const struct harness_options later = {.tools_later = true};

static void others_are_answered_at_once(void **state)
{
    struct harness *h = harness_new(&later);
    harness_initialize(h, "2025-11-25");
    harness_ask(h, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}", NULL);
    harness_ask(h, CALL("1", "ping"), RESULT("1", ""));
    harness_ask(h, CALL("2", "prompts/list"), RESULT("2", "\"prompts\":[]"));
    harness_ask(h, CALL("3", "nothing"), ERROR("3", "-32601", "Method not found: nothing"));
    harness_tell(h, DISCOVER);
    _cleanup_(cleanup_free) char *discovered = harness_read(h);
    assert_non_null(strstr(discovered, "supportedVersions"));
    assert_int_equal(h->first_replies, 1);
    assert_true(session_accepts(h->session) && session_is_idle(h->session));
    harness_open(h);
    harness_ask(h, CALL("4", "tools/list"), RESULT("4", TOOLS));
    harness_free(h);
}

static void waits(struct harness *h, const char *request)
{
    harness_tell(h, request);
    assert_int_equal(h->received_count, 0);
    assert_false(session_accepts(h->session));
    assert_false(session_is_idle(h->session));
}

static void first_about_tools_waits(void **state)
{
    static const struct turn cases[] = {
        {CALL("1", "tools/list"), RESULT("1", TOOLS)},
        {CALL_WITH("1", "tools/call", "{\"name\":\"answer\"}"),
         RESULT("1", "\"content\":[],\"isError\":false")},
        {"[" CALL("1", "ping") "," CALL("2", "tools/list") "]",
         "[" RESULT("1", "") "," RESULT("2", TOOLS) "]"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct harness *h = harness_new(&later);
        harness_initialize(h, "2025-03-26");
        waits(h, cases[i].request);
        harness_open(h);
        assert_true(h->resumed);
        harness_expect(h, cases[i].reply);
        harness_ask(h, CALL("9", "ping"), RESULT("9", ""));
        harness_free(h);
    }
}

struct fence {
    struct pool_job job;
    struct loop_post post;
    struct harness *h;
    bool passed;
};

static void fence_passed(void *arg)
{
    struct fence *f = arg;
    f->passed = true;
    loop_stop(f->h->loop);
}

static void fence_run(struct pool_job *job)
{
    struct fence *f = CONTAINER_OF(job, struct fence, job);
    loop_post(f->h->loop, &f->post);
}

/* The loop comes to rest after what the only worker had to do. */
static void await_worker(struct harness *h)
{
    struct fence f = {.h = h, .job = {.run = fence_run, .deadline = DEADLINE_NONE}};
    f.post = (struct loop_post){.fn = fence_passed, .arg = &f};
    assert_int_equal(pool_submit(h->pool, &f.job, NULL), 0);
    harness_run_until(h, &f.passed);
}

static void long_one_waits_too(void **state)
{
    struct harness *h = harness_new(&(struct harness_options){.tools_later = true, .max_running = 1});
    harness_initialize(h, "2025-11-25");
    char *blanks = xcalloc(1, LIMIT_INLINE_PARSE_BYTES + 1);
    memset(blanks, ' ', LIMIT_INLINE_PARSE_BYTES);
    char *request = xasprintf("%s%s", CALL("1", "tools/list"), blanks);
    waits(h, request);
    await_worker(h);
    assert_int_equal(h->received_count, 0);
    assert_false(session_accepts(h->session));
    harness_open(h);
    harness_expect(h, RESULT("1", TOOLS));
    free(request);
    free(blanks);
    harness_free(h);
}

static void on_closed(void *arg, const char *left_behind)
{
    struct harness *h = arg;
    assert_null(left_behind);
    h->closed = true;
    loop_stop(h->loop);
}

/* Also if they come while it ends. */
static void end_before_the_tools(void **state)
{
    for (int waiting = 0; waiting < 2; waiting++) {
        for (int opened = 0; opened < 2; opened++) {
            struct harness *h = harness_new(&later);
            harness_initialize(h, "2025-11-25");
            if (waiting)
                waits(h, CALL("1", "tools/list"));
            session_close(TAKE_PTR(h->session), DEADLINE_NONE, on_closed, h);
            if (opened)
                harness_open(h);
            harness_run_until(h, &h->closed);
            assert_int_equal(h->received_count, 0);
            assert_false(h->computers_record.killed || h->computers_record.ended);
            harness_free(h);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_are_answered_at_once),
        cmocka_unit_test(first_about_tools_waits),
        cmocka_unit_test(long_one_waits_too),
        cmocka_unit_test(end_before_the_tools),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
