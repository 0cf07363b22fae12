/* Time: deadlines, their forms, and names of boots and processes. */
#include "base/clock.h"

#include <grp.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"

#include "tests/skip.h"
#include "tests/unit/base/check.h"

static void deadlines_saturate(void **state)
{
    int64_t before = clock_now();
    int64_t soon = clock_deadline_after(1.5);
    assert_true(soon >= before + 1500 * NSEC_PER_MSEC && soon <= clock_now() + 1500 * NSEC_PER_MSEC);
    assert_true(clock_deadline_after(0) <= clock_now());
    assert_true(clock_deadline_after(-5) <= clock_now());
    assert_true(clock_deadline_after(NAN) <= clock_now());
    assert_true(clock_deadline_after(1e300) == DEADLINE_NONE);
    assert_true(clock_deadline_after(INFINITY) == DEADLINE_NONE);
}

static void poll_timeouts_round_up(void **state)
{
    assert_int_equal(clock_poll_timeout(DEADLINE_NONE), -1);
    assert_int_equal(clock_poll_timeout(0), 0);
    assert_int_equal(clock_poll_timeout(clock_now()), 0);
    assert_int_equal(clock_poll_timeout(DEADLINE_NONE - 1), INT_MAX);
    int left = clock_poll_timeout(clock_now() + 3600 * NSEC_PER_SEC + 1);
    assert_true(left > 3500 * 1000 && left <= 3600 * 1000 + 1);
}

static void times_are_written_as_rfc3339(void **state)
{
    char text[CLOCK_RFC3339_SIZE];
    assert_string_equal(clock_rfc3339(0, text), "1970-01-01T00:00:00.000Z");
    assert_string_equal(clock_rfc3339(1795868631034999999LL, text), "2026-11-28T12:23:51.034Z");
    assert_string_equal(clock_rfc3339(951782400000000000LL, text), "2000-02-29T00:00:00.000Z");
    assert_string_equal(clock_rfc3339(-1, text), "1969-12-31T23:59:59.999Z");
    assert_true(strlen(clock_rfc3339(INT64_MAX, text)) == 24);
    assert_true(clock_wall() > 1700000000 * NSEC_PER_SEC);
}

static void boot_has_a_name(void **state)
{
    assert_int_equal(strlen(clock_boot_id()), 36);
    assert_ptr_equal(clock_boot_id(), clock_boot_id());
}

static void process_start_names_a_process(void **state)
{
    uint64_t self = clock_process_start(getpid());
    assert_true(self > 0);
    assert_true(clock_process_start(getpid()) == self);
    /* A name that looks like fields must not matter. */
    char name[16];
    prctl(PR_GET_NAME, name);
    prctl(PR_SET_NAME, ") S 1 2 (3 4) 5");
    uint64_t renamed = clock_process_start(getpid());
    prctl(PR_SET_NAME, name);
    assert_true(renamed == self);
}

static void ended_process_has_no_start(void **state)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_true(clock_process_start(pid) == 0); /* still to be waited for */
    assert_false(clock_process_is_hidden(pid));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(clock_process_start(pid) == 0);
}

static void serials_name_processes(void **state)
{
    _cleanup_fd_ int first = pidfd_open(getpid(), 0), again = pidfd_open(getpid(), 0),
                     other = pidfd_open(getppid(), 0);
    assert_true(first >= 0 && again >= 0 && other >= 0);
    assert_true(clock_process_serial(first) == clock_process_serial(again));
    if (clock_process_serial(first) == 0)
        skip_because("this kernel has no serial numbers of processes");
    assert_true(clock_process_serial(first) != clock_process_serial(other));
    assert_true(clock_process_serial(STDERR_FILENO) == 0); /* whatever it is, it is no process */
}

/* The exit code of what a forked child does. */
static int exit_code_of(int (*what)(void))
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(what());
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* As a user to whom process 1, root's, isn't shown. */
static int look_around(void)
{
    if (setgroups(0, NULL) < 0 || setgid(65534) < 0 || setuid(65534) < 0)
        return 2;
    _cleanup_fd_ int first = pidfd_open(1, 0), self = pidfd_open(getpid(), 0);
    return !(clock_process_start(1) == 0 && clock_process_is_hidden(1) &&
             clock_process_start(getpid()) != 0 && !clock_process_is_hidden(getpid()) &&
             (clock_process_serial(first) != 0) == (clock_process_serial(self) != 0));
}

static int be_first_process(void)
{
    return mount("proc", "/proc", "proc", 0, "hidepid=2") < 0 ? 2 : exit_code_of(look_around);
}

static int with_hidden_processes(void)
{
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return 2;
    return exit_code_of(be_first_process);
}

static void processes_may_be_hidden(void **state)
{
    assert_false(clock_process_is_hidden(getpid()));
    assert_false(clock_process_is_hidden(0x7fffffff));
    int code = exit_code_of(with_hidden_processes);
    if (code == 2)
        skip_because("no namespace with a /proc of its own can be made here");
    assert_int_equal(code, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deadlines_saturate),
        cmocka_unit_test(poll_timeouts_round_up),
        cmocka_unit_test(times_are_written_as_rfc3339),
        cmocka_unit_test(boot_has_a_name),
        cmocka_unit_test(process_start_names_a_process),
        cmocka_unit_test(ended_process_has_no_start),
        cmocka_unit_test(serials_name_processes),
        cmocka_unit_test(processes_may_be_hidden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
