/* The thread that looks after things: when, for how long, and no longer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <semaphore.h>

#include "backends/keeper.h"
#include "base/clock.h"
#include "base/macros.h"

struct thing {
    struct tended tended;
    sem_t came;
    int times;           /* the keeper's, once it has it */
    int at_once;         /* so many times more */
    bool holds;          /* until it is cancelled */
    struct keeper *asks; /* that it be looked after again, by another thread, meanwhile */
};

static struct keeper *keeper;

static void *ask(void *arg)
{
    struct thing *t = arg;
    keeper_ask(t->asks, &t->tended, clock_now());
    return NULL;
}

static void be_asked_for(struct thing *t)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, ask, t), 0);
    pthread_join(thread, NULL);
    t->asks = NULL;
}

static int64_t tend(struct tended *tended, struct cancel *cancel)
{
    struct thing *t = CONTAINER_OF(tended, struct thing, tended);
    const struct wait wait = {.deadline = DEADLINE_NONE, .cancel = cancel};
    t->times++;
    if (t->asks)
        be_asked_for(t);
    sem_post(&t->came);
    if (t->holds)
        wait_fd(-1, 0, &wait, NULL, NULL);
    return t->at_once-- > 0 ? clock_now() : DEADLINE_NONE;
}

static struct thing *thing_begin(struct thing *t)
{
    t->tended.tend = tend;
    sem_init(&t->came, 0, 0);
    keeper_add(keeper, &t->tended);
    return t;
}

static void await(struct thing *t, int times)
{
    while (times-- > 0)
        while (sem_wait(&t->came) < 0)
            continue;
}

static int set_up(void **state)
{
    keeper = keeper_new();
    return 0;
}

static int tear_down(void **state)
{
    keeper = keeper_free(keeper);
    return 0;
}

static void what_is_asked_for_comes_and_what_is_not_does_not(void **state)
{
    struct thing asked = {0}, other = {0};
    thing_begin(&other);
    thing_begin(&asked);
    assert_int_equal(keeper_ask(keeper, &asked.tended, clock_now()), 0);
    await(&asked, 1);
    keeper_remove(keeper, &asked.tended);
    keeper_remove(keeper, &other.tended);
    assert_int_equal(asked.times, 1);
    assert_int_equal(other.times, 0);
}

/* One that is always due leaves the others their turns. */
static void all_have_their_turns(void **state)
{
    struct thing first = {.at_once = 100000}, second = {.at_once = 2};
    thing_begin(&first);
    thing_begin(&second);
    keeper_ask(keeper, &first.tended, clock_now());
    await(&first, 1);
    keeper_ask(keeper, &second.tended, clock_now());
    await(&second, 3);
    keeper_remove(keeper, &first.tended);
    keeper_remove(keeper, &second.tended);
    assert_true(first.at_once > 0);
}

static void the_earliest_of_what_is_asked_for_counts(void **state)
{
    struct thing t = {0};
    thing_begin(&t);
    keeper_ask(keeper, &t.tended, clock_now());
    keeper_ask(keeper, &t.tended, clock_deadline_after(3600));
    await(&t, 1);
    keeper_remove(keeper, &t.tended);
}

static void what_is_asked_for_meanwhile_is_not_lost(void **state)
{
    struct thing t = {.asks = keeper};
    thing_begin(&t);
    keeper_ask(keeper, &t.tended, clock_now());
    await(&t, 2);
    keeper_remove(keeper, &t.tended);
    assert_int_equal(t.times, 2);
}

static void what_is_removed_is_let_go(void **state)
{
    struct thing t = {.holds = true, .at_once = 100};
    thing_begin(&t);
    keeper_ask(keeper, &t.tended, clock_now());
    await(&t, 1);
    keeper_remove(keeper, &t.tended);
    keeper_remove(keeper, &t.tended);
    assert_int_equal(t.times, 1);
    t.holds = false;
    keeper_add(keeper, &t.tended);
    t.at_once = 0;
    keeper_ask(keeper, &t.tended, clock_now());
    await(&t, 1);
    keeper_remove(keeper, &t.tended);
    assert_int_equal(t.times, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_asked_for_comes_and_what_is_not_does_not, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_have_their_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_earliest_of_what_is_asked_for_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_asked_for_meanwhile_is_not_lost, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_removed_is_let_go, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("keeper", tests, NULL, NULL);
}
