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
#include "base/fault.h"
#include "base/mem.h"
#include "protocol/exchange.h"
#include "tools/result.h"

#define LATER_MS 10

struct call {
    struct list link; /* in session->calls */
    struct origin from;
    enum era era;
    struct pool_job job;
    struct loop_post post;
    struct tool_call tool;
    struct cancel *cancel;
    char *tool_name;
    char *id;  /* as it came */
    char *key; /* in calls_by_id; NULL: nothing is found by its id */
    size_t message_bytes;
    bool cancelled; /* by the client: it gets no reply */

    char *progress_token; /* as it came, or NULL */
    struct loop_timer *heartbeat;
    int64_t started, told_ms;

    struct tool_client *client; /* what the tool may want of it; NULL: nothing */
    struct progress progress;   /* the tool's way to tell */
    pthread_mutex_t news_lock;
    char news[256];
    bool news_posted;
    struct loop_post news_post;

    json_t *value; /* the whole message; tool.name and tool.arguments are in it */
    struct buf reply;
    struct error failure;    /* instead of a result */
    enum error_code outcome; /* what a result with isError is about */
};

struct span call_id(const struct call *c)
{
    return (struct span){c->id, strlen(c->id)};
}

static void call_free(struct call *c)
{
    struct session *s = c->from.session;
    list_unlink(&c->link);
    if (c->key)
        map_remove(s->calls_by_id, c->key);
    s->call_count--;
    s->call_bytes -= c->message_bytes;
    loop_timer_free(c->heartbeat);
    ask_client_free(c->client);
    cancel_unref(c->cancel);
    json_decref(c->value);
    buf_done(&c->reply);
    pthread_mutex_destroy(&c->news_lock);
    free(c->progress_token);
    free(c->tool_name);
    free(c->key);
    free(c->id);
    free(c);
}

/* -- On the worker. */

/* Whatever the tool left behind, the client gets a reply: a whole result, or `failure` as an error of the
 * protocol. */
static void post_back(struct call *c, bool written)
{
    if (written && buf_append_str(&c->reply, c->era == ERA_MODERN ? MODERN_CLOSE "}}" : "}}") < 0)
        error_set(&c->failure, ERR_LIMIT, "the result is too long");
    json_decref(TAKE_PTR(c->value)); /* here, since taking a big one apart takes time */
    loop_post(c->from.session->protocol->options.loop, &c->post);
}

static void run(struct pool_job *job)
{
    struct call *c = CONTAINER_OF(job, struct call, job);
    const struct protocol_options *o = &c->from.session->protocol->options;
    int r = toolset_call(o->toolset, &c->tool, &c->reply, &c->failure);
    if (r == 0) {
        c->outcome = c->failure.code;
        c->failure.code = ERR_NONE; /* the result says it */
    }
    FAULT_POINT("call.answered");
    post_back(c, r == 0); /* the call is the loop's again */
}

/* As the tools' own errors look. */
static void refused(struct pool_job *job, const struct error *err)
{
    struct call *c = CONTAINER_OF(job, struct call, job);
    bool written = err->code != ERR_CANCELLED && result_write_error(err, &c->reply, NULL) == 0;
    c->outcome = err->code;
    if (!written)
        c->failure = *err;
    post_back(c, written);
}

/* -- On the loop. */

static bool write_failure(struct call *c, struct rpc_error *ret)
{
    if (c->failure.code == ERR_CANCELLED)
        return false;
    rpc_error_set(ret, error_jsonrpc_code(c->failure.code), "%s", c->failure.msg);
    return envelope_error(&c->reply, call_id(c), ret) == 0;
}

/* What waits for the replies to a message: its batch, else its exchange. */
static void hold(struct call *c)
{
    if (c->from.batch)
        batch_hold(c->from.batch);
    else if (c->from.exchange)
        exchange_hold_for(c->from.exchange, c);
}

static void release(const struct origin *from)
{
    if (from->batch)
        batch_release(from->batch);
    else if (from->exchange)
        exchange_release_call(from->exchange);
}

/* -- Between calls, on a worker. */

