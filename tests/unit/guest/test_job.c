/* Jobs as the server has them: each verb a process of its own, over text, with what may happen to one. */
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

#include "backends/fly/answer.h"
#include "backends/once.h"
#include "base/base64.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "guest/place.h"
#include "job_place.h"
#include "tests/skip.h"

#define WORK JOB_PLACE "/"
#define JOBS WORK "jobs"
#define ARGS_MAX 32
#define LIMIT (64 * KIB)

static unsigned last_id;

/* --- execs --- */

struct said {
    struct job_answer a;
    struct buf text, bytes;
    const char *at; /* what the job said */
};

/* GUEST and these words, parted by blanks; input as base64. */
static struct job_exec exec_begin(const char *words, const void *input, size_t size)
{
    const char *args[ARGS_MAX] = {NULL};
    _cleanup_(cleanup_free) char *copy = xstrdup(words);
    _cleanup_(buf_done) struct buf letters = BUF_INIT(JOB_TEXT_MAX);
    assert_int_equal(base64_append(&letters, input, size), 0);
    int n = 0;
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        args[n++] = word;
    return job_exec_begin(args, buf_str(&letters));
}

static struct said exec_end(struct job_exec *e, uint64_t offset)
{
    struct said s = {.bytes = BUF_INIT(FLY_ANSWER_BYTES)};
    struct error err = ERROR_INIT;
    assert_int_equal(job_exec_end(e, &s.text), 0);
    if (fly_answer_parse(buf_str(&s.text), offset, &s.bytes, &s.a, &s.at, &err) < 0)
        fail_msg("%s: %.60s", err.msg, buf_str(&s.text));
    return s;
}

static void said_done(struct said *s)
{
    buf_done(&s->text);
    buf_done(&s->bytes);
}

static struct said ask(const void *input, size_t size, uint64_t offset, const char *fmt, ...) _printf_(4, 5);
static struct said ask(const void *input, size_t size, uint64_t offset, const char *fmt, ...)
{
    char words[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(words, sizeof(words), fmt, args);
    va_end(args);
    struct job_exec e = exec_begin(words, input, size);
    return exec_end(&e, offset);
}

/* --- jobs --- */

struct job {
    char id[24];
    struct buf input;
    struct shells shells;
    struct once once;
    uint64_t heard;
};

static struct job job_make(const struct exec_request *request)
{
    struct job j = {.input = BUF_INIT(ONCE_INPUT_MAX)};
    struct error err = ERROR_INIT;
    snprintf(j.id, sizeof(j.id), "job%u", ++last_id);
    _cleanup_(cleanup_free) char *spool = job_place_path("spool");
    if (once_append(&j.input, spool, request, "/bin/sh", &err) < 0)
        fail_msg("%s", err.msg);
    shells_init(&j.shells, NULL);
    once_init(&j.once, NULL, request->output_limit);
    return j;
}

static struct job shell_job(const char *command)
{
    return job_make(&(struct exec_request){.command = command,
                                           .command_len = strlen(command),
                                           .output_limit = LIMIT,
                                           .wait = {.deadline = clock_deadline_after(60)}});
}

static void job_done(struct job *j)
{
    buf_done(&j->input);
    once_done(&j->once);
}

static void hear(struct job *j, struct said *s)
{
    struct error err = ERROR_INIT;
    j->once.shells = &j->shells;
    assert_true(s->a.state == JOB_RUNNING || s->a.state == JOB_OVER);
    if (once_feed(&j->once, s->at, s->a.size, &err) < 0)
        fail_msg("%s", err.msg);
    j->heard += s->a.size;
}

/* Returns the state. */
static uint32_t job_run(struct job *j, int wait_ms, const char *then)
{
    struct said s =
        ask(j->input.data, j->input.len, 0, "job run %s 0 %zu %d %s", j->id, j->input.len, wait_ms, then);
    hear(j, &s);
    said_done(&s);
    return s.a.state;
}

static uint32_t job_read(struct job *j, int wait_ms, const char *then)
{
    struct said s =
        ask("", 0, j->heard, "job read %s %llu %d %s", j->id, (unsigned long long)j->heard, wait_ms, then);
    hear(j, &s);
    said_done(&s);
    return s.a.state;
}

static void job_hear_all(struct job *j)
{
    while (!j->once.answer.ended)
        job_read(j, 20000, "stay");
}

static void expect_out(struct job *j, const char *text)
{
    assert_true(j->once.answer.ended);
    assert_int_equal(j->once.answer.end.exit.stage, GUEST_STAGE_RAN);
    assert_int_equal(j->once.answer.end.exit.wait_status, 0);
    assert_string_equal(buf_str(&j->once.answer.parts[0][0]), text);
}

static bool is_there(const char *name)
{
    struct stat s;
    _cleanup_(cleanup_free) char *path = path_join(job_place, name);
    return lstat(path, &s) == 0;
}

/* -1: it isn't there. */
static long file_size(const char *name)
{
    struct stat s;
    _cleanup_(cleanup_free) char *path = path_join(job_place, name);
    return lstat(path, &s) == 0 ? (long)s.st_size : -1;
}

static long size_in(const struct job *j, const char *file)
{
    _cleanup_(cleanup_free) char *name = xasprintf(JOBS "/%s/%s", j->id, file);
    return file_size(name);
}

static void make_work(void)
{
    _cleanup_(cleanup_free) char *work = job_place_path(JOB_PLACE);
    assert_int_equal(mkdir(work, 0700), 0);
}

static void make_jobs(void)
{
    _cleanup_(cleanup_free) char *jobs = job_place_path(JOBS);
    make_work();
    assert_int_equal(mkdir(jobs, 0700), 0);
}

static void write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    close(fd);
}

