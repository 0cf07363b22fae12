/* Commands in a native computer: what runs, what comes back, what ends them. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "native_world.h"

#include "base/clock.h"
#include "base/mem.h"
#include "tests/skip.h"

#define FLOOD_MIB 8

static void test_echo(void **state)
{
    struct exec_result r;
    run_command(&common, "echo hello; echo oops >&2; exit 3", &r);
    assert_string_equal(buf_str(&r.out.head), "hello\n");
    assert_string_equal(buf_str(&r.err.head), "oops\n");
    assert_int_equal(r.exit_code, 3);
    assert_int_equal(r.signal, 0);
    assert_false(r.timed_out);
    assert_false(r.oom_killed);
    assert_true(r.duration_ns > 0);
    assert_int_equal(r.background_count, 0);
    assert_null(r.note);
    exec_result_done(&r);
}

static void test_usage(void **state)
{
    struct exec_result r;
    run_command(&common, "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done", &r);
    assert_true(r.usage.cpu_us >= 1000 && r.usage.cpu_us <= 60000000);
    assert_true(r.usage.peak_bytes >= 256 * KIB && r.usage.peak_bytes <= 1024 * MIB);
    exec_result_done(&r);
}

static void test_environment(void **state)
{
    assert_output(&common, "echo $HOME $LANG $HOSTNAME $(hostname) $(pwd) $(id -u)",
                  "/root C.UTF-8 common common / 0\n");
    char *const env[] = {(char *)"GREETING=hi", (char *)"HOME=/tmp", NULL};
    struct exec_request q = request("echo $GREETING $HOME; pwd");
    struct exec_result r;
    q.env = env;
    q.cwd = "/usr/bin";
    run_ok(&common, &q, &r);
    assert_string_equal(buf_str(&r.out.head), "hi /tmp\n/usr/bin\n");
    exec_result_done(&r);
}

static void test_arguments(void **state)
{
    char *const argv[] = {(char *)"printf", (char *)"%s|", (char *)"a b", (char *)"", (char *)"$HOME", NULL};
    struct exec_request q = {.argv = argv, .output_limit = OUTPUT_LIMIT, .wait = for_ever};
    struct exec_result r;
    run_ok(&common, &q, &r);
    assert_string_equal(buf_str(&r.out.head), "a b||$HOME|");
    exec_result_done(&r);
}

static void test_program_missing(void **state)
{
    static const struct {
        const char *program;
        int exit_code;
        const char *note;
    } cases[] = {
        {"cd", 127, "shell builtins such as cd need `command`"},
        {"no-such-program", 127, "no-such-program: not found in PATH"},
        {"/no/such/program", 127, "no such file"},
        {"/etc/passwd", 126, "Permission denied"},
        {"/usr", 126, "can't be executed"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char *const argv[] = {(char *)cases[i].program, (char *)"/", NULL};
        struct exec_request q = {.argv = argv, .output_limit = OUTPUT_LIMIT, .wait = for_ever};
        struct exec_result r;
        run_ok(&common, &q, &r);
        assert_int_equal(r.exit_code, cases[i].exit_code);
        assert_non_null(r.note);
        assert_non_null(strstr(r.note, cases[i].note));
        exec_result_done(&r);
    }
}

static void test_cwd_missing(void **state)
{
    struct exec_request q = request("echo no");
    struct exec_result r;
    struct error err = ERROR_INIT;
    q.cwd = "/nope";
    assert_int_equal(run_request(&common, &q, &r, &err), -1);
    assert_int_equal(err.code, ERR_CWD_NOT_FOUND);
    assert_non_null(strstr(err.msg, "/nope"));
    assert_output(&common, "echo still usable", "still usable\n");
}

static void test_stdin(void **state)
{
    size_t n = 2 * MIB;
    char *bytes = xmalloc(n);
    random_bytes(bytes, n);
    struct exec_request q = request("cat");
    struct exec_result r;
    q.stdin_bytes = bytes;
    q.stdin_len = n;
    run_ok(&common, &q, &r);
    assert_int_equal(r.out.total, n);
    assert_int_equal(r.out.omitted, 0);
    assert_memory_equal(r.out.head.data, bytes, n);
    exec_result_done(&r);

    q = request("wc -c");
    q.stdin_bytes = "\0\1\2\377";
    q.stdin_len = 4;
    run_ok(&common, &q, &r);
    assert_string_equal(buf_str(&r.out.head), "4\n");
    exec_result_done(&r);

    q = request("true"); /* reads nothing: a broken pipe is no error */
    q.stdin_bytes = bytes;
    q.stdin_len = n;
    run_ok(&common, &q, &r);
    assert_int_equal(r.exit_code, 0);
    exec_result_done(&r);
    free(bytes);
}

