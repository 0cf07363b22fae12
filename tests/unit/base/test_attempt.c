/* One does it, the others wait, and all know how it went. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <pthread.h>
#include <semaphore.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attempt.h"
#include "base/clock.h"

#define THREADS 8
#define OTHER_UID 54321

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct attempt attempt;
static int done_by, joined;

static const struct wait patient = {.deadline = DEADLINE_NONE};

static void *join(void *arg)
{
    struct error *err = arg;
    pthread_mutex_lock(&lock);
    joined++;
    int r = attempt_join(&attempt, &lock, &patient, err);
    if (r == 0)
        done_by++;
    pthread_mutex_unlock(&lock);
    return (void *)(intptr_t)r;
}

/* They have joined when they have given the lock back. */
static void await_joined(void)
{
    for (int n = 0; n < THREADS;) {
        pthread_mutex_lock(&lock);
        n = joined;
        pthread_mutex_unlock(&lock);
        sched_yield();
    }
}

static void run(const struct error *failure, struct error errors[THREADS], void *results[THREADS])
{
    pthread_t threads[THREADS];
    done_by = joined = 0;
    pthread_mutex_lock(&lock);
    assert_int_equal(attempt_join(&attempt, &lock, &patient, NULL), 0);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, join, &errors[i]), 0);
    await_joined();
    pthread_mutex_lock(&lock);
    attempt_end(&attempt, failure);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], &results[i]);
    assert_int_equal(done_by, 0);
}

static void all_learn_of_success(void **state)
{
    struct error errors[THREADS] = {0};
    void *results[THREADS];
    run(NULL, errors, results);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal((intptr_t)results[i], 1);
}

static void all_learn_of_a_failure_and_it_can_be_done_again(void **state)
{
    struct error failure = ERROR_INIT, errors[THREADS] = {0};
    void *results[THREADS];
    error_set(&failure, ERR_DENIED, "no");
    run(&failure, errors, results);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal((intptr_t)results[i], -1);
        assert_int_equal(errors[i].code, ERR_DENIED);
    }
    all_learn_of_success(state);
}

static void a_wait_has_its_own_limits(void **state)
{
    struct error err = ERROR_INIT;
    const struct wait over = {.deadline = clock_now()};
    pthread_mutex_lock(&lock);
    assert_int_equal(attempt_join(&attempt, &lock, &over, NULL), 0);
    assert_int_equal(attempt_join(&attempt, &lock, &over, &err), -1);
    assert_int_equal(err.code, ERR_TIMEOUT);
    attempt_end(&attempt, NULL);
    pthread_mutex_unlock(&lock);
}

static sem_t gate;

static void *do_it(void *arg)
{
    const struct error *failure = arg;
    sem_wait(&gate);
    pthread_mutex_lock(&lock);
    done_by++;
    attempt_end(&attempt, failure);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void a_thread_may_do_it_for_who_does_not_wait(void **state)
{
    struct error failure = ERROR_INIT, err = ERROR_INIT;
    const struct wait over = {.deadline = clock_now()};
    error_set(&failure, ERR_DENIED, "no");
    done_by = 0;
    sem_init(&gate, 0, 0);
    pthread_mutex_lock(&lock);
    for (int times = 1; times <= 3; times++) {
        const bool fails = times < 3;
        void *const how = fails ? &failure : NULL;
        assert_int_equal(attempt_by_thread(&attempt, &lock, do_it, how, &over, &err), -1);
        assert_int_equal(err.code, ERR_TIMEOUT);
        assert_int_equal(attempt_join(&attempt, &lock, &over, &err), -1);
        assert_int_equal(err.code, ERR_TIMEOUT);
        sem_post(&gate);
        assert_int_equal(attempt_by_thread(&attempt, &lock, do_it, how, &patient, &err), fails ? -1 : 0);
        assert_int_equal(err.code, fails ? ERR_DENIED : ERR_TIMEOUT);
        assert_int_equal(done_by, times);
    }
    assert_int_equal(attempt_by_thread(&attempt, &lock, do_it, NULL, &over, NULL), -1);
    pthread_mutex_unlock(&lock);
    sem_post(&gate);
    attempt_finish(&attempt);
    assert_int_equal(done_by, 4);
    attempt_finish(&attempt);
    sem_destroy(&gate);
}

/* Nobody of this user may start another; root is nobody in particular for that. */
static _Noreturn void ask_without_threads(void)
{
    const struct rlimit none = {1, 1};
    struct error err = ERROR_INIT;
    if ((geteuid() == 0 && setresuid(OTHER_UID, OTHER_UID, OTHER_UID) < 0) ||
        setrlimit(RLIMIT_NPROC, &none) < 0)
        _exit(2);
    (void)alarm(60); /* not for ever */
    pthread_mutex_lock(&lock);
    for (int times = 0; times < 2; times++)
        if (attempt_by_thread(&attempt, &lock, do_it, NULL, &patient, &err) != -1 || err.code != ERR_LIMIT)
            _exit(1);
    _exit(0);
}

static void without_a_thread_it_fails(void **state)
{
    int status;
    const pid_t pid = fork();
    if (pid == 0)
        ask_without_threads();
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_learn_of_success),
        cmocka_unit_test(all_learn_of_a_failure_and_it_can_be_done_again),
        cmocka_unit_test(a_wait_has_its_own_limits),
        cmocka_unit_test(a_thread_may_do_it_for_who_does_not_wait),
        cmocka_unit_test(without_a_thread_it_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
