/* What a principal does with its computers as such: holding one, restarting it, deleting it. (Making a new
 * one in its place is reset.c.) A held computer is CHANGING: calls that want it wait, calls that run on it go
 * on until the holder interrupts them, and who ends it (another's delete, its session, the server) interrupts
 * the holder. */
#include "computers/registry.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/mem.h"

static const struct error RELEASED = {.code = ERR_CANCELLED, .msg = "it was only looked at"};

/* -- Holding. */

static void hold_begin_locked(struct computer_session *s, struct computer *c, const struct wait *wait,
                              struct hold *ret)
{
    *ret = (struct hold){.computer = c, .session = s, .wait = *wait};
    computer_set_state_locked(c, COMPUTER_CHANGING);
    c->uses++;
    c->refs++;
    s->refs++;
}

/* Its place in the list is the struct's. */
static void hold_call_locked(struct hold *h)
{
    running_call_begin_locked(&h->call, h->computer, &h->wait);
}

/* NULL with the error: there is no room. */
static struct computer *stand_in_locked(struct computer_session *s, const char *id, struct error *err)
{
    struct computers *computers = s->computers;
    char name[COMPUTER_NAME_SIZE];
    if (map_count(computers->by_name) >= LIMIT_COMPUTERS) {
        error_set(err, ERR_LIMIT, "this server has %d computers, its maximum", LIMIT_COMPUTERS);
        return NULL;
    }
    struct computer *c = computer_new_locked(computers, s->principal, id);
    c->stands_in = true;
    if (map_put(computers->by_name, computer_name(s->principal, id, name), c) < 0)
        abort(); /* neither full nor taken */
    return c;
}

/* 0: held; 1: look again. */
static int try_hold_locked(struct computer_session *s, const char *id, const struct wait *wait,
                           struct hold *ret, struct error *err)
{
    char name[COMPUTER_NAME_SIZE];
    if (s->closing)
        return error_set(err, ERR_CANCELLED, "the session has ended");
    struct computer *c = map_get(s->computers->by_name, computer_name(s->principal, id, name));
    if (c && c->state != COMPUTER_RUNNING) {
        c->refs++;
        int r = computer_wait_locked(c, wait, err);
        computer_unref_locked(c);
        return r < 0 ? -1 : 1;
    }
    c = c ? c : stand_in_locked(s, id, err);
    if (!c)
        return -1;
    hold_begin_locked(s, c, wait, ret);
    hold_call_locked(ret);
    return 0;
}

/* What there is of one that doesn't run. 1: look again. */
static int find_stopped(struct hold *h, struct error *err)
{
    struct computer *c = h->computer;
    enum found found = computer_find_on_disk(c, false, &h->wait, err);
    if (found == FOUND_CHANGED)
        return 1;
    if (found == FOUND_RECORD)
        return record_check_ours(c->computers, &c->record, err);
    if (found == FOUND_NOTHING)
        found = computer_find_at_backend(c, &h->wait, err);
    if (found == FOUND_NOTHING)
        return computer_not_found(c->id, err);
    return found == FOUND_RECORD ? 0 : -1;
}

int hold_take(struct computer_session *s, const char *id, const struct wait *wait, struct hold *ret,
              struct error *err)
{
    struct error why = ERROR_INIT;
    int r = 1;
    if (slug_check(id, err) < 0)
        return -1;
    while (r == 1) {
        pthread_mutex_lock(&s->computers->lock);
        r = try_hold_locked(s, id, wait, ret, &why);
        pthread_mutex_unlock(&s->computers->lock);
        if (r == 0 && ret->computer->stands_in && (r = find_stopped(ret, &why)) != 0)
            hold_release(ret);
    }
    return r < 0 ? error_set(err, why.code, "%s", why.msg) : 0;
}

static void hold_change_over_locked(struct hold *h)
{
    if (!h->changed && h->computer->state == COMPUTER_CHANGING)
        computer_set_state_locked(h->computer, COMPUTER_RUNNING);
    h->changed = true;
}

void hold_release(struct hold *h)
{
    struct computer *c = h->computer;
    if (!c)
        return;
    pthread_mutex_t *lock = &c->computers->lock;
    pthread_mutex_lock(lock);
    running_call_end_locked(&h->call);
    if (c->stands_in)
        computer_end_locked(c, &RELEASED);
    else
        hold_change_over_locked(h);
    computer_use_end_locked(c);
    computer_unref_locked(c);
    session_unref_locked(h->session);
    pthread_mutex_unlock(lock);
    *h = (struct hold){0};
}

