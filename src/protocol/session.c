/* A session: messages in, the right handler, replies out.
 *
 * A message is understood before the next one is looked at. A short one at once; a long one on a worker, and
 * until it is back the session accepts nothing (understood() resumes the transport). In the same state a
 * message waits that needs the tools before they are there (protocol_open). What a request then does is its
 * handler's business: all answer at once but tools/call. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "protocol/session.h"

/* How long a long message may wait for a worker, where it would wait behind running calls. Then the loop
 * parses it itself: some tens of milliseconds at worst, while a message that cancels those calls may stand
 * behind it. */
#define PARSE_WAIT_S 0.05

/* A message that is understood on a worker, or waits for the tools. */
struct parse {
    struct pool_job job;
    struct loop_post post;
    struct session *session;
    struct message message;
    bool parsed;
    bool waits;
    size_t n;
    char bytes[];
};

static char *make_server_info(const struct protocol_options *o)
{
    struct buf b = BUF_INIT(4 * KIB);
    struct json_writer w;
    jw_init(&w, &b);
    jw_begin_object(&w);
    jw_key(&w, "name");
    jw_string(&w, o->server_name);
    if (o->server_title) {
        jw_key(&w, "title");
        jw_string(&w, o->server_title);
    }
    jw_key(&w, "version");
    jw_string(&w, o->server_version);
    jw_end_object(&w);
    assert(!w.failed);
    return buf_steal(&b);
}

struct protocol *protocol_new(const struct protocol_options *options)
{
    struct protocol *p = xcalloc(1, sizeof(*p));
    p->options = *options;
    if (p->options.progress_interval_ms == 0)
        p->options.progress_interval_ms = PROGRESS_INTERVAL_MS;
    p->server_info = make_server_info(options);
    list_init(&p->sessions);
    return p;
}

struct protocol *protocol_free(struct protocol *p)
{
    if (!p)
        return NULL;
    list_for_each (node, &p->sessions) {
        struct session *s = list_entry(node, struct session, link);
        assert(s->closing);
        calls_free_all(s);
        session_free(s);
    }
    free(p->server_info);
    free(p);
    return NULL;
}

void protocol_open(struct protocol *p, struct toolset *toolset, struct computers *computers)
{
    assert(loop_is_current(p->options.loop) && !p->options.toolset);
    p->options.toolset = toolset;
    p->options.computers = computers;
    list_for_each (node, &p->sessions) {
        struct session *s = list_entry(node, struct session, link);
        if (s->closing)
            continue;
        s->computers = computer_session_new(computers, s->principal);
        session_wake(s);
    }
}

struct session *session_new(struct protocol *p, const char *principal, const struct session_sink *sink)
{
    assert(loop_is_current(p->options.loop));
    struct session *s = xcalloc(1, sizeof(*s));
    s->protocol = p;
    s->sink = *sink;
    snprintf(s->principal, sizeof(s->principal), "%s", principal);
    if (p->options.computers)
        s->computers = computer_session_new(p->options.computers, principal);
    s->calls_by_id = map_new(LIMIT_IN_FLIGHT_REQUESTS);
    list_init(&s->calls);
    list_append(&p->sessions, &s->link);
    return s;
}

void session_free(struct session *s)
{
    session_closing_free(s);
    list_unlink(&s->link);
    map_free(s->calls_by_id);
    if (s->parsing)
        message_done(&s->parsing->message);
    free(s->parsing);
    free(s);
}

bool session_accepts(const struct session *s)
{
    return !s->parsing && !s->closing;
}

bool session_is_idle(const struct session *s)
{
    return !s->parsing && list_empty(&s->calls);
}

void session_on_resume(struct session *s, void (*fn)(void *arg), void *arg)
{
    s->on_resume = fn;
    s->on_resume_arg = arg;
}

/* -- Replies. */

static void tell_first_reply(void *arg)
{
    struct protocol *p = arg;
    if (p->first_reply_told)
        return;
    p->first_reply_told = true;
    if (p->options.on_first_reply)
        p->options.on_first_reply(p->options.ctx);
}

static void deliver(struct session *s, struct batch *b, struct span id, struct buf *reply, bool greets)
{
    if (b)
        batch_add(b, id, reply);
    else if (!s->closing)
        s->sink.send(s->sink.ctx, reply, greets ? tell_first_reply : NULL, s->protocol);
    buf_done(reply);
}

void session_deliver(struct session *s, struct batch *b, struct span id, struct buf *reply)
{
    deliver(s, b, id, reply, false);
}

static void answer_error(struct request *r, const struct rpc_error *error)
{
    if (envelope_error(&r->reply, r->message->id, error) < 0) {
        log_error("A reply was dropped: out of memory");
        buf_done(&r->reply);
        return;
    }
    deliver(r->session, r->batch, r->message->id, &r->reply, false);
}

static void answer_result(struct request *r, const struct method *method)
{
    struct rpc_error failed = RPC_ERROR_INIT;
    if (r->era == ERA_MODERN && method->cacheable)
        modern_cache_hints(r);
    envelope_close(&r->writer);
    if (r->writer.failed) {
        rpc_error_set(&failed, RPC_INTERNAL_ERROR, "Internal error: the result is too long");
        answer_error(r, &failed);
        return;
    }
    deliver(r->session, r->batch, r->message->id, &r->reply, method->greets);
}

/* -- Requests. */

