/* How the guest of a container ends, and what with it: as the first process and as an ordinary one, as root
 * and as nobody; and what it makes of hostile or broken streams and of engines with old filters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "harness.h"
#include "stream.h"
#include "tests/skip.h"

#define GONE_MS 60000 /* only a defect makes a test wait so long */

static const char *const as_first[] = {"unshare", "-pf", "--mount-proc", NULL};
static const char *const as_nobody[] = {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", NULL};
static const char *const as_nobody_first[] = {"unshare",       "-pf",           "--mount-proc",   "setpriv",
                                              "--reuid=65534", "--regid=65534", "--clear-groups", NULL};

static struct stream open_with(const char *const *prefix, uint32_t flags)
{
    if (prefix && geteuid() != 0)
        skip_because("not root");
    return stream_open(&(struct stream_options){.prefix = prefix, .flags = flags, .spool_dir = "/tmp"});
}

/* --- processes as this side sees them --- */

/* A process of the guest's, by the number that it has in there. */
struct watched {
    int pidfd;
    pid_t pid; /* as we see it */
};

static pid_t first_child(pid_t pid)
{
    char path[64];
    int child = 0;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%d", &child) != 1)
        harness_die(path);
    fclose(file);
    return child;
}

static pid_t guest_pid(const struct stream *s)
{
    return s->hello.pid == 1 ? first_child(s->pid) : s->pid;
}

/* The process whose only argument is this marker. */
static struct watched watch(const char *marker)
{
    char command[128];
    int pid = 0;
    snprintf(command, sizeof(command), "pgrep -nfx 'sleep %s'", marker);
    FILE *found = popen(command, "r");
    if (!found || fscanf(found, "%d", &pid) != 1)
        harness_die(command);
    pclose(found);
    struct watched w = {.pid = pid, .pidfd = (int)syscall(SYS_pidfd_open, pid, 0)};
    if (w.pidfd < 0)
        harness_die("pidfd_open");
    return w;
}

static bool lives(const struct watched *w)
{
    struct pollfd polled = {.fd = w->pidfd, .events = POLLIN};
    return poll(&polled, 1, 0) == 0;
}

static void expect_gone(const struct watched *w)
{
    struct pollfd polled = {.fd = w->pidfd, .events = POLLIN};
    assert_int_equal(poll(&polled, 1, GONE_MS), 1);
    close(w->pidfd);
}

/* "sleep MARKER" twice: one that a command has left behind, and a command that runs. */
static void start_two(struct stream *s, struct watched *ret_background, struct watched *ret_running)
{
    static unsigned number;
    char text[128], marker[32];
    snprintf(marker, sizeof(marker), "1000.%d%u", getpid(), ++number);
    snprintf(text, sizeof(text), "sleep %s >/dev/null 2>&1 & echo up", marker);
    const struct heard *h = stream_shell(s, text);
    assert_int_equal(h->end.exit.background_count, 1);
    while (stream_shell(s, "pgrep -c -x sleep >/dev/null")->end.exit.wait_status != 0)
        continue;
    *ret_background = watch(marker);
    snprintf(marker, sizeof(marker), "2000.%d%u", getpid(), number);
    snprintf(text, sizeof(text), "(setsid sleep %s & echo up); sleep 1000", marker);
    stream_await(s, stream_run(s, &(struct run){.shell = text}), "up\n");
    snprintf(text, sizeof(text), "until pgrep -fx 'sleep %s' >/dev/null; do :; done", marker);
    stream_shell(s, text);
    *ret_running = watch(marker);
}

/* --- ends --- */

static void end_takes_all(const char *const *prefix)
{
    struct stream s = open_with(prefix, SERVE_DIES);
    struct watched background, running;
    start_two(&s, &background, &running);
    assert_int_equal(stream_close(&s), 0);
    expect_gone(&background);
    expect_gone(&running);
}

static void test_the_end_of_the_stream_takes_all(void **state)
{
    end_takes_all(NULL);
}

static void test_the_end_of_the_stream_takes_all_of_nobody(void **state)
{
    end_takes_all(as_nobody);
}

static void test_the_end_of_the_stream_ends_the_container(void **state)
{
    end_takes_all(as_first);
}

static void test_the_end_of_the_stream_ends_the_container_of_nobody(void **state)
{
    end_takes_all(as_nobody_first);
}

static void test_an_ordinary_one_leaves_the_background(void **state)
{
    struct stream s = open_with(NULL, 0);
    struct watched background, running;
    start_two(&s, &background, &running);
    assert_int_equal(stream_close(&s), 0);
    expect_gone(&running);
    assert_true(lives(&background));
    kill(background.pid, SIGKILL);
    expect_gone(&background);
}

static void test_one_for_one_command_ends_after_it(void **state)
{
    struct stream s = open_with(NULL, SERVE_ONCE);
    char text[256], marker[32];
    snprintf(marker, sizeof(marker), "3000.%d", getpid());
    snprintf(text, sizeof(text),
             "sleep %s >/dev/null 2>&1 & until pgrep -fx 'sleep %s' >/dev/null; do :; done", marker, marker);
    const struct heard *h = stream_shell(&s, text);
    assert_int_equal(h->end.exit.wait_status, 0);
    assert_int_equal(h->end.exit.background_count, 1);
    stream_await_end(&s); /* though our side is open */
    struct watched background = watch(marker);
    assert_true(lives(&background));
    kill(background.pid, SIGKILL);
    expect_gone(&background);
    assert_int_equal(stream_close(&s), 0);
}

static void test_a_first_one_stays_with_the_background(void **state)
{
    struct stream s = open_with(as_first, 0);
    struct watched background, running;
    start_two(&s, &background, &running);
    const pid_t pid = guest_pid(&s);
    stream_hang_up(&s);
    expect_gone(&running);
    assert_true(lives(&background));
    assert_int_equal(kill(pid, SIGTERM), 0);
    expect_gone(&background);
    assert_int_equal(stream_close(&s), 0);
}

static void test_a_container_is_stopped_at_once(void **state)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP, 37};
    for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
        struct stream s = open_with(as_first, 0);
        stream_run(&s, &(struct run){.shell = "trap '' TERM; sleep 1000"});
        assert_int_equal(kill(guest_pid(&s), signals[i]), 0);
        stream_await_end(&s);
        assert_int_equal(stream_close(&s), 0);
    }
}

