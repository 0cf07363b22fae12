/* Sessions as owners: which computers each one uses, and the end of those that only it uses. */
#include "computers/registry.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/thread.h"

#define CLEANERS 8 /* threads, the caller among them: most of a removal is waiting for the kernel */
#define COMPUTERS_PER_CLEANER 8 /* fewer are not worth a thread */
#define CLEANERS_MAX 64         /* where it is waiting for somebody elsewhere */

static const struct error SESSION_ENDED = {.code = ERR_CANCELLED, .msg = "the session has ended"};

static struct computer_session *session_new(struct computers *c, const char *principal, double lease_s)
{
    struct computer_session *s = xcalloc(1, sizeof(*s));
    s->computers = c;
    s->lease_ns = (int64_t)(lease_s * (double)NSEC_PER_SEC);
    list_init(&s->link);
    list_init(&s->leases);
    list_init(&s->expired);
    snprintf(s->principal, sizeof(s->principal), "%s", principal);
    s->refs = 1;
    s->by_id = map_new(LIMIT_COMPUTERS);
    pthread_mutex_lock(&c->lock);
    c->sessions++;
    c->sessions_open++;
    if (s->lease_ns > 0)
        list_append(&c->leased, &s->link);
    pthread_mutex_unlock(&c->lock);
    return s;
}

struct computer_session *computer_session_new(struct computers *c, const char *principal)
{
    return session_new(c, principal, 0);
}

struct computer_session *computer_session_new_leased(struct computers *c, const char *principal,
                                                     double lease_s)
{
    return session_new(c, principal, lease_s);
}

void session_unref_locked(struct computer_session *s)
{
    if (--s->refs > 0)
        return;
    s->computers->sessions--;
    map_free(s->by_id);
    free(s);
}

void session_enter(struct computer_session *s)
{
    pthread_mutex_lock(&s->computers->lock);
    s->refs++;
    pthread_mutex_unlock(&s->computers->lock);
}

void session_leave(struct computer_session *s)
{
    pthread_mutex_t *lock = &s->computers->lock;
    pthread_mutex_lock(lock);
    session_unref_locked(s);
    pthread_mutex_unlock(lock);
}

void session_forget_locked(struct computer_session *s, struct computer *c)
{
    if (map_get(s->by_id, c->id) != c)
        return;
    map_remove(s->by_id, c->id);
    lease_forget_locked(s, c);
    if (s->home == c)
        s->home = NULL;
    c->sessions--;
    computer_unref_locked(c);
}

/* While a computer is being made its lifetime isn't known; then it is this session's call that makes it, or
 * waits. */
static bool is_ours_alone_locked(const struct computer *c)
{
    if (c->sessions > 1)
        return false;
    return c->state == COMPUTER_CREATING ||
           (c->temporary && (c->state == COMPUTER_RUNNING || c->state == COMPUTER_CHANGING));
}

/* Ends the computers that are the session's alone; returns those that have an instance, each with a use that
 * keeps it in being. */
static struct computer **end_computers_locked(struct computer_session *s, size_t *ret_count)
{
    struct computer **ended = xcalloc(map_count(s->by_id) + 1, sizeof(*ended));
    size_t count = 0, cursor = 0;
    void *value;
    while (map_next(s->by_id, &cursor, NULL, &value)) {
        struct computer *c = value;
        if (!is_ours_alone_locked(c))
            continue;
        bool has_instance = c->state == COMPUTER_RUNNING;
        computer_end_locked(c, &SESSION_ENDED);
        if (!has_instance)
            continue; /* its creator, or who changes it, sees the token and cleans up */
        c->uses++;
        ended[count++] = c;
    }
    *ret_count = count;
    return ended;
}

void computer_session_kill(struct computer_session *s)
{
    pthread_mutex_t *lock = &s->computers->lock;
    size_t count;
    pthread_mutex_lock(lock);
    s->computers->sessions_open -= !s->closing;
    s->closing = true;
    list_unlink(&s->link);
    struct computer **ended = end_computers_locked(s, &count);
    pthread_mutex_unlock(lock);
    for (size_t i = 0; i < count; i++)
        ended[i]->instance->ops->kill(ended[i]->instance);
    FAULT_POINT("end.killed");
    pthread_mutex_lock(lock);
    for (size_t i = 0; i < count; i++)
        ended[i]->uses--; /* who was last doesn't matter: the session's end cleans up what nobody has */
    pthread_mutex_unlock(lock);
    free(ended);
}