static char *read_file(const char *path)
{
    struct buf b = BUF_INIT(MIB);
    struct error err = ERROR_INIT;
    if (file_read(AT_FDCWD, path, &b, &err) < 0)
        fail_msg("%s", err.msg);
    return buf_steal(&b);
}

/* --- what a command is --- */

static void test_a_short_command_is_one_exec(void **state)
{
    struct job j = shell_job("echo out; echo err >&2; exit 3");
    assert_int_equal(job_run(&j, 20000, "stay"), JOB_OVER);
    assert_true(j.once.answer.ended);
    assert_int_equal(j.once.answer.end.exit.wait_status, W_EXITCODE(3, 0));
    assert_string_equal(buf_str(&j.once.answer.parts[0][0]), "out\n");
    assert_string_equal(buf_str(&j.once.answer.parts[1][0]), "err\n");
    assert_true(j.shells.has_sh);
    assert_int_equal(size_in(&j, "in"), -1); /* nothing of it is needed any more */
    job_done(&j);
}

static void test_bytes_are_what_they_are(void **state)
{
    struct job j = shell_job("printf '\\000\\377\\n\\200'");
    job_run(&j, 20000, "stay");
    const struct buf *out = &j.once.answer.parts[0][0];
    assert_int_equal(out->len, 4);
    assert_memory_equal(out->data, "\0\377\n\200", 4);
    job_done(&j);
}

static void test_a_flood_comes_in_pieces(void **state)
{
    static const char command[] = "yes 0123456789abcde | head -c 20971520";
    struct job j = job_make(&(struct exec_request){.command = command,
                                                   .command_len = sizeof(command) - 1,
                                                   .output_limit = LIMIT_OUTPUT_BYTES_MAX,
                                                   .wait = {.deadline = clock_deadline_after(60)}});
    assert_int_equal(job_run(&j, 20000, "stay"), JOB_OVER);
    assert_int_equal(j.heard, JOB_ANSWER_MAX);
    job_hear_all(&j);
    const struct buf *head = &j.once.answer.parts[0][0], *tail = &j.once.answer.parts[0][1];
    assert_int_equal(j.once.answer.end.total[0], 20971520);
    assert_int_equal(head->len + tail->len, LIMIT_OUTPUT_BYTES_MAX);
    for (size_t n = 0; n < head->len; n += 16)
        assert_memory_equal(head->data + n, "0123456789abcde\n", 16);
    assert_memory_equal(tail->data + tail->len - 16, "0123456789abcde\n", 16);
    assert_int_equal(j.once.answer.end.spooled[0], 20971520);
    unlink(j.once.answer.end.spool_path[0]);
    job_done(&j);
}