static void test_an_ordinary_one_is_ended_by_a_signal(void **state)
{
    struct stream s = open_with(NULL, SERVE_DIES);
    struct watched background, running;
    start_two(&s, &background, &running);
    assert_int_equal(kill(s.pid, SIGTERM), 0);
    stream_await_end(&s);
    assert_int_equal(stream_close(&s), 0);
    expect_gone(&background);
    expect_gone(&running);
}

static void test_a_guest_that_is_killed_takes_all(void **state)
{
    struct stream s = open_with(NULL, SERVE_DIES);
    struct watched background, running;
    start_two(&s, &background, &running);
    assert_int_equal(kill(s.pid, SIGKILL), 0);
    stream_await_end(&s);
    assert_int_equal(stream_close(&s), SIGKILL);
    expect_gone(&background);
    expect_gone(&running);
}

static void test_a_lease_is_renewed_by_any_word(void **state)
{
    struct stream s = stream_open(&(struct stream_options){.flags = SERVE_DIES, .lease_s = 1});
    const uint32_t id =
        stream_run(&s, &(struct run){.shell = "for i in 1 2 3 4 5; do sleep 0.4; echo $i; done"});
    for (char last[] = "1\n"; last[0] <= '5'; last[0]++) {
        stream_await(&s, id, last);
        stream_send(&s, SERVE_PING, 0, NULL, 0);
    }
    assert_int_equal(stream_wait(&s, id)->end.exit.wait_status, 0);
    stream_await_end(&s); /* by itself, with nobody speaking */
    assert_int_equal(stream_close(&s), 0);
}

/* Nothing is left of it that a client of the engine would have to wait for. */
static void test_a_reader_that_is_gone_ends_it(void **state)
{
    struct stream s = open_with(NULL, SERVE_DIES);
    close(s.out);
    const int devnull = dup(STDERR_FILENO);
    s.out = devnull;
    s.ended = true;
    const struct serve_frame ping = {.type = SERVE_PING};
    if (write(s.in, &ping, sizeof(ping)) != sizeof(ping))
        assert_int_equal(errno, EPIPE); /* it has seen it already */
    int status;
    assert_int_equal(waitpid(s.pid, &status, 0), s.pid);
    assert_int_equal(status, 0);
    close(s.in);
    close(s.out);
    stream_free(&s);
}