int computer_await_end_locked(struct computer *c, const struct wait *wait, struct error *err)
{
    while (c->state != COMPUTER_ENDED)
        if (computer_wait_locked(c, wait, err) < 0)
            return error_prefix(err, "computer '%s' is still ending", c->id);
    return c->left.code == ERR_NONE ? 0 : error_set(err, c->left.code, "%s", c->left.msg);
}

/* -- Restarting. */

/* One that doesn't run: it is started. */
static int start(struct computer_session *s, const char *id, const struct wait *wait,
                 struct computer_view *ret, struct error *err)
{
    _cleanup_(computers_release) struct computer_use use = {0};
    if (computers_use_existing(s, id, wait, &use, err) < 0)
        return -1;
    computer_look(&use, ret);
    return 0;
}

/* It has died, and nobody has noticed yet; or could not be restarted, because of `cause`. */
static void end_dead_locked(struct computer *c, const struct error *cause)
{
    struct error why = ERROR_INIT;
    error_set(&why, ERR_GONE, "computer '%s' has ended%s%.150s; %s", c->id,
              cause ? " while it was restarted: " : " by itself", cause ? cause->msg : "",
              computer_ends_whole(c) ? "its files are lost, and the next call makes a new, empty one"
                                     : "its files are kept, and the next call starts it again");
    computer_end_locked(c, &why);
}

static int restart_running(struct hold *h, struct error *err)
{
    struct computer *c = h->computer;
    struct instance *i = c->instance;
    pthread_mutex_t *lock = &c->computers->lock;
    struct error restarted = ERROR_INIT, cause = ERROR_INIT;
    if (!i->ops->restart)
        return error_set(err, ERR_UNSUPPORTED,
                         "computers of the backend '%s' can't be restarted so that their files are kept: "
                         "end its processes by a command, or use computer_factory_reset for a new one",
                         i->ops->name);
    error_set(&restarted, ERR_GONE,
              "computer '%s' was restarted while this ran; its files are kept, and it can be used again",
              c->id);
    pthread_mutex_lock(lock);
    computer_interrupt_locked(c, &h->call, &restarted);
    int r = computer_drain_locked(c, &h->call, &h->wait, &cause);
    pthread_mutex_unlock(lock);
    FAULT_POINT("restart.drained");
    if (r == 0)
        r = i->ops->restart(i, &h->wait, &cause);
    FAULT_POINT("restart.restarted");
    pthread_mutex_lock(lock);
    if (!i->ops->alive(i)) {
        end_dead_locked(c, r < 0 ? &cause : NULL);
        session_forget_locked(h->session, c); /* who did it is told here */
    }
    if (c->state != COMPUTER_CHANGING) {
        cause = c->end;
        r = -1;
    }
    pthread_mutex_unlock(lock);
    return r < 0 ? error_set(err, cause.code, "%s", cause.msg) : 0;
}

static bool is_dead(const struct computer *c)
{
    return !c->instance || !c->instance->ops->alive(c->instance);
}

/* 1: it doesn't run. */
static int restart_held(struct hold *h, struct computer_view *ret, struct error *err)
{
    struct computer *c = h->computer;
    pthread_mutex_t *lock = &c->computers->lock;
    if (is_dead(c)) {
        pthread_mutex_lock(lock);
        if (c->instance) {
            end_dead_locked(c, NULL);
            if (!computer_ends_whole(c)) /* else there is nothing to start, which is to be told */
                session_forget_locked(h->session, c);
        }
        pthread_mutex_unlock(lock);
        return 1;
    }
    if (restart_running(h, err) < 0)
        return -1;
    struct instance_stat stat;
    const struct instance_stat *told = computer_ask(c->instance, &h->wait, &stat);
    pthread_mutex_lock(lock);
    hold_change_over_locked(h);
    computer_look_locked(c, told, ret);
    pthread_mutex_unlock(lock);
    return 0;
}

int computer_restart(struct computer_session *s, const char *id, const struct wait *wait,
                     struct computer_view *ret, struct error *err)
{
    struct hold hold;
    session_enter(s);
    int r = hold_take(s, id, wait, &hold, err);
    if (r == 0) {
        r = restart_held(&hold, ret, err);
        hold_release(&hold);
    }
    if (r == 1)
        r = start(s, id, wait, ret, err);
    session_leave(s);
    return r;
}

