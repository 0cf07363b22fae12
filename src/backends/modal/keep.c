/* Computers are looked after: those in use move to a new sandbox before the lifetime of theirs is over, when
 * no command runs, or at the last moment; of permanent ones a snapshot is taken when nothing was run for a
 * while, and now and then if there is always something, so that a sandbox that ends by itself takes little
 * with it; and what was killed is ended, since who kills doesn't wait. What nobody looks after any more, as
 * after the server's death, ends at the provider by itself. */
#include "backends/modal/private.h"

#include <time.h>

#include "base/clock.h"
#include "base/log.h"

#define MOVE_TIMEOUT_NS (90 * NSEC_PER_SEC)
#define QUIET_TIMEOUT_NS (10 * NSEC_PER_SEC) /* from the cut of all commands to their end */
#define PARTS 8 /* of a lifetime: it moves after six, and tries again after half of one */
#define IDLE_MAX_NS (60 * NSEC_PER_SEC) /* from the last command to the snapshot */
#define IDLES 8                         /* in a part, of a lifetime that is short */

static int64_t lifetime_part(const struct modal_instance *i)
{
    return i->backend->lifetime_s * NSEC_PER_SEC / PARTS;
}
/* From when on it moves if no command runs, and even if one does. */
static int64_t soft_end(const struct modal_instance *i)
{
    return i->made_at + 6 * lifetime_part(i);
}
static int64_t hard_end(const struct modal_instance *i)
{
    return i->made_at + 7 * lifetime_part(i);
}

static int64_t move_due_locked(const struct modal_instance *i)
{
    const int64_t due = list_empty(&i->calls) ? soft_end(i) : hard_end(i);
    return due > i->retry_at ? due : i->retry_at;
}

/* While something runs a snapshot may have half of it, which is better than nothing of a day's work. */
static int64_t save_due_locked(const struct modal_instance *i)
{
    const int64_t part = lifetime_part(i), idle = part / IDLES < IDLE_MAX_NS ? part / IDLES : IDLE_MAX_NS;
    if (i->temporary || i->dirty_since == 0)
        return DEADLINE_NONE;
    int64_t due = i->dirty_since + part;
    if (list_empty(&i->calls) && i->ran_at + idle < due)
        due = i->ran_at + idle;
    return due > i->save_at ? due : i->save_at;
}

static int64_t due_locked(const struct modal_instance *i)
{
    const int64_t move = move_due_locked(i), save = save_due_locked(i);
    return move < save ? move : save;
}

/* False: commands still run, though they were cut. */
static bool quieten_locked(struct modal_instance *i)
{
    const int64_t until = clock_now() + QUIET_TIMEOUT_NS;
    const struct timespec at = {.tv_sec = until / NSEC_PER_SEC, .tv_nsec = until % NSEC_PER_SEC};
    modal_calls_cut_locked(i, true);
    while (!list_empty(&i->calls) && clock_now() < until)
        pthread_cond_timedwait(&i->quiet, &i->lock, &at);
    return list_empty(&i->calls);
}

/* Under the lock, which is left meanwhile. */
static void move_locked(struct modal_instance *i, struct cancel *cancel)
{
    const struct wait wait = {.deadline = clock_now() + MOVE_TIMEOUT_NS, .cancel = cancel};
    struct error why = ERROR_INIT;
    if (attempt_join(&i->moving, &i->lock, &wait, NULL) != 0)
        return;
    int failed = quieten_locked(i) ? 0 : error_set(&why, ERR_BUSY, "its commands don't end");
    if (failed == 0) {
        pthread_mutex_unlock(&i->lock);
        failed = modal_move(i, &wait, &why);
        pthread_mutex_lock(&i->lock);
    }
    attempt_end(&i->moving, failed < 0 ? &why : NULL);
    if (failed == 0)
        return;
    i->retry_at = clock_now() + lifetime_part(i) / 2;
    log_warning("computer %s can't move to a new sandbox of Modal: %s", i->id, why.msg);
}

/* Under the lock, which is left meanwhile: commands go on. */
static void save_locked(struct modal_instance *i, struct cancel *cancel)
{
    const struct wait wait = {.deadline = clock_now() + MOVE_TIMEOUT_NS, .cancel = cancel};
    struct error why = ERROR_INIT;
    pthread_mutex_unlock(&i->lock);
    const int failed = modal_save(i, &wait, &why);
    if (failed == 0)
        modal_tidy(i, &wait);
    pthread_mutex_lock(&i->lock);
    if (failed >= 0)
        return;
    i->save_at = clock_now() + lifetime_part(i) / 2;
    log_debug("computer %s has no snapshot of what was written last: %s", i->id, why.msg);
}

static void end_it(struct modal_instance *i, struct cancel *cancel)
{
    const struct wait wait = {.deadline = clock_now() + MOVE_TIMEOUT_NS, .cancel = cancel};
    struct error why = ERROR_INIT;
    if (modal_put_down(i, !i->temporary, &wait, &why) < 0)
        log_debug("computer %s: %s", i->id, why.msg);
}

static int64_t tend(struct tended *tended, struct cancel *cancel)
{
    struct modal_instance *i = CONTAINER_OF(tended, struct modal_instance, tended);
    pthread_mutex_lock(&i->lock);
    const bool to_end = i->to_end;
    i->asked_due = DEADLINE_NONE;
    if (!to_end && !i->ended && move_due_locked(i) <= clock_now())
        move_locked(i, cancel);
    else if (!to_end && !i->ended && save_due_locked(i) <= clock_now())
        save_locked(i, cancel);
    const int64_t next = i->ended ? DEADLINE_NONE : due_locked(i);
    i->asked_due = next < i->asked_due ? next : i->asked_due;
    pthread_mutex_unlock(&i->lock);
    if (to_end)
        end_it(i, cancel);
    return to_end ? DEADLINE_NONE : next;
}

void modal_keep_add(struct modal_instance *i)
{
    i->tended.tend = tend;
    pthread_mutex_lock(&i->lock);
    i->to_end = false;
    const int64_t due = i->asked_due = due_locked(i);
    pthread_mutex_unlock(&i->lock);
    keeper_add(i->keeper, &i->tended);
    if (keeper_ask(i->keeper, &i->tended, due) < 0)
        log_warning("no thread is to be had that looks after sandboxes of Modal");
}

void modal_keep_remove(struct modal_instance *i)
{
    keeper_remove(i->keeper, &i->tended);
}

void modal_keep_used(struct modal_instance *i)
{
    pthread_mutex_lock(&i->lock);
    const int64_t due = due_locked(i);
    const bool sooner = due < i->asked_due;
    if (sooner)
        i->asked_due = due;
    pthread_mutex_unlock(&i->lock);
    if (sooner)
        (void)!keeper_ask(i->keeper, &i->tended, due);
}

void modal_keep_end(struct modal_instance *i)
{
    pthread_mutex_lock(&i->lock);
    i->to_end = true;
    pthread_mutex_unlock(&i->lock);
    (void)!keeper_ask(i->keeper, &i->tended, clock_now());
}
