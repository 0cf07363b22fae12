/* Computers are looked after a few at once: the leases of temporary ones in which nothing was run for a
 * while are renewed, so that what nobody uses any more, as after the server's death, ends by itself; and what
 * was killed is ended, since who kills doesn't wait. */
#include "backends/fly/private.h"
#include "base/clock.h"
#include "base/log.h"

#define CALL_TIMEOUT_NS (60 * NSEC_PER_SEC)
#define TOUCH_S 5
#define RENEWALS_EACH_LEASE 2
#define TRIES_EACH_LEASE 8 /* once a renewal has failed */

static int64_t part_of_lease(const struct fly_backend *b, int parts)
{
    return b->lease_s * NSEC_PER_SEC / parts;
}

static int64_t renew(struct fly_instance *i, const struct wait *wait)
{
    struct error why = ERROR_INIT;
    const int64_t due = atomic_load(&i->touched_at) + part_of_lease(i->backend, RENEWALS_EACH_LEASE);
    if (!i->temporary)
        return DEADLINE_NONE;
    if (due > clock_now())
        return due;
    if (fly_tell(i, JOB_TOUCH, TOUCH_S, wait, &why) == 0)
        return clock_now() + part_of_lease(i->backend, RENEWALS_EACH_LEASE);
    log_debug("machine %s: its lease wasn't renewed: %s", i->machine, why.msg);
    return why.code == ERR_GONE ? DEADLINE_NONE : clock_now() + part_of_lease(i->backend, TRIES_EACH_LEASE);
}

static int64_t tend(struct tended *tended, struct cancel *cancel)
{
    struct fly_instance *i = CONTAINER_OF(tended, struct fly_instance, tended);
    const struct wait wait = {.deadline = clock_now() + CALL_TIMEOUT_NS, .cancel = cancel};
    struct error why = ERROR_INIT;
    pthread_mutex_lock(&i->lock);
    const bool to_end = i->to_end;
    i->to_end = false;
    pthread_mutex_unlock(&i->lock);

    if (!to_end)
        return renew(i, &wait);
    if ((i->temporary ? fly_api_destroy(i->backend, i->machine, &wait, &why)
                      : fly_api_stop(i->backend, i->machine, &wait, &why)) < 0)
        log_debug("machine %s: %s", i->machine, why.msg);
    return DEADLINE_NONE;
}

void fly_keep_add(struct fly_instance *i)
{
    i->tended.tend = tend;
    pthread_mutex_lock(&i->lock);
    i->to_end = false;
    pthread_mutex_unlock(&i->lock);
    fly_touched(i);
    keeper_add(i->keeper, &i->tended);
    if (i->temporary &&
        keeper_ask(i->keeper, &i->tended, clock_now() + part_of_lease(i->backend, RENEWALS_EACH_LEASE)) < 0)
        log_warning("no thread is to be had that renews the leases of machines");
}

void fly_keep_remove(struct fly_instance *i)
{
    keeper_remove(i->keeper, &i->tended);
}

void fly_keep_end(struct fly_instance *i)
{
    pthread_mutex_lock(&i->lock);
    i->to_end = true;
    pthread_mutex_unlock(&i->lock);
    (void)!keeper_ask(i->keeper, &i->tended, clock_now());
}
