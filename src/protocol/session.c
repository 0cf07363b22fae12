/* A session: messages in, the right handler, replies out.
 *
 * A message is understood (intake.c) before the next one is looked at; until then the session accepts
 * nothing, and understood() resumes the transport. What a request then does is its handler's business: all
 * answer at once but tools/call. Over HTTP each message comes in an exchange of its own (exchange.c), with an
 * intake of its own, and goes straight to session_route(). */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "protocol/exchange.h"

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
    intakes_init(p);
    p->later = loop_timer_new(p->options.loop, call_prepare_later, p);
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
    intakes_free_all(p);
    loop_timer_free(p->later);
    free(p->server_info);
    free(p);
    return NULL;
}

static void open_computers(struct session *s)
{
    struct computers *computers = s->protocol->options.computers;
    s->computers = s->lease_s > 0 ? computer_session_new_leased(computers, s->principal, s->lease_s)
                                  : computer_session_new(computers, s->principal);
}

void protocol_open(struct protocol *p, struct toolset *toolset, struct computers *computers)
{
    assert(loop_is_current(p->options.loop) && !p->options.toolset);
    p->options.toolset = toolset;
    p->options.computers = computers;
    list_for_each (node, &p->sessions) {
        struct session *s = list_entry(node, struct session, link);
        if (!s->closing)
            open_computers(s);
    }
    intakes_wake(p);
}

static struct session *new_session(struct protocol *p, const char *principal, double lease_s)
{
    assert(loop_is_current(p->options.loop));
    struct session *s = xcalloc(1, sizeof(*s));
    s->protocol = p;
    s->lease_s = lease_s;
    snprintf(s->principal, sizeof(s->principal), "%s", principal);
    if (p->options.computers)
        open_computers(s);
    s->calls_by_id = map_new(LIMIT_IN_FLIGHT_REQUESTS);
    list_init(&s->calls);
    list_init(&s->asks);
    list_append(&p->sessions, &s->link);
    return s;
}

struct session *session_new(struct protocol *p, const char *principal, const struct session_sink *sink)
{
    struct session *s = new_session(p, principal, 0);
    if (sink)
        s->sink = *sink;
    return s;
}

struct session *session_new_shared(struct protocol *p, const char *principal, double lease_s)
{
    return new_session(p, principal, lease_s);
}

void session_free(struct session *s)
{
    session_closing_free(s);
    list_unlink(&s->link);
    map_free(s->calls_by_id);
    free(s);
}

bool session_accepts(const struct session *s)
{
    return !s->intake && !s->closing;
}

