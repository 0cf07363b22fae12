/* Commands in a machine whose execs are the real guest program's, in a folder, and whose API does what is
 * scripted: loses answers, cuts them, refuses, is slow. What a caller sees must be the same, or an error in
 * words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/fly/answer.h"
#include "backends/fly/private.h"
#include "base/base64.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/str.h"
#include "tests/unit/guest/job_place.h"

#define LIMIT (64 * KIB)
#define ARGS_MAX 40

enum fault {
    FINE,
    LOST,       /* it was done, and the answer never came */
    UNSENT,     /* it never came there */
    BUSY,       /* 429 */
    BROKEN,     /* 502 */
    TIMED_OUT,  /* 408, and it goes on */
    HALF,       /* of the answer */
    HALF_INPUT, /* of what was sent */
    NONSENSE,
    OTHER_PLACE, /* an answer to another question */
    TWICE,       /* begun once more, behind our back */
    NO_PROGRAM,
    STOPPED, /* 412 */
};

static struct {
    enum fault script[64];
    size_t at;
    enum fault after; /* the script */
    bool runs;        /* the machine, as fly_instance_ask() has it */
    int wait_most_ms; /* 0: as it is asked */
    size_t execs;     /* so far, of our program */
    size_t put_back;  /* how often that was put back */
    char verbs[512];  /* "put run read" */
    char last[1024];  /* argv of the last one */
    void (*on_exec)(void);
} world;

static struct fly_instance instance;

/* --- the API --- */

void fly_exec_answer_done(struct fly_exec_answer *a)
{
    free(a->out);
    free(a->err);
}

int fly_instance_ask(struct fly_instance *i, const struct wait *call, struct error *err)
{
    return world.runs ? 0 : error_set(err, ERR_GONE, "its machine is destroyed");
}

static int fail_with(int status, enum error_code code, int *ret_status, struct error *err)
{
    *ret_status = status;
    return error_set(err, code, "Fly answered %d", status);
}

static void note(const char *const *argv)
{
    world.execs++;
    snprintf(world.verbs + strlen(world.verbs), sizeof(world.verbs) - strlen(world.verbs), "%s%s",
             world.verbs[0] ? " " : "", argv[2]);
    world.last[0] = '\0';
    for (int n = 0; argv[n]; n++)
        snprintf(world.last + strlen(world.last), sizeof(world.last) - strlen(world.last), "%s%s",
                 n > 0 ? " " : "", argv[n]);
}

/* A shorter time than is asked for, so that long commands need not take long. */
static void shorten(const char **args)
{
    static char wait_ms[16];
    const int at = strcmp(args[1], JOB_RUN) == 0 ? 5 : strcmp(args[1], JOB_READ) == 0 ? 4 : -1;
    if (world.wait_most_ms == 0 || at < 0)
        return;
    snprintf(wait_ms, sizeof(wait_ms), "%d", world.wait_most_ms);
    args[at] = wait_ms;
}

static int exec_really(const char *const *args, const char *text, const struct wait *wait, char **ret,
                       struct error *err)
{
    struct job_exec e = job_exec_begin(args, text);
    struct buf out;
    if (wait_fd(e.out, POLLIN, wait, NULL, err) < 0) {
        kill(e.pid, SIGKILL);
        job_exec_end(&e, &out);
        buf_done(&out);
        return -1;
    }
    assert_int_equal(job_exec_end(&e, &out), 0);
    *ret = buf_steal(&out);
    return 0;
}

/* base64 of a struct job_answer that is about something else. */
static char *other_answer(void)
{
    const struct job_answer a = {
        .magic = JOB_MAGIC, .version = JOB_VERSION, .state = JOB_OVER, .offset = 77777, .total = 77777};
    struct buf b = BUF_INIT(KIB);
    assert_int_equal(base64_append(&b, &a, sizeof(a)), 0);
    return buf_steal(&b);
}

