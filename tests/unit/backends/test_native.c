/* The native backend as its caller sees it, on real namespaces and groups: native_new(), create, exec, the
 * end. Run with the name of a variant: cgroup2 (what this machine has), reaper (as if no cgroup2 could be
 * written to), plain (as if overlayfs were refused). Root only. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "backends/native/ids.h"
#include "backends/native/private.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/random.h"

#define SKIPPED 77
#define OUTPUT_LIMIT (2 * MIB)
#define FLOOD_MIB 8

static struct {
    struct native_machine machine;
    char state[64];
    char ids_file[96];
    struct backend *backend;
} world = {
    .machine = {.host_root = "/", .cgroup_files = {"/proc/self/cgroup", "/proc/self/mountinfo"}},
};

static const struct wait for_ever = {.deadline = DEADLINE_NONE};

struct subject {
    char id[32], key[RANDOM_HEX_SIZE(8)], folder[128];
    struct computer_spec spec;
    struct instance *i;
};

static void subject_name(struct subject *s, const char *id)
{
    struct error err = ERROR_INIT;
    snprintf(s->id, sizeof(s->id), "%s", id);
    random_hex(s->key, 8);
    snprintf(s->folder, sizeof(s->folder), "%s/computers/%s", world.state, id);
    assert_int_equal(dir_make(s->folder, 0711, &err), 0);
    s->spec = (struct computer_spec){
        .id = s->id, .principal = "local", .key = s->key, .folder = s->folder, .temporary = true};
}

static void subject_create(struct subject *s, const char *id)
{
    struct error err = ERROR_INIT;
    subject_name(s, id);
    int failed = world.backend->ops->create(world.backend, &s->spec, &for_ever, &s->i, &err);
    if (failed)
        print_error("create: %s\n", err.msg);
    assert_int_equal(failed, 0);
}

/* Nothing may be left: no group of its name anywhere, no file. */
static void assert_no_trace(const struct subject *s)
{
    _cleanup_(cleanup_free)
    char *command = xasprintf("find /sys/fs/cgroup -name '*%s*' 2>/dev/null | grep -q .", s->key);
    assert_int_not_equal(system(command), 0);
    _cleanup_(cleanup_free)
    char *files = xasprintf("test -z \"$(ls -A %s)\"", s->folder);
    assert_int_equal(system(files), 0);
}

static void subject_remove(struct subject *s)
{
    struct error err = ERROR_INIT;
    int failed = world.backend->ops->remove(s->i, &err);
    if (failed)
        print_error("remove: %s\n", err.msg);
    assert_int_equal(failed, 0);
    assert_no_trace(s);
}

static struct exec_request request(const char *command)
{
    return (struct exec_request){
        .command = command, .command_len = strlen(command), .output_limit = OUTPUT_LIMIT, .wait = for_ever};
}

static int run_request(struct subject *s, const struct exec_request *r, struct exec_result *ret,
                       struct error *err)
{
    *ret = (struct exec_result){0};
    int failed = world.backend->ops->exec(s->i, r, ret, err);
    if (failed && err->code == ERR_INTERNAL)
        print_error("exec: %s\n", err->msg);
    return failed;
}

static void run_ok(struct subject *s, const struct exec_request *r, struct exec_result *ret)
{
    struct error err = ERROR_INIT;
    int failed = run_request(s, r, ret, &err);
    if (failed)
        print_error("exec: %s: %s\n", error_code_name(err.code), err.msg);
    assert_int_equal(failed, 0);
}

static void run_command(struct subject *s, const char *command, struct exec_result *ret)
{
    struct exec_request r = request(command);
    run_ok(s, &r, ret);
}

static void assert_output(struct subject *s, const char *command, const char *expected)
{
    struct exec_result r;
    run_command(s, command, &r);
    if (strcmp(buf_str(&r.out.head), expected) != 0)
        print_error("%s: stdout '%s', stderr '%s'\n", command, buf_str(&r.out.head), buf_str(&r.err.head));
    assert_string_equal(buf_str(&r.out.head), expected);
    exec_result_done(&r);
}

