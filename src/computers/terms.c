/* Terms: how long a computer lasts, and what happens when nobody uses it. One thread looks after all of them,
 * from the moment that there is a computer with terms; it sleeps until the next one may be over.
 *
 *   ttl over          it is removed, whoever uses it
 *   idle, and runs    no call, and no process that a new one wouldn't have: it is stopped or removed
 *   idle, stopped     it is removed, if that is what its terms say
 *
 * Time that it is paused for doesn't count: the next look finds it so, and its time begins anew when it goes
 * on.
 *
 * Computers of this server are looked at in memory, stopped ones on disk, when the first of them is due. The
 * same thread tries again to remove what could not be removed (reaper.c). */
#include "computers/registry.h"

#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "computers/settings.h"

#define HOLD_SECONDS 60.0 /* to remove one that is stopped */
#define RETRY_NS (60 * NSEC_PER_SEC)
#define LEAST_NS (100 * NSEC_PER_MSEC) /* between two looks */
#define FAR_SECONDS 1e9

static double seconds(int64_t ns)
{
    return (double)ns / (double)NSEC_PER_SEC;
}

double terms_left(const struct computer_terms *t, const struct term_state *s, bool *ret_deletes)
{
    const bool idle_deletes = s->temporary || t->on_idle == ON_IDLE_DELETE;
    const double ttl = t->ttl_s > 0 ? t->ttl_s - seconds(s->made_ns) : INFINITY;
    const double idle = t->idle_s <= 0 || (!s->runs && !idle_deletes) ? INFINITY
                        : s->used                                     ? t->idle_s
                                                                      : t->idle_s - seconds(s->used_ns);
    *ret_deletes = ttl <= idle || idle_deletes;
    const double left = ttl < idle ? ttl : idle;
    return isinf(left) ? -1 : left > 0 ? left : 0;
}

static bool has_terms(const struct record *r)
{
    return r->terms.ttl_s > 0 || r->terms.idle_s > 0;
}

/* -- When to look. */

static int64_t due_in(double left_s)
{
    return left_s < 0 ? DEADLINE_NONE : clock_deadline_after(left_s < FAR_SECONDS ? left_s : FAR_SECONDS);
}

static double left_locked(const struct computer *c, bool *ret_deletes)
{
    const struct term_state state = {.temporary = c->temporary,
                                     .runs = true,
                                     .used = c->uses > 0,
                                     .made_ns = record_age(&c->record, &c->record.made),
                                     .used_ns = clock_now() - c->used_at};
    return terms_left(&c->record.terms, &state, ret_deletes);
}

static double left_of_stored(const struct record *r, bool *ret_deletes)
{
    const struct term_state state = {.made_ns = record_age(r, &r->made), .used_ns = record_age(r, &r->used)};
    return terms_left(&r->terms, &state, ret_deletes);
}

static int64_t due_of_stored(const struct record *r)
{
    bool deletes;
    return has_terms(r) ? due_in(left_of_stored(r, &deletes)) : DEADLINE_NONE;
}

static void note_locked(struct computers *c, int64_t due)
{
    if (due >= c->stored_due)
        return;
    c->stored_due = due;
    terms_wake_locked(c);
}

void terms_note_stored_locked(struct computers *c, const struct record *r)
{
    if (!r->temporary && r->ready)
        note_locked(c, due_of_stored(r));
}

void terms_note_running_locked(struct computer *c)
{
    if (has_terms(&c->record))
        terms_wake_locked(c->computers);
}

/* -- The end of one that runs. */

static void describe_end(const struct computer *c, bool by_age, struct error *ret)
{
    if (by_age)
        error_set(
            ret, ERR_GONE,
            "computer '%s' was removed, since it was to last for %g seconds; its files are lost, and the "
            "next call makes a new, empty one",
            c->id, c->record.terms.ttl_s);
    else
        error_set(ret, ERR_GONE,
                  "computer '%s' was removed, since nobody used it for %g seconds; its files are lost, and "
                  "the next call makes a new, empty one",
                  c->id, c->record.terms.idle_s);
}

/* With a use for the caller. False: it isn't to end. */
static bool end_locked(struct computer *c)
{
    static const struct error STOPPED = {.code = ERR_CANCELLED,
                                         .msg = "the computer was stopped, since nobody used it"};
    const double ttl_s = c->record.terms.ttl_s;
    bool deletes;
    struct error why = STOPPED;
    if (c->state != COMPUTER_RUNNING || left_locked(c, &deletes) > 0)
        return false;
    if (deletes)
        describe_end(c, ttl_s > 0 && seconds(record_age(&c->record, &c->record.made)) >= ttl_s, &why);
    computer_end_locked(c, &why);
    c->doomed = deletes;
    c->stopping = true;
    c->uses++;
    return true;
}