static int answer_with(enum fault fault, char *out, struct fly_exec_answer *ret, int *ret_status,
                       struct error *err)
{
    *ret = (struct fly_exec_answer){.out = out, .err = xstrdup("")};
    *ret_status = 200;
    if (fault == LOST || fault == TIMED_OUT) {
        fly_exec_answer_done(ret);
        *ret = (struct fly_exec_answer){0};
        return fail_with(fault == LOST ? 0 : 408, ERR_UNAVAILABLE, ret_status, err);
    }
    if (fault == HALF)
        out[strlen(out) / 2] = '\0';
    if (fault == NONSENSE || fault == OTHER_PLACE) {
        free(out);
        ret->out = fault == NONSENSE ? xstrdup("{\"not\": \"base64\"}") : other_answer();
    }
    return 0;
}

int fly_api_exec(struct fly_backend *b, const char *machine, const char *const *argv, const char *stdin_text,
                 int seconds, const struct wait *wait, struct fly_exec_answer *ret, int *ret_status,
                 struct error *err)
{
    const enum fault fault =
        world.at < ARRAY_LEN(world.script) && world.script[world.at] ? world.script[world.at] : world.after;
    const char *args[ARGS_MAX] = {NULL};
    char *out = NULL;
    if (strcmp(argv[0], FLY_GUEST) != 0) { /* our program is put back */
        world.put_back++;
        *ret = (struct fly_exec_answer){.out = xstrdup(""), .err = xstrdup("")};
        return 0;
    }
    world.at++;
    *ret_status = 0;
    assert_string_equal(machine, "machine1");
    assert_string_equal(argv[0], FLY_GUEST);
    assert_true(seconds >= 1 && seconds <= FLY_EXEC_MOST_S);
    note(argv);
    if (world.on_exec)
        world.on_exec();
    if (wait_check(wait, err) < 0)
        return -1;
    if (fault == UNSENT || fault == BUSY || fault == BROKEN || fault == STOPPED) {
        static const int statuses[] = {[UNSENT] = 0, [BUSY] = 429, [BROKEN] = 502, [STOPPED] = 412};
        return fail_with(statuses[fault], fault == BUSY ? ERR_LIMIT : ERR_UNAVAILABLE, ret_status, err);
    }
    if (fault == NO_PROGRAM) {
        *ret =
            (struct fly_exec_answer){.exit_code = 127, .out = xstrdup(""), .err = xstrdup("not \033found\n")};
        return 0;
    }
    for (int n = 1; argv[n]; n++)
        args[n - 1] = argv[n];
    shorten(args);
    _cleanup_(cleanup_free) char *text = xstrdup(stdin_text ? stdin_text : "");
    if (fault == HALF_INPUT)
        text[strlen(text) / 2] = '\0';
    if (fault == TWICE) {
        char *first = NULL;
        assert_int_equal(exec_really(args, text, wait, &first, err), 0);
        free(first);
    }
    if (exec_really(args, text, wait, &out, err) < 0)
        return -1;
    return answer_with(fault, out, ret, ret_status, err);
}

/* --- one command --- */

struct came {
    int r;
    struct exec_result result;
    struct guest_exit exit;
    struct error err;
};

static struct came run(const struct exec_request *request)
{
    struct came c = {0};
    c.r = fly_call(&instance, request, "/bin/sh", &c.result, &c.exit, &c.err);
    return c;
}

static struct exec_request shell(const char *command)
{
    return (struct exec_request){.command = command,
                                 .command_len = strlen(command),
                                 .output_limit = LIMIT,
                                 .wait = {.deadline = clock_deadline_after(60)}};
}

static void expect_out(struct came *c, const char *text)
{
    if (c->r < 0)
        fail_msg("%s", c->err.msg);
    assert_int_equal(c->exit.stage, GUEST_STAGE_RAN);
    assert_string_equal(buf_str(&c->result.out.head), text);
    assert_int_equal(c->result.out.total, strlen(text));
    exec_result_done(&c->result);
}