static void test_long_input_is_put_ahead(void **state)
{
    const size_t size = 2 * MIB;
    char *input = xcalloc(size, 1);
    for (size_t n = 0; n < size; n++)
        input[n] = (char)(n * 2654435761U >> 13);
    struct job j = job_make(&(struct exec_request){.command = "md5sum; echo end",
                                                   .command_len = 16,
                                                   .stdin_bytes = input,
                                                   .stdin_len = size,
                                                   .output_limit = LIMIT,
                                                   .wait = {.deadline = clock_deadline_after(60)}});
    const size_t rest = j.input.len - JOB_PIECE_MAX;
    assert_true(rest <= JOB_PIECE_MAX); /* two execs are enough */
    /* What comes before it is missing; then twice the same; then half of it. */
    struct said s =
        ask(j.input.data + JOB_PIECE_MAX, rest, 0, "job put %s %u %zu", j.id, JOB_PIECE_MAX, rest);
    assert_int_equal(s.a.state, JOB_FAILED);
    assert_int_equal(s.a.error.sys, EINVAL);
    said_done(&s);
    for (int n = 0; n < 2; n++) {
        s = ask(j.input.data, JOB_PIECE_MAX, 0, "job put %s 0 %u", j.id, JOB_PIECE_MAX);
        assert_int_equal(s.a.state, JOB_KEPT);
        said_done(&s);
    }
    s = ask(j.input.data + JOB_PIECE_MAX, rest / 2, 0, "job run %s %u %zu 20000 stay", j.id, JOB_PIECE_MAX,
            rest);
    assert_int_equal(s.a.state, JOB_FAILED);
    assert_int_equal(s.a.error.sys, EBADMSG);
    said_done(&s);
    s = ask(j.input.data + JOB_PIECE_MAX, rest, 0, "job run %s %u %zu 20000 stay", j.id, JOB_PIECE_MAX, rest);
    hear(&j, &s);
    said_done(&s);
    _cleanup_(cleanup_free) char *copy = job_place_path("copy");
    int fd = open(copy, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(fd_write_all(fd, input, size), 0);
    close(fd);
    _cleanup_(cleanup_free) char *sum = xasprintf("md5sum < %s; echo end", copy);
    struct job own = shell_job(sum);
    job_run(&own, 20000, "stay");
    expect_out(&j, buf_str(&own.once.answer.parts[0][0]));
    job_done(&own);
    job_done(&j);
    free(input);
}

static void test_what_the_main_process_was_given_is_there(void **state)
{
    _cleanup_(cleanup_free) char *file = job_place_path(WORK "environment");
    make_work();
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    static const char text[] = "OF_THE_IMAGE=1\0PATH=/of/the/image:/usr/bin:/bin";
    assert_int_equal(fd_write_all(fd, text, sizeof(text)), 0);
    close(fd);
    struct job j = shell_job("echo $OF_THE_IMAGE $PATH");
    job_run(&j, 20000, "stay");
    expect_out(&j, "1 /of/the/image:/usr/bin:/bin\n");
    job_done(&j);
    unlink(file);
}

/* --- asked twice, or not at all --- */

static void test_a_repeated_run_is_one_run(void **state)
{
    _cleanup_(cleanup_free) char *file = job_place_path("times");
    _cleanup_(cleanup_free) char *command = xasprintf("echo once >> %s; sleep 0.2; echo done", file);
    struct job j = shell_job(command);
    char words[128];
    snprintf(words, sizeof(words), "job run %s 0 %zu 20000 stay", j.id, j.input.len);
    struct job_exec execs[8];
    for (size_t n = 0; n < ARRAY_LEN(execs); n++)
        execs[n] = exec_begin(words, j.input.data, j.input.len);
    struct said first = exec_end(&execs[0], 0);
    hear(&j, &first);
    for (size_t n = 1; n < ARRAY_LEN(execs); n++) {
        struct said s = exec_end(&execs[n], 0);
        assert_string_equal(buf_str(&s.text), buf_str(&first.text));
        said_done(&s);
    }
    said_done(&first);
    expect_out(&j, "done\n");
    _cleanup_(cleanup_free) char *times = read_file(file);
    assert_string_equal(times, "once\n");
    job_done(&j);
}

static void test_the_end_of_an_exec_is_nothing_to_the_job(void **state)
{
    _cleanup_(cleanup_free) char *fifo = job_place_path("go");
    _cleanup_(cleanup_free) char *command = xasprintf("echo begun; read line < %s; echo $line", fifo);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    struct job j = shell_job(command);
    assert_int_equal(job_run(&j, 0, "stay"), JOB_RUNNING);
    char words[128];
    snprintf(words, sizeof(words), "job read %s 0 20000 stay", j.id);
    struct job_exec e = exec_begin(words, "", 0);
    struct buf text;
    kill(e.pid, SIGKILL);
    job_exec_end(&e, &text);
    buf_done(&text);
    write_file(fifo, "on\n");
    job_hear_all(&j);
    expect_out(&j, "begun\non\n");
    job_done(&j);
    unlink(fifo);
}

static void test_reading_goes_on_where_it_was(void **state)
{
    struct job j = shell_job("echo all of it");
    struct said whole = ask(j.input.data, j.input.len, 0, "job run %s 0 %zu 20000 stay", j.id, j.input.len);
    for (uint32_t at = 0; at <= whole.a.size; at += 97) {
        struct said s = ask("", 0, at, "job read %s %u 0 stay", j.id, at);
        assert_int_equal(s.a.size, whole.a.size - at);
        assert_memory_equal(s.at, whole.at + at, s.a.size);
        said_done(&s);
    }
    struct said beyond = ask("", 0, 0, "job read %s %u 0 stay", j.id, whole.a.size + 1);
    assert_int_equal(beyond.a.state, JOB_FAILED);
    assert_int_equal(beyond.a.error.sys, ERANGE);
    said_done(&beyond);
    said_done(&whole);
    job_done(&j);
}

static void test_what_never_was_is_absent(void **state)
{
    struct said s = ask("", 0, 0, "job read nobody 0 20000 stay");
    assert_int_equal(s.a.state, JOB_ABSENT);
    assert_false(is_there(JOBS "/nobody"));
    said_done(&s);
}

/* --- ends --- */

static void expect_killed(struct job *j, const char *out)
{
    assert_true(j->once.answer.ended);
    assert_int_equal(j->once.answer.end.killed, 1);
    assert_string_equal(buf_str(&j->once.answer.parts[0][0]), out);
}

static void test_a_time_that_is_up_ends_it(void **state)
{
    struct job j = shell_job("echo begun; setsid sleep 1000 & sleep 1000");
    assert_int_equal(job_run(&j, 0, "stay"), JOB_RUNNING);
    while (j.once.answer.parts[0][0].len == 0)
        job_read(&j, 10, "stay");
    assert_int_equal(job_read(&j, 10, "end"), JOB_OVER);
    expect_killed(&j, "begun\n");
    job_done(&j);
    j = shell_job("sleep 1000");
    assert_int_equal(job_run(&j, 100, "end"), JOB_OVER);
    expect_killed(&j, "");
    job_done(&j);
}

static void test_a_kill_ends_it(void **state)
{
    struct job j = shell_job("sleep 1000");
    assert_int_equal(job_run(&j, 0, "stay"), JOB_RUNNING);
    struct said s;
    for (int n = 0; n < 2; n++) { /* as often as one likes */
        s = ask("", 0, j.heard, "job kill %s %llu", j.id, (unsigned long long)j.heard);
        assert_int_equal(s.a.state, JOB_OVER);
        hear(&j, &s);
        said_done(&s);
    }
    expect_killed(&j, "");
    job_done(&j);
}

static void test_what_was_killed_before_never_begins(void **state)
{
    _cleanup_(cleanup_free) char *file = job_place_path("never");
    _cleanup_(cleanup_free) char *command = xasprintf("touch %s", file);
    struct job j = shell_job(command);
    struct said s = ask("", 0, 0, "job kill %s 0", j.id);
    assert_int_equal(s.a.state, JOB_OVER);
    said_done(&s);
    s = ask(j.input.data, j.input.len, 0, "job run %s 0 %zu 20000 stay", j.id, j.input.len);
    assert_int_equal(s.a.state, JOB_OVER);
    assert_int_equal(s.a.total, 0);
    said_done(&s);
    assert_false(is_there("never"));
    job_done(&j);
}

static void test_one_that_was_killed_from_outside_is_over(void **state)
{
    struct job j = shell_job("kill -KILL $(ps -o ppid= -p $PPID)");
    uint32_t now = job_run(&j, 20000, "stay");
    assert_int_equal(now, JOB_OVER);
    assert_false(j.once.answer.ended);
    job_done(&j);
}

static void test_background_processes_stay(void **state)
{
    struct job j = shell_job("sleep 1000 >/dev/null 2>&1 & echo $!");
    assert_int_equal(job_run(&j, 20000, "stay"), JOB_OVER);
    const pid_t pid = atoi(buf_str(&j.once.answer.parts[0][0]));
    assert_int_equal(j.once.answer.end.exit.background_count, 1);
    assert_int_equal(j.once.answer.end.exit.background[0], pid);
    assert_int_equal(kill(pid, SIGKILL), 0);
    job_done(&j);
}

/* --- what is kept --- */

static void test_what_was_heard_takes_no_room(void **state)
{
    _cleanup_(cleanup_free) char *file = job_place_path("again");
    _cleanup_(cleanup_free) char *command = xasprintf("echo x >> %s; head -c 50000 /dev/zero", file);
    struct job j = shell_job(command), other = shell_job("true");
    job_run(&j, 20000, "stay");
    assert_true(size_in(&j, "out") > 50000);
    struct said s = ask(other.input.data, other.input.len, 0, "job run %s 0 %zu 20000 stay absent %s %s",
                        other.id, other.input.len, j.id, other.id);
    hear(&other, &s);
    said_done(&s);
    expect_out(&other, "");
    assert_int_equal(size_in(&j, "out"), 0);
    s = ask(j.input.data, j.input.len, 0, "job run %s 0 %zu 20000 stay", j.id, j.input.len); /* came late */
    assert_int_equal(s.a.total, 0);
    said_done(&s);
    _cleanup_(cleanup_free) char *times = read_file(file);
    assert_string_equal(times, "x\n");
    job_done(&j);
    job_done(&other);
}

static void make_old(const char *id)
{
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    _cleanup_(cleanup_free) char *out = job_place_path(JOBS "/%s/out", id);
    _cleanup_(cleanup_free) char *folder = job_place_path(JOBS "/%s", id);
    utimensat(AT_FDCWD, out, long_ago, 0);
    assert_int_equal(utimensat(AT_FDCWD, folder, long_ago, 0), 0);
}

static void test_old_ones_go_and_running_ones_stay(void **state)
{
    struct job old = shell_job("true"), living = shell_job("sleep 1000"), next = shell_job("true");
    job_run(&old, 20000, "stay");
    job_run(&living, 0, "stay");
    make_old(old.id);
    make_old(living.id);
    job_run(&next, 20000, "stay");
    assert_int_equal(size_in(&old, ""), -1);
    assert_int_equal(job_read(&living, 0, "end"), JOB_OVER);
    expect_killed(&living, "");
    job_done(&old);
    job_done(&living);
    job_done(&next);
}

static void test_there_are_not_too_many(void **state)
{
    struct job j = shell_job("true");
    make_jobs();
    for (int n = 0; n < JOBS_MAX; n++) {
        _cleanup_(cleanup_free) char *folder = job_place_path(JOBS "/many%d", n);
        assert_int_equal(mkdir(folder, 0700), 0);
    }
    struct said s = ask(j.input.data, j.input.len, 0, "job run %s 0 %zu 20000 stay", j.id, j.input.len);
    assert_int_equal(s.a.state, JOB_FAILED);
    assert_int_equal(s.a.error.sys, EAGAIN);
    said_done(&s);
    for (int n = 0; n < JOBS_MAX; n++) {
        _cleanup_(cleanup_free) char *folder = job_place_path(JOBS "/many%d", n);
        rmdir(folder);
    }
    job_run(&j, 20000, "stay");
    expect_out(&j, "");
    job_done(&j);
}

/* --- hostile code --- */

/* Runs `true` as a job; it must be refused. */
static void expect_refused(int sys)
{
    struct job j = shell_job("true");
    struct said s = ask(j.input.data, j.input.len, 0, "job run trap 0 %zu 20000 stay", j.input.len);
    assert_int_equal(s.a.state, JOB_FAILED);
    assert_int_equal(s.a.error.sys, sys);
    said_done(&s);
    job_done(&j);
}

static void test_no_link_is_followed(void **state)
{
    static const char *const names[] = {"in", "out", "more"};
    _cleanup_(cleanup_free) char *jobs = job_place_path(JOBS), *aside = job_place_path(JOBS "-aside");
    _cleanup_(cleanup_free) char *trap = job_place_path(JOBS "/trap"), *prey = job_place_path("prey");
    _cleanup_(cleanup_free) char *prey_file = job_place_path("prey/file"),
                                 *touched = job_place_path(WORK "touched");
    assert_int_equal(mkdir(prey, 0700), 0);
    make_jobs();
    write_file(prey_file, "precious");

    assert_int_equal(rename(jobs, aside), 0);
    assert_int_equal(symlink(prey, jobs), 0);
    expect_refused(ENOTDIR);
    unlink(jobs);
    assert_int_equal(rename(aside, jobs), 0);

    assert_int_equal(symlink(prey, trap), 0);
    expect_refused(ENOTDIR);
    unlink(trap);

    for (size_t n = 0; n < ARRAY_LEN(names); n++) {
        _cleanup_(cleanup_free) char *link = job_place_path(JOBS "/trap/%s", names[n]);
        assert_int_equal(mkdir(trap, 0700), 0);
        assert_int_equal(symlink(prey_file, link), 0);
        expect_refused(ELOOP);
        assert_int_equal(tree_remove(AT_FDCWD, trap, NULL), 0);
    }
    unlink(touched);
    assert_int_equal(symlink(prey_file, touched), 0);
    struct stat before, after;
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    utimensat(AT_FDCWD, prey_file, long_ago, 0);
    assert_int_equal(stat(prey_file, &before), 0);
    struct said s = ask("", 0, 0, "job touch");
    said_done(&s);
    assert_int_equal(stat(prey_file, &after), 0);
    assert_int_equal(after.st_mtim.tv_sec, before.st_mtim.tv_sec);
    unlink(touched);

    _cleanup_(cleanup_free) char *text = read_file(prey_file);
    assert_string_equal(text, "precious");
    assert_int_equal(tree_remove(AT_FDCWD, prey, NULL), 0);
}

static void test_folders_of_others_are_refused(void **state)
{
    _cleanup_(cleanup_free) char *jobs = job_place_path(JOBS);
    make_jobs();
    assert_int_equal(chmod(jobs, 0770), 0);
    expect_refused(EPERM);
    assert_int_equal(chmod(jobs, 0700), 0);
    assert_int_equal(chmod(job_place, 0777), 0);
    expect_refused(EPERM);
    assert_int_equal(chmod(job_place, 0755), 0);
    if (geteuid() != 0)
        return;
    assert_int_equal(chown(jobs, 1, 1), 0);
    expect_refused(EPERM);
    assert_int_equal(chown(jobs, 0, 0), 0);
}

static void test_what_makes_no_sense_is_refused(void **state)
{
    static const char *const words[] = {
        "job nothing",
        "job run",
        "job run ../x 0 0 0 stay",
        "job run x/y 0 0 0 stay",
        "job run X 0 0 0 stay",
        "job run x -1 0 0 stay",
        "job run x 0 0 20001 stay",
        "job run x 0 0 0 later",
        "job run x 0 0 0",
        "job run x 0 0 0 stay ..",
        "job run x 0 9999999999 0 stay",
        "job run x 99999999 1 0 stay",
        "job run x 0x10 0 0 stay",
        "job put x 0",
        "job put x 0 0 0",
        "job read x 0 0 stay more",
        "job read 01234567890123456789012345678901234567890 0 0 stay",
        "job kill x",
        "job touch x",
    };
    for (size_t n = 0; n < ARRAY_LEN(words); n++) {
        struct said s = ask("", 0, 0, "%s", words[n]);
        if (s.a.state != JOB_FAILED || s.a.error.sys != EINVAL)
            fail_msg("%s", words[n]);
        said_done(&s);
    }
    assert_false(is_there(JOBS "/x"));
}

/* --- the main process --- */

static void touch_for(double seconds)
{
    const int64_t until = clock_deadline_after(seconds);
    while (clock_now() < until) {
        struct said s = ask("", 0, 0, "job touch");
        assert_int_equal(s.a.state, JOB_KEPT);
        said_done(&s);
    }
}

static bool lives(const struct job_exec *e)
{
    siginfo_t info = {0};
    assert_int_equal(waitid(P_PID, (id_t)e->pid, &info, WEXITED | WNOHANG | WNOWAIT), 0);
    return info.si_pid == 0;
}

/* Until the main process has made the file, with so many bytes in it. */
static void await_bytes(const struct job_exec *e, const char *name, long bytes)
{
    const int64_t until = clock_deadline_after(60);
    while (file_size(name) < bytes) {
        assert_true(lives(e));
        assert_true(clock_now() < until);
    }
}

static void test_a_machine_ends_when_nobody_comes(void **state)
{
    struct job_exec e = exec_begin("main 1", "", 0);
    struct buf text;
    touch_for(2);
    assert_true(lives(&e));
    /* It was asleep, for longer than its lease, and whoever wakes it has time to say so. */
    kill(e.pid, SIGSTOP);
    const struct wait wait = {.deadline = DEADLINE_NONE};
    wait_pause(&wait, 1200 * NSEC_PER_MSEC, NULL);
    kill(e.pid, SIGCONT);
    touch_for(0.5);
    assert_true(lives(&e));
    assert_int_equal(job_exec_end(&e, &text), W_EXITCODE(0, 0));
    buf_done(&text);
}

static void test_a_machine_without_a_lease_ends_when_told(void **state)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    for (size_t n = 0; n < ARRAY_LEN(signals); n++) {
        _cleanup_(cleanup_free) char *touched = job_place_path(WORK "touched");
        unlink(touched);
        struct job_exec e = exec_begin("main 0", "", 0);
        struct buf text;
        await_bytes(&e, WORK "touched", 0); /* it listens from then on */
        kill(e.pid, signals[n]);
        assert_int_equal(job_exec_end(&e, &text), W_EXITCODE(0, 0));
        buf_done(&text);
    }
}

