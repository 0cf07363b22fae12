/* One session whose messages a test writes and reads: see harness.h. */
#include "harness.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

#define WATCHDOG_MS 20000

static void on_watchdog(void *arg)
{
    fail_msg("nothing happened for %d ms", WATCHDOG_MS);
}

static void on_send(void *ctx, struct buf *message, void (*on_written)(void *arg), void *arg)
{
    struct harness *h = ctx;
    assert_false(h->closed);
    h->received = xrealloc_array(h->received, h->received_count + 1, sizeof(*h->received));
    memset(&h->received[h->received_count], 0, sizeof(*h->received));
    buf_move(&h->received[h->received_count++], message);
    if (on_written)
        on_written(arg);
    loop_stop(h->loop);
}

static void on_first_reply(void *ctx)
{
    struct harness *h = ctx;
    h->first_replies++;
}

static void on_resume(void *arg)
{
    struct harness *h = arg;
    h->resumed = true;
    loop_stop(h->loop);
}

static void on_closed(void *arg, const char *left_behind)
{
    struct harness *h = arg;
    h->closed = true;
    h->left_behind = xstrdup(left_behind);
    loop_stop(h->loop);
}

struct harness *harness_new(const struct harness_options *options)
{
    const struct harness_options o = options ? *options : (struct harness_options){0};
    struct harness *h = xcalloc(1, sizeof(*h));
    h->loop = loop_new(NULL);
    h->pool = pool_new(o.max_running ? o.max_running : 8, o.max_queued ? o.max_queued : 64);
    h->toolset = toolset_double_new();
    h->computers = computers_double_new(&h->computers_record);
    h->protocol = protocol_new(&(struct protocol_options){
        .loop = h->loop,
        .pool = h->pool,
        .toolset = o.tools_later ? NULL : h->toolset,
        .computers = o.tools_later ? NULL : h->computers,
        .server_name = "test",
        .server_title = "Test",
        .server_version = "1",
        .progress_interval_ms = o.progress_interval_ms,
        .on_first_reply = on_first_reply,
        .ctx = h,
    });
    h->session = session_new(h->protocol, "local", &(struct session_sink){.send = on_send, .ctx = h});
    session_on_resume(h->session, on_resume, h);
    h->watchdog = loop_timer_new(h->loop, on_watchdog, h);
    return h;
}

void harness_open(struct harness *h)
{
    protocol_open(h->protocol, h->toolset, h->computers);
}

void harness_run_until(struct harness *h, const bool *flag)
{
    loop_timer_start(h->watchdog, WATCHDOG_MS, 0);
    while (!*flag)
        loop_run(h->loop);
    loop_timer_stop(h->watchdog);
}

void harness_close(struct harness *h, int64_t deadline)
{
    session_close(h->session, deadline, on_closed, h);
    h->session = NULL;
    harness_run_until(h, &h->closed);
}

void harness_free(struct harness *h)
{
    if (h->session)
        harness_close(h, DEADLINE_NONE);
    assert_true(pool_close(h->pool, DEADLINE_NONE));
    h->pool = pool_free(h->pool);
    protocol_free(h->protocol);
    toolset_free(h->toolset);
    computers_double_free(h->computers);
    loop_timer_free(h->watchdog);
    loop_free(h->loop);
    for (size_t i = 0; i < h->received_count; i++)
        buf_done(&h->received[i]);
    free(h->received);
    free(h->left_behind);
    free(h);
}

void harness_tell(struct harness *h, const char *message)
{
    if (!session_accepts(h->session)) {
        h->resumed = false;
        harness_run_until(h, &h->resumed);
    }
    session_receive(h->session, message, strlen(message));
}

char *harness_read(struct harness *h)
{
    loop_timer_start(h->watchdog, WATCHDOG_MS, 0);
    while (h->received_count == 0)
        loop_run(h->loop);
    loop_timer_stop(h->watchdog);
    char *oldest = buf_steal(&h->received[0]);
    memmove(h->received, h->received + 1, --h->received_count * sizeof(*h->received));
    return oldest;
}

void harness_expect(struct harness *h, const char *message)
{
    _cleanup_(cleanup_free) char *got = harness_read(h);
    assert_string_equal(got, message);
}

void harness_ask(struct harness *h, const char *request, const char *reply)
{
    harness_tell(h, request);
    if (reply) {
        harness_expect(h, reply);
        return;
    }
    harness_tell(h, "{\"jsonrpc\":\"2.0\",\"id\":\"fence\",\"method\":\"ping\"}");
    harness_expect(h, "{\"jsonrpc\":\"2.0\",\"id\":\"fence\",\"result\":{}}");
}

void harness_initialize(struct harness *h, const char *version)
{
    _cleanup_(cleanup_free) char *request =
        xasprintf("{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\","
                  "\"params\":{\"protocolVersion\":\"%s\",\"capabilities\":{},"
                  "\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}",
                  version);
    harness_tell(h, request);
    free(harness_read(h));
}

void harness_play(const struct exchange *script, size_t n)
{
    struct harness *h = harness_new(NULL);
    for (size_t i = 0; i < n; i++)
        harness_ask(h, script[i].request, script[i].reply);
    harness_free(h);
}
