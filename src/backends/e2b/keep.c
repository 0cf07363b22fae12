/* Computers are looked after a few at once: the lifetimes of those that are in use are renewed, so that
 * what nobody uses any more, as after the server's death, ends at the provider by itself; and what was killed
 * is ended, since who kills doesn't wait. */
#include <string.h>

#include "backends/e2b/private.h"
#include "base/clock.h"
#include "base/log.h"

#define CALL_TIMEOUT_NS (60 * NSEC_PER_SEC)
#define RENEWALS_EACH_LIFETIME 2
#define TRIES_EACH_LIFETIME 8 /* once a renewal has failed */

static int64_t part_of_lifetime(const struct e2b_backend *b, int parts)
{
    return b->lifetime_s * NSEC_PER_SEC / parts;
}

static int do_call(const struct e2b_instance *i, const char *id, bool to_end, struct cancel *cancel,
                   struct error *err)
{
    const struct wait wait = {.deadline = clock_now() + CALL_TIMEOUT_NS, .cancel = cancel};
    if (!to_end)
        return e2b_api_renew(i->backend, id, &wait, err);
    return i->temporary ? e2b_api_kill(i->backend, id, &wait, err)
                        : e2b_api_pause(i->backend, id, &wait, err);
}

static int64_t tend(struct tended *tended, struct cancel *cancel)
{
    struct e2b_instance *i = CONTAINER_OF(tended, struct e2b_instance, tended);
    struct error why = ERROR_INIT;
    char id[E2B_ID_SIZE];
    pthread_mutex_lock(&i->lock);
    memcpy(id, i->sandbox.id, sizeof(id));
    const bool to_end = i->to_end;
    i->to_end = false;
    pthread_mutex_unlock(&i->lock);

    const int failed = do_call(i, id, to_end, cancel, &why);
    if (failed < 0)
        log_debug("sandbox %s: %s", id, why.msg);
    if (to_end)
        return DEADLINE_NONE;
    const bool settled = failed == 0 || why.code == ERR_NOT_FOUND;
    return clock_now() + part_of_lifetime(i->backend, settled ? RENEWALS_EACH_LIFETIME : TRIES_EACH_LIFETIME);
}

void e2b_keep_add(struct e2b_instance *i)
{
    i->tended.tend = tend;
    pthread_mutex_lock(&i->lock);
    i->to_end = false;
    pthread_mutex_unlock(&i->lock);
    keeper_add(i->keeper, &i->tended);
    if (keeper_ask(i->keeper, &i->tended,
                   clock_now() + part_of_lifetime(i->backend, RENEWALS_EACH_LIFETIME)) < 0)
        log_warning("no thread is to be had that renews the lifetimes of sandboxes");
}

void e2b_keep_remove(struct e2b_instance *i)
{
    keeper_remove(i->keeper, &i->tended);
}

void e2b_keep_end(struct e2b_instance *i)
{
    pthread_mutex_lock(&i->lock);
    i->to_end = true;
    pthread_mutex_unlock(&i->lock);
    (void)!keeper_ask(i->keeper, &i->tended, clock_now());
}
