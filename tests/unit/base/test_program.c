/* Asking programs: what they answer, and that none outlives its time. */
#include "base/program.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "tests/unit/base/check.h"

#define ANSWER_MAX 1000

static struct buf answer = BUF_INIT(ANSWER_MAX);
static struct error err;
static int code;

static int set_up(void **state)
{
    err = (struct error)ERROR_INIT;
    code = 1234;
    buf_wipe(&answer);
    return 0;
}

static int ask(const char *script, const char *input, double seconds)
{
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    const struct wait wait = {.deadline = clock_deadline_after(seconds)};
    return program_ask(argv, input, &wait, &answer, &code, &err);
}

static void test_its_answer_and_its_exit_code(void **state)
{
    assert_int_equal(ask("cat; echo seen >&2; exit 7", "asked", 60), 0);
    assert_string_equal(buf_str(&answer), "asked");
    assert_int_equal(code, 7);
    assert_int_equal(ask("kill -9 $$", NULL, 60), 0);
    assert_int_equal(code, -1);
}

static void test_without_input_there_is_nothing_to_read(void **state)
{
    assert_int_equal(ask("cat; echo end", NULL, 60), 0);
    assert_string_equal(buf_str(&answer), "end\n");
}

static void test_the_environment_is_ours(void **state)
{
    setenv("TEST_PROGRAM", "here", 1);
    assert_int_equal(ask("echo $TEST_PROGRAM", NULL, 60), 0);
    assert_string_equal(buf_str(&answer), "here\n");
}

static void test_too_long_an_answer_is_refused(void **state)
{
    assert_int_equal(ask("exec yes", NULL, 60), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_non_null(strstr(err.msg, "sh answers more"));
    assert_int_equal(code, 1234);
    buf_wipe(&answer);
    assert_int_equal(ask("printf %999s x", NULL, 60), 0);
    assert_int_equal(answer.len, ANSWER_MAX - 1);
}

static void test_its_children_end_with_it(void **state)
{
    int child, pid;
    assert_int_equal(ask("sleep 1000 & echo $! $$; exec yes", NULL, 60), -1);
    assert_int_equal(sscanf(buf_str(&answer), "%d %d", &child, &pid), 2);
    assert_true(kill(pid, 0) < 0 && errno == ESRCH);
    struct pollfd end = {.fd = pidfd_open(child, 0), .events = POLLIN};
    assert_true(end.fd < 0 || poll(&end, 1, 60000) == 1);
    fd_close(end.fd);
}

static void test_it_ends_with_the_wait(void **state)
{
    assert_int_equal(ask("sleep 1000", NULL, 0.1), -1);
    assert_int_equal(err.code, ERR_TIMEOUT);
}

static void test_one_that_is_silent_and_stays_ends_as_well(void **state)
{
    assert_int_equal(ask("exec >&-; sleep 1000", NULL, 0.1), -1);
    assert_int_equal(err.code, ERR_TIMEOUT);
}

static void test_what_is_no_program(void **state)
{
    const char *const argv[] = {"/nonexistent/program", NULL};
    const struct wait wait = {.deadline = DEADLINE_NONE};
    assert_int_equal(program_ask(argv, NULL, &wait, &answer, &code, &err), -1);
    assert_non_null(strstr(err.msg, "/nonexistent/program"));
}

static void test_from_file_to_file(void **state)
{
    const char *const argv[] = {"/bin/sh", "-c", "tr a-z A-Z; exit 3", NULL};
    const struct wait wait = {.deadline = DEADLINE_NONE};
    char text[6] = "";
    _cleanup_fd_ int in = memfd_create("in", MFD_CLOEXEC), out = memfd_create("out", MFD_CLOEXEC);
    assert_int_equal(fd_write_all(in, "small", 5), 0);
    assert_int_equal(lseek(in, 0, SEEK_SET), 0);
    assert_int_equal(program_filter(argv, in, out, &wait, &code, &err), 0);
    assert_int_equal(code, 3);
    assert_int_equal(pread(out, text, 5, 0), 5);
    assert_string_equal(text, "SMALL");
}

#define TEST(f) cmocka_unit_test_setup(f, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_its_answer_and_its_exit_code),
        TEST(test_without_input_there_is_nothing_to_read),
        TEST(test_the_environment_is_ours),
        TEST(test_too_long_an_answer_is_refused),
        TEST(test_its_children_end_with_it),
        TEST(test_it_ends_with_the_wait),
        TEST(test_one_that_is_silent_and_stays_ends_as_well),
        TEST(test_what_is_no_program),
        TEST(test_from_file_to_file),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    buf_wipe(&answer);
    return failed;
}