static void test_the_main_process_keeps_its_environment(void **state)
{
    setenv("GIVEN_TO_MAIN", "yes", 1);
    struct job_exec e = exec_begin("main 0", "", 0);
    unsetenv("GIVEN_TO_MAIN");
    struct buf text;
    await_bytes(&e, WORK "environment", 1);
    kill(e.pid, SIGTERM);
    job_exec_end(&e, &text);
    buf_done(&text);
    struct job j = shell_job("echo $GIVEN_TO_MAIN");
    job_run(&j, 20000, "stay");
    expect_out(&j, "yes\n");
    job_done(&j);
}

/* The program's folder is a disk of its own, and in memory once there is a main process. */
static void test_a_full_disk_is_no_end(void **state)
{
    if (!job_place_is_ours)
        skip_because("no file systems can be mounted here");
    struct job_exec e = exec_begin("main 0", "", 0);
    await_bytes(&e, WORK "environment", 1);
    _cleanup_(cleanup_free) char *big = job_place_path("big");
    _cleanup_(cleanup_free) char *remove = xasprintf("echo more >>%s || rm %s && echo removed", big, big);
    job_place_fill(big);
    struct job j = shell_job(remove), other = shell_job("head -c 1000000 /dev/zero");
    assert_int_equal(job_run(&other, 20000, "stay"), JOB_OVER);
    assert_true(other.once.answer.ended);
    job_run(&j, 20000, "stay");
    expect_out(&j, "removed\n");
    assert_int_equal(j.once.answer.end.disk_full, 0);
    assert_false(is_there("big"));
    job_done(&other);
    job_done(&j);
}

