/* See pace.h.
 *
 * Who must wait is in a list, with a descriptor to be woken by. Only the first of them looks at the time: its
 * turn comes a gap after the turn before, and not while the provider takes nothing. It leaves the list with
 * its turn, or when its wait is over, and wakes the next. So a gap that shrinks helps all who wait already.
 */
#include "backends/pace.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/random.h"

#define GAP_FIRST_NS (50 * NSEC_PER_MSEC)
#define GAP_MOST_NS (2 * NSEC_PER_SEC)
#define GAP_LEAST_NS (5 * NSEC_PER_MSEC) /* less is none */
#define GAP_SHRINKS 8                    /* by one part in so many, with each success */
#define SLOW_MOST_NS (60 * NSEC_PER_SEC) /* whatever the provider asks for */
#define BUDGET_MOST 10.0
#define BUDGET_EARNED 0.2 /* by a success */
#define DELAY_FIRST_NS (200 * NSEC_PER_MSEC)
#define DELAY_MOST_NS (5 * NSEC_PER_SEC)

struct pace {
    int64_t every, ahead; /* of the limit: the interval, and how much of it a burst may be ahead; or 0 */
    pthread_mutex_t lock; /* of all that follows */
    struct list waiting;  /* in the order of their coming */
    int waiting_count;
    int64_t full;         /* when, if nobody comes, a whole burst may come again */
    int64_t last;         /* when the last turn was */
    int64_t closed_until; /* the provider takes nothing before */
    int64_t gap;          /* between two turns; 0: whoever comes goes */
    int64_t slowed;       /* when it last grew */
    double budget;
    uint64_t successes;
};

struct waiting {
    struct list node;
    int fd; /* an eventfd */
};

struct pace *pace_new(void)
{
    struct pace *p = xcalloc(1, sizeof(*p));
    pthread_mutex_init(&p->lock, NULL);
    list_init(&p->waiting);
    p->budget = BUDGET_MOST;
    return p;
}

struct pace *pace_new_limited(int64_t every_ns, int burst)
{
    struct pace *p = pace_new();
    p->every = every_ns;
    p->ahead = every_ns * (burst - 1);
    return p;
}

struct pace *pace_free(struct pace *p)
{
    if (!p)
        return NULL;
    pthread_mutex_destroy(&p->lock);
    free(p);
    return NULL;
}

/* --- the queue --- */

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t next_turn_locked(const struct pace *p)
{
    return later(later(p->last + p->gap, p->closed_until), p->full - p->ahead);
}

/* Who would go beyond a limit in vain doesn't stand in the others' way. */
static int check_limit_locked(const struct pace *p, const struct wait *wait, struct error *err)
{
    const int64_t turn = next_turn_locked(p) + p->waiting_count * p->every;
    if (p->every == 0 || turn <= wait->deadline)
        return 0;
    return error_set(err, ERR_BUSY,
                     "there are too many such calls at once: this one's turn comes in %lld s, when its time "
                     "is over; try again later",
                     (long long)((turn - clock_now()) / NSEC_PER_SEC) + 1);
}

static void wake_first_locked(const struct pace *p)
{
    if (!list_empty(&p->waiting))
        eventfd_write(list_entry(p->waiting.next, struct waiting, node)->fd, 1);
}

/* Without the lock: until it is time to look again. */
static int sleep_until(const struct waiting *w, int64_t until, const struct wait *wait, struct error *err)
{
    const struct wait bounded = wait_at_most(wait, until);
    struct error why = ERROR_INIT;
    eventfd_t woken;
    if (wait_fd(w->fd, POLLIN, &bounded, NULL, &why) == 0)
        (void)!eventfd_read(w->fd, &woken);
    return why.code == ERR_NONE || wait_was_over(&why) ? 0 : error_set(err, why.code, "%s", why.msg);
}

/* In the list, under the lock, which is left meanwhile. */
static int await_turn_locked(struct pace *p, const struct waiting *w, const struct wait *wait,
                             struct error *err)
{
    for (;;) {
        const bool is_first = p->waiting.next == &w->node;
        const int64_t turn = is_first ? next_turn_locked(p) : DEADLINE_NONE;
        if (wait_check(wait, err) < 0)
            return -1;
        if (turn <= clock_now())
            return 0;
        pthread_mutex_unlock(&p->lock);
        const int failed = sleep_until(w, turn, wait, err);
        pthread_mutex_lock(&p->lock);
        if (failed < 0)
            return -1;
    }
}

