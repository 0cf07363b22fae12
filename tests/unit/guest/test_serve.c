/* Commands over a stream: what they are given, what comes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "stream.h"

#define MIB (1U << 20)

static struct stream s;
static char folder[64];

static int open_stream(void **state)
{
    static const char *const env[] = {"OURS=1", "BOTH=1", NULL};
    s = stream_open(&(struct stream_options){.flags = SERVE_DIES, .spool_dir = folder, .env = env});
    return 0;
}

static int close_stream(void **state)
{
    return stream_close(&s);
}

static void expect_ran(const struct heard *h, int status)
{
    assert_int_equal(h->end.exit.stage, GUEST_STAGE_RAN);
    assert_int_equal(h->end.exit.wait_status, status);
    assert_int_equal(h->end.killed, 0);
}

static void expect_out(const struct heard *h, const char *text)
{
    expect_ran(h, 0);
    assert_string_equal(heard_out(h), text);
    assert_int_equal(h->end.total[0], strlen(text));
}

static void expect_failed(uint32_t id, uint32_t stage, int sys)
{
    const struct heard *h = stream_wait(&s, id);
    assert_int_equal(h->end.exit.stage, stage);
    assert_int_equal(h->end.exit.sys, sys);
    assert_int_equal(h->end.total[0] + h->end.total[1], 0);
}

/* --- what a command is given --- */

static void test_the_guest_says_who_it_is(void **state)
{
    assert_int_equal(s.hello.magic, SERVE_MAGIC);
    assert_int_equal(s.hello.version, SERVE_VERSION);
    assert_int_equal(s.hello.pid, s.pid);
    assert_int_equal(s.ready.firewall, SERVE_FIREWALL_NONE);
    assert_int_equal(s.ready.has_shell[0], access("/bin/bash", X_OK) == 0);
    assert_int_equal(s.ready.has_shell[1], 1);
    assert_int_equal(s.ready.has_shell[2], 0);
    stream_send(&s, SERVE_PING, 0, NULL, 0);
    while (s.pongs == 0)
        stream_listen(&s);
}

static void test_arguments_come_as_they_are(void **state)
{
    const char *const argv[] = {"printf", "%s|", "a b", "", "$HOME", "\xff\n", NULL};
    expect_out(stream_wait(&s, stream_run(&s, &(struct run){.argv = argv})), "a b||$HOME|\xff\n|");
}

static void test_the_last_of_a_name_in_the_environment_counts(void **state)
{
    const char *const argv[] = {"env", NULL}, *const env[] = {"BOTH=2", "NEW=3", "NEW=", "odd", NULL};
    const struct heard *h = stream_wait(&s, stream_run(&s, &(struct run){.argv = argv, .env = env}));
    expect_ran(h, 0);
    const char *out = heard_out(h);
    assert_int_equal(h->end.total[0], strlen("OURS=1\nBOTH=2\nNEW=\nodd\n"));
    assert_non_null(strstr(out, "OURS=1\n"));
    assert_non_null(strstr(out, "BOTH=2\n"));
    assert_non_null(strstr(out, "NEW=\n"));
    assert_non_null(strstr(out, "odd\n"));
}

static void test_a_path_of_the_request_is_searched(void **state)
{
    const char *const argv[] = {"true", NULL}, *const env[] = {"PATH=/nowhere", NULL};
    expect_failed(stream_run(&s, &(struct run){.argv = argv, .env = env}), GUEST_STAGE_EXEC, ENOENT);
}

static void test_the_working_directory(void **state)
{
    const char *const argv[] = {"/bin/pwd", NULL};
    char here[512], line[520];
    assert_non_null(getcwd(here, sizeof(here)));
    snprintf(line, sizeof(line), "%s\n", here);
    expect_out(stream_wait(&s, stream_run(&s, &(struct run){.argv = argv})), line);
    expect_out(stream_wait(&s, stream_run(&s, &(struct run){.argv = argv, .cwd = "/usr"})), "/usr\n");
    expect_failed(stream_run(&s, &(struct run){.argv = argv, .cwd = "/nowhere"}), GUEST_STAGE_CHDIR, ENOENT);
    expect_failed(stream_run(&s, &(struct run){.argv = argv, .cwd = "/etc/passwd"}), GUEST_STAGE_CHDIR,
                  ENOTDIR);
}

