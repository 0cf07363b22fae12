/* Who is there: principals, and their sessions in the legacy era. See endpoint.h.
 *
 * A session is found by its id until it ends: by DELETE, by its idle timer, with the endpoint. From then on
 * nobody finds it, its exchanges have ended, and it stays in the list of sessions until session_close() says
 * that all of it is gone.
 *
 * The idle timer isn't restarted at each use: when it fires, it looks how long the last use was ago. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "protocol/exchange.h"

/* Sessions keep the same deadline and have better words for what is left, so they go first. */
#define DEADLINE_GRACE_MS 100

/* -- One session. */

struct http_session *http_session_find(struct endpoint *e, const char *principal, const char *id)
{
    struct http_session *s = map_get(e->by_id, id);
    if (!s || strcmp(s->tenant->principal, principal) != 0)
        return NULL;
    http_session_touch(s);
    return s;
}

const char *http_session_version(const struct http_session *s)
{
    return s->session->version;
}

void **http_session_slot(struct http_session *s)
{
    return &s->slot;
}

void http_session_touch(struct http_session *s)
{
    s->last_use = clock_now();
}

void http_session_hold(struct http_session *s)
{
    s->holds++;
}

void http_session_release(struct http_session *s)
{
    assert(s->holds > 0);
    s->holds--;
    http_session_touch(s);
}

static int64_t timeout_ns(const struct endpoint *e)
{
    return (int64_t)(e->options.session_timeout_s * (double)NSEC_PER_SEC);
}

static void look_at_idle(void *arg)
{
    struct http_session *s = arg;
    const bool busy = s->holds > 0 || !session_is_idle(s->session);
    const int64_t until = (busy ? clock_now() : s->last_use) + timeout_ns(s->endpoint);
    if (busy || until > clock_now())
        loop_timer_start(s->idle, clock_poll_timeout(until), 0);
    else
        http_session_end(s);
}

/* -- The end of one, and of all. */

static void tell_gone(void *arg)
{
    struct endpoint *e = arg;
    void (*on_done)(void *arg, const char *left_behind) = TAKE_PTR(e->on_done);
    if (on_done)
        on_done(e->arg, e->left_behind);
}

static void one_is_gone(struct endpoint *e, const char *left_behind)
{
    if (left_behind && !e->left_behind)
        e->left_behind = xstrdup(left_behind);
    if (--e->going == 0 && e->closing)
        loop_post(e->protocol->options.loop, &e->gone);
}

static void session_is_gone(void *arg, const char *left_behind)
{
    struct http_session *s = arg;
    struct endpoint *e = s->endpoint;
    if (left_behind && !e->closing)
        log_warning("%s", left_behind);
    list_unlink(&s->link);
    free(s);
    one_is_gone(e, left_behind);
}

static void tenant_is_gone(void *arg, const char *left_behind)
{
    const struct tenant *t = arg;
    one_is_gone(t->endpoint, left_behind);
}

static void expiry_is_idle(void *arg)
{
    one_is_gone(arg, NULL);
}

static struct exchange *find_exchange(const struct endpoint *e, const struct http_session *of)
{
    list_for_each (node, &e->exchanges) {
        struct exchange *x = list_entry(node, struct exchange, link);
        if (x->http == of)
            return x;
    }
    return NULL;
}

static void end_session(struct http_session *s, int64_t deadline)
{
    struct endpoint *e = s->endpoint;
    struct exchange *x;
    s->ended = true;
    map_remove(e->by_id, s->id);
    e->session_count--;
    s->tenant->sessions--;
    s->idle = loop_timer_free(s->idle);
    while ((x = find_exchange(e, s)))
        exchange_fail(x, 404, "The session has ended, and its calls with it");
    e->options.on_session_end(e->options.ctx, TAKE_PTR(s->slot));
    e->going++;
    session_close(s->session, deadline, session_is_gone, s);
}

void http_session_end(struct http_session *s)
{
    end_session(s, DEADLINE_NONE);
}

static void end_tenants(struct endpoint *e, int64_t deadline)
{
    size_t cursor = 0;
    void *value;
    while (map_next(e->tenants, &cursor, NULL, &value)) {
        struct tenant *t = value;
        if (!t->session)
            continue;
        e->going++;
        session_close(TAKE_PTR(t->session), deadline, tenant_is_gone, t);
    }
}

static void late(void *arg)
{
    struct endpoint *e = arg;
    if (!e->left_behind)
        e->left_behind = xstrdup("computers of sessions that had ended before are still being removed");
    tell_gone(e);
}