/* To make ahead what the next computer needs. */
struct preparation {
    struct pool_job job;
    struct computers *computers;
};

static void prepare(struct pool_job *job)
{
    struct preparation *p = CONTAINER_OF(job, struct preparation, job);
    computers_prepare(p->computers);
    free(p);
}

static void no_preparation(struct pool_job *job, const struct error *err)
{
    (void)err;
    free(CONTAINER_OF(job, struct preparation, job));
}

static void prepare_now(const struct protocol_options *o)
{
    struct preparation *p = xcalloc(1, sizeof(*p));
    p->computers = o->computers;
    p->job = (struct pool_job){.run = prepare, .refused = no_preparation, .deadline = DEADLINE_NONE};
    if (pool_submit(o->pool, &p->job, NULL) < 0)
        free(p);
}

void call_prepare_later(void *arg)
{
    struct protocol *p = arg;
    p->prepares_later = false;
    if (!list_empty(&p->sessions) && computers_want_preparation(p->options.computers) != PREPARE_NONE)
        prepare_now(&p->options);
}

/* Once the reply is on its way: what is made ahead is to take no time from it, nor, if it can wait, from the
 * next call, when that is right behind it. */
static void prepare_next(struct protocol *p)
{
    const enum preparing wanted = computers_want_preparation(p->options.computers);
    if (wanted == PREPARE_NOW)
        prepare_now(&p->options);
    else if (wanted == PREPARE_LATER && !p->prepares_later)
        loop_timer_start(p->later, LATER_MS, 0);
    p->prepares_later |= wanted == PREPARE_LATER;
}

/* Calls go on while nobody reads: what they say then is bounded, too. */
static void drop_what_nobody_reads(struct call *c)
{
    const struct session_sink *sink = &c->from.session->sink;
    const size_t bytes = c->reply.len;
    if (c->from.batch || c->from.exchange || c->failure.code != ERR_NONE || !sink->takes ||
        sink->takes(sink->ctx, bytes))
        return;
    buf_done(&c->reply);
    error_set(&c->failure, ERR_LIMIT,
              "the call was done, but its result of %zu bytes was dropped, since %lu MiB of results wait for "
              "the client to read them",
              bytes, LIMIT_UNREAD_BYTES / MIB);
}

static void report(const struct call *c, size_t reply_bytes)
{
    const struct session *s = c->from.session;
    const struct protocol_options *o = &s->protocol->options;
    const struct call_report r = {.tool = c->tool_name,
                                  .principal = s->principal,
                                  .outcome = reply_bytes == 0              ? ERR_CANCELLED
                                             : c->failure.code != ERR_NONE ? c->failure.code
                                                                           : c->outcome,
                                  .duration_ns = clock_now() - c->started,
                                  .reply_bytes = reply_bytes};
    if (o->on_call)
        o->on_call(o->ctx, &r);
}

static void done(void *arg)
{
    struct call *c = arg;
    const struct origin from = c->from;
    struct rpc_error error = RPC_ERROR_INIT;
    size_t reply_bytes = 0;
    drop_what_nobody_reads(c);
    if (!c->cancelled && !from.session->closing &&
        (c->failure.code == ERR_NONE || write_failure(c, &error))) {
        reply_bytes = c->reply.len;
        session_deliver(&from, call_id(c), &c->reply, error.code ? &error : NULL);
    }
    report(c, reply_bytes);
    call_free(c);
    release(&from);
    if (from.session->closing)
        session_closing_step(from.session);
    else
        prepare_next(from.session->protocol);
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
    const struct origin whole = {.session = c->from.session}; /* not to the batch's reply */
    if (!w.failed && c->from.exchange)
        exchange_notify(c->from.exchange, &b);
    else if (!w.failed)
        session_deliver(&whole, no_id, &b, NULL);
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
        loop_post(c->from.session->protocol->options.loop, &c->news_post);
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
    if (c->heartbeat && !c->from.session->closing)
        send_progress(c, text);
}

