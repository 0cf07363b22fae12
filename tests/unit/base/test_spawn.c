/* Starting programs: the child's descriptors, environment, session and signals. */
#include "base/spawn.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "tests/unit/base/check.h"

/* A file in memory with a text, at the descriptor number `at`, inheritable. */
static void text_at(int at, const char *text)
{
    int fd = memfd_create("text", 0);
    if (fd != at) {
        assert_int_equal(dup2(fd, at), at);
        close(fd);
    }
    assert_int_equal(fd_write_all(at, text, strlen(text)), 0);
    assert_int_equal(lseek(at, 0, SEEK_SET), 0);
}

/* Runs the script with a shell; what it prints is left in `output`. fds[1] is set to its standard output. */
static int run_shell(const char *script, int *fds, int fd_count, char *output, size_t size)
{
    int p[2];
    char *const argv[] = {(char *)"sh", (char *)"-c", (char *)script, NULL};
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    fds[1] = p[1];
    struct spawn_request request = {.path = "/bin/sh", .argv = argv, .fds = fds, .fd_count = fd_count};
    pid_t pid;
    struct error err = ERROR_INIT;
    if (spawn(&request, &pid, NULL, &err) < 0)
        fail_msg("%s", err.msg);
    fd_close(p[1]);
    size_t len = 0;
    for (ssize_t n; (n = read(p[0], output + len, size - 1 - len)) > 0;)
        len += (size_t)n;
    output[len] = '\0';
    fd_close(p[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void descriptors_are_laid_out_even_if_they_overlap(void **state)
{
    char output[100];
    text_at(3, "was three,");
    text_at(4, "was four,");
    text_at(5, "was five,");
    text_at(20, "was twenty,");
    int fds[] = {-1, -1, 2, 5, 20, 3, 4};
    assert_int_equal(run_shell("cat <&3; cat <&4; cat <&5; cat <&6", fds, 7, output, sizeof(output)), 0);
    assert_string_equal(output, "was five,was twenty,was three,was four,");
    for (int fd = 3; fd <= 5; fd++)
        close(fd);
    close(20);
}

static void descriptor_in_its_place_already_is_inherited(void **state)
{
    char output[100];
    text_at(3, "three");
    assert_int_equal(fcntl(3, F_SETFD, FD_CLOEXEC), 0);
    int fds[] = {-1, -1, 2, 3, 3};
    assert_int_equal(
        run_shell("cat <&3; readlink /proc/self/fd/4 | cut -c 1-11", fds, 5, output, sizeof(output)), 0);
    assert_string_equal(output, "three/memfd:text\n");
    close(3);
}

static void nothing_else_is_inherited(void **state)
{
    char output[100];
    text_at(3, "");
    text_at(30, "");
    int fds[] = {-1, -1, 2};
    run_shell("for n in 3 4 5 6 7 8 9 30; do [ -e /proc/$$/fd/$n ] && echo $n; done; echo done", fds, 3,
              output, sizeof(output));
    assert_string_equal(output, "done\n");
    close(3);
    close(30);
}

static void minus_one_is_dev_null(void **state)
{
    char output[100];
    int fds[] = {-1, -1, -1};
    run_shell("readlink /proc/$$/fd/0 /proc/$$/fd/2; read line || echo end; echo x >&2", fds, 3, output,
              sizeof(output));
    assert_string_equal(output, "/dev/null\n/dev/null\nend\n");
}

static void own_session_default_signals_empty_mask(void **state)
{
    char output[300];
    int fds[] = {-1, -1, 2};
    sigset_t blocked, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
    run_shell("read pid a b c d sid rest < /proc/$$/stat; [ $pid = $sid ] && echo leader;"
              "exec grep -E 'Sig(Blk|Ign)' /proc/self/status",
              fds, 3, output, sizeof(output));
    signal(SIGPIPE, SIG_DFL);
    signal(SIGUSR2, SIG_DFL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    assert_string_equal(output, "leader\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

static void environment_is_what_was_given(void **state)
{
    char output[100];
    int p[2];
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    char *const argv[] = {(char *)"env", NULL};
    char *const env[] = {(char *)"A=1", NULL};
    int fds[] = {-1, p[1], 2};
    for (int given = 0; given < 2; given++) {
        struct spawn_request request = {
            .path = "/usr/bin/env", .argv = argv, .fds = fds, .fd_count = 3, .env = given ? env : NULL};
        pid_t pid;
        assert_int_equal(spawn(&request, &pid, NULL, NULL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        assert_int_equal(write(p[1], ".", 1), 1);
        ssize_t n = read(p[0], output, sizeof(output) - 1);
        assert_true(n > 0);
        output[n] = '\0';
        assert_string_equal(output, given ? "A=1\n." : ".");
    }
    fd_close(p[0]);
    fd_close(p[1]);
}

static void pidfd_tells_the_end(void **state)
{
    char *const argv[] = {(char *)"sh", (char *)"-c", (char *)"exit 7", NULL};
    struct spawn_request request = {.path = "/bin/sh", .argv = argv};
    pid_t pid;
    int pidfd;
    siginfo_t info = {0};
    assert_int_equal(spawn(&request, &pid, &pidfd, NULL), 0);
    assert_int_equal(fcntl(pidfd, F_GETFD), FD_CLOEXEC);
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, -1), 1);
    assert_int_equal(waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED), 0);
    assert_int_equal(info.si_pid, pid);
    assert_int_equal(info.si_status, 7);
    fd_close(pidfd);
}

static void failures_are_told_and_leak_nothing(void **state)
{
    char *const argv[] = {(char *)"x", NULL};
    int fds[] = {-1, 1, 2}, bad[] = {0, 999};
    struct error err = ERROR_INIT;
    pid_t pid = 77;
    int next = dup(0);
    close(next);
    struct spawn_request request = {.path = "/no/such/program", .argv = argv, .fds = fds, .fd_count = 3};
    assert_int_equal(spawn(&request, &pid, NULL, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_non_null(strstr(err.msg, "/no/such/program"));
    request.path = "/etc/passwd";
    assert_int_equal(spawn(&request, &pid, NULL, &err), -1);
    assert_int_equal(err.code, ERR_DENIED);
    request = (struct spawn_request){.path = "/bin/true", .argv = argv, .fds = bad, .fd_count = 2};
    assert_int_equal(spawn(&request, &pid, NULL, &err), -1);
    assert_int_equal(pid, 77);
    int next_after = dup(0);
    close(next_after);
    assert_int_equal(next_after, next);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void programs_are_found_in_path(void **state)
{
    char folder[] = "/var/tmp/test-spawn-XXXXXX";
    assert_non_null(mkdtemp(folder));
    _cleanup_(cleanup_free) char *dir = xasprintf("%s/prog", folder);
    _cleanup_(cleanup_free) char *text = xasprintf("%s/text", folder);
    _cleanup_(cleanup_free) char *old = xstrdup(getenv("PATH"));
    _cleanup_(cleanup_free) char *path = xasprintf(":.:/nonexistent:%s:/bin", folder);
    assert_int_equal(mkdir(dir, 0755), 0);
    assert_int_equal(file_replace(AT_FDCWD, text, "x", 1, false, NULL), 0);
    setenv("PATH", path, 1);
    _cleanup_(cleanup_free) char *sh = spawn_find("sh");
    assert_string_equal(sh, "/bin/sh");
    assert_null(spawn_find("prog")); /* a folder */
    assert_null(spawn_find("text")); /* not executable */
    assert_int_equal(chmod(text, 0755), 0);
    _cleanup_(cleanup_free) char *found = spawn_find("text");
    assert_string_equal(found, text);
    assert_int_equal(chdir("/bin"), 0);
    setenv("PATH", ":.", 1);
    assert_null(spawn_find("sh")); /* only by the current folder */
    unsetenv("PATH");
    _cleanup_(cleanup_free) char *fallback = spawn_find("sh");
    assert_non_null(fallback);
    setenv("PATH", old, 1);
    assert_int_equal(tree_remove(AT_FDCWD, folder, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptors_are_laid_out_even_if_they_overlap),
        cmocka_unit_test(descriptor_in_its_place_already_is_inherited),
        cmocka_unit_test(nothing_else_is_inherited),
        cmocka_unit_test(minus_one_is_dev_null),
        cmocka_unit_test(own_session_default_signals_empty_mask),
        cmocka_unit_test(environment_is_what_was_given),
        cmocka_unit_test(pidfd_tells_the_end),
        cmocka_unit_test(failures_are_told_and_leak_nothing),
        cmocka_unit_test(programs_are_found_in_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