/* -- Deleting. */

static void doom_locked(struct computer *c)
{
    struct error why = ERROR_INIT;
    error_set(&why, ERR_DELETED,
              "computer '%s' was deleted; the next call with its id makes a new, empty one", c->id);
    if (!computer_end_locked(c, &why))
        return;
    c->doomed = true;
    c->gone = true; /* whoever else uses it is told */
}

/* Of this server. 1: it has ended otherwise, look again; *ret_any: something has gone all the same. */
static int delete_known_locked(struct computer_session *s, struct computer *c, const struct wait *wait,
                               bool *ret_any, struct error *err)
{
    pthread_mutex_t *lock = &s->computers->lock;
    const enum computer_state before = c->state;
    struct instance *to_kill = before == COMPUTER_RUNNING ? c->instance : NULL;
    c->uses++;
    c->refs++;
    doom_locked(c);
    session_forget_locked(s, c);
    pthread_mutex_unlock(lock);
    FAULT_POINT("delete.told");
    if (to_kill)
        to_kill->ops->kill(to_kill);
    FAULT_POINT("delete.killed");
    pthread_mutex_lock(lock);
    computer_use_end_locked(c);
    int r = computer_await_end_locked(c, wait, err);
    const bool whole = before == COMPUTER_RUNNING || (before == COMPUTER_CHANGING && !c->stands_in);
    *ret_any |= before < COMPUTER_ENDING && (!c->stands_in || c->record.id[0]);
    computer_unref_locked(c);
    return r < 0 ? -1 : whole ? 0 : 1;
}

/* One that doesn't run. */
static int delete_stopped(struct computer_session *s, const char *id, const struct wait *wait,
                          struct error *err)
{
    struct hold hold;
    if (hold_take(s, id, wait, &hold, err) < 0)
        return -1;
    struct computer *c = hold.computer;
    pthread_mutex_t *lock = &s->computers->lock;
    pthread_mutex_lock(lock);
    const bool stands_in = c->stands_in;
    c->refs++;
    if (stands_in)
        doom_locked(c);
    pthread_mutex_unlock(lock);
    hold_release(&hold); /* one that was started meanwhile goes on: it is looked at again */
    pthread_mutex_lock(lock);
    int r = stands_in ? computer_await_end_locked(c, wait, err) : 1;
    computer_unref_locked(c);
    pthread_mutex_unlock(lock);
    return r;
}

/* 0: it is deleted; 1: look again. */
static int delete_once(struct computer_session *s, const char *id, const struct wait *wait, bool *ret_any,
                       struct error *err)
{
    pthread_mutex_t *lock = &s->computers->lock;
    char name[COMPUTER_NAME_SIZE];
    pthread_mutex_lock(lock);
    struct computer *c = map_get(s->computers->by_name, computer_name(s->principal, id, name));
    if (c) {
        int r = delete_known_locked(s, c, wait, ret_any, err);
        pthread_mutex_unlock(lock);
        return r;
    }
    pthread_mutex_unlock(lock);
    return delete_stopped(s, id, wait, err);
}

/* Who deletes an id needn't hear any more how its last computer ended. */
static void forget_end(struct computer_session *s, const char *id)
{
    pthread_mutex_lock(&s->computers->lock);
    struct computer *c = map_get(s->by_id, id);
    if (c && c->state == COMPUTER_ENDED)
        session_forget_locked(s, c);
    pthread_mutex_unlock(&s->computers->lock);
}

int computer_delete(struct computer_session *s, const char *id, const struct wait *wait, bool *ret_deleted,
                    struct error *err)
{
    struct error why = ERROR_INIT;
    bool any = false;
    int r = 1;
    if (slug_check(id, err) < 0)
        return -1;
    session_enter(s);
    while (r == 1)
        r = delete_once(s, id, wait, &any, &why);
    const bool is_gone = r == 0 || why.code == ERR_NOT_FOUND;
    if (is_gone)
        forget_end(s, id);
    session_leave(s);
    if (!is_gone)
        return error_set(err, why.code, "%s", why.msg);
    *ret_deleted = r == 0 || any;
    return 0;
}