static void test_empty_stdin(void **state)
{
    for (int i = 0; i < 200; i++) {
        struct exec_request q = request("cat");
        struct exec_result r;
        q.stdin_bytes = "";
        run_ok(&common, &q, &r);
        assert_int_equal(r.exit_code, 0);
        assert_int_equal(r.out.total, 0);
        exec_result_done(&r);
    }
}

static void test_reopened_streams(void **state)
{
    struct exec_request q = request("cat /dev/stdin; echo out > /dev/stdout; echo err > /dev/stderr");
    struct exec_result r;
    q.stdin_bytes = "in\n";
    q.stdin_len = 3;
    run_ok(&common, &q, &r);
    assert_string_equal(buf_str(&r.out.head), "in\nout\n");
    assert_string_equal(buf_str(&r.err.head), "err\n");
    exec_result_done(&r);
}

static void test_signal(void **state)
{
    struct exec_result r;
    run_command(&common, "kill -TERM $$", &r);
    assert_int_equal(r.exit_code, 128 + SIGTERM);
    assert_int_equal(r.signal, SIGTERM);
    exec_result_done(&r);
}

static void test_long_command(void **state)
{
    size_t n = 512 * KIB;
    _cleanup_(cleanup_free) char *text = xmalloc(n + 64);
    memset(text, ' ', n);
    strcpy(text + n, "\ncat; echo done");
    struct exec_request q = {.command = text,
                             .command_len = strlen(text),
                             .stdin_bytes = "input\n",
                             .stdin_len = 6,
                             .output_limit = OUTPUT_LIMIT,
                             .wait = for_ever};
    struct exec_result r;
    run_ok(&common, &q, &r);
    assert_string_equal(buf_str(&r.out.head), "input\ndone\n");
    exec_result_done(&r);
}

static void test_long_environment(void **state)
{
    size_t n = 100 * KIB;
    _cleanup_(cleanup_free) char *entry = xmalloc(n + 1);
    memset(entry, 'x', n);
    memcpy(entry, "BIG=", 4);
    entry[n] = '\0';
    char *const env[] = {entry, NULL};
    struct exec_request q = request("echo ${#BIG}");
    struct exec_result r;
    q.env = env;
    run_ok(&common, &q, &r);
    assert_string_equal(buf_str(&r.out.head), "102396\n");
    exec_result_done(&r);
}

/* B2: a child keeps stdout open. */
static void test_background(void **state)
{
    struct exec_result r;
    int64_t began = clock_now();
    run_command(&common, "sleep 100 & echo $!", &r);
    assert_true(clock_now() - began < 90 * NSEC_PER_SEC);
    assert_int_equal(r.exit_code, 0);
    assert_int_equal(r.background_count, 1);
    assert_false(r.background_more);
    assert_int_equal(r.background[0], atoi(buf_str(&r.out.head)));
    char command[64];
    snprintf(command, sizeof(command), "kill %d && echo was there", r.background[0]);
    exec_result_done(&r);
    assert_output(&common, command, "was there\n");
}

static int count_inside(struct subject *s, const char *what)
{
    struct exec_result r;
    char command[128];
    snprintf(command, sizeof(command),
             "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c '[%c]%s'", what[0], what + 1);
    run_command(s, command, &r);
    int count = atoi(buf_str(&r.out.head));
    exec_result_done(&r);
    return count;
}

