/* One session whose messages a test writes and reads: see harness.h. */
#include "harness.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

#define WATCHDOG_MS 60000

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

static void on_call(void *ctx, const struct call_report *report)
{
    struct harness *h = ctx;
    h->reports++;
    h->report = *report;
    snprintf(h->report_tool, sizeof(h->report_tool), "%s", report->tool);
    snprintf(h->report_principal, sizeof(h->report_principal), "%s", report->principal);
    h->report.tool = h->report.principal = NULL; /* theirs */
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
    free(h->left_behind);
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
        .on_call = on_call,
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
    if (h->endpoint && !h->endpoint_closed)
        harness_close_endpoint(h, DEADLINE_NONE);
    assert_true(pool_close(h->pool, DEADLINE_NONE));
    h->pool = pool_free(h->pool);
    endpoint_free(h->endpoint);
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

void harness_play(const struct turn *script, size_t n)
{
    struct harness *h = harness_new(NULL);
    for (size_t i = 0; i < n; i++)
        harness_ask(h, script[i].request, script[i].reply);
    harness_free(h);
}

/* -- Over HTTP. */

static void on_session_end(void *ctx, void *slot)
{
    struct harness *h = ctx;
    h->sessions_ended++;
    h->last_slot = slot;
    loop_stop(h->loop);
}

void harness_listen(struct harness *h, const struct http_options *options)
{
    const struct http_options o = options ? *options : (struct http_options){0};
    h->endpoint = endpoint_new(&(struct endpoint_options){
        .protocol = h->protocol,
        .session_timeout_s = o.session_timeout_s > 0 ? o.session_timeout_s : 3600,
        .max_sessions = o.max_sessions ? o.max_sessions : 100,
        .max_sessions_per_principal = o.max_sessions_per_principal ? o.max_sessions_per_principal : 100,
        .on_session_end = on_session_end,
        .ctx = h,
    });
}

static void on_endpoint_closed(void *arg, const char *left_behind)
{
    struct harness *h = arg;
    assert_false(h->endpoint_closed);
    h->endpoint_closed = true;
    free(h->left_behind);
    h->left_behind = xstrdup(left_behind);
    loop_stop(h->loop);
}

void harness_close_endpoint(struct harness *h, int64_t deadline)
{
    endpoint_close(h->endpoint, deadline, on_endpoint_closed, h);
    harness_run_until(h, &h->endpoint_closed);
}

static void on_notify(void *ctx, struct buf *message)
{
    struct post *p = ctx;
    assert_false(p->ended);
    free(p->notified);
    p->notified = buf_steal(message);
    p->notified_count++;
    loop_stop(p->harness->loop);
}

static void on_end(void *ctx, const struct exchange_end *end)
{
    struct post *p = ctx;
    assert_false(p->ended);
    p->ended = true;
    p->exchange = NULL;
    p->status = end->status;
    p->session_id = xstrdup(end->session_id);
    p->reply = end->reply ? buf_steal(end->reply) : NULL;
    loop_stop(p->harness->loop);
}

void post_send(struct harness *h, struct post *p, const char *principal,
               const struct exchange_headers *headers, const char *body)
{
    const struct exchange_headers none = {0};
    const struct exchange_sink sink = {.notify = on_notify, .end = on_end, .ctx = p};
    *p = (struct post){.harness = h};
    struct exchange *x =
        exchange_begin(h->endpoint, principal, headers ? headers : &none, body, strlen(body), &sink);
    assert_true(p->ended == !x);
    p->exchange = x;
}

void post_await(struct post *p)
{
    harness_run_until(p->harness, &p->ended);
}

int post_error_code(const struct post *p)
{
    struct error err = ERROR_INIT;
    assert_non_null(p->reply);
    _cleanup_(cleanup_json_decref) json_t *reply = json_parse(p->reply, strlen(p->reply), &err);
    if (!reply)
        fail_msg("%s: %s", p->reply, err.msg);
    const json_t *error = json_get_object(reply, "error");
    assert_true(error || json_object_get(reply, "result") || json_is_array(reply));
    return (int)json_integer_value(json_object_get(error, "code"));
}

void post_done(struct post *p)
{
    free(p->notified);
    free(p->session_id);
    free(p->reply);
    *p = (struct post){0};
}

void post_expect(struct harness *h, const char *principal, const struct exchange_headers *headers,
                 const char *body, int status, int code)
{
    struct post p;
    post_send(h, &p, principal, headers, body);
    post_await(&p);
    int got = p.reply ? post_error_code(&p) : NO_REPLY;
    if (p.status != status || got != code)
        fail_msg("%s: expected %d with %d, got %d with %d: %s", body, status, code, p.status, got,
                 p.reply ? p.reply : "no reply");
    post_done(&p);
}

char *post_initialize(struct harness *h, const char *principal, const char *version)
{
    _cleanup_(cleanup_free) char *body =
        xasprintf(CALL_WITH("0", "initialize", "{\"protocolVersion\":\"%s\"}"), version);
    struct post p;
    post_send(h, &p, principal, NULL, body);
    post_await(&p);
    assert_int_equal(p.status, 200);
    assert_non_null(p.session_id);
    char *id = TAKE_PTR(p.session_id);
    post_done(&p);
    return id;
}