/* Work for several threads: the next one takes the next computer. */
struct cleaning {
    struct computer **computers;
    size_t count;
    atomic_size_t next;
};

static void *clean_some(void *arg)
{
    struct cleaning *work = arg;
    for (size_t i; (i = atomic_fetch_add(&work->next, 1)) < work->count;)
        computer_clean(work->computers[i]);
    return NULL;
}

static size_t cleaners_for(struct computer **computers, size_t count)
{
    const int at_once = count > 0 ? computers[0]->computers->backend->ops->ends_at_once : 0;
    const size_t most = at_once == 0 ? CLEANERS : at_once < CLEANERS_MAX ? (size_t)at_once : CLEANERS_MAX;
    const size_t each = at_once == 0 ? COMPUTERS_PER_CLEANER : 1;
    const size_t wanted = (count + each - 1) / each;
    return wanted < most ? wanted : most;
}

void computers_clean_all(struct computer **computers, size_t count)
{
    struct cleaning work = {.computers = computers, .count = count};
    pthread_t helpers[CLEANERS_MAX];
    const size_t cleaners = cleaners_for(computers, count);
    size_t started = 0;
    while (started + 1 < cleaners)
        if (thread_start(&helpers[started], clean_some, &work) == 0)
            started++;
        else
            break; /* fewer do */
    clean_some(&work);
    for (size_t i = 0; i < started; i++)
        pthread_join(helpers[i], NULL);
}

/* Takes everything out of the session. ret_ending: what has to end now, with a reference each; those to clean
 * are first. */
static void empty_locked(struct computer_session *s, struct computer **ret_ending, size_t *ret_clean,
                         size_t *ret_count)
{
    size_t count = 0, clean = 0, cursor = 0;
    void *value;
    while (map_next(s->by_id, &cursor, NULL, &value)) {
        struct computer *c = value;
        c->refs++;
        session_forget_locked(s, c);
        /* Sessions that shared it and were killed at the same time each took the other for its owner. */
        if (c->sessions == 0 && c->state != COMPUTER_CREATING && c->state < COMPUTER_ENDING && c->temporary)
            computer_end_locked(c, &SESSION_ENDED);
        if (c->state != COMPUTER_ENDING && !(c->state == COMPUTER_ENDED && c->left.code != ERR_NONE)) {
            computer_unref_locked(c);
            continue;
        }
        ret_ending[count++] = c;
        if (computer_claim_locked(c)) {
            ret_ending[count - 1] = ret_ending[clean];
            ret_ending[clean++] = c;
        }
    }
    *ret_clean = clean;
    *ret_count = count;
}

/* Waits for the end of one computer; names what is left of it. */
static void await_end_locked(struct computer *c, int64_t deadline, struct buf *left)
{
    const struct wait wait = {.deadline = deadline};
    while (c->state == COMPUTER_ENDING)
        if (computer_wait_locked(c, &wait, NULL) < 0)
            break;
    const char *why = c->state == COMPUTER_ENDING ? "still ending"
                      : c->left.code != ERR_NONE  ? c->left.msg
                                                  : NULL;
    if (why)
        (void)!buf_printf(left, "%s%s (%s)", left->len ? ", " : "", c->id, why);
}

int computer_session_end(struct computer_session *s, int64_t deadline, struct error *err)
{
    computer_session_kill(s);
    _cleanup_(buf_done) struct buf left = BUF_INIT(sizeof(err->msg));
    pthread_mutex_t *lock = &s->computers->lock;
    size_t count, clean;
    pthread_mutex_lock(lock);
    struct computer **ending = xcalloc(map_count(s->by_id) + 1, sizeof(struct computer *));
    empty_locked(s, ending, &clean, &count);
    pthread_mutex_unlock(lock);
    computers_clean_all(ending, clean);
    spares_drop(s->computers);
    pthread_mutex_lock(lock);
    for (size_t i = 0; i < count; i++) {
        await_end_locked(ending[i], deadline, &left);
        computer_unref_locked(ending[i]);
    }
    session_unref_locked(s);
    pthread_mutex_unlock(lock);
    free(ending);
    return left.len ? error_set(err, ERR_TIMEOUT, "not everything was removed: %s", buf_str(&left)) : 0;
}