bool session_is_idle(const struct session *s)
{
    return !s->intake && list_empty(&s->calls);
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

static void deliver(const struct origin *to, struct span id, struct buf *reply, const struct rpc_error *error,
                    bool greets)
{
    struct session *s = to->session;
    if (to->batch) {
        batch_add(to->batch, id, reply);
    } else if (to->exchange) {
        exchange_reply(to->exchange, reply, error);
        if (greets)
            tell_first_reply(s->protocol);
    } else if (!s->closing) {
        s->sink.send(s->sink.ctx, reply, greets ? tell_first_reply : NULL, s->protocol);
    }
    buf_done(reply);
}

void session_deliver(const struct origin *to, struct span id, struct buf *reply,
                     const struct rpc_error *error)
{
    deliver(to, id, reply, error, false);
}

static void answer_error(struct request *r, const struct rpc_error *error)
{
    if (envelope_error(&r->reply, r->message->id, error) < 0) {
        log_error("A reply was dropped: out of memory");
        buf_done(&r->reply);
        return;
    }
    deliver(&r->from, r->message->id, &r->reply, error, false);
}

/* method: NULL if only an extension has it. */
static void answer_result(struct request *r, const struct method *method, bool complete)
{
    struct rpc_error failed = RPC_ERROR_INIT;
    if (r->era == ERA_MODERN && complete && method && method->cacheable)
        modern_cache_hints(r);
    if (r->era == ERA_MODERN)
        modern_close(r, complete);
    envelope_close(&r->writer);
    if (r->writer.failed) {
        rpc_error_set(&failed, RPC_INTERNAL_ERROR, "Internal error: the result is too long");
        answer_error(r, &failed);
        return;
    }
    deliver(&r->from, r->message->id, &r->reply, NULL, method && method->greets);
}

/* -- Requests. */

static const struct method *find_method(struct request *r, struct rpc_error *error)
{
    struct session *s = r->from.session;
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

static enum answer serve_extension(struct request *r, const struct method *method, struct rpc_error *error)
{
    static const enum answer answers[] = {[EXTENSION_RESULT] = ANSWER_RESULT,
                                          [EXTENSION_INPUT_REQUIRED] = ANSWER_ROUND,
                                          [EXTENSION_ERROR] = ANSWER_ERROR};
    const struct protocol_extension *extension = r->from.session->protocol->options.extension;
    const struct message *m = r->message;
    struct rpc_error own = RPC_ERROR_INIT;
    enum extension_answer answer =
        extension->serve(m->method, m->params, r->era == ERA_MODERN, &r->writer, &own);
    if (answer == EXTENSION_NOT_MINE)
        return method ? method->serve(r, error) : ANSWER_ERROR;
    rpc_error_done(error);
    *error = own;
    return answers[answer];
}

static enum answer serve(struct request *r, const struct method *method, struct rpc_error *error)
{
    bool extended =
        r->from.session->protocol->options.extension && (method || error->code == RPC_METHOD_NOT_FOUND);
    if (!method && !extended)
        return ANSWER_ERROR;
    envelope_open(&r->writer, &r->reply, r->message->id);
    if (r->era == ERA_MODERN)
        modern_open(r);
    return extended ? serve_extension(r, method, error) : method->serve(r, error);
}

static void serve_request(const struct origin *from, struct message *m)
{
    struct request r = {.from = *from, .message = m, .reply = BUF_INIT(LIMIT_REPLY_BYTES)};
    r.era = from->exchange ? exchange_era(from->exchange) : modern_claims(m) ? ERA_MODERN : ERA_LEGACY;
    struct rpc_error error = RPC_ERROR_INIT;
    const struct method *method = find_method(&r, &error);
    enum answer answer = serve(&r, method, &error);
    if (answer == ANSWER_RESULT || answer == ANSWER_ROUND)
        answer_result(&r, method, answer == ANSWER_RESULT);
    else if (answer == ANSWER_ERROR)
        answer_error(&r, &error);
    rpc_error_done(&error);
}

void session_route(const struct origin *from, struct message *m)
{
    struct request refused = {.from = *from, .message = m, .reply = BUF_INIT(LIMIT_REPLY_BYTES)};
    switch (m->kind) {
    case MESSAGE_REFUSED:
        answer_error(&refused, &m->error);
        break;
    case MESSAGE_REQUEST:
        serve_request(from, m);
        break;
    case MESSAGE_NOTIFICATION:
        if (strcmp(m->method, "notifications/cancelled") == 0)
            call_cancel(from->session, m);
        break;
    case MESSAGE_BATCH:
        batch_serve(from, m);
        break;
    case MESSAGE_RESPONSE:
        ask_answer(from->session, m);
        break;
    default:
        break;
    }
}

/* -- Messages. */

static void understood(void *arg, struct message *m)
{
    struct session *s = arg;
    const struct origin from = {.session = s};
    const bool later = s->intake;
    s->intake = NULL;
    session_route(&from, m);
    if (later && s->on_resume)
        s->on_resume(s->on_resume_arg);
}

void session_receive(struct session *s, const char *bytes, size_t n)
{
    assert(loop_is_current(s->protocol->options.loop));
    assert(session_accepts(s));
    s->intake = intake_begin(s->protocol, bytes, n, understood, s);
}

void session_refuse(struct session *s, const struct error *why)
{
    const struct origin from = {.session = s};
    struct message m = {.kind = MESSAGE_REFUSED};
    rpc_error_set(&m.error, RPC_INVALID_REQUEST, "Invalid request: %s", why->msg);
    session_route(&from, &m);
}