/* Its calls, if there are any, end with it. */
static void end(struct computer *c)
{
    pthread_mutex_t *lock = &c->computers->lock;
    pthread_mutex_lock(lock);
    bool ends = end_locked(c);
    pthread_mutex_unlock(lock);
    if (!ends)
        return;
    FAULT_POINT("terms.ended");
    c->instance->ops->kill(c->instance);
    FAULT_POINT("terms.killed");
    pthread_mutex_lock(lock);
    computer_use_end_locked(c);
    pthread_mutex_unlock(lock);
}

/* Processes that a command has left are use. */
static bool is_busy(struct computer *c)
{
    struct instance_stat stat = {0};
    const int quiet = c->record.idle_pids;
    return quiet > 0 && computer_stat(c, true, &stat, NULL) == 0 && stat.pids > quiet;
}

/* Now, or when it was looked at last. */
static bool stands_still(struct computer *c)
{
    const bool is_paused = computer_is_paused(c);
    pthread_mutex_lock(&c->computers->lock);
    const bool was_paused = c->was_paused;
    c->was_paused = is_paused;
    pthread_mutex_unlock(&c->computers->lock);
    return is_paused || was_paused;
}

static void look_at(struct computer *c)
{
    pthread_mutex_t *lock = &c->computers->lock;
    const double ttl_s = c->record.terms.ttl_s;
    const bool too_old = ttl_s > 0 && seconds(record_age(&c->record, &c->record.made)) >= ttl_s;
    if (!too_old && (stands_still(c) || is_busy(c))) {
        pthread_mutex_lock(lock);
        c->used_at = clock_now();
        pthread_mutex_unlock(lock);
    } else {
        end(c);
    }
}

/* Those that are due, with a reference each. */
static size_t gather_due_locked(struct computers *c, struct computer **ret)
{
    size_t count = 0, cursor = 0;
    void *value;
    while (map_next(c->by_name, &cursor, NULL, &value)) {
        struct computer *computer = value;
        bool deletes;
        if (computer->state != COMPUTER_RUNNING || !has_terms(&computer->record))
            continue;
        const double left = left_locked(computer, &deletes);
        if (left < 0 || left > 0)
            continue;
        computer->refs++;
        ret[count++] = computer;
    }
    return count;
}

static void look_at_running(struct computers *c)
{
    pthread_mutex_lock(&c->lock);
    struct computer **due = xcalloc(map_count(c->by_name) + 1, sizeof(struct computer *));
    size_t count = gather_due_locked(c, due);
    pthread_mutex_unlock(&c->lock);
    for (size_t i = 0; i < count; i++)
        look_at(due[i]);
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < count; i++)
        computer_unref_locked(due[i]);
    pthread_mutex_unlock(&c->lock);
    free(due);
}

/* -- Those that are stopped. */

/* Nobody has it, and it is to go. */
static bool is_over(const struct computers *c, const struct record *r)
{
    const struct computer_spec spec = spec_of_record(r, NULL);
    bool deletes;
    const double left = left_of_stored(r, &deletes);
    if (!has_terms(r) || left < 0 || left > 0 || !deletes || strcmp(r->backend, c->backend->ops->name) != 0)
        return false;
    const bool too_old = r->terms.ttl_s > 0 && seconds(record_age(r, &r->made)) >= r->terms.ttl_s;
    return too_old || !(c->backend->ops->lives && c->backend->ops->lives(c->backend, &spec, r->data));
}

static void remove_stopped(struct computers *c, const char *principal, const char *id)
{
    struct computer_session *s = computer_session_new(c, principal);
    const struct wait wait = {.deadline = clock_deadline_after(HOLD_SECONDS), .cancel = c->caretaker.stop};
    struct hold hold;
    if (hold_take(s, id, &wait, &hold, NULL) == 0) {
        struct computer *held = hold.computer;
        if (held->stands_in && held->folder.path && is_over(c, &held->record)) {
            struct error why = ERROR_INIT;
            describe_end(held, false, &why);
            pthread_mutex_lock(&c->lock);
            if (computer_end_locked(held, &why)) {
                held->doomed = true;
                held->gone = false; /* nobody has used it */
            }
            pthread_mutex_unlock(&c->lock);
        }
        hold_release(&hold);
    }
    computer_session_end(s, wait.deadline, NULL);
}