void endpoint_close(struct endpoint *e, int64_t deadline, void (*on_done)(void *arg, const char *left_behind),
                    void *arg)
{
    assert(!e->closing);
    e->closing = true;
    e->on_done = on_done;
    e->arg = arg;
    e->going++; /* this function */
    while (!list_empty(&e->exchanges))
        exchange_fail(list_entry(e->exchanges.next, struct exchange, link), 503, "The server is ending");
    list_for_each (node, &e->sessions) {
        struct http_session *s = list_entry(node, struct http_session, link);
        if (!s->ended)
            end_session(s, deadline);
    }
    end_tenants(e, deadline);
    e->going++;
    expiry_stop(e->expiry, expiry_is_idle, e);
    if (deadline != DEADLINE_NONE)
        loop_timer_start(e->late, clock_poll_timeout(deadline) + DEADLINE_GRACE_MS, 0);
    one_is_gone(e, NULL);
}

int endpoint_running(const struct endpoint *e)
{
    return e->exchange_count;
}

int endpoint_sessions(const struct endpoint *e)
{
    return e->session_count;
}

/* -- The beginning. */

/* There are as many as the server has tokens. */
struct tenant *endpoint_tenant(struct endpoint *e, const char *principal)
{
    struct tenant *t = map_get(e->tenants, principal);
    if (t)
        return t;
    t = xcalloc(1, sizeof(*t));
    t->endpoint = e;
    snprintf(t->principal, sizeof(t->principal), "%s", principal);
    if (map_put(e->tenants, t->principal, t) < 0)
        abort();
    return t;
}

static bool has_room(const struct endpoint *e, const struct tenant *t, struct rpc_error *error)
{
    const int limit = e->options.max_sessions, own_limit = e->options.max_sessions_per_principal;
    if (e->session_count < limit && t->sessions < own_limit)
        return true;
    rpc_error_set(error, RPC_INTERNAL_ERROR,
                  "Limit reached: %s has %d sessions; end one by DELETE, or wait until one has timed out",
                  t->sessions < own_limit ? "this server" : "this client's token",
                  t->sessions < own_limit ? limit : own_limit);
    error->http_status = 503;
    return false;
}

struct http_session *http_session_new(struct tenant *t, struct rpc_error *error)
{
    struct endpoint *e = t->endpoint;
    if (!has_room(e, t, error))
        return NULL;
    struct http_session *s = xcalloc(1, sizeof(*s));
    *s = (struct http_session){.endpoint = e, .tenant = t};
    random_hex(s->id, SESSION_ID_BYTES);
    if (map_put(e->by_id, s->id, s) < 0)
        abort(); /* there is room, and nobody has seen the same 160 random bits twice */
    s->session = session_new(e->protocol, t->principal, NULL);
    s->idle = loop_timer_new(e->protocol->options.loop, look_at_idle, s);
    loop_timer_start(s->idle, clock_poll_timeout(clock_now() + timeout_ns(e)), 0);
    http_session_touch(s);
    list_append(&e->sessions, &s->link);
    e->session_count++;
    t->sessions++;
    return s;
}

struct session *tenant_session(struct tenant *t)
{
    const struct endpoint *e = t->endpoint;
    if (!t->session)
        t->session = session_new_shared(e->protocol, t->principal, e->options.session_timeout_s);
    return t->session;
}

struct endpoint *endpoint_new(const struct endpoint_options *options)
{
    struct endpoint *e = xcalloc(1, sizeof(*e));
    struct protocol *p = options->protocol;
    *e = (struct endpoint){.options = *options, .protocol = p};
    e->tenants = map_new(LIMIT_PRINCIPALS);
    e->by_id = map_new((size_t)options->max_sessions);
    list_init(&e->sessions);
    list_init(&e->exchanges);
    e->expiry = expiry_new(p, options->session_timeout_s);
    e->late = loop_timer_new(p->options.loop, late, e);
    e->gone = (struct loop_post){.fn = tell_gone, .arg = e};
    return e;
}

struct endpoint *endpoint_free(struct endpoint *e)
{
    if (!e)
        return NULL;
    size_t cursor = 0;
    void *value;
    list_for_each (node, &e->sessions) {
        struct http_session *s = list_entry(node, struct http_session, link);
        list_unlink(node);
        free(s);
    }
    while (map_next(e->tenants, &cursor, NULL, &value)) {
        struct tenant *t = value;
        map_remove(e->tenants, t->principal);
        free(t);
    }
    map_free(e->tenants);
    map_free(e->by_id);
    expiry_free(e->expiry);
    loop_timer_free(e->late);
    free(e->left_behind);
    free(e);
    return NULL;
}