static void expect_error(struct came *c, enum error_code code, const char *words)
{
    assert_int_equal(c->r, -1);
    if (c->err.code != code || !strstr(c->err.msg, words))
        fail_msg("%s: %s", error_code_name(c->err.code), c->err.msg);
    exec_result_done(&c->result);
}

static void script(const enum fault *faults, size_t count)
{
    memcpy(world.script, faults, count * sizeof(*faults));
}

/* Whether a process goes on whose only argument this is. */
static bool runs(const char *marker)
{
    _cleanup_(cleanup_free) char *command = xasprintf("pgrep -fx 'sleep %s' >/dev/null", marker);
    return system(command) == 0;
}

static size_t lines_of(const char *name)
{
    size_t lines = 0;
    struct buf b = BUF_INIT(MIB);
    _cleanup_(cleanup_free) char *path = job_place_path("%s", name);
    if (file_read(AT_FDCWD, path, &b, NULL) < 0)
        return 0;
    for (size_t n = 0; n < b.len; n++)
        lines += b.data[n] == '\n';
    buf_done(&b);
    return lines;
}

/* --- without faults --- */

static void test_a_short_command_is_one_exec(void **state)
{
    struct exec_request request = shell("echo out; echo err >&2; exit 7");
    struct came c = run(&request);
    assert_int_equal(c.r, 0);
    assert_int_equal(c.exit.wait_status, W_EXITCODE(7, 0));
    assert_string_equal(buf_str(&c.result.err.head), "err\n");
    assert_int_equal(world.execs, 1);
    c.exit.wait_status = 0;
    expect_out(&c, "out\n");
}

static void test_the_environment_in_layers(void **state)
{
    char one[] = "OWN=1", both[] = "BOTH=own", lang[] = "LANG=de", other[] = "BOTH=given";
    char *own[] = {one, both, lang, NULL}, *given[] = {other, NULL};
    struct exec_request request = shell("echo $OWN $BOTH $LANG");
    request.env = given;
    instance.env = own;
    struct came c = run(&request);
    expect_out(&c, "1 given de\n");
    instance.env = NULL;
    c = run(&request);
    expect_out(&c, "given C.UTF-8\n");
}

static void test_long_input_takes_few_execs(void **state)
{
    char *input = xcalloc(LIMIT_STDIN_BYTES, 1);
    memset(input, 'x', LIMIT_STDIN_BYTES);
    struct exec_request request = shell("wc -c; tail -c 1");
    request.stdin_bytes = input;
    request.stdin_len = LIMIT_STDIN_BYTES;
    struct came c = run(&request);
    expect_out(&c, "2097152\n");
    assert_string_equal(world.verbs, "put run");
    free(input);
}

static void test_a_long_command_is_asked_for_again(void **state)
{
    world.wait_most_ms = 20;
    struct exec_request request = shell("for i in 1 2 3 4 5; do echo $i; sleep 0.05; done");
    struct came c = run(&request);
    expect_out(&c, "1\n2\n3\n4\n5\n");
    assert_true(world.execs > 2);
    assert_int_equal(strncmp(world.verbs, "run read read", strlen("run read read")), 0);
}

static void test_what_has_come_is_told_to_the_machine(void **state)
{
    struct exec_request request = shell("true");
    struct came c = run(&request);
    expect_out(&c, "");
    char id[64];
    assert_int_equal(sscanf(world.last, "%*s %*s %*s %63s", id), 1);
    assert_null(strstr(world.last, "stay "));
    c = run(&request);
    expect_out(&c, "");
    assert_string_equal(world.last + strlen(world.last) - strlen(id), id);
    c = run(&request);
    expect_out(&c, "");
    assert_null(strstr(world.last, id)); /* once is enough */
}

/* --- answers that don't come as they should --- */

