/* Descriptors and files. */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/base/check.h"

static char dir[64];

static int set_up(void **state)
{
    snprintf(dir, sizeof(dir), "/tmp/test-fd-XXXXXX");
    return mkdtemp(dir) ? chdir(dir) : -1;
}

static int tear_down(void **state)
{
    return chdir("/") < 0 ? -1 : tree_remove(AT_FDCWD, dir, NULL);
}

static void close_keeps_errno(void **state)
{
    errno = ENOENT;
    assert_int_equal(fd_close(-1), -1);
    assert_int_equal(fd_close(dup(0)), -1);
    assert_int_equal(errno, ENOENT);
}

static void nonblocking_goes_on_and_off(void **state)
{
    int p[2];
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    assert_int_equal(fd_set_nonblocking(p[0], true), 0);
    assert_true(fcntl(p[0], F_GETFL) & O_NONBLOCK);
    assert_int_equal(fd_set_nonblocking(p[0], false), 0);
    assert_false(fcntl(p[0], F_GETFL) & O_NONBLOCK);
    fd_close(p[0]);
    fd_close(p[1]);
    assert_int_equal(fd_set_nonblocking(p[0], true), -1);
}

static void leaked_descriptors_are_marked(void **state)
{
    pid_t pid = fork();
    if (pid == 0) {
        int low = dup2(0, 30), high = dup2(0, 40);
        fd_cloexec_from(35);
        _exit(!(fcntl(low, F_GETFD) == 0 && fcntl(high, F_GETFD) == FD_CLOEXEC));
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void *drain(void *arg)
{
    char bytes[1000];
    size_t total = 0;
    for (ssize_t n; (n = read(*(int *)arg, bytes, sizeof(bytes))) > 0;)
        total += (size_t)n;
    return (void *)total;
}

static void write_all_goes_on_until_done(void **state)
{
    int p[2];
    pthread_t reader;
    static char bytes[1000000];
    void *total;
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    assert_int_equal(pthread_create(&reader, NULL, drain, &p[0]), 0);
    assert_int_equal(fd_write_all(p[1], bytes, sizeof(bytes)), 0);
    fd_close(p[1]);
    pthread_join(reader, &total);
    assert_int_equal((size_t)total, sizeof(bytes));
    fd_close(p[0]);
    assert_int_equal(fd_write_all(-1, bytes, 1), -1);
}

static void files_are_read_whole_or_not_at_all(void **state)
{
    struct error err = ERROR_INIT;
    assert_int_equal(file_replace(AT_FDCWD, "five", "12345", 5, false, &err), 0);
    _cleanup_(buf_done) struct buf exact = BUF_INIT(5), tight = BUF_INIT(4), big = BUF_INIT(1000000);
    assert_int_equal(file_read(AT_FDCWD, "five", &exact, &err), 0);
    assert_string_equal(buf_str(&exact), "12345");
    assert_int_equal(file_read(AT_FDCWD, "five", &tight, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_string_equal(buf_str(&tight), "");
    assert_int_equal(file_read(AT_FDCWD, "absent", &tight, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_non_null(strstr(err.msg, "absent"));
    assert_int_equal(file_read(AT_FDCWD, ".", &tight, &err), -1);

    assert_int_equal(buf_append_str(&big, "+"), 0);
    assert_int_equal(file_read(AT_FDCWD, "/proc/self/maps", &big, &err), 0);
    assert_true(big.len > 1000 && big.data[0] == '+');
}

static void empty_file_reads_as_empty(void **state)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT(0);
    assert_int_equal(file_replace(AT_FDCWD, "empty", "", 0, true, NULL), 0);
    assert_int_equal(file_read(AT_FDCWD, "empty", &b, NULL), 0);
    assert_string_equal(buf_str(&b), "");
}

static void write_goes_to_existing_files_only(void **state)
{
    struct error err = ERROR_INIT;
    _cleanup_(buf_done) struct buf b = BUF_INIT(100);
    assert_int_equal(file_write(AT_FDCWD, "new", "x", &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(file_replace(AT_FDCWD, "old", "abc", 3, false, &err), 0);
    assert_int_equal(file_write(AT_FDCWD, "old", "X", &err), 0);
    assert_int_equal(file_read(AT_FDCWD, "old", &b, &err), 0);
    assert_string_equal(buf_str(&b), "Xbc");
}

static void replace_is_private_and_leaves_nothing_behind(void **state)
{
    struct error err = ERROR_INIT;
    struct stat st;
    _cleanup_(buf_done) struct buf b = BUF_INIT(100);
    _cleanup_fd_ int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(dir_make("sub", 0700, &err), 0);
    for (int durable = 0; durable < 2; durable++) {
        assert_int_equal(file_replace(fd, "sub/record", "first", 5, durable, &err), 0);
        assert_int_equal(file_replace(fd, "sub/record", "second", 6, durable, &err), 0);
    }
    assert_int_equal(file_read(fd, "sub/record", &b, &err), 0);
    assert_string_equal(buf_str(&b), "second");
    assert_int_equal(stat("sub/record", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(access("sub/record.tmp", F_OK), -1);

    assert_int_equal(file_replace(fd, "missing/record", "x", 1, false, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(mkdir("folder", 0700), 0);
    assert_int_equal(file_replace(fd, "folder", "x", 1, false, &err), -1);
    assert_int_equal(access("folder.tmp", F_OK), -1);
}

static void folders_are_made_with_their_parents(void **state)
{
    struct error err = ERROR_INIT;
    struct stat st;
    umask(022);
    assert_int_equal(dir_make("a/b//c/", 0700, &err), 0);
    assert_int_equal(stat("a/b", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    assert_int_equal(stat("a/b/c", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(dir_make("a/b/c", 0755, &err), 0);
    assert_int_equal(dir_make("/", 0755, &err), 0);
    assert_int_equal(dir_make(dir, 0755, &err), 0);
    assert_int_equal(dir_make("", 0755, &err), -1);

    assert_int_equal(file_replace(AT_FDCWD, "a/file", "", 0, false, &err), 0);
    assert_int_equal(dir_make("a/file", 0755, &err), -1);
    assert_int_equal(err.code, ERR_EXISTS);
    assert_int_equal(dir_make("a/file/x", 0755, &err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(close_keeps_errno),
        cmocka_unit_test(nonblocking_goes_on_and_off),
        cmocka_unit_test(leaked_descriptors_are_marked),
        cmocka_unit_test(write_all_goes_on_until_done),
        cmocka_unit_test(files_are_read_whole_or_not_at_all),
        cmocka_unit_test(empty_file_reads_as_empty),
        cmocka_unit_test(write_goes_to_existing_files_only),
        cmocka_unit_test(replace_is_private_and_leaves_nothing_behind),
        cmocka_unit_test(folders_are_made_with_their_parents),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