static void start_heartbeat(struct call *c, struct span token)
{
    const struct protocol_options *o = &c->from.session->protocol->options;
    c->progress_token = xstrndup(token.at, token.len);
    c->progress = (struct progress){.tell = tell, .ctx = c};
    c->tool.progress = &c->progress;
    c->heartbeat = loop_timer_new(o->loop, heartbeat, c);
    loop_timer_start(c->heartbeat, o->progress_interval_ms, o->progress_interval_ms);
}

static struct call *call_new(struct request *r, const struct tool_call *tool, struct buf *key)
{
    struct session *s = r->from.session;
    struct message *m = r->message;
    struct call *c = xcalloc(1, sizeof(*c));
    c->from = r->from;
    c->era = r->era;
    c->cancel = cancel_new();
    c->tool = *tool;
    c->tool.cancel = c->cancel;
    c->tool.session = s->computers;
    c->tool_name = xstrdup(tool->name);
    c->id = xstrndup(m->id.at, m->id.len);
    c->key = key->len ? buf_steal(key) : NULL;
    if (c->key)
        map_put(s->calls_by_id, c->key, c);
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
    s->call_count++;
    s->call_bytes += c->message_bytes;
    if (s->protocol->options.extension)
        c->tool.client = c->client = ask_client_new(&c->from, c->cancel);
    if (m->progress_token.at)
        start_heartbeat(c, m->progress_token);
    hold(c);
    return c;
}

static bool has_room(const struct session *s, size_t message_bytes, struct rpc_error *error)
{
    if (s->call_count < LIMIT_IN_FLIGHT_REQUESTS && s->call_bytes + message_bytes <= LIMIT_IN_FLIGHT_BYTES)
        return true;
    rpc_error_set(error, RPC_INTERNAL_ERROR,
                  "Limit reached: %zu calls are running in this session; wait for one of them, or cancel it",
                  s->call_count);
    return false;
}

static bool read_tool(const struct request *r, struct tool_call *ret, struct rpc_error *error)
{
    const json_t *arguments = json_object_get(r->message->params, "arguments");
    const char *name = require_param(r, "name", error);
    if (!name)
        return false;
    if (!toolset_has(r->from.session->protocol->options.toolset, name)) {
        rpc_error_set(error, RPC_INVALID_PARAMS, "Unknown tool: %s", name);
        return false;
    }
    if (arguments && !json_is_object(arguments) && !json_is_null(arguments)) {
        rpc_error_set(error, RPC_INVALID_PARAMS, "Invalid params: params.arguments must be an object");
        return false;
    }
    *ret = (struct tool_call){.name = name,
                              .arguments = json_is_object(arguments) ? arguments : NULL,
                              .meta = json_get_object(r->message->params, "_meta")};
    return true;
}

enum answer serve_tools_call(struct request *r, struct rpc_error *error)
{
    struct session *s = r->from.session;
    struct message *m = r->message;
    struct tool_call tool;
    struct error err = ERROR_INIT;
    if (!read_tool(r, &tool, error) || !has_room(s, m->text.len, error))
        return ANSWER_ERROR;
    _cleanup_(buf_done) struct buf key = BUF_INIT(LIMIT_ID_KEY_BYTES);
    if (r->writer.failed || (r->era == ERA_MODERN && buf_append_byte(&r->reply, ',') < 0) ||
        (s->lease_s == 0 && id_key(json_object_get(m->root, "id"), m->id, &key) < 0)) {
        rpc_error_set(error, RPC_INTERNAL_ERROR, "Internal error: out of memory");
        return ANSWER_ERROR;
    }
    struct call *c = call_new(r, &tool, &key);
    if (pool_submit(s->protocol->options.pool, &c->job, &err) < 0)
        refused(&c->job, &err);
    return ANSWER_LATER;
}

void call_stop(struct call *c)
{
    c->cancelled = true;
    c->heartbeat = loop_timer_free(c->heartbeat);
    cancel_fire(c->cancel, ERR_CANCELLED);
    pool_kick(c->from.session->protocol->options.pool);
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
    if (c)
        call_stop(c);
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
        const struct origin from = c->from;
        call_free(c);
        release(&from);
    }
}