static void test_nothing_is_lost_and_nothing_run_twice(void **state)
{
    static const enum fault each[] = {LOST, UNSENT,     BUSY,     BROKEN,      TIMED_OUT,
                                      HALF, HALF_INPUT, NONSENSE, OTHER_PLACE, TWICE};
    for (size_t n = 0; n < ARRAY_LEN(each); n++) {
        _cleanup_(cleanup_free) char *path = job_place_path("times-%zu", n);
        _cleanup_(cleanup_free) char *name = xasprintf("times-%zu", n);
        _cleanup_(cleanup_free) char *command = xasprintf("echo x >> %s; echo done", path);
        world.at = 0;
        script(&each[n], 1);
        struct exec_request request = shell(command);
        struct came c = run(&request);
        expect_out(&c, "done\n");
        assert_int_equal(lines_of(name), 1);
    }
}

static void test_a_bad_day(void **state)
{
    static const enum fault day[] = {HALF_INPUT, LOST,   FINE, TIMED_OUT, HALF, FINE,  NONSENSE, UNSENT,
                                     FINE,       BROKEN, BUSY, FINE,      LOST, TWICE, TIMED_OUT};
    script(day, ARRAY_LEN(day));
    world.wait_most_ms = 50;
    _cleanup_(cleanup_free) char *path = job_place_path("times");
    _cleanup_(cleanup_free) char *command =
        xasprintf("echo x >> %s; i=0; while [ $i -lt 50 ]; do i=$((i+1)); echo $i; sleep 0.02; done", path);
    struct exec_request request = shell(command);
    struct came c = run(&request);
    assert_int_equal(c.r, 0);
    assert_int_equal(lines_of("times"), 1);
    const char *at = buf_str(&c.result.out.head);
    for (int n = 1; n <= 50; n++)
        assert_int_equal(strtol(at, (char **)&at, 10), n);
    assert_string_equal(at, "\n");
    exec_result_done(&c.result);
}

static void test_a_flood_with_holes(void **state)
{
    static const enum fault faults[] = {FINE, HALF, FINE, LOST, FINE, BUSY, FINE};
    script(faults, ARRAY_LEN(faults));
    struct exec_request request = shell("yes 0123456789abcde | head -c 20971520");
    request.output_limit = LIMIT_OUTPUT_BYTES_MAX;
    struct came c = run(&request);
    assert_int_equal(c.r, 0);
    const struct exec_stream *out = &c.result.out;
    assert_int_equal(out->total, 20971520);
    assert_int_equal(out->head.len + out->tail.len, LIMIT_OUTPUT_BYTES_MAX);
    assert_int_equal(out->omitted, 20971520 - LIMIT_OUTPUT_BYTES_MAX);
    for (size_t n = 0; n < out->head.len; n += 16)
        assert_memory_equal(out->head.data + n, "0123456789abcde\n", 16);
    for (size_t n = 0; n < out->tail.len; n += 16)
        assert_memory_equal(out->tail.data + n, "0123456789abcde\n", 16);
    assert_true(world.execs <= 8);
    unlink(c.result.out.path);
    exec_result_done(&c.result);
}

static void test_what_never_gets_better_is_an_error(void **state)
{
    struct exec_request request = shell("true");
    world.after = NONSENSE;
    struct came c = run(&request);
    expect_error(&c, ERR_UNAVAILABLE, "not base64");
    world.after = NO_PROGRAM;
    c = run(&request);
    expect_error(&c, ERR_UNAVAILABLE, "exit code 127: not");
    assert_int_equal(world.put_back, 2); /* once for each command */
}

/* --- ends --- */

static void test_a_time_limit_keeps_the_output(void **state)
{
    struct exec_request request = shell("echo begun; sleep 7131");
    request.wait.deadline = clock_deadline_after(0.4);
    struct came c = run(&request);
    assert_string_equal(buf_str(&c.result.out.head), "begun\n");
    assert_null(c.result.note);
    assert_int_equal(world.execs, 1); /* the guest itself minds the time */
    expect_error(&c, ERR_TIMEOUT, "time limit");
    assert_false(runs("7131"));
}

