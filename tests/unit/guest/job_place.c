/* See job_place.h. */
#include "job_place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/native/image.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

#define ARGS_MAX 40
#define DISK "size=64m"

char job_place[64];
bool job_place_is_ours;

char *job_place_path(const char *fmt, ...)
{
    char name[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(name, sizeof(name), fmt, args);
    va_end(args);
    return path_join(job_place, name);
}

/* Mounts are nobody's but ours, where that can be had, and all that was started falls to us. */
static void be_alone(void)
{
    static bool is_done;
    if (is_done)
        return;
    is_done = true;
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    job_place_is_ours = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

int job_place_make(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    be_alone();
    strcpy(job_place, "/tmp/job-test-XXXXXX");
    if (!mkdtemp(job_place) || (job_place_is_ours && mount("job", job_place, "tmpfs", 0, DISK) < 0) ||
        chmod(job_place, 0755) < 0)
        return -1;
    _cleanup_(cleanup_free) char *program = job_place_path("guest");
    int fd = open(program, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    if (fd < 0 || fd_write_all(fd, guest_image, guest_image_size) < 0)
        return -1;
    return close(fd);
}

static bool kill_children(void)
{
    bool some = false;
    _cleanup_(cleanup_free) char *path = xasprintf("/proc/self/task/%d/children", (int)getpid());
    FILE *children = fopen(path, "re");
    for (int pid; children && fscanf(children, "%d", &pid) == 1; some = true)
        kill(pid, SIGKILL);
    if (children)
        fclose(children);
    return some;
}

int job_place_remove(void **state)
{
    (void)state;
    while (kill_children())
        waitpid(-1, NULL, 0); /* what it has started falls to us then */
    while (umount2(job_place, MNT_DETACH) == 0)
        continue;
    return tree_remove(AT_FDCWD, job_place, NULL);
}

void job_place_fill(const char *path)
{
    static const char bytes[65536];
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    for (size_t n = sizeof(bytes); n > 0;)
        if (write(fd, bytes, n) < 0)
            n /= 2;
    close(fd);
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
