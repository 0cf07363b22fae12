/* The end of a session.
 *
 *   calls are cancelled, computers killed
 *   all workers are back
 *   the computers are removed, on a worker
 *   the owner is told, the session freed
 *
 * If a worker isn't back by the deadline, the owner is told so; the rest still happens if the process lives
 * on. Where there is no deadline (a session over HTTP, of many), removing waits for a place in the queue. */
#include <assert.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "protocol/session.h"

/* The worker that removes computers keeps the same deadline and has better words for what is left, so it goes
 * first. */
#define DEADLINE_GRACE_MS 50
#define RETRY_MS 100

struct closing {
    struct session *session;
    int64_t deadline;
    struct loop_timer *timer;
    struct pool_job job;
    struct loop_post post;
    bool submitted;
    struct error error; /* of the removal */
    void (*on_done)(void *arg, const char *left_behind);
    void *arg;
};

static void tell(struct closing *c, const char *left_behind)
{
    void (*on_done)(void *arg, const char *left_behind) = TAKE_PTR(c->on_done);
    if (on_done)
        on_done(c->arg, left_behind);
}

static void closed(void *arg)
{
    struct closing *c = arg;
    tell(c, c->error.code != ERR_NONE ? c->error.msg : NULL);
    session_free(c->session);
}

static void end_computers(struct closing *c, int64_t deadline)
{
    if (c->session->computers)
        computer_session_end(c->session->computers, deadline, &c->error);
    loop_post(c->session->protocol->options.loop, &c->post);
}

static void run(struct pool_job *job)
{
    struct closing *c = CONTAINER_OF(job, struct closing, job);
    end_computers(c, c->deadline);
}

/* Without waiting: whatever is not gone at once is left to the reaper. */
static void refused(struct pool_job *job, const struct error *err)
{
    end_computers(CONTAINER_OF(job, struct closing, job), clock_now());
}

static void submit(struct closing *c)
{
    struct error err = ERROR_INIT;
    if (pool_submit(c->session->protocol->options.pool, &c->job, &err) == 0)
        return;
    if (c->deadline == DEADLINE_NONE && err.code == ERR_LIMIT)
        loop_timer_start(c->timer, RETRY_MS, 0);
    else
        refused(&c->job, NULL);
}

static void tell_of_late_removal(struct closing *c)
{
    char words[80];
    const int left = computers_count(c->session->protocol->options.computers).ending;
    snprintf(words, sizeof(words), "computers are still being removed, %d of them", left);
    tell(c, words);
}

static void on_timer(void *arg)
{
    struct closing *c = arg;
    if (c->deadline == DEADLINE_NONE)
        submit(c);
    else if (!c->submitted)
        tell(c, "calls are still running and hold its computers");
    else
        tell_of_late_removal(c);
}

void session_closing_step(struct session *s)
{
    struct closing *c = s->closing;
    if (c->submitted || !list_empty(&s->calls))
        return;
    c->submitted = true;
    c->job = (struct pool_job){.run = run, .refused = refused, .deadline = c->deadline};
    submit(c);
}

void session_close(struct session *s, int64_t deadline, void (*on_done)(void *arg, const char *left_behind),
                   void *arg)
{
    struct loop *loop = s->protocol->options.loop;
    assert(loop_is_current(loop) && !s->closing);
    struct closing *c = xcalloc(1, sizeof(*c));
    *c = (struct closing){.session = s, .deadline = deadline, .on_done = on_done, .arg = arg};
    c->post = (struct loop_post){.fn = closed, .arg = c};
    c->timer = loop_timer_new(loop, on_timer, c);
    if (deadline != DEADLINE_NONE)
        loop_timer_start(c->timer, clock_poll_timeout(deadline) + DEADLINE_GRACE_MS, 0);
    s->closing = c;
    if (s->sink.closed)
        s->sink.closed(s->sink.ctx);
    calls_cancel_all(s);
    if (s->computers)
        computer_session_kill(s->computers);
    s->intake = intake_drop(s->intake);
    session_closing_step(s);
}

void session_closing_free(struct session *s)
{
    struct closing *c = TAKE_PTR(s->closing);
    if (!c->submitted && s->computers)
        computer_session_end(s->computers, clock_now(), NULL);
    loop_timer_free(c->timer);
    free(c);
}
