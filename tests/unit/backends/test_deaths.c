/* Which of many processes have ended. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "backends/native/deaths.h"
#include "base/fd.h"
#include "base/macros.h"

#define MANY 200

static struct deaths deaths;

struct sleeper {
    pid_t pid;
    int pidfd;
    struct death death;
};

static void begin(struct sleeper *s)
{
    *s = (struct sleeper){.pid = fork()};
    if (s->pid == 0) {
        pause();
        _exit(0);
    }
    assert_true(s->pid > 0);
    s->pidfd = pidfd_open(s->pid, 0);
    assert_true(s->pidfd >= 0);
}

/* Until it is a zombie. */
static void end(const struct sleeper *s)
{
    siginfo_t info;
    assert_int_equal(kill(s->pid, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)s->pid, &info, WEXITED | WNOWAIT), 0);
}

static bool has_ended(struct sleeper *s)
{
    return deaths_tell(&deaths, &s->death, s->pidfd);
}

static void forget(struct sleeper *s)
{
    deaths_forget(&deaths, &s->death, s->pidfd);
    s->pidfd = fd_close(s->pidfd);
    assert_int_equal(waitpid(s->pid, NULL, 0), s->pid);
}

static void each_is_told_of_its_own(void **state)
{
    struct sleeper all[MANY];
    for (size_t i = 0; i < MANY; i++)
        begin(&all[i]);
    for (size_t i = 0; i < MANY; i++)
        assert_false(has_ended(&all[i]));
    for (size_t i = 0; i < MANY; i += 2)
        end(&all[i]);
    for (int again = 0; again < 2; again++)
        for (size_t i = 0; i < MANY; i++)
            assert_int_equal(has_ended(&all[i]), i % 2 == 0);
    for (size_t i = 0; i < MANY; i++) {
        if (i % 2)
            end(&all[i]);
        assert_true(has_ended(&all[i]));
        forget(&all[i]);
    }
}

static void one_that_had_ended_before_it_was_asked_for(void **state)
{
    struct sleeper s;
    begin(&s);
    end(&s);
    assert_true(has_ended(&s));
    assert_int_equal(waitpid(s.pid, NULL, 0), s.pid);
    assert_true(has_ended(&s));
    deaths_forget(&deaths, &s.death, s.pidfd);
    fd_close(s.pidfd);
}

/* Nothing is written to what was forgotten, though its process may have another descriptor and end then; and
 * its place is another's. */
static void what_is_forgotten_is_left_alone(void **state)
{
    struct sleeper first, second;
    begin(&first);
    begin(&second);
    assert_false(has_ended(&first));
    _cleanup_fd_ int other = dup(first.pidfd);
    assert_true(other >= 0);
    deaths_forget(&deaths, &first.death, first.pidfd);
    fd_close(first.pidfd);
    end(&first);
    assert_false(has_ended(&second));
    assert_false(first.death.is_known);
    assert_int_equal(waitpid(first.pid, NULL, 0), first.pid);

    begin(&first);
    assert_false(has_ended(&first));
    end(&first);
    assert_true(has_ended(&first));
    forget(&first);
    end(&second);
    forget(&second);
}

static void without_a_list_each_is_asked(void **state)
{
    struct sleeper s;
    deaths.epoll = fd_close(deaths.epoll);
    begin(&s);
    assert_false(has_ended(&s));
    end(&s);
    assert_true(has_ended(&s));
    forget(&s);
}

static int set_up(void **state)
{
    deaths_init(&deaths);
    return 0;
}

static int tear_down(void **state)
{
    deaths_done(&deaths);
    return 0;
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(each_is_told_of_its_own),
        CASE(one_that_had_ended_before_it_was_asked_for),
        CASE(what_is_forgotten_is_left_alone),
        CASE(without_a_list_each_is_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
