/* Leases: how long computers live that no session has. They are the business of the one leased session of a
 * principal (computers.h).
 *
 *   held      in its `leases`, from the first use on; each use, and its end, moves it to the list's end
 *   expired   in its `expired`: it ended with its lease, and who asks for its id is told so, once
 *
 * A computer that a session has too, or a permanent one, is only taken out when its lease is over. */
#include "computers/registry.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"

#define EXPIRED_MAX 256 /* per principal, whose end is remembered */

static bool has_lease(const struct computer *c)
{
    return !list_empty(&c->lease);
}

static bool is_listed_locked(const struct computer_session *s, const struct computer *c)
{
    return map_get(s->by_id, c->id) == c;
}

void lease_renew_locked(struct computer_session *s, struct computer *c)
{
    if (s->lease_ns == 0 || !is_listed_locked(s, c) || c->expired)
        return;
    list_unlink(&c->lease);
    c->lease_end = clock_now() + s->lease_ns;
    list_append(&s->leases, &c->lease);
}

void lease_forget_locked(struct computer_session *s, struct computer *c)
{
    if (s->lease_ns == 0 || !has_lease(c))
        return;
    s->expired_count -= c->expired;
    c->expired = false;
    list_unlink(&c->lease);
}

static void end_locked(struct computer_session *s, struct computer *c)
{
    struct error why = ERROR_INIT;
    error_set(&why, ERR_GONE,
              "computer '%s' was removed, since nobody used it for %lld seconds; its files are lost, and the "
              "next call makes a new, empty one",
              c->id, s->lease_ns / NSEC_PER_SEC);
    computer_end_locked(c, &why);
}

static void remember_locked(struct computer_session *s, struct computer *c)
{
    list_unlink(&c->lease);
    list_append(&s->expired, &c->lease);
    c->expired = true;
    s->expired_count++;
}

/* True if the caller has to clean it up. */
static bool expire_locked(struct computer_session *s, struct computer *c)
{
    if (c->state == COMPUTER_RUNNING && c->temporary && c->sessions == 1)
        end_locked(s, c);
    bool claimed = computer_claim_locked(c);
    if (c->gone)
        remember_locked(s, c);
    else
        session_forget_locked(s, c);
    return claimed;
}

/* The end of one lease that is over. NULL: there is none that has to be cleaned up after. */
static struct computer *next_expired_locked(struct computer_session *s, int64_t now)
{
    while (!list_empty(&s->leases)) {
        struct computer *c = list_entry(s->leases.next, struct computer, lease);
        if (c->lease_end > now)
            return NULL;
        if (c->uses > 0)
            lease_renew_locked(s, c);
        else if (expire_locked(s, c))
            return c;
    }
    return NULL;
}

static void forget_old_locked(struct computer_session *s, int64_t now)
{
    while (!list_empty(&s->expired)) {
        struct computer *c = list_entry(s->expired.next, struct computer, lease);
        if (s->expired_count <= EXPIRED_MAX && now - c->ended_at < TOMBSTONE_SECONDS * NSEC_PER_SEC)
            return;
        session_forget_locked(s, c);
    }
}

static int64_t due_locked(const struct computer_session *s)
{
    return list_empty(&s->leases) ? DEADLINE_NONE
                                  : list_entry(s->leases.next, struct computer, lease)->lease_end;
}

int64_t computers_expire(struct computers *c)
{
    const int64_t now = clock_now();
    int64_t due = DEADLINE_NONE;
    size_t count = 0;
    pthread_mutex_lock(&c->lock);
    struct computer **ending = xcalloc(map_count(c->by_name) + 1, sizeof(struct computer *));
    list_for_each (node, &c->leased) {
        struct computer_session *s = list_entry(node, struct computer_session, link);
        struct computer *one;
        while ((one = next_expired_locked(s, now)))
            ending[count++] = one;
        forget_old_locked(s, now);
        int64_t first = due_locked(s);
        due = first < due ? first : due;
    }
    pthread_mutex_unlock(&c->lock);
    computers_clean_all(ending, count);
    free(ending);
    return due;
}

bool computer_is_leased(const struct computer_use *use)
{
    return use->computer->temporary && use->session->lease_ns > 0;
}