static void test_a_time_limit_while_nothing_is_answered(void **state)
{
    struct exec_request request = shell("echo begun; sleep 7132");
    request.wait.deadline = clock_deadline_after(0.4);
    static const enum fault faults[] = {LOST, LOST, LOST};
    script(faults, ARRAY_LEN(faults));
    struct came c = run(&request);
    assert_string_equal(buf_str(&c.result.out.head), "begun\n");
    expect_error(&c, ERR_TIMEOUT, "time limit");
    assert_false(runs("7132"));
}

static void test_a_machine_that_says_nothing_more(void **state)
{
    struct exec_request request = shell("true");
    request.wait.deadline = clock_deadline_after(0.2);
    world.after = UNSENT;
    struct came c = run(&request);
    assert_non_null(strstr(c.result.note, "it isn't known whether the command has ended"));
    expect_error(&c, ERR_TIMEOUT, "time limit");
}

static struct cancel *token;

static void fire(void)
{
    if (world.execs == 2)
        cancel_fire(token, ERR_CANCELLED);
}

static void test_a_cancel_ends_the_command(void **state)
{
    token = cancel_new();
    world.wait_most_ms = 50;
    world.on_exec = fire;
    struct exec_request request = shell("echo begun; sleep 7133");
    request.wait.cancel = token;
    struct came c = run(&request);
    assert_null(c.result.note);
    assert_string_equal(world.verbs, "run read kill");
    expect_error(&c, ERR_CANCELLED, "cancelled");
    assert_false(runs("7133"));
    cancel_unref(token);
}

static void test_a_run_that_comes_late_finds_itself_killed(void **state)
{
    static const enum fault faults[] = {UNSENT, UNSENT, FINE};
    token = cancel_new();
    script(faults, ARRAY_LEN(faults));
    world.on_exec = fire;
    _cleanup_(cleanup_free) char *path = job_place_path("late");
    _cleanup_(cleanup_free) char *command = xasprintf("echo x >> %s", path);
    struct exec_request request = shell(command);
    request.wait.cancel = token;
    struct came c = run(&request);
    expect_error(&c, ERR_CANCELLED, "cancelled");
    /* What was still under way comes now. */
    char id[64];
    assert_int_equal(sscanf(world.last, "%*s %*s kill %63s", id), 1);
    const char *const late[] = {JOB_COMMAND, JOB_RUN, id, "0", "0", "1000", JOB_STAY, NULL};
    struct job_exec e = job_exec_begin(late, "");
    struct buf out;
    job_exec_end(&e, &out);
    buf_done(&out);
    assert_int_equal(lines_of("late"), 0);
    cancel_unref(token);
}

static void cut(void)
{
    if (world.execs != 2)
        return;
    pthread_mutex_lock(&instance.lock);
    instance.ended = true;
    fly_calls_cut_locked(&instance);
    pthread_mutex_unlock(&instance.lock);
}

static void test_a_computer_that_is_killed_takes_its_commands(void **state)
{
    world.wait_most_ms = 20;
    world.on_exec = cut;
    struct exec_request request = shell("sleep 7134");
    struct came c = run(&request);
    assert_string_equal(world.verbs, "run read");
    expect_error(&c, ERR_GONE, "it was ended");
    instance.ended = false;
    const char *const end[] = {JOB_COMMAND, JOB_KILL, strchr(strstr(world.last, "read"), ' ') + 1, "0", NULL};
    *strchr(end[2], ' ') = '\0';
    struct job_exec e = job_exec_begin(end, "");
    struct buf out;
    job_exec_end(&e, &out);
    buf_done(&out);
}

static void test_a_machine_that_is_gone(void **state)
{
    struct exec_request request = shell("true");
    world.after = STOPPED;
    world.runs = false;
    struct came c = run(&request);
    expect_error(&c, ERR_GONE, "destroyed");
    assert_int_equal(world.execs, 1);
}

