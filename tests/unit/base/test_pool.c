/* The pool: who runs, in what order, and that each job is run or refused exactly once. */
#include "base/pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/mem.h"
#include "tests/unit/base/check.h"

/* What happened, seen by the main thread. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool gate_open; /* held jobs wait for it */
    int running, running_peak;
    int ended;
    char order[64]; /* names of jobs in the order of their start */
    size_t order_len;
} world = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

struct job {
    struct pool_job base;
    char name;
    bool is_held; /* until the gate opens */
    int runs, refusals;
    enum error_code refused_as;
};

static int reset(void **state)
{
    world.gate_open = false;
    world.running = world.running_peak = world.ended = 0;
    world.order_len = 0;
    world.order[0] = '\0';
    return 0;
}

static void run(struct pool_job *base)
{
    struct job *job = CONTAINER_OF(base, struct job, base);
    pthread_mutex_lock(&world.lock);
    job->runs++;
    world.order[world.order_len++] = job->name;
    world.order[world.order_len] = '\0';
    if (++world.running > world.running_peak)
        world.running_peak = world.running;
    pthread_cond_broadcast(&world.changed);
    while (job->is_held && !world.gate_open)
        pthread_cond_wait(&world.changed, &world.lock);
    world.running--;
    world.ended++;
    pthread_cond_broadcast(&world.changed);
    pthread_mutex_unlock(&world.lock);
}

static void refused(struct pool_job *base, const struct error *err)
{
    struct job *job = CONTAINER_OF(base, struct job, base);
    pthread_mutex_lock(&world.lock);
    job->refusals++;
    job->refused_as = err->code;
    world.ended++;
    pthread_cond_broadcast(&world.changed);
    pthread_mutex_unlock(&world.lock);
}

static struct job make(char name, const char *principal, bool is_held)
{
    struct job job = {.base = {.run = run, .refused = refused, .deadline = DEADLINE_NONE},
                      .name = name,
                      .is_held = is_held};
    snprintf(job.base.principal, sizeof(job.base.principal), "%s", principal);
    return job;
}

static void submit(struct pool *p, struct job *job)
{
    struct error err = ERROR_INIT;
    if (pool_submit(p, &job->base, &err) < 0)
        fail_msg("%s", err.msg);
}

static void wait_running(int n)
{
    pthread_mutex_lock(&world.lock);
    while (world.running != n)
        pthread_cond_wait(&world.changed, &world.lock);
    pthread_mutex_unlock(&world.lock);
}

static void wait_ended(int n)
{
    pthread_mutex_lock(&world.lock);
    while (world.ended < n)
        pthread_cond_wait(&world.changed, &world.lock);
    pthread_mutex_unlock(&world.lock);
}

static void open_gate(void)
{
    pthread_mutex_lock(&world.lock);
    world.gate_open = true;
    pthread_cond_broadcast(&world.changed);
    pthread_mutex_unlock(&world.lock);
}

static void end(struct pool *p)
{
    assert_true(pool_close(p, DEADLINE_NONE));
    assert_null(pool_free(p));
}

static void jobs_run_on_other_threads_at_once(void **state)
{
    struct pool *p = pool_new(10, 10);
    struct job jobs[5];
    for (int i = 0; i < 5; i++) {
        jobs[i] = make('a', "", true);
        submit(p, &jobs[i]);
    }
    wait_running(5);
    open_gate();
    wait_ended(5);
    end(p);
}

static void workers_are_used_again(void **state)
{
    struct pool *p = pool_new(2, 1000);
    static struct job jobs[1000];
    for (int i = 0; i < 1000; i++) {
        jobs[i] = make('a', "", false);
        world.order_len = 0;
        submit(p, &jobs[i]);
        wait_ended(i + 1);
        assert_int_equal(jobs[i].runs, 1);
    }
    end(p);
}

static void at_most_the_maximum_runs(void **state)
{
    struct pool *p = pool_new(2, 10);
    struct job jobs[6];
    for (int i = 0; i < 6; i++) {
        jobs[i] = make('a', "", true);
        submit(p, &jobs[i]);
    }
    wait_running(2);
    open_gate();
    wait_ended(6);
    assert_int_equal(world.running_peak, 2);
    end(p);
}

static void one_principal_gets_half(void **state)
{
    struct pool *p = pool_new(4, 10);
    struct job greedy[4], modest = make('m', "modest", true), ours = make('o', "", true);
    for (int i = 0; i < 4; i++) {
        greedy[i] = make('g', "greedy", true);
        submit(p, &greedy[i]);
    }
    wait_running(2);
    submit(p, &modest);
    submit(p, &ours);
    wait_running(4);
    assert_int_equal(greedy[2].runs + greedy[3].runs, 0);
    open_gate();
    wait_ended(6);
    assert_int_equal(greedy[2].runs + greedy[3].runs, 2);
    end(p);
}

