/* tools/call: the one method that takes its time.
 *
 * The loop makes a `struct call` and gives it to the pool; from then on the worker alone touches its reply,
 * value and failure, until it posts itself back. The loop keeps id, batch, timer and `cancelled`. The frame
 * of the reply stands in its buffer before the tool appends to it, so that a result of many MiB is written
 * once and never copied. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/mem.h"
#include "protocol/session.h"
#include "tools/result.h"

struct call {
    struct list link; /* in session->calls */
    struct session *session;
    struct batch *batch;
    struct pool_job job;
    struct loop_post post;
    struct tool_call tool;
    struct cancel *cancel;
    char *id; /* as it came */
    char *key;
    size_t message_bytes;
    bool cancelled; /* by the client: it gets no reply */

    char *progress_token; /* as it came, or NULL */
    struct loop_timer *heartbeat;
    int64_t started, told_ms;

    struct progress progress; /* the tool's way to tell */
    pthread_mutex_t news_lock;
    char news[256];
    bool news_posted;
    struct loop_post news_post;

    json_t *value; /* the whole message; tool.name and tool.arguments are in it */
    struct buf reply;
    struct error failure; /* instead of a result */
};

static struct span call_id(const struct call *c)
{
    return (struct span){c->id, strlen(c->id)};
}

static void call_free(struct call *c)
{
    list_unlink(&c->link);
    map_remove(c->session->calls_by_id, c->key);
    c->session->call_bytes -= c->message_bytes;
    loop_timer_free(c->heartbeat);
    cancel_unref(c->cancel);
    json_decref(c->value);
    buf_done(&c->reply);
    pthread_mutex_destroy(&c->news_lock);
    free(c->progress_token);
    free(c->key);
    free(c->id);
    free(c);
}

/* -- On the worker. */

/* Whatever the tool left behind, the client gets a reply: a whole result, or `failure` as an error of the
 * protocol. */
static void post_back(struct call *c, bool written)
{
    if (written && buf_append_str(&c->reply, "}}") < 0)
        error_set(&c->failure, ERR_LIMIT, "the result is too long");
    json_decref(TAKE_PTR(c->value)); /* here, since taking a big one apart takes time */
    loop_post(c->session->protocol->options.loop, &c->post);
}

static void run(struct pool_job *job)
{
    struct call *c = CONTAINER_OF(job, struct call, job);
    const struct protocol_options *o = &c->session->protocol->options;
    int r = toolset_call(o->toolset, &c->tool, &c->reply, &c->failure);
    post_back(c, r == 0); /* the call is the loop's again */
    computers_prepare(o->computers);
}

/* As the tools' own errors look. */
static void refused(struct pool_job *job, const struct error *err)
{
    struct call *c = CONTAINER_OF(job, struct call, job);
    bool written = err->code != ERR_CANCELLED && result_write_error(err, &c->reply, NULL) == 0;
    if (!written)
        c->failure = *err;
    post_back(c, written);
}

/* -- On the loop. */

static bool write_failure(struct call *c)
{
    struct rpc_error error = RPC_ERROR_INIT;
    if (c->failure.code == ERR_CANCELLED)
        return false;
    rpc_error_set(&error, error_jsonrpc_code(c->failure.code), "%s", c->failure.msg);
    return envelope_error(&c->reply, call_id(c), &error) == 0;
}

static void done(void *arg)
{
    struct call *c = arg;
    struct session *s = c->session;
    struct batch *b = c->batch;
    if (!c->cancelled && !s->closing && (c->failure.code == ERR_NONE || write_failure(c)))
        session_deliver(s, b, call_id(c), &c->reply);
    call_free(c);
    if (b)
        batch_release(b);
    if (s->closing)
        session_closing_step(s);
}