/* Where no memory can be had there is only the disk; then it is said what is wrong. */
static void test_a_full_disk_is_told_where_jobs_are_on_it(void **state)
{
    if (!job_place_is_ours)
        skip_because("no file systems can be mounted here");
    _cleanup_(cleanup_free) char *big = job_place_path("big");
    struct job j = shell_job("true");
    job_place_fill(big);
    struct said s = ask(j.input.data, j.input.len, 0, "job run %s 0 %zu 20000 stay", j.id, j.input.len);
    assert_int_equal(s.a.state, JOB_FAILED);
    assert_int_equal(s.a.error.sys, ENOSPC);
    said_done(&s);
    unlink(big);
    job_run(&j, 20000, "stay");
    expect_out(&j, "");
    job_done(&j);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, job_place_make, job_place_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_short_command_is_one_exec),
        TEST(test_bytes_are_what_they_are),
        TEST(test_a_flood_comes_in_pieces),
        TEST(test_long_input_is_put_ahead),
        TEST(test_what_the_main_process_was_given_is_there),
        TEST(test_a_repeated_run_is_one_run),
        TEST(test_the_end_of_an_exec_is_nothing_to_the_job),
        TEST(test_reading_goes_on_where_it_was),
        TEST(test_what_never_was_is_absent),
        TEST(test_a_time_that_is_up_ends_it),
        TEST(test_a_kill_ends_it),
        TEST(test_what_was_killed_before_never_begins),
        TEST(test_one_that_was_killed_from_outside_is_over),
        TEST(test_background_processes_stay),
        TEST(test_what_was_heard_takes_no_room),
        TEST(test_old_ones_go_and_running_ones_stay),
        TEST(test_there_are_not_too_many),
        TEST(test_no_link_is_followed),
        TEST(test_folders_of_others_are_refused),
        TEST(test_what_makes_no_sense_is_refused),
        TEST(test_a_machine_ends_when_nobody_comes),
        TEST(test_a_machine_without_a_lease_ends_when_told),
        TEST(test_the_main_process_keeps_its_environment),
        TEST(test_a_full_disk_is_no_end),
        TEST(test_a_full_disk_is_told_where_jobs_are_on_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