static void single_thread_serves_named_principals_too(void **state)
{
    struct pool *p = pool_new(1, 10);
    struct job job = make('a', "a", false);
    submit(p, &job);
    wait_ended(1);
    assert_int_equal(job.runs, 1);
    end(p);
}

static void waiting_principals_take_turns_each_in_order(void **state)
{
    struct pool *p = pool_new(1, 10);
    struct job first = make('-', "z", true);
    submit(p, &first);
    wait_running(1);
    static const char *const names = "1a2a3a4b5b6c";
    struct job jobs[6];
    for (int i = 0; i < 6; i++) {
        char principal[] = {names[2 * i + 1], '\0'};
        jobs[i] = make(names[2 * i], principal, false);
        submit(p, &jobs[i]);
    }
    open_gate();
    wait_ended(7);
    assert_string_equal(world.order, "-146253");
    end(p);
}

static void full_queue_refuses_by_return_value(void **state)
{
    struct pool *p = pool_new(1, 2);
    struct job jobs[4];
    struct error err = ERROR_INIT;
    for (int i = 0; i < 4; i++)
        jobs[i] = make('a', "a", true);
    for (int i = 0; i < 3; i++)
        submit(p, &jobs[i]);
    assert_int_equal(pool_submit(p, &jobs[3].base, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    open_gate();
    wait_ended(3);
    end(p);
    assert_int_equal(jobs[3].runs + jobs[3].refusals, 0);
}

static void fired_token_takes_a_job_out_of_the_queue(void **state)
{
    struct pool *p = pool_new(1, 10);
    struct job jobs[4];
    _cleanup_(cleanup_cancel_unref) struct cancel *token = cancel_new();
    for (int i = 0; i < 4; i++) {
        jobs[i] = make((char)('0' + i), "a", i == 0);
        jobs[i].base.cancel = i == 2 ? token : NULL;
        submit(p, &jobs[i]);
    }
    pool_kick(p);
    assert_int_equal(jobs[2].refusals, 0);
    cancel_fire(token, ERR_DELETED);
    pool_kick(p);
    wait_ended(1); /* while the first still runs */
    assert_int_equal(jobs[2].refused_as, ERR_DELETED);
    open_gate();
    wait_ended(4);
    assert_string_equal(world.order, "013");
    end(p);
    assert_int_equal(jobs[2].runs, 0);
    assert_int_equal(jobs[2].refusals, 1);
}

static void last_in_the_queue_can_be_cancelled_and_followed(void **state)
{
    struct pool *p = pool_new(1, 10);
    struct job held = make('h', "a", true), gone = make('g', "a", false), next = make('n', "a", false);
    _cleanup_(cleanup_cancel_unref) struct cancel *token = cancel_new();
    gone.base.cancel = token;
    submit(p, &held);
    submit(p, &gone);
    cancel_fire(token, ERR_CANCELLED);
    pool_kick(p);
    submit(p, &next);
    open_gate();
    wait_ended(3);
    assert_int_equal(gone.refused_as, ERR_CANCELLED);
    assert_int_equal(next.runs, 1);
    end(p);
}

static void deadline_passes_while_all_are_busy(void **state)
{
    struct pool *p = pool_new(1, 10);
    struct job held = make('h', "a", true), late = make('l', "a", false), later = make('m', "b", false);
    late.base.deadline = clock_deadline_after(3600);
    later.base.deadline = clock_deadline_after(0.01);
    submit(p, &held);
    wait_running(1);
    submit(p, &late);
    submit(p, &later);
    wait_ended(1);
    assert_int_equal(later.refused_as, ERR_TIMEOUT);
    assert_true(clock_now() >= later.base.deadline);
    assert_int_equal(late.refusals, 0);
    open_gate();
    wait_ended(3);
    assert_int_equal(late.runs, 1);
    end(p);
}

static void job_that_is_over_already_is_not_run(void **state)
{
    struct pool *p = pool_new(1, 10);
    struct job late = make('l', "a", false), cancelled = make('c', "a", false);
    _cleanup_(cleanup_cancel_unref) struct cancel *token = cancel_new();
    cancel_fire(token, ERR_CANCELLED);
    late.base.deadline = clock_now();
    cancelled.base.cancel = token;
    submit(p, &late);
    submit(p, &cancelled);
    wait_ended(2);
    assert_int_equal(late.refused_as, ERR_TIMEOUT);
    assert_int_equal(cancelled.refused_as, ERR_CANCELLED);
    assert_int_equal(late.runs + cancelled.runs, 0);
    end(p);
}

static void closing_refuses_what_waits_and_waits_for_what_runs(void **state)
{
    struct pool *p = pool_new(1, 10);
    struct job held = make('h', "a", true), waiting = make('w', "a", false), late = make('l', "a", false);
    struct error err = ERROR_INIT;
    waiting.base.deadline = clock_deadline_after(3600);
    submit(p, &held);
    wait_running(1);
    submit(p, &waiting);
    assert_false(pool_close(p, clock_now()));
    assert_int_equal(waiting.refusals, 1);
    assert_int_equal(waiting.refused_as, ERR_UNAVAILABLE);
    assert_int_equal(pool_submit(p, &late.base, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    open_gate();
    end(p);
    assert_int_equal(held.runs, 1);
    assert_int_equal(waiting.runs + late.runs + late.refusals, 0);
}

static void unused_pool_can_be_closed(void **state)
{
    end(pool_new(1, 1));
    assert_null(pool_free(NULL));
}

static sigset_t mask_in_worker;

static void note_mask(struct pool_job *base)
{
    pthread_sigmask(SIG_BLOCK, NULL, &mask_in_worker);
    run(base);
}

static void workers_get_no_signals(void **state)
{
    struct pool *p = pool_new(1, 1);
    struct job job = make('a', "", false);
    job.base.run = note_mask;
    submit(p, &job);
    wait_ended(1);
    end(p);
    assert_true(sigismember(&mask_in_worker, SIGTERM) && sigismember(&mask_in_worker, SIGCHLD));
}

/* ---- many threads, principals, deadlines and cancellations at once ---- */

enum { SUBMITTERS = 4, JOBS = 500 };
static struct pool *busy_pool;
static atomic_int submitted, finished;

struct own_job {
    struct pool_job base;
    struct cancel *token;
    atomic_int *outcome;
};

static void finish(struct own_job *job)
{
    atomic_fetch_add(job->outcome, 1);
    cancel_unref(job->token);
    free(job);
    atomic_fetch_add(&finished, 1);
}

static void run_own(struct pool_job *base)
{
    finish(CONTAINER_OF(base, struct own_job, base));
}

static void refused_own(struct pool_job *base, const struct error *err)
{
    finish(CONTAINER_OF(base, struct own_job, base));
}

static void *submit_many(void *arg)
{
    atomic_int *outcomes = arg;
    for (int i = 0; i < JOBS; i++) {
        struct own_job *job = xcalloc(1, sizeof(*job));
        struct cancel *token = cancel_new();
        job->base = (struct pool_job){
            .run = run_own, .refused = refused_own, .deadline = DEADLINE_NONE, .cancel = token};
        job->base.principal[0] = (char)("\0abc"[i % 4]);
        job->token = cancel_ref(token);
        job->outcome = &outcomes[i];
        if (i % 5 == 0)
            job->base.deadline = clock_now() + i * 1000;
        if (pool_submit(busy_pool, &job->base, NULL) == 0) {
            atomic_fetch_add(&submitted, 1);
        } else {
            atomic_fetch_add(job->outcome, 1);
            cancel_unref(job->token);
            free(job);
        }
        if (i % 3 == 0) {
            cancel_fire(token, ERR_CANCELLED);
            pool_kick(busy_pool);
        }
        cancel_unref(token);
    }
    return NULL;
}

static void each_job_has_one_outcome_under_load(void **state)
{
    pthread_t threads[SUBMITTERS];
    static atomic_int outcomes[SUBMITTERS][JOBS];
    busy_pool = pool_new(4, 64);
    for (int i = 0; i < SUBMITTERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, submit_many, outcomes[i]), 0);
    for (int i = 0; i < SUBMITTERS; i++)
        pthread_join(threads[i], NULL);
    end(busy_pool);
    assert_int_equal(atomic_load(&finished), atomic_load(&submitted));
    for (int i = 0; i < SUBMITTERS; i++)
        for (int j = 0; j < JOBS; j++)
            assert_int_equal(atomic_load(&outcomes[i][j]), 1);
}

int main(void)
{
#define POOL_TEST(f) cmocka_unit_test_setup(f, reset)
    const struct CMUnitTest tests[] = {
        POOL_TEST(jobs_run_on_other_threads_at_once),
        POOL_TEST(workers_are_used_again),
        POOL_TEST(at_most_the_maximum_runs),
        POOL_TEST(one_principal_gets_half),
        POOL_TEST(single_thread_serves_named_principals_too),
        POOL_TEST(waiting_principals_take_turns_each_in_order),
        POOL_TEST(full_queue_refuses_by_return_value),
        POOL_TEST(fired_token_takes_a_job_out_of_the_queue),
        POOL_TEST(last_in_the_queue_can_be_cancelled_and_followed),
        POOL_TEST(deadline_passes_while_all_are_busy),
        POOL_TEST(job_that_is_over_already_is_not_run),
        POOL_TEST(closing_refuses_what_waits_and_waits_for_what_runs),
        POOL_TEST(unused_pool_can_be_closed),
        POOL_TEST(workers_get_no_signals),
        POOL_TEST(each_job_has_one_outcome_under_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