static void test_nothing_of_ours_is_open_in_it(void **state)
{
    expect_out(stream_shell(&s, "echo /proc/self/fd/*; readlink /proc/self/fd/0"),
               "/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /proc/self/fd/3\n/dev/null\n");
}

static void test_signals_are_as_in_a_new_process(void **state)
{
    expect_out(stream_shell(&s, "grep -E '^Sig(Blk|Ign)' /proc/self/status"),
               "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

static void test_a_script_is_a_sealed_file(void **state)
{
    const char *const argv[] = {"/bin/sh", "/proc/self/fd/3", NULL};
    static const char script[] = "echo from the script\n"
                                 "(echo more >> /proc/self/fd/3) 2>/dev/null || echo sealed\n";
    expect_out(stream_wait(&s, stream_run(&s, &(struct run){.argv = argv, .script = script})),
               "from the script\nsealed\n");
}

/* --- how it ends --- */

static void test_ends_are_told_apart(void **state)
{
    expect_ran(stream_shell(&s, "exit 7"), W_EXITCODE(7, 0));
    expect_ran(stream_shell(&s, "kill -9 $$"), W_EXITCODE(0, SIGKILL));
    expect_ran(stream_shell(&s, "kill -TERM $$"), W_EXITCODE(0, SIGTERM));
    const char *const missing[] = {"no-such-program", NULL}, *const folder_of[] = {"/usr", NULL};
    const char *const absent[] = {"/no/such", NULL}, *const no_program[] = {"/etc/passwd", NULL};
    expect_failed(stream_run(&s, &(struct run){.argv = missing}), GUEST_STAGE_EXEC, ENOENT);
    expect_failed(stream_run(&s, &(struct run){.argv = absent}), GUEST_STAGE_EXEC, ENOENT);
    expect_failed(stream_run(&s, &(struct run){.argv = folder_of}), GUEST_STAGE_EXEC, EACCES);
    expect_failed(stream_run(&s, &(struct run){.argv = no_program}), GUEST_STAGE_EXEC, EACCES);
}

static void test_a_run_that_makes_no_sense_is_refused(void **state)
{
    struct {
        struct serve_run head;
        char bytes[8];
    } run = {.head = {.argc = 1, .body_bytes = 6}, .bytes = "\0true"};
    static const struct serve_run bad[] = {
        {.argc = 0, .body_bytes = 6},
        {.argc = 2, .body_bytes = 6},
        {.argc = 1, .body_bytes = 7},
        {.argc = 1, .body_bytes = 5, .stdin_bytes = 1},
        {.argc = 1, .body_bytes = 6, .stdin_bytes = UINT32_MAX, .script_bytes = 1},
        {.argc = 1, .body_bytes = 6, .output_limit = SERVE_OUTPUT_LIMIT_MAX + 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        run.head = bad[i];
        stream_send(&s, SERVE_RUN, ++s.last_id, &run, sizeof(run.head) + 6);
        expect_failed(s.last_id, GUEST_STAGE_REQUEST, EINVAL);
    }
    run.head = (struct serve_run){.argc = 1, .body_bytes = 6};
    stream_send(&s, SERVE_RUN, ++s.last_id, &run, sizeof(run.head) + 6);
    expect_ran(stream_wait(&s, s.last_id), 0);
}

/* --- input --- */

static char *make_text(size_t size)
{
    char *text = malloc(size + 1);
    assert_non_null(text);
    for (size_t i = 0; i < size; i++)
        text[i] = (char)('a' + (i * 7 + i / 26) % 26);
    text[size] = 0;
    return text;
}

static void test_long_input_goes_through_a_command(void **state)
{
    const char *const argv[] = {"cat", NULL};
    char *text = make_text(2 * MIB);
    const uint32_t id =
        stream_run(&s, &(struct run){.argv = argv, .in = text, .in_size = 2 * MIB, .limit = 8 * MIB});
    const struct heard *h = stream_wait(&s, id);
    expect_ran(h, 0);
    assert_int_equal(h->parts[0][0].size, 2 * MIB);
    assert_memory_equal(h->parts[0][0].bytes, text, 2 * MIB);
    free(text);
}

static void test_input_that_nobody_reads_is_no_error(void **state)
{
    const char *const argv[] = {"true", NULL};
    char *text = make_text(MIB);
    for (int i = 0; i < 20; i++)
        expect_ran(stream_wait(&s, stream_run(&s, &(struct run){.argv = argv, .in = text, .in_size = MIB})),
                   0);
    expect_out(
        stream_wait(&s,
                    stream_run(&s, &(struct run){.shell = "exec <&-; echo on", .in = text, .in_size = MIB})),
        "on\n");
    free(text);
}

static void test_empty_input_ends_at_once(void **state)
{
    const char *const argv[] = {"cat", NULL};
    uint32_t ids[100];
    for (int wave = 0; wave < 2; wave++) {
        for (size_t i = 0; i < ARRAY_LEN(ids); i++)
            ids[i] = stream_run(&s, &(struct run){.argv = argv, .empty_in = true});
        for (size_t i = 0; i < ARRAY_LEN(ids); i++)
            expect_out(stream_wait(&s, ids[i]), "");
    }
    expect_out(stream_shell(&s, "cat; readlink /proc/self/fd/0"), "/dev/null\n");
}

/* --- output --- */

static void test_head_and_tail_are_exact(void **state)
{
    static const struct {
        uint32_t limit;
        size_t total, head, tail;
    } cases[] = {
        {1000, 0, 0, 0},
        {1000, 1, 1, 0},
        {1000, 500, 500, 0},
        {1000, 501, 500, 1},
        {1000, 999, 500, 499},
        {1000, 1000, 500, 500},
        {1000, 1001, 500, 500},
        {1001, 1001, 500, 501},
        {1, 10, 0, 1},
        {2, 10, 1, 1},
        {1000, 10000, 500, 500},
        {65536, 65537, 32768, 32768},
        {65536, 400000, 32768, 32768},
        {1 << 20, 3 << 20, 1 << 19, 1 << 19},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char *text = make_text(cases[i].total);
        const char *const argv[] = {"tee", "/dev/null", NULL};
        const uint32_t id = stream_run(
            &s, &(struct run){.argv = argv, .in = text, .in_size = cases[i].total, .limit = cases[i].limit});
        const struct heard *h = stream_wait(&s, id);
        expect_ran(h, 0);
        assert_int_equal(h->end.total[0], cases[i].total);
        assert_int_equal(h->parts[0][0].size, cases[i].head);
        assert_int_equal(h->parts[0][1].size, cases[i].tail);
        if (cases[i].head)
            assert_memory_equal(h->parts[0][0].bytes, text, cases[i].head);
        if (cases[i].tail)
            assert_memory_equal(h->parts[0][1].bytes, text + cases[i].total - cases[i].tail, cases[i].tail);
        assert_int_equal(h->end.spooled[0], 0);
        free(text);
    }
}

static void test_what_is_cut_is_in_a_file(void **state)
{
    static char read_back[MIB];
    char *text = make_text(MIB);
    const char *const argv[] = {"cat", NULL};
    static const uint32_t limits[] = {MIB, 1000};
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        const struct heard *h = stream_wait(
            &s,
            stream_run(&s, &(struct run){
                               .argv = argv, .in = text, .in_size = MIB, .limit = 100, .spool = limits[i]}));
        expect_ran(h, 0);
        assert_int_equal(h->end.spooled[0], limits[i]);
        assert_int_equal(h->end.spooled[1], 0);
        assert_string_equal(h->end.spool_path[1], "");
        assert_int_equal(strncmp(h->end.spool_path[0], folder, strlen(folder)), 0);
        struct stat st;
        FILE *file = fopen(h->end.spool_path[0], "r");
        assert_non_null(file);
        assert_int_equal(fstat(fileno(file), &st), 0);
        assert_int_equal(st.st_mode, S_IFREG | 0600);
        assert_int_equal(fread(read_back, 1, sizeof(read_back), file), limits[i]);
        assert_memory_equal(read_back, text, limits[i]);
        fclose(file);
        unlink(h->end.spool_path[0]);
    }
    free(text);
}

static void test_both_streams_may_flood(void **state)
{
    const uint32_t id = stream_run(
        &s, &(struct run){.shell = "yes out | head -c 20000000 & yes err | head -c 30000000 >&2; wait",
                          .limit = 100000,
                          .spool = 5 * MIB});
    const struct heard *h = stream_wait(&s, id);
    expect_ran(h, 0);
    assert_int_equal(h->end.total[0], 20000000);
    assert_int_equal(h->end.total[1], 30000000);
    size_t kept = 0;
    for (int stream = 0; stream < 2; stream++) {
        assert_int_equal(h->end.spooled[stream], 5 * MIB);
        struct stat st;
        assert_int_equal(stat(h->end.spool_path[stream], &st), 0);
        assert_int_equal(st.st_size, 5 * MIB);
        unlink(h->end.spool_path[stream]);
        kept += h->parts[stream][0].size + h->parts[stream][1].size;
        assert_non_null(strstr(h->parts[stream][1].bytes, stream ? "err\nerr\n" : "out\nout\n"));
    }
    assert_int_equal(kept, 100000);
}

/* More than the guest's queue and the pipe hold is asked for, and nobody reads meanwhile: the command is held
 * up, others aren't lost, and can be ended. */
static void test_a_server_that_does_not_read_holds_up_the_command_only(void **state)
{
    const uint32_t flood = stream_run(&s, &(struct run){.shell = "yes; echo never", .limit = 8 * MIB});
    while (stream_heard(&s, flood)->parts[0][0].size == 0)
        stream_listen(&s);
    const uint32_t other = stream_run(&s, &(struct run){.shell = "echo here"});
    stream_send(&s, SERVE_KILL, flood, NULL, 0);
    expect_out(stream_wait(&s, other), "here\n");
    const struct heard *h = stream_wait(&s, flood);
    assert_int_equal(h->end.killed, 1);
    assert_int_equal(h->end.exit.wait_status, SIGKILL);
    assert_true(h->end.total[0] > 0);
}

/* --- many, background, kill --- */

static void test_many_at_once(void **state)
{
    uint32_t ids[50];
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        ids[i] = stream_run(&s, &(struct run){.shell = "echo up; exec sleep 1000"});
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        stream_await(&s, ids[i], "up\n");
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        stream_send(&s, SERVE_KILL, ids[i], NULL, 0);
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        assert_int_equal(stream_wait(&s, ids[i])->end.killed, 1);
}

static void test_too_many_at_once_are_refused(void **state)
{
    uint32_t ids[SERVE_COMMANDS_MAX];
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        ids[i] = stream_run(&s, &(struct run){.shell = "exec sleep 1000"});
    expect_failed(stream_run(&s, &(struct run){.shell = "true"}), GUEST_STAGE_REQUEST, EAGAIN);
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        stream_send(&s, SERVE_KILL, ids[i], NULL, 0);
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        assert_int_equal(stream_wait(&s, ids[i])->end.killed, 1);
    expect_ran(stream_shell(&s, "true"), 0);
}

/* With few files poll(2) refuses a long list: nobody would be heard any more. */
static void test_few_files_mean_few_at_once(void **state)
{
    static const char *const prefix[] = {"prlimit", "--nofile=64", NULL};
    struct stream few = stream_open(&(struct stream_options){.prefix = prefix, .flags = SERVE_DIES});
    uint32_t ids[40];
    unsigned killed = 0;
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        ids[i] = stream_run(&few, &(struct run){.shell = "exec sleep 1000"});
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        stream_send(&few, SERVE_KILL, ids[i], NULL, 0);
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        killed += stream_wait(&few, ids[i])->end.killed;
    assert_in_range(killed, 1, 16);
    expect_ran(stream_shell(&few, "true"), 0);
    assert_int_equal(stream_close(&few), 0);
}

static void test_background_processes_are_listed_and_live_on(void **state)
{
    const struct heard *h = stream_shell(&s, "sleep 1000 & echo $!");
    expect_ran(h, 0);
    assert_int_equal(h->end.exit.background_count, 1);
    assert_int_equal(h->end.exit.background_more, 0);
    const pid_t pid = h->end.exit.background[0];
    assert_int_equal(atoi(heard_out(h)), pid);
    expect_ran(stream_shell(&s, "true"), 0);
    assert_int_equal(kill(pid, 0), 0);
    stream_send(&s, SERVE_KILL, s.last_id - 1, NULL, 0); /* too late: nothing happens */
    expect_ran(stream_shell(&s, "true"), 0);
    assert_int_equal(kill(pid, SIGKILL), 0);
}

/* Starts descendants that leave its session, its group, its parent, and one that is stopped. */
#define FAMILY                                                                                               \
    "sleep 1001 & echo $!; setsid sleep 1002 & echo $!; sleep 1003 & echo $!; kill -STOP $!; "               \
    "(setsid sh -c 'echo $$; echo up; sleep 1004; true' &); sleep 1005"

static void test_a_kill_takes_all_of_one_command(void **state)
{
    const uint32_t other = stream_run(&s, &(struct run){.shell = "echo up; read x; echo over"});
    const uint32_t living = stream_run(&s, &(struct run){.shell = "echo $$; echo up; exec sleep 1000"});
    const uint32_t doomed = stream_run(&s, &(struct run){.shell = FAMILY});
    expect_ran(stream_wait(&s, other), 0);
    stream_await(&s, living, "up\n");
    stream_await(&s, doomed, "up\n");
    stream_send(&s, SERVE_KILL, doomed, NULL, 0);
    stream_send(&s, SERVE_KILL, doomed, NULL, 0);
    stream_send(&s, SERVE_KILL, 99999, NULL, 0);
    struct heard *h = stream_wait(&s, doomed);
    assert_int_equal(h->end.killed, 1);
    assert_int_equal(h->end.exit.wait_status, SIGKILL);
    assert_int_equal(h->end.exit.background_count, 0);
    int family = 0;
    for (char *line = strtok(h->parts[0][0].bytes, "\n"); line; line = strtok(NULL, "\n"))
        if (atoi(line) > 0 && ++family)
            assert_int_equal(kill(atoi(line), 0), -1);
    assert_int_equal(family, 4);
    assert_int_equal(kill(atoi(heard_out(stream_heard(&s, living))), 0), 0);
    stream_send(&s, SERVE_KILL, doomed, NULL, 0);
    stream_send(&s, SERVE_KILL, living, NULL, 0);
    assert_int_equal(stream_wait(&s, living)->end.killed, 1);
}

static void test_a_process_that_closes_its_output_is_still_awaited(void **state)
{
    expect_ran(stream_shell(&s, "exec >&- 2>&-; sleep 0.1; exit 5"), W_EXITCODE(5, 0));
}

/* --- hostile neighbours --- */

static void test_a_stopped_reaper_goes_on(void **state)
{
    expect_out(stream_shell(&s, "kill -STOP $PPID; echo on"), "on\n");
}

static void test_a_killed_reaper_takes_its_command_with_it(void **state)
{
    const struct heard *h = stream_shell(&s, "setsid sleep 1000 & echo $!; kill -KILL $PPID; sleep 1000");
    assert_int_equal(h->end.exit.stage, GUEST_STAGE_RAN);
    assert_int_equal(h->end.exit.wait_status, SIGKILL);
    const pid_t pid = atoi(heard_out(h));
    assert_true(pid > 0);
    for (int i = 0; i < 500 && kill(pid, 0) == 0; i++)
        expect_ran(stream_shell(&s, "true"), 0);
    assert_int_equal(kill(pid, 0), -1);
}

static int set_up(void **state)
{
    snprintf(folder, sizeof(folder), "/tmp/serve-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    return rmdir(folder); /* fails if anything was left there */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_stream, close_stream)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_guest_says_who_it_is),
        TEST(test_arguments_come_as_they_are),
        TEST(test_the_last_of_a_name_in_the_environment_counts),
        TEST(test_a_path_of_the_request_is_searched),
        TEST(test_the_working_directory),
        TEST(test_nothing_of_ours_is_open_in_it),
        TEST(test_signals_are_as_in_a_new_process),
        TEST(test_a_script_is_a_sealed_file),
        TEST(test_ends_are_told_apart),
        TEST(test_a_run_that_makes_no_sense_is_refused),
        TEST(test_long_input_goes_through_a_command),
        TEST(test_input_that_nobody_reads_is_no_error),
        TEST(test_empty_input_ends_at_once),
        TEST(test_head_and_tail_are_exact),
        TEST(test_what_is_cut_is_in_a_file),
        TEST(test_both_streams_may_flood),
        TEST(test_a_server_that_does_not_read_holds_up_the_command_only),
        TEST(test_many_at_once),
        TEST(test_too_many_at_once_are_refused),
        TEST(test_few_files_mean_few_at_once),
        TEST(test_background_processes_are_listed_and_live_on),
        TEST(test_a_kill_takes_all_of_one_command),
        TEST(test_a_process_that_closes_its_output_is_still_awaited),
        TEST(test_a_stopped_reaper_goes_on),
        TEST(test_a_killed_reaper_takes_its_command_with_it),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
