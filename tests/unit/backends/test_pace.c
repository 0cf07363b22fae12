/* The queue for a provider's limits: who goes when, and what many refusals at once come to. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/pace.h"
#include "base/clock.h"
#include "tests/unit/base/check.h"

#define CALLERS 8

static struct pace *pace;
static struct error err;
static atomic_int served_count;
static const struct wait for_ever = {.deadline = DEADLINE_NONE};

static int set_up(void **state)
{
    err = (struct error)ERROR_INIT;
    served_count = 0;
    pace = pace_new();
    return 0;
}

static int tear_down(void **state)
{
    pace = pace_free(pace);
    return 0;
}

/* How long a turn is waited for. */
static int64_t turn_ns(void)
{
    const int64_t began = clock_now();
    assert_int_equal(pace_take_turn(pace, &for_ever, &err), 0);
    return clock_now() - began;
}

/* Turns without end: were there a gap, they would take minutes. */
static void goes_freely(void)
{
    const struct wait bounded = {.deadline = clock_now() + 30 * NSEC_PER_SEC};
    for (int n = 0; n < 10000; n++)
        assert_int_equal(pace_take_turn(pace, &bounded, &err), 0);
}

/* Whoever comes next waits, from now on. */
static void refuse(int64_t ns)
{
    turn_ns();
    pace_slow_down(pace, ns);
}

static void test_nobody_waits_until_there_were_too_many(void **state)
{
    assert_int_equal(pace_take_turn(NULL, &for_ever, &err), 0);
    const struct wait over = {.deadline = clock_now()};
    assert_int_equal(pace_take_turn(pace, &over, &err), -1);
    assert_int_equal(err.code, ERR_TIMEOUT);
    goes_freely();
}

static void test_what_the_provider_asks_for_is_waited(void **state)
{
    refuse(300 * NSEC_PER_MSEC);
    assert_true(turn_ns() >= 300 * NSEC_PER_MSEC);
    const struct wait brief = {.deadline = clock_now() + 50 * NSEC_PER_MSEC};
    pace_slow_down(pace, 60 * NSEC_PER_SEC);
    assert_int_equal(pace_take_turn(pace, &brief, &err), -1);
    assert_int_equal(err.code, ERR_TIMEOUT);
}

/* Hundreds that went out together are refused together: were each a reason to slow down, the gap would be at
 * its most at once. It is gone after a few successes instead. */
static void test_a_burst_of_refusals_counts_once(void **state)
{
    refuse(0);
    for (int n = 0; n < 200; n++)
        pace_slow_down(pace, 0);
    assert_true(turn_ns() > 0);
    for (int n = 0; n < 30; n++)
        pace_succeeded(pace);
    goes_freely();
}

static void test_successes_bring_calls_closer_until_nobody_waits(void **state)
{
    for (int n = 0; n < 4; n++)
        refuse(0);
    for (int n = 0; n < 200; n++)
        pace_succeeded(pace);
    assert_int_equal(pace_successes(pace), 200);
    goes_freely();
}

struct caller {
    pthread_t thread;
    struct wait wait;
    int number, failed;
    atomic_int id; /* of its thread */
};
static struct caller callers[CALLERS];
static int served[CALLERS];

static void *take_turn(void *arg)
{
    struct caller *c = arg;
    c->id = gettid();
    c->failed = pace_take_turn(pace, &c->wait, NULL);
    if (c->failed == 0) /* the gap is between this and the next one's */
        served[atomic_fetch_add(&served_count, 1)] = c->number;
    return NULL;
}

/* What waits in a queue sleeps. */
static bool sleeps(int id)
{
    char path[64], text[128] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", id);
    FILE *f = fopen(path, "re");
    const bool known = f && fgets(text, sizeof(text), f);
    if (f)
        fclose(f);
    return known && strstr(text, ") S ");
}

/* Each comes once the one before stands in line. */
static void start_caller(int n, struct cancel *cancel)
{
    callers[n] = (struct caller){.number = n, .wait = {.deadline = DEADLINE_NONE, .cancel = cancel}};
    assert_int_equal(pthread_create(&callers[n].thread, NULL, take_turn, &callers[n]), 0);
    while (callers[n].id == 0 || !sleeps(callers[n].id))
        sched_yield();
}

static void test_who_came_first_goes_first(void **state)
{
    refuse(200 * NSEC_PER_MSEC);
    for (int n = 0; n < CALLERS; n++)
        start_caller(n, NULL);
    for (int n = 0; n < CALLERS; n++)
        pthread_join(callers[n].thread, NULL);
    for (int n = 0; n < CALLERS; n++)
        assert_int_equal(served[n], n);
}

