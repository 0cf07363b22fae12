/* Ending one command with all that it started, and nothing else: by its cgroup2 folder, or by its reaper. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "harness.h"
#include "tests/skip.h"

/* Starts descendants that leave its session, its group, its parent, and one that is stopped; says "up" when
 * all run. */
#define FAMILY                                                                                               \
    "sleep 1001 & setsid -f sleep 1002; (setsid sh -c 'sleep 1003 & sleep 1004' &); sleep 1005 & kill "      \
    "-STOP $!;"                                                                                              \
    "until [ $(pgrep -c -x sleep) -ge 5 ]; do :; done; echo up; sleep 1006"

static struct zygote zygote;
static struct ended ended;

static int set_up(void **state)
{
    zygote = zygote_start(GUEST_ROOT_TOOLBOX);
    return zygote.error.stage[0] != 0;
}

static int tear_down(void **state)
{
    zygote_stop(&zygote);
    return 0;
}

static struct started start(struct computer *computer, const char *text, const char *scope, bool by_writing)
{
    const char *const argv[] = {"/bin/sh", "-c", text, NULL};
    return command_start(computer,
                         &(struct command){.argv = argv, .scope = scope, .join_by_writing = by_writing});
}

static void wait_up(const struct started *started)
{
    char up[3];
    assert_int_equal(read(started->out, up, sizeof(up)), sizeof(up));
}

static void expect_killed(struct started *started)
{
    assert_true(command_end(started, &ended));
    assert_int_equal(ended.record.stage, GUEST_STAGE_RAN);
    assert_true(WIFSIGNALED(ended.record.wait_status));
    assert_int_equal(WTERMSIG(ended.record.wait_status), SIGKILL);
}

static void kill_by_reaper(struct computer *computer, uint32_t id)
{
    const struct guest_kill request = {.type = GUEST_KILL, .id = id};
    send_packet(computer->channel, &request, sizeof(request), NULL, 0);
}

/* Rounds of asking, each of which runs a command: bounded, without a clock. */
static void expect_sleepers(struct computer *computer, const char *count)
{
    for (int i = 0; i < 500; i++) {
        assert_true(shell_run(computer, "pgrep -c -x sleep", &ended));
        if (strcmp(ended.out, count) == 0)
            return;
    }
    fail_msg("%s sleepers, not %s", ended.out, count);
}

static void kill_by_group(bool by_writing)
{
    if (!have_cgroup2())
        skip_because("no cgroup2 that can be written to here");
    char scope[160];
    struct computer computer = computer_make(&zygote, by_writing ? "moved" : "born", GUEST_HAS_CGROUP2);
    assert_string_equal(computer.error.stage, "");
    scope_make(&computer, "scope", scope, sizeof(scope));
    struct started other = start(&computer, "echo up; sleep 1000", NULL, false);
    struct started doomed = start(&computer, FAMILY, scope, by_writing);
    wait_up(&other);
    wait_up(&doomed);
    group_write(scope, "cgroup.kill", "1");
    expect_killed(&doomed);
    group_remove(scope);
    expect_sleepers(&computer, "1\n");
    close(other.out);
    close(other.err);
    close(other.status);
    computer_end(&computer);
}

static void test_a_command_is_born_in_its_group(void **state)
{
    kill_by_group(false);
}

static void test_a_command_may_join_its_group(void **state)
{
    kill_by_group(true);
}

static void test_a_group_that_can_not_be_joined_is_told(void **state)
{
    if (!have_cgroup2())
        skip_because("no cgroup2 that can be written to here");
    const char *const argv[] = {"/bin/true", NULL};
    struct computer computer = computer_make(&zygote, "nogroup", GUEST_HAS_CGROUP2);
    assert_true(command_run(&computer, &(struct command){.argv = argv, .scope = "/var/tmp"}, &ended));
    assert_int_equal(ended.record.stage, GUEST_STAGE_SCOPE);
    assert_true(shell_run(&computer, "exit 3", &ended));
    assert_int_equal(WEXITSTATUS(ended.record.wait_status), 3);
    computer_end(&computer);
}

static void expect_no_fork(struct computer *computer, const char *group)
{
    group_write(group, "pids.max", "1");
    assert_true(shell_run(computer, "true", &ended));
    assert_int_equal(ended.record.stage, GUEST_STAGE_FORK);
    assert_int_equal(ended.record.sys, EAGAIN);
    group_write(group, "pids.max", "max");
    assert_true(shell_run(computer, "exit 3", &ended));
    assert_int_equal(WEXITSTATUS(ended.record.wait_status), 3);
}

static void test_a_reached_pids_limit_is_a_failure_to_fork(void **state)
{
    char path[192];
    if (!have_cgroup2())
        skip_because("no cgroup2 that can be written to here");
    struct computer computer = computer_make(&zygote, "pids", GUEST_HAS_CGROUP2);
    snprintf(path, sizeof(path), "%s/pids.max", computer.group);
    bool limited = access(path, W_OK) == 0;
    if (limited)
        expect_no_fork(&computer, computer.group);
    computer_end(&computer);
    if (!limited)
        skip_because("the pids controller is not in cgroup2 here");
}

static void test_groups_of_version_1_are_joined(void **state)
{
    char group[96];
    snprintf(group, sizeof(group), "/sys/fs/cgroup/pids/guest-test-%d", getpid());
    if (access("/sys/fs/cgroup/pids/tasks", W_OK) < 0)
        skip_because("no pids controller of cgroup version 1 here");
    assert_int_equal(mkdir(group, 0755), 0);
    struct computer computer = computer_make_in(&zygote, "v1", GUEST_SCOPE_REAPER, group);
    assert_string_equal(computer.error.stage, "");
    assert_true(shell_run(&computer, "grep pids /proc/self/cgroup | cut -d: -f3", &ended));
    assert_string_equal(ended.out, "/\n"); /* as its own cgroup namespace shows it */
    expect_no_fork(&computer, group);
    computer_end(&computer);
}