static const struct method *find_method(struct request *r, struct rpc_error *error)
{
    struct session *s = r->session;
    if (map_count(s->calls_by_id) > 0) {
        _cleanup_(buf_done) struct buf key = BUF_INIT(LIMIT_ID_KEY_BYTES);
        if (id_key(json_object_get(r->message->root, "id"), r->message->id, &key) < 0 ||
            map_get(s->calls_by_id, buf_str(&key))) {
            rpc_error_set(error, RPC_INVALID_REQUEST,
                          "Invalid request: a request with this id is still running");
            return NULL;
        }
    }
    return r->era == ERA_MODERN ? modern_method(r, error) : legacy_method(r, error);
}

static void serve_request(struct session *s, struct message *m, struct batch *b)
{
    struct request r = {.session = s, .message = m, .batch = b, .reply = BUF_INIT(LIMIT_REPLY_BYTES)};
    r.era = modern_claims(m) ? ERA_MODERN : ERA_LEGACY;
    struct rpc_error error = RPC_ERROR_INIT;
    const struct method *method = find_method(&r, &error);
    enum answer answer = ANSWER_ERROR;
    if (method) {
        envelope_open(&r.writer, &r.reply, m->id);
        if (r.era == ERA_MODERN)
            modern_open(&r);
        answer = method->serve(&r, &error);
    }
    if (answer == ANSWER_RESULT)
        answer_result(&r, method);
    else if (answer == ANSWER_ERROR)
        answer_error(&r, &error);
    rpc_error_done(&error);
}

void session_route(struct session *s, struct message *m, struct batch *b)
{
    struct request refused = {.session = s, .message = m, .batch = b, .reply = BUF_INIT(LIMIT_REPLY_BYTES)};
    switch (m->kind) {
    case MESSAGE_REFUSED:
        answer_error(&refused, &m->error);
        break;
    case MESSAGE_REQUEST:
        serve_request(s, m, b);
        break;
    case MESSAGE_NOTIFICATION:
        if (strcmp(m->method, "notifications/cancelled") == 0)
            call_cancel(s, m);
        break;
    case MESSAGE_BATCH:
        batch_serve(s, m);
        break;
    case MESSAGE_RESPONSE: /* we ask clients nothing */
    default:
        break;
    }
}

/* -- Messages. */

/* Whether the tools aren't there yet and it is about them, as a batch may be. */
static bool must_wait(const struct session *s, const struct message *m)
{
    bool about_tools =
        m->kind == MESSAGE_BATCH || (m->kind == MESSAGE_REQUEST && str_has_prefix(m->method, "tools/"));
    return about_tools && !s->protocol->options.toolset;
}

static void understood(void *arg)
{
    struct parse *parse = arg;
    struct session *s = parse->session;
    if (!s->closing && !parse->parsed)
        message_parse(&parse->message, parse->bytes, parse->n);
    parse->parsed = true;
    parse->waits = !s->closing && must_wait(s, &parse->message);
    if (parse->waits)
        return; /* until session_wake() */
    s->parsing = NULL;
    if (!s->closing)
        session_route(s, &parse->message, NULL);
    message_done(&parse->message);
    free(parse);
    if (s->closing)
        session_closing_step(s);
    else if (s->on_resume)
        s->on_resume(s->on_resume_arg);
}

static void parse_run(struct pool_job *job)
{
    struct parse *parse = CONTAINER_OF(job, struct parse, job);
    message_parse(&parse->message, parse->bytes, parse->n);
    parse->parsed = true;
    loop_post(parse->session->protocol->options.loop, &parse->post);
}

static void parse_refused(struct pool_job *job, const struct error *err)
{
    struct parse *parse = CONTAINER_OF(job, struct parse, job);
    loop_post(parse->session->protocol->options.loop, &parse->post);
}

static struct parse *parse_new(struct session *s, const char *bytes, size_t n)
{
    struct parse *parse = malloc(sizeof(*parse) + n);
    if (!parse)
        return NULL;
    *parse = (struct parse){.session = s, .n = n, .post = {.fn = understood, .arg = parse}};
    memcpy(parse->bytes, bytes, n);
    return parse;
}

static bool parse_on_worker(struct session *s, const char *bytes, size_t n)
{
    struct parse *parse = s->parsing = parse_new(s, bytes, n);
    if (!parse)
        return false;
    parse->job = (struct pool_job){
        .run = parse_run, .refused = parse_refused, .deadline = clock_deadline_after(PARSE_WAIT_S)};
    if (pool_submit(s->protocol->options.pool, &parse->job, NULL) == 0)
        return true;
    free(TAKE_PTR(s->parsing));
    return false;
}

/* Keeps a short message until session_wake(). */
static void keep(struct session *s, struct message *m)
{
    s->parsing = parse_new(s, m->text.at, m->text.len);
    if (s->parsing) {
        s->parsing->waits = true;
        return;
    }
    m->kind = MESSAGE_REFUSED;
    rpc_error_set(&m->error, RPC_INTERNAL_ERROR, "Internal error: out of memory");
}

void session_wake(struct session *s)
{
    if (s->parsing && s->parsing->waits)
        understood(s->parsing);
}

void session_receive(struct session *s, const char *bytes, size_t n)
{
    assert(loop_is_current(s->protocol->options.loop));
    assert(session_accepts(s));
    if (n > LIMIT_INLINE_PARSE_BYTES && parse_on_worker(s, bytes, n))
        return;
    struct message m;
    message_parse(&m, bytes, n);
    if (must_wait(s, &m))
        keep(s, &m);
    if (!s->parsing)
        session_route(s, &m, NULL);
    message_done(&m);
}

void session_refuse(struct session *s, const struct error *why)
{
    struct message m = {.kind = MESSAGE_REFUSED};
    rpc_error_set(&m.error, RPC_INVALID_REQUEST, "Invalid request: %s", why->msg);
    session_route(s, &m, NULL);
}