/* Clients reset their timeouts by it, and people see that something goes on. */
static void send_progress(struct call *c, const char *text)
{
    const struct span no_id = {NULL, 0};
    int64_t ms = (clock_now() - c->started) / NSEC_PER_MSEC;
    c->told_ms = ms > c->told_ms ? ms : c->told_ms + 1; /* it has to grow */
    struct buf b = BUF_INIT(16 * KIB);
    struct json_writer w;
    jw_init(&w, &b);
    jw_begin_object(&w);
    jw_key(&w, "jsonrpc");
    jw_string(&w, "2.0");
    jw_key(&w, "method");
    jw_string(&w, "notifications/progress");
    jw_key(&w, "params");
    jw_begin_object(&w);
    jw_key(&w, "progressToken");
    jw_raw(&w, c->progress_token, strlen(c->progress_token));
    jw_key(&w, "progress");
    jw_real(&w, (double)c->told_ms / 1000.0);
    jw_key(&w, "message");
    jw_string(&w, text);
    jw_end_object(&w);
    jw_end_object(&w);
    if (!w.failed)
        session_deliver(c->session, NULL, no_id, &b);
    buf_done(&b);
}

static void heartbeat(void *arg)
{
    struct call *c = arg;
    char text[64];
    snprintf(text, sizeof(text), "running for %lld s", (clock_now() - c->started) / NSEC_PER_SEC);
    send_progress(c, text);
}

/* On any thread, until the tool returns: the last word wins, and waits for the loop. */
static void tell(void *ctx, const char *text, uint64_t done, uint64_t total)
{
    struct call *c = ctx;
    pthread_mutex_lock(&c->news_lock);
    snprintf(c->news, sizeof(c->news), "%s", text);
    bool post = !c->news_posted;
    c->news_posted = true;
    pthread_mutex_unlock(&c->news_lock);
    if (post)
        loop_post(c->session->protocol->options.loop, &c->news_post);
}

/* Posts are served in order, so this one comes before the call's end. */
static void send_news(void *arg)
{
    struct call *c = arg;
    char text[sizeof(c->news)];
    pthread_mutex_lock(&c->news_lock);
    memcpy(text, c->news, sizeof(text));
    c->news_posted = false;
    pthread_mutex_unlock(&c->news_lock);
    if (c->heartbeat && !c->session->closing)
        send_progress(c, text);
}

static void start_heartbeat(struct call *c, struct span token)
{
    const struct protocol_options *o = &c->session->protocol->options;
    c->progress_token = xstrndup(token.at, token.len);
    c->progress = (struct progress){.tell = tell, .ctx = c};
    c->tool.progress = &c->progress;
    c->heartbeat = loop_timer_new(o->loop, heartbeat, c);
    loop_timer_start(c->heartbeat, o->progress_interval_ms, o->progress_interval_ms);
}

static struct call *call_new(struct request *r, const struct tool_call *tool, struct buf *key)
{
    struct session *s = r->session;
    struct message *m = r->message;
    struct call *c = xcalloc(1, sizeof(*c));
    c->session = s;
    c->batch = r->batch;
    c->cancel = cancel_new();
    c->tool = *tool;
    c->tool.cancel = c->cancel;
    c->tool.session = s->computers;
    c->id = xstrndup(m->id.at, m->id.len);
    c->key = buf_steal(key);
    c->message_bytes = m->text.len;
    c->value = TAKE_PTR(m->root);
    c->started = clock_now();
    pthread_mutex_init(&c->news_lock, NULL);
    c->news_post = (struct loop_post){.fn = send_news, .arg = c};
    c->post = (struct loop_post){.fn = done, .arg = c};
    c->job = (struct pool_job){.run = run, .refused = refused, .cancel = c->cancel};
    c->job.deadline = toolset_deadline(s->protocol->options.toolset, &c->tool);
    snprintf(c->job.principal, sizeof(c->job.principal), "%s", s->principal);
    buf_move(&c->reply, &r->reply);
    list_append(&s->calls, &c->link);
    s->call_bytes += c->message_bytes;
    if (m->progress_token.at)
        start_heartbeat(c, m->progress_token);
    if (c->batch)
        batch_hold(c->batch);
    return c;
}