static struct computer make_reaping(const char *name)
{
    struct computer computer = computer_make(&zygote, name, GUEST_SCOPE_REAPER);
    assert_string_equal(computer.error.stage, "");
    return computer;
}

static void test_a_reaper_ends_its_family_and_no_other(void **state)
{
    struct computer computer = make_reaping("family");
    struct started other = start(&computer, "sleep 1000 & echo up; sleep 1000", NULL, false);
    struct started doomed = start(&computer, FAMILY, NULL, false);
    wait_up(&other);
    wait_up(&doomed);
    kill_by_reaper(&computer, doomed.id);
    expect_killed(&doomed);
    expect_sleepers(&computer, "2\n");
    kill_by_reaper(&computer, other.id);
    expect_killed(&other);
    expect_sleepers(&computer, "0\n");
    computer_end(&computer);
}

/* A chain of processes that flee by forking, beside a bomb; bounded, or nothing is started. Neither begins
 * before all are there: whoever can't fork says nothing more. */
static void test_a_reaper_ends_a_fork_bomb(void **state)
{
    struct computer computer = make_reaping("bomb");
    struct started doomed = start(&computer,
                                  "ulimit -p 64; [ \"$(ulimit -p)\" = 64 ] || exit;"
                                  "flee() { flee & exit; }; bomb() { sleep 1000 & bomb & bomb; };"
                                  "held() { until [ -e /tmp/go ]; do :; done; };"
                                  "(held; flee) 2>/dev/null & (held; bomb) 2>/dev/null & sleep 1000 &"
                                  ": >/tmp/go; echo up; wait",
                                  NULL, false);
    wait_up(&doomed);
    kill_by_reaper(&computer, doomed.id);
    expect_killed(&doomed);
    expect_sleepers(&computer, "0\n");
    computer_end(&computer);
}

static void test_a_reaper_lists_what_stays(void **state)
{
    struct computer computer = make_reaping("background");
    struct started started =
        start(&computer, "sleep 1000 & setsid -f sleep 1000; echo $!; exit 4", NULL, false);
    assert_true(command_end(&started, &ended));
    assert_int_equal(WEXITSTATUS(ended.record.wait_status), 4);
    assert_int_equal(ended.record.background_count, 2);
    assert_int_equal(ended.record.background_more, 0);
    int pid = atoi(ended.out);
    assert_true(ended.record.background[0] == pid || ended.record.background[1] == pid);
    kill_by_reaper(&computer, started.id); /* it stays as long as they do */
    expect_sleepers(&computer, "0\n");
    computer_end(&computer);
}

static void test_a_reapers_failures_are_told(void **state)
{
    struct computer computer = make_reaping("failures");
    const char *const argv[] = {"no-such-cmd", NULL};
    assert_true(command_run(&computer, &(struct command){.argv = argv}, &ended));
    assert_int_equal(ended.record.stage, GUEST_STAGE_EXEC);
    kill_by_reaper(&computer, 12345); /* nobody's */
    assert_true(
        shell_run(&computer, "for i in $(seq 0 255); do [ -L /proc/$$/fd/$i ] && echo -n $i; done", &ended));
    assert_string_equal(ended.out, "012");
    computer_end(&computer);
}

/* Neither its own command's end nor another's is missed. */
static void test_a_stopped_reaper_goes_on(void **state)
{
    struct computer computer = make_reaping("halt");
    struct started other = start(&computer, "echo up; sleep 1000", NULL, false);
    wait_up(&other);
    assert_true(shell_run(&computer, "kill -STOP $PPID; echo survived", &ended));
    assert_string_equal(ended.out, "survived\n");
    assert_true(shell_run(&computer, "kill -STOP -1", &ended));
    kill_by_reaper(&computer, other.id);
    expect_killed(&other);
    computer_end(&computer);
}

static void test_a_killed_reaper_counts_as_a_killed_command(void **state)
{
    struct computer computer = make_reaping("murder");
    struct started other = start(&computer, "echo up; sleep 1000", NULL, false);
    wait_up(&other);
    struct started doomed =
        start(&computer, "sleep 1001 & setsid -f sleep 1002; kill -9 $PPID; sleep 1003", NULL, false);
    expect_killed(&doomed);
    expect_sleepers(&computer, "1\n"); /* the other's */
    kill_by_reaper(&computer, other.id);
    expect_killed(&other);
    computer_end(&computer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_command_is_born_in_its_group),
        cmocka_unit_test(test_a_command_may_join_its_group),
        cmocka_unit_test(test_a_group_that_can_not_be_joined_is_told),
        cmocka_unit_test(test_a_reached_pids_limit_is_a_failure_to_fork),
        cmocka_unit_test(test_groups_of_version_1_are_joined),
        cmocka_unit_test(test_a_reaper_ends_its_family_and_no_other),
        cmocka_unit_test(test_a_reaper_ends_a_fork_bomb),
        cmocka_unit_test(test_a_reaper_lists_what_stays),
        cmocka_unit_test(test_a_reapers_failures_are_told),
        cmocka_unit_test(test_a_stopped_reaper_goes_on),
        cmocka_unit_test(test_a_killed_reaper_counts_as_a_killed_command),
    };
    const char *obstacle = harness_obstacle();
    if (obstacle) {
        printf("skipped: %s\n", obstacle);
        return 77;
    }
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
