/* See job_place.h. */
#include "job_place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/native/image.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

#define ARGS_MAX 40

char job_place[64];

char *job_place_path(const char *fmt, ...)
{
    char name[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(name, sizeof(name), fmt, args);
    va_end(args);
    return path_join(job_place, name);
}

int job_place_make(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    strcpy(job_place, "/tmp/job-test-XXXXXX");
    if (!mkdtemp(job_place) || chmod(job_place, 0755) < 0)
        return -1;
    _cleanup_(cleanup_free) char *program = job_place_path("guest");
    int fd = open(program, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    if (fd < 0 || fd_write_all(fd, guest_image, guest_image_size) < 0)
        return -1;
    return close(fd);
}

int job_place_remove(void **state)
{
    (void)state;
    return tree_remove(AT_FDCWD, job_place, NULL);
}

struct job_exec job_exec_begin(const char *const *args, const char *text)
{
    struct job_exec e;
    char *argv[ARGS_MAX] = {NULL};
    int in[2], out[2];
    _cleanup_(cleanup_free) char *program = job_place_path("guest");
    argv[0] = program;
    for (int n = 0; args[n]; n++) {
        assert_true(n + 2 < ARGS_MAX);
        argv[n + 1] = (char *)(uintptr_t)args[n];
    }
    assert_true(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    assert_int_equal(posix_spawn(&e.pid, program, &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    (void)!fd_write_all(in[1], text, strlen(text)); /* one that doesn't read it has ended */
    close(in[1]);
    e.out = out[0];
    return e;
}

int job_exec_end(struct job_exec *e, struct buf *ret)
{
    char bytes[65536];
    int status;
    *ret = (struct buf)BUF_INIT(JOB_TEXT_MAX);
    for (ssize_t n; (n = read(e->out, bytes, sizeof(bytes))) > 0;)
        assert_int_equal(buf_append(ret, bytes, (size_t)n), 0);
    close(e->out);
    assert_int_equal(waitpid(e->pid, &status, 0), e->pid);
    return status;
}