static void test_who_gives_up_holds_nobody_up(void **state)
{
    struct cancel *cancel = cancel_new();
    refuse(500 * NSEC_PER_MSEC);
    for (int n = 0; n < CALLERS; n++)
        start_caller(n, n % 2 == 0 ? cancel : NULL); /* the first among them */
    cancel_fire(cancel, ERR_CANCELLED);
    for (int n = 0; n < CALLERS; n++)
        pthread_join(callers[n].thread, NULL);
    cancel_unref(cancel);
    assert_int_equal(served_count, CALLERS / 2);
    for (int n = 0; n < CALLERS; n++)
        assert_int_equal(callers[n].failed, n % 2 == 0 ? -1 : 0);
}

/* --- a limit that is known --- */

static void test_a_burst_comes_at_once_and_then_one_each_interval(void **state)
{
    struct pace *p = pace_new_limited(20 * NSEC_PER_MSEC, 3);
    const struct wait bounded = {.deadline = clock_now() + NSEC_PER_SEC};
    const int64_t began = clock_now();
    for (int i = 0; i < 8; i++)
        assert_int_equal(pace_take_turn(p, &bounded, NULL), 0);
    assert_true(clock_now() - began >= 5 * 20 * NSEC_PER_MSEC);
    pace_free(p);
}

static void test_a_turn_that_comes_too_late_is_refused_and_leaves_the_next_where_it_was(void **state)
{
    struct pace *p = pace_new_limited(3600 * NSEC_PER_SEC, 2);
    const struct wait an_hour = {.deadline = clock_deadline_after(1800)};
    const struct wait over = {.deadline = clock_now() - 1};
    for (int i = 0; i < 2; i++) {
        assert_true(pace_is_free(p));
        assert_int_equal(pace_take_turn(p, &for_ever, NULL), 0);
    }
    assert_false(pace_is_free(p));
    for (int i = 0; i < 5; i++) {
        assert_int_equal(pace_take_turn(p, &an_hour, &err), -1);
        assert_int_equal(err.code, ERR_BUSY);
        assert_non_null(strstr(err.msg, "3600 s")); /* it doesn't move away */
    }
    assert_int_equal(pace_take_turn(p, &over, &err), -1);
    assert_int_equal(err.code, ERR_TIMEOUT);
    pace_free(p);
}

/* Those who wait already count, too. */
static void test_who_would_come_too_late_behind_others_is_refused_at_once(void **state)
{
    struct pace *own = pace;
    struct cancel *cancel = cancel_new();
    pace = pace_new_limited(3600 * NSEC_PER_SEC, 1);
    turn_ns();
    for (int n = 0; n < CALLERS; n++)
        start_caller(n, cancel);
    const struct wait some_hours = {.deadline = clock_deadline_after(CALLERS * 3600)};
    assert_int_equal(pace_take_turn(pace, &some_hours, &err), -1);
    assert_int_equal(err.code, ERR_BUSY);
    cancel_fire(cancel, ERR_CANCELLED);
    for (int n = 0; n < CALLERS; n++)
        pthread_join(callers[n].thread, NULL);
    cancel_unref(cancel);
    pace_free(pace);
    pace = own;
}

static void test_it_is_idle_once_all_of_it_is_over(void **state)
{
    struct pace *p = pace_new_limited(10 * NSEC_PER_MSEC, 3), *q = pace_new_limited(3600 * NSEC_PER_SEC, 3);
    assert_true(pace_is_idle(p));
    assert_int_equal(pace_take_turn(p, &for_ever, NULL), 0);
    assert_int_equal(pace_take_turn(q, &for_ever, NULL), 0);
    assert_int_equal(wait_pause(&for_ever, 10 * NSEC_PER_MSEC, NULL), 0);
    assert_true(pace_is_idle(p));
    assert_false(pace_is_idle(q));
    pace_slow_down(p, 0);
    assert_false(pace_is_idle(p));
    for (int i = 0; i < 100 && !pace_is_idle(p); i++)
        pace_succeeded(p);
    assert_true(pace_is_idle(p));
    pace_free(p);
    pace_free(q);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_nobody_waits_until_there_were_too_many),
        TEST(test_what_the_provider_asks_for_is_waited),
        TEST(test_a_burst_of_refusals_counts_once),
        TEST(test_successes_bring_calls_closer_until_nobody_waits),
        TEST(test_who_came_first_goes_first),
        TEST(test_who_gives_up_holds_nobody_up),
        TEST(test_a_burst_comes_at_once_and_then_one_each_interval),
        TEST(test_a_turn_that_comes_too_late_is_refused_and_leaves_the_next_where_it_was),
        TEST(test_who_would_come_too_late_behind_others_is_refused_at_once),
        TEST(test_it_is_idle_once_all_of_it_is_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
