/* The end of leases: computers_expire() on a worker, when the next one is due.
 *
 *   resting   no lease is known of; expiry_soon() starts the timer, since leases are all equally long
 *   timed     the timer is running
 *   looking   a worker is at it, and says when to come again; what begins meanwhile it may not have seen */
#include "base/clock.h"
#include "base/mem.h"
#include "protocol/exchange.h"

enum expiry_state { RESTING, TIMED, LOOKING };

struct expiry {
    struct protocol *protocol;
    double lease_s;
    enum expiry_state state;
    struct loop_timer *timer;
    struct pool_job job;
    struct loop_post post;
    int64_t next; /* the worker's answer */
    bool again;   /* expiry_soon() was called while looking */
    bool stopped;
    void (*on_idle)(void *arg);
    void *arg;
};

static void start_timer(struct expiry *x, int64_t deadline)
{
    x->state = deadline == DEADLINE_NONE ? RESTING : TIMED;
    if (x->state == TIMED)
        loop_timer_start(x->timer, clock_poll_timeout(deadline) + 1, 0);
}

static void looked(void *arg)
{
    struct expiry *x = arg;
    x->state = RESTING;
    if (x->stopped) {
        x->on_idle(x->arg);
        return;
    }
    start_timer(x, x->next);
    if (x->again)
        expiry_soon(x);
}

static void run(struct pool_job *job)
{
    struct expiry *x = CONTAINER_OF(job, struct expiry, job);
    x->next = computers_expire(x->protocol->options.computers);
    loop_post(x->protocol->options.loop, &x->post);
}

static void refused(struct pool_job *job, const struct error *err)
{
    struct expiry *x = CONTAINER_OF(job, struct expiry, job);
    x->next = clock_deadline_after(x->lease_s);
    loop_post(x->protocol->options.loop, &x->post);
}

static void look(void *arg)
{
    struct expiry *x = arg;
    x->state = LOOKING;
    x->again = false;
    x->job = (struct pool_job){.run = run, .refused = refused, .deadline = DEADLINE_NONE};
    if (pool_submit(x->protocol->options.pool, &x->job, NULL) < 0)
        refused(&x->job, NULL);
}

struct expiry *expiry_new(struct protocol *p, double lease_s)
{
    struct expiry *x = xcalloc(1, sizeof(*x));
    *x = (struct expiry){.protocol = p, .lease_s = lease_s};
    x->timer = loop_timer_new(p->options.loop, look, x);
    x->post = (struct loop_post){.fn = looked, .arg = x};
    return x;
}

void expiry_soon(struct expiry *x)
{
    x->again = true;
    if (x->state == RESTING && !x->stopped && x->protocol->options.computers)
        start_timer(x, clock_deadline_after(x->lease_s));
}

void expiry_stop(struct expiry *x, void (*on_idle)(void *arg), void *arg)
{
    x->stopped = true;
    x->on_idle = on_idle;
    x->arg = arg;
    loop_timer_stop(x->timer);
    if (x->state != LOOKING)
        on_idle(arg);
}

struct expiry *expiry_free(struct expiry *x)
{
    loop_timer_free(x->timer);
    free(x);
    return NULL;
}