static void *sleep_beside(void *arg)
{
    struct exec_request q = request("sleep 3; echo lived");
    struct exec_result *r = arg;
    run_ok(&common, &q, r);
    return NULL;
}

/* B1: what the command started dies with it, in whatever session; what another one started lives. */
static void test_timeout(void **state)
{
    struct exec_result beside, r;
    pthread_t thread;
    pthread_create(&thread, NULL, sleep_beside, &beside);
    struct exec_request q = request("echo before; setsid -f sleep 301; sleep 301");
    q.wait.deadline = clock_deadline_after(1);
    run_ok(&common, &q, &r);
    assert_true(r.timed_out);
    assert_int_equal(r.exit_code, 124);
    assert_string_equal(buf_str(&r.out.head), "before\n");
    assert_int_equal(r.background_count, 0);
    exec_result_done(&r);
    assert_int_equal(count_inside(&common, "sleep 301"), 0);
    pthread_join(thread, NULL);
    assert_string_equal(buf_str(&beside.out.head), "lived\n");
    exec_result_done(&beside);
}

static void *cancel_soon(void *arg)
{
    struct exec_result r;
    run_command(&common, "until test -e /tmp/started; do :; done", &r);
    exec_result_done(&r);
    cancel_fire(arg, ERR_CANCELLED);
    return NULL;
}

static void test_cancel(void **state)
{
    struct cancel *cancel = cancel_new();
    pthread_t thread;
    struct exec_request q = request("sleep 302 & touch /tmp/started; sleep 302");
    struct exec_result r;
    struct error err = ERROR_INIT;
    q.wait.cancel = cancel;
    pthread_create(&thread, NULL, cancel_soon, cancel);
    assert_int_equal(run_request(&common, &q, &r, &err), -1);
    pthread_join(thread, NULL);
    assert_int_equal(err.code, ERR_CANCELLED);
    assert_int_equal(count_inside(&common, "sleep 302"), 0);
    cancel_unref(cancel);
    assert_output(&common, "rm /tmp/started && echo usable", "usable\n");
}

/* No path may lead to what init holds: not to the folder of the command's group, for one. */
static void test_descriptors_of_init_lead_nowhere(void **state)
{
    assert_output(&common, "ln -s /proc/self/fd /root/fd", "");
    for (int n = 0; n < 64; n++) {
        struct exec_result r;
        struct error err = ERROR_INIT;
        char cwd[32];
        snprintf(cwd, sizeof(cwd), n % 2 ? "/proc/self/fd/%d" : "/root/fd/%d", n / 2);
        struct exec_request q = request("true");
        q.cwd = cwd;
        assert_int_equal(run_request(&common, &q, &r, &err), -1);
        assert_int_equal(err.code, ERR_CWD_NOT_FOUND);
    }
    assert_output(&common, "rm /root/fd", "");
}

/* B13: cut in the middle, the whole of it in a file inside. */
static void test_flood(void **state)
{
    struct exec_result r;
    char command[256];
    snprintf(command, sizeof(command), "seq 1 2000000 | head -c %lu", FLOOD_MIB * MIB);
    struct exec_request q = request(command);
    q.output_limit = 64 * KIB;
    run_ok(&common, &q, &r);
    assert_int_equal(r.out.total, FLOOD_MIB * MIB);
    assert_int_equal(r.out.head.len + r.out.tail.len, 64 * KIB);
    assert_int_equal(r.out.omitted, FLOOD_MIB * MIB - 64 * KIB);
    assert_memory_equal(r.out.head.data, "1\n2\n3\n", 6);
    assert_non_null(r.out.path);
    assert_int_equal(r.out.path_bytes, r.out.total);
    assert_null(r.err.path);
    snprintf(command, sizeof(command), "cmp %s <(seq 1 2000000 | head -c %lu) && rm %s && echo same",
             r.out.path, FLOOD_MIB * MIB, r.out.path);
    exec_result_done(&r);
    assert_output(&common, command, "same\n");
}