/* --- a clear --- */

static const struct guest_exit *clear(struct stream *s)
{
    stream_send(s, SERVE_CLEAR, ++s->last_id, NULL, 0);
    return &stream_wait(s, s->last_id)->end.exit;
}

/* What an engine has started in the container isn't beneath us, and a clear ends it, too. */
static void clear_ends_all_but_the_first(const char *const *prefix)
{
    struct stream s = open_with(prefix, SERVE_DIES);
    struct watched background, running, others;
    char command[160];
    for (int again = 0; again < 2; again++) {
        start_two(&s, &background, &running);
        kill(background.pid, SIGSTOP);
        snprintf(command, sizeof(command), "nsenter -t %d -p -m sleep 3000.%d &", guest_pid(&s), getpid());
        assert_int_equal(system(command), 0);
        snprintf(command, sizeof(command), "3000.%d", getpid());
        while (stream_shell(&s, "pgrep -x sleep | wc -l | grep -qx 4")->end.exit.wait_status != 0)
            continue;
        others = watch(command);
        assert_int_equal(clear(&s)->stage, GUEST_STAGE_RAN);
        assert_false(lives(&background) || lives(&running) || lives(&others));
        expect_gone(&background);
        expect_gone(&running);
        expect_gone(&others);
        assert_string_equal(heard_out(stream_shell(&s, "pgrep -c -x sleep")), "0\n");
    }
    assert_int_equal(stream_close(&s), 0);
}

static void test_a_clear_ends_all_but_the_first(void **state)
{
    clear_ends_all_but_the_first(as_first);
}

static void test_a_clear_waits_for_who_forks(void **state)
{
    struct stream s = open_with(as_first, SERVE_DIES);
    stream_await(&s, stream_run(&s, &(struct run){.shell = "f() { sleep 1000 & f & }; f; f; echo up; wait"}),
                 "up\n");
    /* What comes behind it is done after it. */
    stream_send(&s, SERVE_CLEAR, ++s.last_id, NULL, 0);
    const uint32_t clear_id = s.last_id;
    assert_string_equal(heard_out(stream_shell(&s, "pgrep -c -x sleep")), "0\n");
    assert_int_equal(stream_wait(&s, clear_id)->end.exit.stage, GUEST_STAGE_RAN);
    assert_int_equal(stream_close(&s), 0);
}

static void test_only_a_first_process_clears(void **state)
{
    struct stream s = open_with(NULL, SERVE_DIES);
    struct watched background, running;
    start_two(&s, &background, &running);
    assert_int_equal(clear(&s)->stage, GUEST_STAGE_REQUEST);
    assert_int_equal(stream_heard(&s, s.last_id)->end.exit.sys, EPERM);
    assert_true(lives(&background) && lives(&running));
    assert_int_equal(stream_close(&s), 0);
    expect_gone(&background);
    expect_gone(&running);
}

/* --- broken streams --- */

static void expect_end_after(bool unconfigured, const void *bytes, size_t size)
{
    struct stream s =
        stream_open(&(struct stream_options){.flags = SERVE_DIES, .unconfigured = unconfigured});
    stream_send_raw(&s, bytes, size);
    stream_await_end(&s);
    assert_int_equal(stream_close(&s), 0);
}

