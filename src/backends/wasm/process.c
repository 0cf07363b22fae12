/* See process.h. */
#include "backends/wasm/process.h"

#include <errno.h>
#include <poll.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/wasm/wasm.h"
#include "backends/wasm/wire.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/spawn.h"

#define PROGRAM "/proc/self/exe" /* of the child, which until then is still us */

/* What the engine and the loader are to know; nothing else of our environment is theirs. */
static char **make_environment(void)
{
    static const char *const passed[] = {"LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS"};
    char **env = xcalloc(ARRAY_LEN(passed) + 4, sizeof(*env));
    size_t n = 0;
    env[n++] = xstrdup("TOKIO_WORKER_THREADS=1"); /* it would start one for each CPU */
    env[n++] = xstrdup("MALLOC_ARENA_MAX=1");     /* its thread needs none of its own */
    for (size_t i = 0; i < ARRAY_LEN(passed); i++)
        if (getenv(passed[i]))
            env[n++] = xasprintf("%s=%s", passed[i], getenv(passed[i]));
    char *const *faults = FAULT_ENVIRONMENT;
    if (faults && *faults)
        env[n++] = xstrdup(*faults);
    return env;
}

int process_start(const struct process *p, int *ret_pidfd, int *ret_said, struct error *err)
{
    int said[2], count = p->code >= 0 ? WASM_FD_CODE + 1 : STDERR_FILENO + 1;
    pid_t pid;
    _cleanup_(cleanup_strv_free) char **env = make_environment();
    char *const argv[] = {(char *)"sandbox-wasm",
                          (char *)WASM_INTERNAL,
                          (char *)p->kind,
                          (char *)p->library,
                          (char *)(p->fuel ? "fuel" : "-"),
                          NULL};
    if (pipe2(said, O_CLOEXEC) < 0)
        return error_errno(err, ERR_LIMIT, errno, "make a pipe");
    _cleanup_fd_ int ours = said[0];
    _cleanup_fd_ int theirs = said[1];
    const int fds[] = {p->in, p->out, theirs, p->control, p->code};
    const struct spawn_request request = {
        .path = PROGRAM, .argv = argv, .env = env, .fds = fds, .fd_count = count};
    if (spawn(&request, &pid, ret_pidfd, err) < 0)
        return error_prefix(err, "start the engine");
    *ret_said = TAKE_FD(ours);
    return 0;
}

/* Until it closes fd 2, which it does by ending. */
static int listen(int said, const struct wait *wait, struct buf *ret, struct error *err)
{
    char chunk[512];
    for (;;) {
        if (wait_fd(said, POLLIN, wait, NULL, err) < 0)
            return -1;
        ssize_t n = read(said, chunk, sizeof(chunk));
        if (n == 0)
            return 0;
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return error_errno(err, ERR_UNAVAILABLE, errno, "listen to the engine");
        (void)!buf_append(ret, chunk, n > 0 ? (size_t)n : 0); /* of what is too much the beginning is kept */
    }
}

int process_end(int pidfd, int said, const struct wait *wait, struct buf *ret_text, struct error *err)
{
    siginfo_t info = {0};
    int failed = listen(said, wait, ret_text, err);
    if (failed < 0)
        pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
    while (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) < 0 && errno == EINTR)
        ;
    if (failed < 0)
        return -1;
    if (info.si_code != CLD_EXITED)
        return error_set(err, ERR_UNAVAILABLE, "the engine was ended by signal %d", info.si_status);
    return info.si_status == 0 ? 0 : error_set(err, ERR_INVALID, "%s", buf_str(ret_text));
}
