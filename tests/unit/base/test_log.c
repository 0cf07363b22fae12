/* The log: its lines, what hostile content can't do to them, and that it drops instead of blocking. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "tests/unit/base/check.h"

static char path[64];
static int real_stderr;

static int set_up(void **state)
{
    snprintf(path, sizeof(path), "/tmp/test-log-XXXXXX");
    fd_close(mkstemp(path));
    real_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
    return real_stderr < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    log_close();
    dup2(real_stderr, STDERR_FILENO);
    fd_close(real_stderr);
    return unlink(path);
}

static void open_file(enum log_level level, bool json)
{
    struct error err = ERROR_INIT;
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(log_open("prog", level, json, path, &err), 0);
}

/* What was logged; valid until the next call. */
static const char *content(void)
{
    static struct buf b = BUF_INIT(MIB);
    buf_done(&b);
    assert_int_equal(file_read(AT_FDCWD, path, &b, NULL), 0);
    return buf_str(&b);
}

static void text_lines_name_program_and_level(void **state)
{
    open_file(LOG_DEBUG, false);
    errno = ENOENT;
    log_error("disk %d is full", 3);
    assert_int_equal(errno, ENOENT);
    log_warning("careful");
    log_info("hello");
    log_msg(LOG_DEBUG, "../src/a/b.c", 12, "detail");
    assert_string_equal(content(), "prog: error: disk 3 is full\nprog: warning: careful\nprog: info: hello\n"
                                   "prog: debug: b.c:12: detail\n");
}

static void levels_filter(void **state)
{
    open_file(LOG_WARNING, false);
    log_info("not this");
    log_debug("nor this");
    log_warning("this");
    assert_string_equal(content(), "prog: warning: this\n");
}

static void nobody_forges_lines(void **state)
{
    open_file(LOG_INFO, false);
    log_info("a\nprog: error: forged\r\t\x1b[31m\x7F\xC2\x9B\xFF\xE2\x82 \\ \" \xC3\xA9");
    assert_string_equal(
        content(), "prog: info: a\\nprog: error: forged\\r\\t\\x1b[31m\\x7f\\xc2\\x9b\\xff\\xe2\\x82 \\ \" "
                   "\xC3\xA9\n");
}

static void json_lines_are_json(void **state)
{
    open_file(LOG_DEBUG, true);
    log_error("q\"b\\n\n\x1b\xC2\x9B\xFF\xC3\xA9");
    log_msg(LOG_DEBUG, "x/b.c", 12, "detail");
    const char *text = content();
    json_t *line = json_loads(text, JSON_DISABLE_EOF_CHECK, NULL);
    assert_non_null(line);
    assert_string_equal(json_string_value(json_object_get(line, "level")), "error");
    assert_string_equal(json_string_value(json_object_get(line, "message")),
                        "q\"b\\n\n\x1b\xC2\x9B\xEF\xBF\xBD\xC3\xA9");
    assert_int_equal(json_string_length(json_object_get(line, "time")), 24);
    assert_null(json_object_get(line, "file"));
    json_decref(line);
    line = json_loads(strchr(text, '\n'), JSON_DISABLE_EOF_CHECK, NULL);
    assert_string_equal(json_string_value(json_object_get(line, "file")), "b.c");
    assert_int_equal(json_integer_value(json_object_get(line, "line")), 12);
    json_decref(line);
}

static void long_lines_are_cut_and_said_to_be(void **state)
{
    static char message[2 * LIMIT_LOG_LINE_BYTES];
    for (int json = 0; json < 2; json++) {
        for (int controls = 0; controls < 2; controls++) {
            open_file(LOG_INFO, json);
            memset(message, controls ? '\x01' : 'x', sizeof(message) - 1);
            log_info("%s", message);
            log_info("next");
            const char *text = content(), *end = strchr(text, '\n');
            assert_true((size_t)(end - text) < LIMIT_LOG_LINE_BYTES);
            assert_true((size_t)(end - text) > LIMIT_LOG_LINE_BYTES - 256);
            assert_memory_equal(end - (json ? 5 : 3), json ? "...\"}" : "...", json ? 5 : 3);
            assert_non_null(strstr(end, "next"));
        }
    }
}

