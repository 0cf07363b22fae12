/* See program.h. A child has a session of its own, by which it is ended together with its children. */
#include "base/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/spawn.h"

#define INPUT_MAX (4 * KIB) /* the least that a pipe holds, whoever is slow to read */

struct program {
    const char *name; /* for people */
    pid_t pid;
    int pidfd;
};

static int start(const char *const *argv, int in, int out, struct program *ret, struct error *err)
{
    const int fds[] = {in, out, -1};
    const struct spawn_request request = {
        .path = argv[0], .argv = (char *const *)argv, .env = environ, .fds = fds, .fd_count = 3};
    ret->name = path_basename(argv[0]);
    return spawn(&request, &ret->pid, &ret->pidfd, err);
}

/* done: it needs no end but its own, for which there is the rest of the wait. */
static int finish(struct program *p, bool done, const struct wait *wait, int *ret_code, struct error *err)
{
    siginfo_t info = {0};
    const int failed = done ? wait_fd(p->pidfd, POLLIN, wait, NULL, err) : -1;
    if (failed < 0)
        kill(-p->pid, SIGKILL);
    while (waitid(P_PIDFD, (id_t)p->pidfd, &info, WEXITED) < 0 && errno == EINTR)
        ;
    fd_close(p->pidfd);
    if (failed == 0)
        *ret_code = info.si_code == CLD_EXITED ? info.si_status : -1;
    return failed;
}

static int read_answer(const struct program *p, int out, const struct wait *wait, struct buf *answer,
                       struct error *err)
{
    for (;;) {
        const size_t room = answer->max - answer->len;
        if (room == 0)
            return error_set(err, ERR_LIMIT, "%s answers more than %zu bytes", p->name, answer->max - 1);
        const ssize_t n = read(out, answer->data + answer->len, room);
        if (n == 0)
            return 0;
        if (n > 0)
            answer->len += (size_t)n;
        else if (errno == EAGAIN && wait_fd(out, POLLIN, wait, NULL, err) < 0)
            return -1;
        else if (errno != EAGAIN && errno != EINTR)
            return error_errno(err, ERR_UNAVAILABLE, errno, "read the answer of %s", p->name);
    }
}

/* A pipe that holds the input, and nothing after it; -1 for no input. */
static int pipe_of(const char *input, int *ret, struct error *err)
{
    int ends[2];
    *ret = -1;
    if (!input)
        return 0;
    if (strlen(input) > INPUT_MAX)
        return error_set(err, ERR_LIMIT, "a program is told too much");
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, error_code_of_errno(errno), errno, "make a pipe");
    _cleanup_fd_ int reading = ends[0], writing = ends[1];
    if (fd_write_all(writing, input, strlen(input)) < 0)
        return error_errno(err, error_code_of_errno(errno), errno, "fill a pipe");
    *ret = TAKE_FD(reading);
    return 0;
}

int program_ask(const char *const *argv, const char *input, const struct wait *wait, struct buf *answer,
                int *ret_code, struct error *err)
{
    struct program p;
    int ends[2];
    _cleanup_fd_ int in = -1;
    if (pipe_of(input, &in, err) < 0)
        return -1;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, error_code_of_errno(errno), errno, "make a pipe");
    _cleanup_fd_ int reading = ends[0];
    int writing = ends[1];
    int failed = 0;
    if (fd_set_nonblocking(reading, true) < 0 || buf_reserve(answer, answer->max - answer->len) < 0)
        failed = error_set(err, ERR_LIMIT, "no memory for an answer of %s", argv[0]);
    if (!failed)
        failed = start(argv, in, writing, &p, err);
    fd_close(writing); /* the program's end is the end of its answer */
    if (failed)
        return -1;
    failed = read_answer(&p, reading, wait, answer, err);
    return finish(&p, failed == 0, wait, ret_code, err) < 0 ? -1 : failed;
}

int program_filter(const char *const *argv, int in, int out, const struct wait *wait, int *ret_code,
                   struct error *err)
{
    struct program p;
    return start(argv, in, out, &p, err) < 0 ? -1 : finish(&p, true, wait, ret_code, err);
}