static void look_at_name(void *ctx, const char *principal, const char *name)
{
    struct computers *c = ctx;
    _cleanup_(record_done) struct record r = {0};
    if (store_is_debris(name) || computers_knows(c, principal, name))
        return;
    _cleanup_(cleanup_free) char *path = xasprintf("%s/%s/%s", c->dir, principal, name);
    const struct folder folder = {.path = path, .lock = -1};
    if (store_read(&folder, &r, NULL) < 0 || r.temporary || !r.ready)
        return;
    const bool over = is_over(c, &r);
    if (over)
        remove_stopped(c, principal, name);
    if (over && !store_exists(&folder))
        return;
    pthread_mutex_lock(&c->lock);
    note_locked(c, over ? clock_now() + RETRY_NS : due_of_stored(&r));
    pthread_mutex_unlock(&c->lock);
}

static void look_at_stopped(struct computers *c)
{
    pthread_mutex_lock(&c->lock);
    const bool due = c->stored_due <= clock_now();
    if (due)
        c->stored_due = DEADLINE_NONE;
    pthread_mutex_unlock(&c->lock);
    if (due)
        store_scan(c->dir, look_at_name, c);
}

/* -- The thread. */

static int64_t next_due_locked(const struct computers *c)
{
    int64_t due = c->stored_due < c->left_due ? c->stored_due : c->left_due;
    size_t cursor = 0;
    void *value;
    while (map_next(c->by_name, &cursor, NULL, &value)) {
        const struct computer *computer = value;
        bool deletes;
        if (computer->state != COMPUTER_RUNNING || !has_terms(&computer->record))
            continue;
        const int64_t its = due_in(left_locked(computer, &deletes));
        due = its < due ? its : due;
    }
    return due;
}

int64_t terms_expire(struct computers *c)
{
    look_at_running(c);
    look_at_stopped(c);
    reaper_try_left(c);
    pthread_mutex_lock(&c->lock);
    int64_t due = next_due_locked(c);
    const int64_t soonest = clock_now() + LEAST_NS;
    pthread_mutex_unlock(&c->lock);
    return due > soonest ? due : soonest;
}

/* A token that whatever is noted from now on fires; NULL: the end has come. */
static struct cancel *take_wake(struct computers *c)
{
    struct caretaker *t = &c->caretaker;
    struct cancel *wake = NULL;
    pthread_mutex_lock(&c->lock);
    if (!t->ended && cancel_why(t->wake) != ERR_NONE) {
        cancel_unref(t->wake);
        t->wake = cancel_new();
    }
    if (!t->ended)
        wake = cancel_ref(t->wake);
    pthread_mutex_unlock(&c->lock);
    return wake;
}

static void *look_after(void *arg)
{
    struct computers *c = arg;
    for (struct cancel *wake; (wake = take_wake(c));) {
        const struct wait until = {.deadline = terms_expire(c), .cancel = wake};
        struct error why = ERROR_INIT;
        if (wait_fd(-1, 0, &until, NULL, &why) < 0 && why.code == ERR_LIMIT) { /* no descriptor left */
            const struct wait moment = {.deadline = clock_now() + LEAST_NS};
            wait_fd(-1, 0, &moment, NULL, NULL);
        }
        cancel_unref(wake);
    }
    return NULL;
}

void terms_wake_locked(struct computers *c)
{
    struct caretaker *t = &c->caretaker;
    if (t->ended)
        return;
    if (t->started) {
        cancel_fire(t->wake, ERR_BUSY);
        return;
    }
    t->wake = cancel_new();
    t->stop = cancel_new();
    t->started = thread_start(&t->thread, look_after, c) == 0;
    if (t->started)
        return;
    t->wake = cancel_unref(t->wake); /* the next one with terms tries again */
    t->stop = cancel_unref(t->stop);
}

void terms_stop(struct computers *c)
{
    struct caretaker *t = &c->caretaker;
    pthread_mutex_lock(&c->lock);
    t->ended = true;
    const bool started = t->started;
    if (started) {
        cancel_fire(t->stop, ERR_CANCELLED);
        cancel_fire(t->wake, ERR_CANCELLED);
    }
    pthread_mutex_unlock(&c->lock);
    if (started)
        pthread_join(t->thread, NULL);
}