static void unopenable_file_is_an_error(void **state)
{
    struct error err = ERROR_INIT;
    assert_int_equal(log_open("prog", LOG_INFO, false, "/no/such/folder/log", &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_non_null(strstr(err.msg, "/no/such/folder/log"));
}

/* Reads all that is there now. */
static size_t drain(int fd, char *ret, size_t size)
{
    size_t len = 0;
    fd_set_nonblocking(fd, true);
    for (ssize_t n; len < size - 1 && (n = read(fd, ret + len, size - 1 - len)) > 0;)
        len += (size_t)n;
    ret[len] = '\0';
    return len;
}

/* Sums up the drops that the lines tell of. Each line must be whole. */
static uint64_t told_drops(const char *text)
{
    uint64_t sum = 0;
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        unsigned long long n;
        int end = 0;
        sscanf(line, "prog: warning: %llu log lines were dropped%n", &n, &end);
        if (end > 0)
            sum += n;
        else
            assert_memory_equal(line, "prog: info: ", 12);
        assert_non_null(strchr(line, '\n'));
    }
    return sum;
}

/* Floods standard error, the write end fds[1], until lines are dropped; then makes room and wants to be told.
 */
static void check_drops(int *fds)
{
    static char text[4 * MIB];
    dup2(fds[1], STDERR_FILENO);
    int opened = log_open("prog", LOG_INFO, false, NULL, NULL);
    uint64_t before = log_dropped();
    for (int i = 0; i < 100000 && log_dropped() < before + 5; i++)
        log_info("line %d, long enough to fill what is behind the descriptor before long: %0200d", i, 0);
    uint64_t dropped = log_dropped() - before;

    size_t len = drain(fds[0], text, sizeof(text));
    log_info("room again");
    drain(fds[0], text + len, sizeof(text) - len);
    uint64_t dropped_after = log_dropped() - before;
    log_close();
    dup2(real_stderr, STDERR_FILENO);

    assert_int_equal(opened, 0);
    assert_true(dropped == 5 && dropped_after == 5);
    assert_true(len > 1000);
    assert_true(told_drops(text) == 5);
    assert_memory_equal(text + len, "prog: warning: ", 15);
    assert_non_null(strstr(text + len, "dropped\nprog: info: room again\n"));
    assert_false(fcntl(fds[1], F_GETFL) & O_NONBLOCK);
    fd_close(fds[0]);
    fd_close(fds[1]);
}

static void full_pipe_drops_and_tells(void **state)
{
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    check_drops(fds);
}

static void full_socket_drops_and_tells(void **state)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    check_drops(fds);
}

static void closed_stderr_only_counts(void **state)
{
    uint64_t before = log_dropped();
    close(STDERR_FILENO);
    int result = log_open("prog", LOG_INFO, false, NULL, NULL);
    log_info("nobody hears");
    uint64_t after = log_dropped();
    log_close();
    dup2(real_stderr, STDERR_FILENO);
    assert_int_equal(result, 0);
    assert_true(after == before + 1);
}

static void *log_many(void *arg)
{
    for (int i = 0; i < 500; i++)
        log_info("thread %d line %d", *(int *)arg, i);
    return NULL;
}

static void threads_do_not_mix_lines(void **state)
{
    pthread_t threads[4];
    int names[4] = {0, 1, 2, 3}, next[4] = {0}, count = 0;
    open_file(LOG_INFO, false);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, log_many, &names[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (const char *line = content(); *line; line = strchr(line, '\n') + 1) {
        int thread, number;
        assert_int_equal(sscanf(line, "prog: info: thread %d line %d\n", &thread, &number), 2);
        assert_int_equal(number, next[thread]++);
        count++;
    }
    assert_int_equal(count, 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_lines_name_program_and_level),
        cmocka_unit_test(levels_filter),
        cmocka_unit_test(nobody_forges_lines),
        cmocka_unit_test(json_lines_are_json),
        cmocka_unit_test(long_lines_are_cut_and_said_to_be),
        cmocka_unit_test(unopenable_file_is_an_error),
        cmocka_unit_test(full_pipe_drops_and_tells),
        cmocka_unit_test(full_socket_drops_and_tells),
        cmocka_unit_test(closed_stderr_only_counts),
        cmocka_unit_test(threads_do_not_mix_lines),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
