/* Cancel tokens, and waiting with limits. */
#include "base/cancel.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "tests/unit/base/check.h"

static bool is_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static void first_reason_wins(void **state)
{
    _cleanup_(cleanup_cancel_unref) struct cancel *c = cancel_new();
    assert_int_equal(cancel_why(c), ERR_NONE);
    assert_true(cancel_fire(c, ERR_DELETED));
    assert_false(cancel_fire(c, ERR_CANCELLED));
    assert_int_equal(cancel_why(c), ERR_DELETED);
    assert_int_equal(cancel_why(NULL), ERR_NONE);
}

static void descriptor_tells_whenever_it_was_asked_for(void **state)
{
    _cleanup_(cleanup_cancel_unref) struct cancel *before = cancel_new(), *after = cancel_new();
    assert_false(is_readable(cancel_fd(before)));
    cancel_fire(before, ERR_CANCELLED);
    cancel_fire(after, ERR_CANCELLED);
    assert_true(is_readable(cancel_fd(before)));
    assert_true(is_readable(cancel_fd(after)));
    assert_int_equal(cancel_fd(before), cancel_fd(before));
    assert_int_equal(cancel_fd(NULL), -1);
}

static void last_reference_closes_the_descriptor(void **state)
{
    struct cancel *c = cancel_new();
    int fd = cancel_fd(c);
    assert_ptr_equal(cancel_ref(c), c);
    assert_null(cancel_unref(c));
    assert_true(fcntl(fd, F_GETFD) >= 0);
    cancel_unref(c);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_null(cancel_unref(NULL));
    assert_null(cancel_ref(NULL));
}

static void what_is_beneath_is_fired_too(void **state)
{
    struct cancel *above = cancel_new();
    struct cancel *before = cancel_new_beneath(above), *own = cancel_new_beneath(above);
    int fd = cancel_fd(before);
    assert_true(cancel_fire(own, ERR_GONE));
    assert_int_equal(cancel_why(above), ERR_NONE);
    assert_int_equal(cancel_why(before), ERR_NONE);
    assert_false(is_readable(fd));
    assert_true(cancel_fire(above, ERR_DELETED));
    assert_int_equal(cancel_why(before), ERR_DELETED);
    assert_true(is_readable(fd));
    assert_int_equal(cancel_why(own), ERR_GONE);
    cancel_unref(own);

    struct cancel *after = cancel_new_beneath(above), *last = cancel_new_beneath(after);
    assert_int_equal(cancel_why(last), ERR_DELETED);
    cancel_unref(above); /* in any order */
    cancel_unref(after);
    assert_int_equal(cancel_why(last), ERR_DELETED);
    cancel_unref(last);
    cancel_unref(before);

    struct cancel *free_one = cancel_new_beneath(NULL);
    assert_int_equal(cancel_why(free_one), ERR_NONE);
    cancel_unref(free_one);
}

static void ready_descriptor_ends_the_wait(void **state)
{
    int p[2];
    short revents = 0;
    struct wait wait = {.deadline = DEADLINE_NONE};
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    assert_int_equal(wait_fd(p[1], POLLOUT, &wait, NULL, NULL), 0);
    assert_int_equal(write(p[1], "x", 1), 1);
    assert_int_equal(wait_fd(p[0], POLLIN, &wait, &revents, NULL), 0);
    assert_int_equal(revents, POLLIN);
    fd_close(p[1]);
    assert_int_equal(read(p[0], &(char){0}, 1), 1);
    assert_int_equal(wait_fd(p[0], POLLIN, &wait, &revents, NULL), 0);
    assert_int_equal(revents, POLLHUP);
    fd_close(p[0]);
}