/* One computer for the cases that leave it as it was. */
static struct subject common;

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
    _cleanup_(cleanup_free)
    char *text = xmalloc(n + 64);
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
    _cleanup_(cleanup_free)
    char *entry = xmalloc(n + 1);
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
    assert_true(clock_now() - began < 20 * NSEC_PER_SEC);
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
    assert_true(r.out.path_complete);
    assert_null(r.err.path);
    snprintf(command, sizeof(command), "cmp %s <(seq 1 2000000 | head -c %lu) && rm %s && echo same",
             r.out.path, FLOOD_MIB * MIB, r.out.path);
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
        skip();
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

static void test_fork_bomb(void **state)
{
    struct subject s;
    struct exec_result r;
    struct exec_request q = request(":(){ :|:& };:; sleep 300");
    if (native_of(world.backend)->cgroups.places[CGROUP_PIDS].version == 0) {
        skip();
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

static void test_init_killed(void **state)
{
    struct subject s;
    struct exec_result r;
    struct error err = ERROR_INIT;
    struct exec_request q = request("sleep 1; sleep 300");
    subject_create(&s, "killed");
    assert_true(world.backend->ops->alive(s.i));
    kill(instance_of(s.i)->pid, SIGKILL);
    assert_int_equal(run_request(&s, &q, &r, &err), -1);
    assert_int_equal(err.code, ERR_GONE);
    assert_false(world.backend->ops->alive(s.i));
    subject_remove(&s);
}

static void test_zygote_killed(void **state)
{
    struct subject s;
    struct native *n = native_of(world.backend);
    char command[64];
    snprintf(command, sizeof(command), "pkill -9 -P %d sandbox-zygote", (int)getpid());
    assert_int_equal(system(command), 0);
    while (zygote_alive(n->zygote)) /* the signal is on its way */
        sched_yield();
    assert_output(&common, "echo lives on", "lives on\n");
    subject_create(&s, "after");
    assert_output(&s, "echo new", "new\n");
    subject_remove(&s);
}

static void *create_thread(void *arg)
{
    struct subject *s = arg;
    struct exec_result r;
    struct error err = ERROR_INIT;
    if (world.backend->ops->create(world.backend, &s->spec, &for_ever, &s->i, &err) < 0) {
        print_error("create: %s\n", err.msg);
        return NULL;
    }
    run_command(s, "hostname", &r);
    bool good = strncmp(buf_str(&r.out.head), s->id, strlen(s->id)) == 0;
    exec_result_done(&r);
    return good ? s : NULL;
}

static void test_creates_at_once(void **state)
{
    static struct subject subjects[16];
    pthread_t threads[ARRAY_LEN(subjects)];
    for (size_t i = 0; i < ARRAY_LEN(subjects); i++) {
        char id[16];
        snprintf(id, sizeof(id), "many-%zu", i);
        subject_name(&subjects[i], id);
    }
    for (size_t i = 0; i < ARRAY_LEN(subjects); i++)
        pthread_create(&threads[i], NULL, create_thread, &subjects[i]);
    for (size_t i = 0; i < ARRAY_LEN(subjects); i++) {
        void *good;
        pthread_join(threads[i], &good);
        assert_non_null(good);
    }
    for (size_t i = 0; i < ARRAY_LEN(subjects); i++)
        world.backend->ops->kill(subjects[i].i);
    for (size_t i = 0; i < ARRAY_LEN(subjects); i++)
        subject_remove(&subjects[i]);
}

static void test_create_cancelled(void **state)
{
    struct subject s;
    struct error err = ERROR_INIT;
    struct cancel *cancel = cancel_new();
    struct wait wait = {.deadline = DEADLINE_NONE, .cancel = cancel};
    subject_name(&s, "cancelled");
    cancel_fire(cancel, ERR_CANCELLED);
    assert_int_equal(world.backend->ops->create(world.backend, &s.spec, &wait, &s.i, &err), -1);
    assert_int_equal(err.code, ERR_CANCELLED);
    cancel_unref(cancel);
    assert_no_trace(&s);
}

static void test_files_last(void **state)
{
    struct subject s;
    struct error err = ERROR_INIT;
    subject_create(&s, "kept");
    assert_output(&s, "echo data > /root/file; chmod 600 /root/file; mkfifo /root/pipe; echo ok", "ok\n");
    json_t *record = world.backend->ops->record(s.i);
    assert_int_equal(world.backend->ops->detach(s.i, &err), 0);
    assert_int_equal(world.backend->ops->attach(world.backend, &s.spec, record, &for_ever, &s.i, &err), 0);
    assert_output(&s, "cat /root/file; stat -c '%u %a' /root/file", "data\n0 600\n");
    subject_remove(&s);
    assert_int_equal(world.backend->ops->attach(world.backend, &s.spec, record, &for_ever, &s.i, &err), -1);
    assert_int_equal(err.code, ERR_GONE);
    json_decref(record);
}

/* The server died without an end: init lives on, its groups too. */
static void test_attach_after_crash(void **state)
{
    struct subject s, again;
    struct error err = ERROR_INIT;
    subject_create(&s, "survivor");
    assert_output(&s, "echo data > /root/file; sleep 300 >/dev/null 2>&1 & echo ok", "ok\n");
    again = s;
    json_t *record = world.backend->ops->record(s.i);
    int failed = world.backend->ops->attach(world.backend, &again.spec, record, &for_ever, &again.i, &err);
    if (failed)
        print_error("attach: %s\n", err.msg);
    assert_int_equal(failed, 0);
    assert_false(world.backend->ops->alive(s.i));
    assert_output(&again, "cat /root/file; ps ax | grep -c '[s]leep'", "data\n0\n");
    json_decref(record);
    subject_remove(&again);
    assert_int_equal(world.backend->ops->detach(s.i, &err), 0);
}

static void test_record(void **state)
{
    json_t *record = world.backend->ops->record(common.i);
    assert_int_equal(json_integer_value(json_object_get(record, "pid")), instance_of(common.i)->pid);
    assert_string_equal(json_get_string(record, "network"), "none");
    json_t *memory = json_get_object(json_get_object(record, "limits"), "memory");
    assert_int_equal(json_integer_value(json_object_get(memory, "bytes")), 256 * MIB);
    assert_true(json_is_boolean(json_object_get(memory, "enforced")));
    json_decref(record);
}

/* As after a crash of the server: the record is all that is known, and init still lives. */
static void test_reap(void **state)
{
    struct subject s;
    struct error err = ERROR_INIT;
    subject_create(&s, "crashed");
    json_t *record = world.backend->ops->record(s.i);
    int failed = world.backend->ops->reap(world.backend, &s.spec, record, &err);
    if (failed)
        print_error("reap: %s\n", err.msg);
    assert_int_equal(failed, 0);
    assert_false(world.backend->ops->alive(s.i));
    assert_no_trace(&s);
    assert_int_equal(world.backend->ops->reap(world.backend, &s.spec, record, &err),
                     0); /* nothing there: fine */
    assert_int_equal(world.backend->ops->reap(world.backend, &s.spec, NULL, &err), 0);
    json_decref(record);
    subject_remove(&s);
    assert_output(&common, "echo untouched", "untouched\n");
}

static void test_leftover_is_not_revived(void **state)
{
    struct subject s;
    struct error err = ERROR_INIT;
    subject_create(&s, "again");
    assert_output(&s, "touch /root/old; echo ok", "ok\n");
    assert_int_equal(world.backend->ops->detach(s.i, &err), 0);
    subject_create(&s, "again");
    assert_output(&s, "ls /root", "");
    subject_remove(&s);
}

/* A root with dash and nothing else: no bash to begin with, so /bin/sh is found instead. */
static void test_rootfs(void **state)
{
    static const char build[] =
        "set -e; root=%s; mkdir -p $root/etc $root/tmp; echo 'PRETTY_NAME=Tiny' > $root/etc/os-release;"
        "for f in /bin/sh /usr/bin/env $(ldd /bin/dash /usr/bin/env | grep -o '/[^ :)]*' | grep -v bin/); do"
        " mkdir -p $root$(dirname $f); cp -L $f $root$f; done";
    _cleanup_(cleanup_free)
    char *root = xasprintf("%s/rootfs", world.state);
    _cleanup_(cleanup_free)
    char *command = xasprintf(build, root);
    assert_int_equal(system(command), 0);
    struct native_options options = {
        .state_dir = world.state, .rootfs = root, .memory_bytes = 64 * MIB, .pids = 50, .cpus = 1.0};
    struct backend *toolbox = world.backend;
    struct native_machine machine = world.machine;
    machine.no_overlay = false;
    world.backend = native_new_on(&options, &machine);
    struct backend_description d;
    struct subject s;
    world.backend->ops->describe(world.backend, &d);
    assert_string_equal(d.environment, "an isolated Tiny computer");
    assert_string_equal(d.shell, "/bin/sh");
    subject_create(&s, "tiny");
    assert_output(&s, "echo here; echo data > /etc/new; test -e /usr/bin/python3 || echo alone",
                  "here\nalone\n");
    assert_output(&s, "read line < /etc/new; echo $line", "data\n");
    _cleanup_(cleanup_free)
    char *written = xasprintf("%s/etc/new", root);
    assert_int_not_equal(access(written, F_OK), 0);
    subject_remove(&s);
    world.backend->ops->free(world.backend);
    world.backend = toolbox;
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

static int open_descriptors(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static void test_descriptors(void **state)
{
    struct subject s;
    struct exec_result r;
    int before = open_descriptors();
    subject_create(&s, "frugal");
    for (int i = 0; i < 3; i++) {
        run_command(&s, "sleep 100 & true", &r);
        exec_result_done(&r);
    }
    assert_in_range(open_descriptors() - before, 1, 8);
    subject_remove(&s);
    assert_int_equal(open_descriptors(), before);
}

static void test_describe(void **state)
{
    struct backend_description d;
    world.backend->ops->describe(world.backend, &d);
    assert_non_null(strstr(d.environment, "isolated"));
    assert_non_null(strstr(d.network, "no network"));
    assert_non_null(strstr(d.limits, "256 MiB of memory"));
    assert_string_equal(d.shell, "/bin/bash");
}

static int set_up(void **state)
{
    struct error err = ERROR_INIT;
    strcpy(world.state, "/var/tmp/test-native-XXXXXX");
    if (!mkdtemp(world.state) || chmod(world.state, 0711) < 0)
        return -1;
    snprintf(world.ids_file, sizeof(world.ids_file), "%s/id-ranges", world.state);
    world.machine.ids_file = world.ids_file;
    struct native_options options = {.state_dir = world.state,
                                     .memory_bytes = 256 * MIB,
                                     .pids = 200,
                                     .cpus = 2.0,
                                     .network_wanted = false};
    world.backend = native_new_on(&options, &world.machine);
    world.backend->ops->warm(world.backend);
    if (world.backend->ops->probe(world.backend, &for_ever, &err) < 0) {
        print_error("probe: %s\n", err.msg);
        return -1;
    }
    subject_create(&common, "common");
    return 0;
}

static int tear_down(void **state)
{
    subject_remove(&common);
    world.backend = world.backend->ops->free(world.backend);
    _cleanup_(cleanup_free)
    char *mounts = xasprintf("grep -q %s /proc/self/mountinfo", world.state);
    assert_int_not_equal(system(mounts), 0);
    struct error err = ERROR_INIT;
    return tree_remove(AT_FDCWD, world.state, &err);
}

int main(int argc, char **argv)
{
    const char *variant = argc > 1 ? argv[1] : "cgroup2";
    if (geteuid() != 0) {
        printf("skipped: needs root\n");
        return SKIPPED;
    }
    signal(SIGPIPE, SIG_IGN); /* as the server does */
    world.machine.no_cgroup2 = strcmp(variant, "reaper") == 0;
    world.machine.no_overlay = strcmp(variant, "plain") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_echo),
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
        cmocka_unit_test(test_flood),
        cmocka_unit_test(test_background_flood),
        cmocka_unit_test(test_isolation),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_fork_bomb),
        cmocka_unit_test(test_shell_missing),
        cmocka_unit_test(test_init_killed),
        cmocka_unit_test(test_zygote_killed),
        cmocka_unit_test(test_creates_at_once),
        cmocka_unit_test(test_create_cancelled),
        cmocka_unit_test(test_files_last),
        cmocka_unit_test(test_attach_after_crash),
        cmocka_unit_test(test_record),
        cmocka_unit_test(test_reap),
        cmocka_unit_test(test_leftover_is_not_revived),
        cmocka_unit_test(test_rootfs),
        cmocka_unit_test(test_told_before),
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_describe),
    };
    return cmocka_run_group_tests_name(variant, tests, set_up, tear_down);
}