static void test_what_is_no_frame_ends_the_stream(void **state)
{
    static const struct serve_frame bad[] = {
        {.type = 0},
        {.type = 99},
        {.type = UINT32_MAX, .size = UINT32_MAX, .id = UINT32_MAX},
        {.type = SERVE_HELLO, .size = sizeof(struct serve_hello)},
        {.type = SERVE_END, .id = 1},
        {.type = SERVE_RUN, .size = sizeof(struct serve_run)},
        {.type = SERVE_RUN, .id = 1, .size = sizeof(struct serve_run) - 1},
        {.type = SERVE_RUN, .id = 1, .size = SERVE_RUN_MAX + 1},
        {.type = SERVE_KILL},
        {.type = SERVE_KILL, .id = 1, .size = 1},
        {.type = SERVE_PING, .id = 1},
        {.type = SERVE_CLEAR},
        {.type = SERVE_CLEAR, .id = 1, .size = 1},
        {.type = SERVE_CONFIG, .size = 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        expect_end_after(false, &bad[i], sizeof(bad[i]));
    expect_end_after(false, "GET / HTTP/1.1\r\n\r\n", 18);
    expect_end_after(true, "\n\n\n\n\n\n\n\n\n\n\n\n\n\n", 14);
}

static void test_order_is_kept(void **state)
{
    const struct {
        struct serve_frame head;
        struct serve_config config;
    } config = {.head = {.type = SERVE_CONFIG, .size = sizeof(struct serve_config)}};
    expect_end_after(false, &config, sizeof(config)); /* a second one */
    struct serve_frame ping = {.type = SERVE_PING};
    expect_end_after(true, &ping, sizeof(ping));
    struct {
        struct serve_frame head;
        struct serve_config config;
    } relative = {.head = config.head, .config = {.spool_dir = "tmp"}};
    expect_end_after(true, &relative, sizeof(relative));
}

static void test_an_id_is_used_once(void **state)
{
    struct stream s = open_with(NULL, SERVE_DIES);
    const uint32_t id = stream_run(&s, &(struct run){.shell = "echo up; sleep 1000"});
    stream_await(&s, id, "up\n");
    s.last_id--;
    stream_run(&s, &(struct run){.shell = "true"});
    stream_await_end(&s);
    assert_int_equal(stream_close(&s), 0);
}

static void test_a_frame_that_ends_half_way_ends_the_stream(void **state)
{
    const struct serve_frame head = {.type = SERVE_RUN, .id = 1, .size = 4096};
    struct stream s = open_with(NULL, SERVE_DIES);
    stream_send_raw(&s, &head, sizeof(head));
    stream_send_raw(&s, "half", 4);
    assert_int_equal(stream_close(&s), 0);
}

/* --- the first process --- */

static void test_a_first_process_collects_orphans(void **state)
{
    struct stream s = open_with(as_first, SERVE_DIES);
    char command[160];
    assert_int_equal(s.hello.pid, 1);
    /* What an engine starts isn't beneath us, but its orphans are. */
    snprintf(command, sizeof(command), "nsenter -t %d -p -m sh -c '(sleep 0 &); (sleep 1000 &)'",
             guest_pid(&s));
    assert_int_equal(system(command), 0);
    for (int i = 0; i < 500; i++) {
        const struct heard *h = stream_shell(
            &s, "pkill -x sleep; grep -c '^State:.Z' /proc/[0-9]*/status | grep -c ':1$'; pgrep -c -x sleep");
        if (strcmp(heard_out(h), "0\n0\n") == 0) {
            assert_int_equal(stream_close(&s), 0);
            return;
        }
        if (s.last_id > STREAM_COMMANDS - 10)
            break;
    }
    fail_msg("orphans are left");
}

static void test_a_kill_in_a_container_of_nobody(void **state)
{
    struct stream s = open_with(as_nobody_first, SERVE_DIES);
    assert_string_equal(heard_out(stream_shell(&s, "id -u")), "65534\n");
    const uint32_t id = stream_run(&s, &(struct run){.shell = "setsid sleep 1000 & echo up; sleep 1000"});
    stream_await(&s, id, "up\n");
    stream_send(&s, SERVE_KILL, id, NULL, 0);
    assert_int_equal(stream_wait(&s, id)->end.killed, 1);
    assert_string_equal(heard_out(stream_shell(&s, "pgrep -c -x sleep")), "0\n");
    assert_int_equal(stream_close(&s), 0);
}

static void test_the_guest_is_closed_to_its_commands(void **state)
{
    struct stream s = open_with(as_nobody_first, SERVE_DIES);
    const struct heard *h = stream_shell(&s, "for f in mem environ maps; do head -c 1 /proc/1/$f 2>/dev/null "
                                             "&& echo open; done; ls /proc/1/fd 2>&1");
    assert_null(strstr(heard_out(h), "open\n"));
    assert_non_null(strstr(heard_out(h), "Permission denied"));
    assert_int_equal(stream_close(&s), 0);
}

static void test_a_firewall_that_can_not_be_is_told(void **state)
{
    struct stream s = open_with(as_nobody_first, SERVE_DIES | SERVE_FIREWALL);
    assert_int_equal(s.ready.firewall, SERVE_FIREWALL_FAILED);
    assert_string_not_equal(s.ready.error.stage, "");
    assert_int_equal(stream_close(&s), 0);
}

static void firewall_takes_the_capability(const char *const *prefix, uint32_t expected)
{
    struct stream s = open_with(prefix, SERVE_DIES | SERVE_FIREWALL);
    if (s.ready.firewall == SERVE_FIREWALL_FAILED)
        print_message("# firewall: %s: %s %s\n", s.ready.error.stage, strerror(s.ready.error.sys),
                      s.ready.error.text);
    assert_true(s.ready.firewall == expected || (expected && s.ready.firewall == SERVE_FIREWALL_FAILED));
    const struct heard *h = stream_shell(&s, "grep -E '^Cap' /proc/self/status");
    int sets = 0;
    for (const char *line = heard_out(h); (line = strchr(line, '\t')); line++, sets++)
        assert_int_equal(strtoull(line, NULL, 16) & (1 << 12), 0);
    assert_int_equal(sets, 5);
    assert_int_equal(stream_close(&s), 0);
}

static void test_a_firewall_can_not_be_opened_again(void **state)
{
    static const char *const first[] = {"unshare", "-pnf", "--mount-proc", NULL};
    firewall_takes_the_capability(first, SERVE_FIREWALL_ON);
}

static void test_nor_by_one_that_comes_later(void **state)
{
    static const char *const later[] = {"unshare", "-n", NULL};
    firewall_takes_the_capability(later, SERVE_FIREWALL_NONE);
}

/* --- elsewhere --- */

static void works_under_an_old_filter(const char *answer)
{
    const char *const prefix[] = {getenv("GUEST_OLD_FILTER"), answer, NULL};
    const char *const script[] = {"/bin/sh", "/proc/self/fd/3", NULL}, *const missing[] = {"/no/such", NULL};
    if (!prefix[0])
        skip_because("GUEST_OLD_FILTER isn't set");
    struct stream s = stream_open(&(struct stream_options){.prefix = prefix, .flags = SERVE_DIES});
    assert_string_equal(heard_out(stream_shell(&s, "echo /proc/self/fd/*")),
                        "/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /proc/self/fd/3\n");
    const struct heard *h = stream_wait(&s, stream_run(&s, &(struct run){.argv = missing}));
    assert_int_equal(h->end.exit.stage, GUEST_STAGE_EXEC);
    assert_int_equal(h->end.exit.sys, ENOENT);
    h = stream_wait(&s, stream_run(&s, &(struct run){.argv = script, .script = "echo from the script"}));
    assert_string_equal(heard_out(h), "from the script\n");
    /* No other command's reaper may keep the input of one open. */
    const uint32_t cat = stream_run(&s, &(struct run){.shell = "cat; echo over", .in = "x\n", .in_size = 2});
    stream_run(&s, &(struct run){.shell = "sleep 1000"});
    assert_string_equal(heard_out(stream_wait(&s, cat)), "x\nover\n");
    assert_int_equal(stream_close(&s), 0);
}

static void test_filters_that_know_no_new_calls(void **state)
{
    char number[16];
    snprintf(number, sizeof(number), "%d", ENOSYS);
    works_under_an_old_filter(number);
    snprintf(number, sizeof(number), "%d", EPERM);
    works_under_an_old_filter(number);
}

static void test_limits_of_descriptors(void **state)
{
    struct stream s = stream_open(&(struct stream_options){.flags = SERVE_DIES, .nofile = 123});
    assert_string_equal(heard_out(stream_shell(&s, "ulimit -n; ulimit -Hn")), "123\n123\n");
    assert_int_equal(stream_close(&s), 0);
    static const char *const limited[] = {"sh", "-c", "ulimit -Sn 77; ulimit -Hn 4000; exec \"$@\"", "sh",
                                          NULL};
    s = stream_open(&(struct stream_options){.flags = SERVE_DIES, .prefix = limited});
    assert_string_equal(heard_out(stream_shell(&s, "ulimit -n; ulimit -Hn")), "77\n4000\n");
    assert_int_equal(stream_close(&s), 0);
}

static void test_kills_for_want_of_memory_are_counted(void **state)
{
    char folder[] = "/tmp/cgroup-test-XXXXXX", mount[128], text[128];
    const char *const prefix[] = {"unshare", "-m", "sh", "-c", mount, "sh", NULL};
    if (!mkdtemp(folder))
        harness_die(folder);
    /* A control group's folder of our own: the kernel's counts can't be raised at will. */
    snprintf(mount, sizeof(mount), "mount --bind %s /sys/fs/cgroup && exec \"$@\"", folder);
    snprintf(text, sizeof(text),
             "printf 'low 0\\noom 9\\noom_kill 3\\noom_group_kill 7\\n' > %s/memory.events", folder);
    assert_int_equal(system(text), 0);
    struct stream s = open_with(prefix, SERVE_DIES);
    assert_int_equal(stream_shell(&s, "true")->end.oom_kills, 0);
    assert_int_equal(stream_shell(&s, "echo oom_kill 5 > /sys/fs/cgroup/memory.events")->end.oom_kills, 2);
    assert_int_equal(stream_shell(&s, "true")->end.oom_kills, 0);
    assert_int_equal(stream_close(&s), 0);
    snprintf(text, sizeof(text), "rm -r %s", folder);
    assert_int_equal(system(text), 0);
}

/* What has come and gone leaves nothing: neither descriptors nor memory nor processes. */
static void test_it_stays_small(void **state)
{
    struct stream s = open_with(as_first, SERVE_DIES);
    const struct run flood = {.shell = "yes | head -c 3000000; yes | head -c 3000000 >&2", .limit = 4 << 20};
    for (int i = 0; i < 40; i++)
        assert_int_equal(stream_wait(&s, stream_run(&s, &flood))->end.exit.wait_status, 0);
    stream_shell(&s, "sleep 1000 >/dev/null 2>&1 &"); /* its reaper lives, without what we had */
    static const char look[] =
        "for p in /proc/[0-9]*; do read n < $p/comm; case $n in sandbox-*) "
        "grep -E '^(VmRSS|FDSize)' $p/status;; esac; done; ls -1 /proc | grep -c '^[0-9]'";
    const struct heard *h = stream_shell(&s, look);
    int sizes = 0;
    for (const char *line = heard_out(h); (line = strstr(line, "VmRSS:")); line++, sizes++)
        assert_true(atoi(line + 6) < 2048);
    assert_int_equal(sizes, 3); /* the guest, the reaper of the sleep, the reaper of this */
    assert_int_equal(stream_close(&s), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_end_of_the_stream_takes_all),
        cmocka_unit_test(test_the_end_of_the_stream_takes_all_of_nobody),
        cmocka_unit_test(test_the_end_of_the_stream_ends_the_container),
        cmocka_unit_test(test_the_end_of_the_stream_ends_the_container_of_nobody),
        cmocka_unit_test(test_an_ordinary_one_leaves_the_background),
        cmocka_unit_test(test_one_for_one_command_ends_after_it),
        cmocka_unit_test(test_a_first_one_stays_with_the_background),
        cmocka_unit_test(test_a_container_is_stopped_at_once),
        cmocka_unit_test(test_an_ordinary_one_is_ended_by_a_signal),
        cmocka_unit_test(test_a_guest_that_is_killed_takes_all),
        cmocka_unit_test(test_a_lease_is_renewed_by_any_word),
        cmocka_unit_test(test_a_reader_that_is_gone_ends_it),
        cmocka_unit_test(test_a_clear_ends_all_but_the_first),
        cmocka_unit_test(test_a_clear_waits_for_who_forks),
        cmocka_unit_test(test_only_a_first_process_clears),
        cmocka_unit_test(test_what_is_no_frame_ends_the_stream),
        cmocka_unit_test(test_order_is_kept),
        cmocka_unit_test(test_an_id_is_used_once),
        cmocka_unit_test(test_a_frame_that_ends_half_way_ends_the_stream),
        cmocka_unit_test(test_a_first_process_collects_orphans),
        cmocka_unit_test(test_a_kill_in_a_container_of_nobody),
        cmocka_unit_test(test_the_guest_is_closed_to_its_commands),
        cmocka_unit_test(test_a_firewall_that_can_not_be_is_told),
        cmocka_unit_test(test_a_firewall_can_not_be_opened_again),
        cmocka_unit_test(test_nor_by_one_that_comes_later),
        cmocka_unit_test(test_filters_that_know_no_new_calls),
        cmocka_unit_test(test_limits_of_descriptors),
        cmocka_unit_test(test_kills_for_want_of_memory_are_counted),
        cmocka_unit_test(test_it_stays_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