static bool has_room(const struct session *s, size_t message_bytes, struct rpc_error *error)
{
    if (map_count(s->calls_by_id) < LIMIT_IN_FLIGHT_REQUESTS &&
        s->call_bytes + message_bytes <= LIMIT_IN_FLIGHT_BYTES)
        return true;
    rpc_error_set(error, RPC_INTERNAL_ERROR,
                  "Limit reached: %zu calls are running in this session; wait for one of them, or cancel it",
                  map_count(s->calls_by_id));
    return false;
}

static bool read_tool(const struct request *r, struct tool_call *ret, struct rpc_error *error)
{
    const json_t *arguments = json_object_get(r->message->params, "arguments");
    const char *name = require_param(r, "name", error);
    if (!name)
        return false;
    if (!toolset_has(r->session->protocol->options.toolset, name)) {
        rpc_error_set(error, RPC_INVALID_PARAMS, "Unknown tool: %s", name);
        return false;
    }
    if (arguments && !json_is_object(arguments) && !json_is_null(arguments)) {
        rpc_error_set(error, RPC_INVALID_PARAMS, "Invalid params: params.arguments must be an object");
        return false;
    }
    *ret = (struct tool_call){.name = name, .arguments = json_is_object(arguments) ? arguments : NULL};
    return true;
}

enum answer serve_tools_call(struct request *r, struct rpc_error *error)
{
    struct session *s = r->session;
    struct message *m = r->message;
    struct tool_call tool;
    struct error err = ERROR_INIT;
    if (!read_tool(r, &tool, error) || !has_room(s, m->text.len, error))
        return ANSWER_ERROR;
    _cleanup_(buf_done) struct buf key = BUF_INIT(LIMIT_ID_KEY_BYTES);
    if (r->writer.failed || (r->era == ERA_MODERN && buf_append_byte(&r->reply, ',') < 0) ||
        id_key(json_object_get(m->root, "id"), m->id, &key) < 0) {
        rpc_error_set(error, RPC_INTERNAL_ERROR, "Internal error: out of memory");
        return ANSWER_ERROR;
    }
    struct call *c = call_new(r, &tool, &key);
    map_put(s->calls_by_id, c->key, c);
    if (pool_submit(s->protocol->options.pool, &c->job, &err) < 0)
        refused(&c->job, &err);
    return ANSWER_LATER;
}

/* What is unknown, or over already, is none of our business; initialize is never in flight. */
void call_cancel(struct session *s, const struct message *notification)
{
    static const char *const path[] = {"params", "requestId", NULL};
    _cleanup_(buf_done) struct buf key = BUF_INIT(LIMIT_ID_KEY_BYTES);
    struct span id;
    if (!message_locate(notification, path, &id) || !span_is_id(id) ||
        id_key(json_object_get(notification->params, "requestId"), id, &key) < 0)
        return;
    struct call *c = map_get(s->calls_by_id, buf_str(&key));
    if (!c)
        return;
    c->cancelled = true;
    c->heartbeat = loop_timer_free(c->heartbeat);
    cancel_fire(c->cancel, ERR_CANCELLED);
    pool_kick(s->protocol->options.pool);
}

void calls_cancel_all(struct session *s)
{
    list_for_each (node, &s->calls) {
        struct call *c = list_entry(node, struct call, link);
        c->heartbeat = loop_timer_free(c->heartbeat);
        cancel_fire(c->cancel, ERR_CANCELLED);
    }
    pool_kick(s->protocol->options.pool);
}

void calls_free_all(struct session *s)
{
    list_for_each (node, &s->calls) {
        struct call *c = list_entry(node, struct call, link);
        struct batch *b = c->batch;
        call_free(c);
        if (b)
            batch_release(b);
    }
}