static void deadline_ends_the_wait(void **state)
{
    int p[2];
    struct error err = ERROR_INIT;
    _cleanup_(cleanup_cancel_unref) struct cancel *c = cancel_new();
    struct wait wait = {.deadline = clock_deadline_after(0.01), .cancel = c};
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    assert_int_equal(wait_check(&wait, &err), 0);
    assert_int_equal(wait_fd(p[0], POLLIN, &wait, NULL, &err), -1);
    assert_int_equal(err.code, ERR_TIMEOUT);
    assert_true(clock_now() >= wait.deadline);
    assert_int_equal(wait_check(&wait, &err), -1);
    /* what is always ready can't outrun it */
    assert_int_equal(wait_fd(p[1], POLLOUT, &wait, NULL, &err), -1);
    assert_int_equal(err.code, ERR_TIMEOUT);
    fd_close(p[0]);
    fd_close(p[1]);
}

/* What could never come isn't waited for. */
static void no_descriptor_is_no_wait(void **state)
{
    struct error err = ERROR_INIT;
    struct wait wait = {.deadline = DEADLINE_NONE};
    assert_int_equal(wait_fd(-1, POLLIN, &wait, NULL, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
}

static void *fire(void *arg)
{
    cancel_fire(arg, ERR_DELETED);
    return NULL;
}

static void token_ends_the_wait_from_another_thread(void **state)
{
    pthread_t thread;
    struct error err = ERROR_INIT;
    _cleanup_(cleanup_cancel_unref) struct cancel *c = cancel_new();
    struct wait wait = {.deadline = DEADLINE_NONE, .cancel = c};
    assert_int_equal(pthread_create(&thread, NULL, fire, c), 0);
    assert_int_equal(wait_fd(-1, 0, &wait, NULL, &err), -1);
    assert_int_equal(err.code, ERR_DELETED);
    pthread_join(thread, NULL);
    assert_int_equal(wait_fd(1, POLLOUT, &wait, NULL, &err), -1);
    assert_int_equal(wait_check(&wait, NULL), -1);
}

/* Many threads race to fire, to ask and to let go; exactly one is first. */
static atomic_int firsts;

static void *race(void *arg)
{
    struct cancel *c = arg;
    struct wait wait = {.deadline = DEADLINE_NONE, .cancel = c};
    if (cancel_fire(c, ERR_CANCELLED))
        atomic_fetch_add(&firsts, 1);
    if (wait_fd(-1, 0, &wait, NULL, NULL) == 0)
        atomic_fetch_add(&firsts, 1000);
    cancel_unref(c);
    return NULL;
}

static void races_have_one_winner(void **state)
{
    for (int round = 0; round < 100; round++) {
        pthread_t threads[4];
        struct cancel *c = cancel_new();
        atomic_store(&firsts, 0);
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, race, cancel_ref(c)), 0);
        cancel_unref(c);
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(atomic_load(&firsts), 1);
    }
}

/* The one who fires has no reference; the one who waits frees the token as soon as it is told. */
static void whoever_is_told_may_free_it(void **state)
{
    for (int round = 0; round < 2000; round++) {
        pthread_t thread;
        struct cancel *c = cancel_new();
        const struct wait wait = {.deadline = DEADLINE_NONE, .cancel = c};
        assert_true(cancel_fd(c) >= 0);
        assert_int_equal(pthread_create(&thread, NULL, fire, c), 0);
        while (wait_check(&wait, NULL) == 0)
            continue;
        cancel_unref(c);
        pthread_join(thread, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_reason_wins),
        cmocka_unit_test(descriptor_tells_whenever_it_was_asked_for),
        cmocka_unit_test(last_reference_closes_the_descriptor),
        cmocka_unit_test(what_is_beneath_is_fired_too),
        cmocka_unit_test(ready_descriptor_ends_the_wait),
        cmocka_unit_test(deadline_ends_the_wait),
        cmocka_unit_test(no_descriptor_is_no_wait),
        cmocka_unit_test(token_ends_the_wait_from_another_thread),
        cmocka_unit_test(races_have_one_winner),
        cmocka_unit_test(whoever_is_told_may_free_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