static void test_a_machine_that_has_only_begun(void **state)
{
    static const enum fault faults[] = {STOPPED, STOPPED, FINE};
    script(faults, ARRAY_LEN(faults));
    struct exec_request request = shell("echo on");
    struct came c = run(&request);
    expect_out(&c, "on\n");
}

static void test_a_job_that_was_ended_from_outside(void **state)
{
    struct exec_request request = shell("kill -KILL $(ps -o ppid= -p $PPID)");
    struct came c = run(&request);
    expect_error(&c, ERR_UNAVAILABLE, "our program in the machine was ended");
}

/* --- answers --- */

static void expect_refused(const struct job_answer *a, size_t size, const char *words)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT(KIB), bytes = BUF_INIT(FLY_ANSWER_BYTES);
    struct job_answer ret;
    struct error err = ERROR_INIT;
    const char *said;
    assert_int_equal(base64_append(&text, a, size), 0);
    assert_int_equal(fly_answer_parse(buf_str(&text), 10, &bytes, &ret, &said, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    if (!strstr(err.msg, words))
        fail_msg("%s", err.msg);
}

static void test_answers_are_checked(void **state)
{
    const struct job_answer good = {
        .magic = JOB_MAGIC, .version = JOB_VERSION, .state = JOB_OVER, .offset = 10, .total = 10};
    struct job_answer a = good;
    expect_refused(&a, sizeof(a) - 1, "too short");
    a.magic = 1;
    expect_refused(&a, sizeof(a), "isn't from our program");
    a = good;
    a.version++;
    expect_refused(&a, sizeof(a), "another version");
    a = good;
    a.state = JOB_FAILED + 1;
    expect_refused(&a, sizeof(a), "makes no sense");
    a = good;
    a.size = 1; /* which isn't there */
    a.total = 11;
    expect_refused(&a, sizeof(a), "makes no sense");
    a = good;
    a.total = 9;
    expect_refused(&a, sizeof(a), "makes no sense");
    a = good;
    a.total = 11; /* and nothing of it */
    expect_refused(&a, sizeof(a), "makes no sense");
    a = good;
    a.offset = 9;
    expect_refused(&a, sizeof(a), "makes no sense");
    a = good;
    memset(a.error.stage, 'x', sizeof(a.error.stage));
    expect_refused(&a, sizeof(a), "makes no sense");
    a = good;
    memset(a.error.text, 'x', sizeof(a.error.text));
    expect_refused(&a, sizeof(a), "makes no sense");
}

static int set_up(void **state)
{
    memset(&world, 0, sizeof(world));
    world.runs = true;
    instance = (struct fly_instance){.id = "computer", .machine = "machine1"};
    shells_init(&instance.shells, NULL);
    fly_calls_init(&instance.calls);
    pthread_mutex_init(&instance.lock, NULL);
    return job_place_make(state);
}

static int tear_down(void **state)
{
    assert_true(list_empty(&instance.calls.under_way));
    return job_place_remove(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_short_command_is_one_exec),
        TEST(test_the_environment_in_layers),
        TEST(test_long_input_takes_few_execs),
        TEST(test_a_long_command_is_asked_for_again),
        TEST(test_what_has_come_is_told_to_the_machine),
        TEST(test_nothing_is_lost_and_nothing_run_twice),
        TEST(test_a_bad_day),
        TEST(test_a_flood_with_holes),
        TEST(test_what_never_gets_better_is_an_error),
        TEST(test_a_time_limit_keeps_the_output),
        TEST(test_a_time_limit_while_nothing_is_answered),
        TEST(test_a_machine_that_says_nothing_more),
        TEST(test_a_cancel_ends_the_command),
        TEST(test_a_run_that_comes_late_finds_itself_killed),
        TEST(test_a_computer_that_is_killed_takes_its_commands),
        TEST(test_a_machine_that_is_gone),
        TEST(test_a_machine_that_has_only_begun),
        TEST(test_a_job_that_was_ended_from_outside),
        TEST(test_answers_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