/* What a full disk took of the output is told as it is. */
static void test_flood_on_a_full_disk(void **state)
{
    struct exec_result r;
    char command[256];
    assert_output(&common,
                  "rm -rf /tmp/command-output; ln -s /dev/shm /tmp/command-output; "
                  "head -c 65000000 /dev/zero > /dev/shm/fill; echo ok",
                  "ok\n");
    struct exec_request q = request("head -c 8000000 /dev/zero");
    q.output_limit = 64 * KIB;
    run_ok(&common, &q, &r);
    assert_int_equal(r.out.total, 8000000);
    assert_non_null(r.out.path);
    assert_in_range(r.out.path_bytes, 1, 7999999);
    snprintf(command, sizeof(command),
             "[ $(stat -c %%s %s) = %llu ] && echo same; rm /tmp/command-output /dev/shm/*", r.out.path,
             (unsigned long long)r.out.path_bytes);
    exec_result_done(&r);
    assert_output(&common, command, "same\n");
}

static void test_background_flood(void **state)
{
    struct exec_result r;
    run_command(&common, "(trap '' PIPE; while :; do echo y || exit; done) & exit 0", &r);
    assert_int_equal(r.exit_code, 0);
    exec_result_done(&r);
    assert_output(&common, "echo fine", "fine\n");
}

static void test_isolation(void **state)
{
    assert_output(&common, "ls -A /root /home /mnt /opt /srv | grep -v : | grep -c .", "0\n");
    assert_output(&common, "cat /etc/shadow 2>&1 | grep -c 'No such file'", "1\n");
    assert_output(&common, "touch /usr/x 2>&1 | grep -c 'Read-only'", "1\n");
    assert_output(&common, "ls /proc/self/fd | wc -l", "4\n"); /* 0, 1, 2 and the folder itself */
    assert_output(&common, "cat /proc/1/environ /proc/1/maps 2>&1 | grep -c denied", "2\n");
}

static void test_many_at_once_body(void *arg)
{
    struct exec_result r;
    run_command(&common, "sleep 0.2; echo $$", &r);
    *(int *)arg = r.exit_code == 0 && atoi(buf_str(&r.out.head)) > 1;
    exec_result_done(&r);
}

static void *many_thread(void *arg)
{
    test_many_at_once_body(arg);
    return NULL;
}

static void test_many_at_once(void **state)
{
    pthread_t threads[20];
    int good[20] = {0};
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        pthread_create(&threads[i], NULL, many_thread, &good[i]);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        pthread_join(threads[i], NULL);
        assert_true(good[i]);
    }
}

/* B49, also when the shell survives its child. */
static void test_out_of_memory(void **state)
{
    struct exec_result r;
    if (native_of(world.backend)->cgroups.places[CGROUP_MEMORY].version == 0) {
        skip_because("no memory controller here");
        return;
    }
    run_command(&common, "head -c 2G /dev/zero | tail -c 2G >/dev/null; echo alive", &r);
    assert_true(r.oom_killed);
    assert_string_equal(buf_str(&r.out.head), "alive\n");
    exec_result_done(&r);
    run_command(&common, "true", &r);
    assert_false(r.oom_killed);
    exec_result_done(&r);
}

/* Until it is said to have so many processes. */
static void await_processes(struct subject *s, int count)
{
    const struct wait wait = {.deadline = clock_deadline_after(30)};
    struct instance_stat stat = {0};
    do
        assert_int_equal(s->i->ops->stat(s->i, true, &wait, &stat, NULL), 0);
    while (stat.pids != count && clock_now() < wait.deadline && poll(NULL, 0, 5) == 0);
    assert_int_equal(stat.pids, count);
}

static void test_processes_are_counted(void **state)
{
    struct subject s;
    struct exec_result r;
    struct instance_stat idle;
    if (native_of(world.backend)->cgroups.places[CGROUP_PIDS].version == 0) {
        skip_because("no pids controller here");
        return;
    }
    subject_create(&s, "counted");
    assert_int_equal(s.i->ops->stat(s.i, true, &for_ever, &idle, NULL), 0);
    assert_true(idle.pids > 0);
    run_command(&s, "for i in 1 2 3; do sleep 300 >/dev/null 2>&1 & echo $! >>/tmp/counted; done", &r);
    exec_result_done(&r);
    const int more = instance_of(s.i)->reaper ? 4 : 3; /* one for all that a command leaves */
    await_processes(&s, idle.pids + more);
    await_processes(&s, idle.pids + more);
    run_command(&s, "kill $(cat /tmp/counted)", &r);
    exec_result_done(&r);
    await_processes(&s, idle.pids);
    subject_remove(&s);
}

