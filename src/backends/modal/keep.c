/* Computers are looked after: those in use move to a new sandbox before the lifetime of theirs is over, when
 * no command runs, or at the last moment; and what was killed is ended, since who kills doesn't wait. What
 * nobody looks after any more, as after the server's death, ends at the provider by itself. */
#include "backends/modal/private.h"

#include <time.h>

#include "base/clock.h"
#include "base/log.h"

#define MOVE_TIMEOUT_NS (90 * NSEC_PER_SEC)
#define QUIET_TIMEOUT_NS (10 * NSEC_PER_SEC) /* from the cut of all commands to their end */
#define PARTS 8 /* of a lifetime: it moves after six, and tries again after half of one */

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

static int64_t due_locked(const struct modal_instance *i)
{
    const int64_t due = list_empty(&i->calls) ? soft_end(i) : hard_end(i);
    return due > i->retry_at ? due : i->retry_at;
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
    if (!to_end && !i->ended && due_locked(i) <= clock_now())
        move_locked(i, cancel);
    const int64_t next = i->ended ? DEADLINE_NONE : due_locked(i);
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
    const int64_t due = due_locked(i);
    pthread_mutex_unlock(&i->lock);
    keeper_add(i->backend->keeper, &i->tended);
    if (keeper_ask(i->backend->keeper, &i->tended, due) < 0)
        log_warning("no thread is to be had that looks after sandboxes of Modal");
}

void modal_keep_remove(struct modal_instance *i)
{
    keeper_remove(i->backend->keeper, &i->tended);
}

void modal_keep_used(struct modal_instance *i)
{
    pthread_mutex_lock(&i->lock);
    const int64_t due = due_locked(i);
    pthread_mutex_unlock(&i->lock);
    if (due <= clock_now())
        (void)!keeper_ask(i->backend->keeper, &i->tended, due);
}

void modal_keep_end(struct modal_instance *i)
{
    pthread_mutex_lock(&i->lock);
    i->to_end = true;
    pthread_mutex_unlock(&i->lock);
    (void)!keeper_ask(i->backend->keeper, &i->tended, clock_now());
}