static int stand_in_line_locked(struct pace *p, const struct wait *wait, struct error *err)
{
    if (check_limit_locked(p, wait, err) < 0)
        return -1;
    struct waiting w = {.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (w.fd < 0)
        return error_errno(err, ERR_LIMIT, errno, "no descriptor left to wait with");
    list_append(&p->waiting, &w.node);
    p->waiting_count++;
    const int failed = await_turn_locked(p, &w, wait, err);
    list_unlink(&w.node);
    p->waiting_count--;
    wake_first_locked(p);
    fd_close(w.fd);
    return failed;
}

int pace_take_turn(struct pace *p, const struct wait *wait, struct error *err)
{
    if (!p)
        return wait_check(wait, err);
    int failed = wait_check(wait, err);
    pthread_mutex_lock(&p->lock);
    if (failed == 0 && (!list_empty(&p->waiting) || next_turn_locked(p) > clock_now()))
        failed = stand_in_line_locked(p, wait, err);
    if (failed == 0) {
        p->last = clock_now();
        p->full = later(p->full, p->last) + p->every;
    }
    pthread_mutex_unlock(&p->lock);
    return failed;
}

void pace_succeeded(struct pace *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->successes++;
    p->gap -= p->gap / GAP_SHRINKS;
    p->gap = p->gap < GAP_LEAST_NS ? 0 : p->gap;
    p->budget = p->budget + BUDGET_EARNED > BUDGET_MOST ? BUDGET_MOST : p->budget + BUDGET_EARNED;
    wake_first_locked(p);
    pthread_mutex_unlock(&p->lock);
}

uint64_t pace_successes(struct pace *p)
{
    if (!p)
        return 0;
    pthread_mutex_lock(&p->lock);
    const uint64_t successes = p->successes;
    pthread_mutex_unlock(&p->lock);
    return successes;
}

bool pace_is_free(struct pace *p)
{
    const int64_t now = clock_now();
    pthread_mutex_lock(&p->lock);
    const bool is_free = list_empty(&p->waiting) && next_turn_locked(p) <= now;
    pthread_mutex_unlock(&p->lock);
    return is_free;
}

bool pace_is_idle(struct pace *p)
{
    const int64_t now = clock_now();
    pthread_mutex_lock(&p->lock);
    const bool idle = p->full <= now && p->closed_until <= now && p->gap == 0 && p->waiting_count == 0;
    pthread_mutex_unlock(&p->lock);
    return idle;
}

/* Who is refused before anybody has gone at the present gap says nothing about that. */
void pace_slow_down(struct pace *p, int64_t ns)
{
    if (!p)
        return;
    const int64_t now = clock_now(), until = now + (ns < SLOW_MOST_NS ? ns : SLOW_MOST_NS);
    pthread_mutex_lock(&p->lock);
    if (p->last > p->slowed) {
        const int64_t wider = p->gap > 0 ? p->gap * 2 : GAP_FIRST_NS;
        p->gap = wider < GAP_MOST_NS ? wider : GAP_MOST_NS;
        p->slowed = now;
    }
    p->closed_until = until > p->closed_until ? until : p->closed_until;
    pthread_mutex_unlock(&p->lock);
}

bool pace_is_bearable(const struct wait *wait, int64_t ns)
{
    return ns <= SLOW_MOST_NS && (wait->deadline == DEADLINE_NONE || wait->deadline - clock_now() >= ns);
}

/* --- the budget --- */

bool pace_may_repeat(struct pace *p)
{
    if (!p)
        return false;
    pthread_mutex_lock(&p->lock);
    const bool may = p->budget >= 1;
    p->budget -= may ? 1 : 0;
    pthread_mutex_unlock(&p->lock);
    return may;
}

int64_t pace_delay(int attempt)
{
    int64_t most = DELAY_FIRST_NS;
    while (attempt-- > 0 && most < DELAY_MOST_NS)
        most *= 2;
    most = most < DELAY_MOST_NS ? most : DELAY_MOST_NS;
    return most / 2 + (int64_t)random_below((uint32_t)(most / 2 / NSEC_PER_MSEC)) * NSEC_PER_MSEC;
}

bool pace_pause(const struct wait *wait, int64_t ns)
{
    const int64_t now = clock_now();
    if (wait->deadline != DEADLINE_NONE && wait->deadline - now < ns)
        return false;
    return wait_pause(wait, ns, NULL) == 0;
}