static void test_fork_bomb(void **state)
{
    struct subject s;
    struct exec_result r;
    struct exec_request q = request(":(){ :|:& };:; sleep 300");
    if (native_of(world.backend)->cgroups.places[CGROUP_PIDS].version == 0) {
        skip_because("no pids controller here");
        return;
    }
    subject_create(&s, "bomb");
    q.wait.deadline = clock_deadline_after(1);
    run_ok(&s, &q, &r);
    assert_true(r.timed_out || r.exit_code != 0);
    exec_result_done(&r);
    /* Without cgroup2 the last of the bomb may still be dying. */
    q = request("true");
    struct error err = ERROR_INIT;
    while (instance_of(s.i)->reaper && run_request(&s, &q, &r, &err) < 0)
        assert_int_equal(err.code, ERR_LIMIT);
    assert_output(&s, "echo defused", "defused\n");
    subject_remove(&s);
}

static void test_shell_missing(void **state)
{
    struct native *n = native_of(world.backend);
    struct exec_request q = request("true");
    struct exec_result r;
    struct error err = ERROR_INIT;
    n->shell = xstrdup("/bin/fish");
    int failed = run_request(&common, &q, &r, &err);
    free(n->shell);
    n->shell = NULL;
    assert_int_equal(failed, -1);
    assert_int_equal(err.code, ERR_SHELL_NOT_FOUND);
    assert_non_null(strstr(err.msg, "/bin/fish"));
    assert_non_null(strstr(err.msg, "/bin/bash"));
}

static void test_told_before(void **state)
{
    struct exec_result r;
    struct error err = ERROR_INIT;
    struct exec_request q = request("touch /tmp/began");
    q.wait.deadline = clock_now() - 1;
    run_ok(&common, &q, &r);
    assert_true(r.timed_out);
    assert_int_equal(r.exit_code, 124);
    exec_result_done(&r);
    q.wait = (struct wait){.deadline = DEADLINE_NONE, .cancel = cancel_new()};
    cancel_fire(q.wait.cancel, ERR_DELETED);
    assert_int_equal(run_request(&common, &q, &r, &err), -1);
    assert_int_equal(err.code, ERR_DELETED);
    cancel_unref(q.wait.cancel);
    assert_output(&common, "test -e /tmp/began || echo never", "never\n");
}

const struct CMUnitTest native_exec_cases[] = {
    cmocka_unit_test(test_echo),
    cmocka_unit_test(test_usage),
    cmocka_unit_test(test_environment),
    cmocka_unit_test(test_arguments),
    cmocka_unit_test(test_program_missing),
    cmocka_unit_test(test_cwd_missing),
    cmocka_unit_test(test_stdin),
    cmocka_unit_test(test_empty_stdin),
    cmocka_unit_test(test_reopened_streams),
    cmocka_unit_test(test_signal),
    cmocka_unit_test(test_long_command),
    cmocka_unit_test(test_long_environment),
    cmocka_unit_test(test_background),
    cmocka_unit_test(test_timeout),
    cmocka_unit_test(test_cancel),
    cmocka_unit_test(test_descriptors_of_init_lead_nowhere),
    cmocka_unit_test(test_flood),
    cmocka_unit_test(test_flood_on_a_full_disk),
    cmocka_unit_test(test_background_flood),
    cmocka_unit_test(test_isolation),
    cmocka_unit_test(test_many_at_once),
    cmocka_unit_test(test_out_of_memory),
    cmocka_unit_test(test_processes_are_counted),
    cmocka_unit_test(test_fork_bomb),
    cmocka_unit_test(test_shell_missing),
    cmocka_unit_test(test_told_before),
};
const size_t native_exec_case_count = ARRAY_LEN(native_exec_cases);
