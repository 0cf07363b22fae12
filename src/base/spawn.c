/* posix_spawn(3) with the descriptors of the child laid out from 0. */
#include "base/spawn.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

/* A number outside the child's layout for `fd` (-1: /dev/null), so that no dup2(2) there overwrites what a
 * later one needs, and so that each is a real copy, which clears close-on-exec. */
static int lift(int fd, int above)
{
    if (fd >= 0)
        return fcntl(fd, F_DUPFD_CLOEXEC, above);
    _cleanup_fd_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    return null < 0 ? -1 : fcntl(null, F_DUPFD_CLOEXEC, above);
}

static void unlift(int *lifted, int count)
{
    for (int i = 0; i < count; i++)
        lifted[i] = fd_close(lifted[i]);
}

static int run(const struct spawn_request *request, const int *lifted, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t all, none;
    /* sigfillset(3) leaves out the C library's own two: the child would ignore them. */
    memset(&all, 0xff, sizeof(all));
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setsigmask(&attr, &none);

    int failed = 0;
    for (int i = 0; i < request->fd_count && !failed; i++)
        failed = posix_spawn_file_actions_adddup2(&actions, lifted[i], i);
    if (!failed)
        failed = posix_spawn_file_actions_addclosefrom_np(&actions, request->fd_count);
    char *const empty[] = {NULL};
    if (!failed)
        failed = posix_spawn(ret_pid, request->path, &actions, &attr, request->argv,
                             request->env ? request->env : empty);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    return failed;
}

int spawn(const struct spawn_request *request, pid_t *ret_pid, int *ret_pidfd, struct error *err)
{
    int lifted[SPAWN_FDS_MAX];
    int count = request->fd_count;
    assert(count >= 0 && count <= SPAWN_FDS_MAX);
    for (int i = 0; i < count; i++) {
        lifted[i] = lift(request->fds[i], count);
        if (lifted[i] < 0) {
            int sys = errno;
            unlift(lifted, i);
            return error_errno(err, error_code_of_errno(sys), sys, "descriptor %d for %s", i, request->path);
        }
    }

    pid_t pid;
    int failed = run(request, lifted, &pid);
    unlift(lifted, count);
    if (failed)
        return error_errno(err, error_code_of_errno(failed), failed, "start %s", request->path);

    /* Without a race: only we could reap the child, and we don't. */
    int pidfd = ret_pidfd ? pidfd_open(pid, 0) : -1;
    if (ret_pidfd && pidfd < 0) {
        int sys = errno;
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        return error_errno(err, error_code_of_errno(sys), sys, "watch %s", request->path);
    }
    if (ret_pidfd)
        *ret_pidfd = pidfd;
    *ret_pid = pid;
    return 0;
}

void spawn_end(int pidfd, int patience_ms)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    siginfo_t info;
    pidfd_send_signal(pidfd, SIGTERM, NULL, 0);
    if (poll(&p, 1, patience_ms) <= 0)
        pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
    while (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) < 0 && errno == EINTR)
        ;
}

char *spawn_find(const char *name)
{
    const char *folders = getenv("PATH");
    if (!folders || !*folders)
        folders = DEFAULT_PATH;
    for (const char *end; *folders; folders = *end ? end + 1 : end) {
        end = strchrnul(folders, ':');
        if (*folders != '/') /* what the current folder holds isn't the user's choice */
            continue;
        _cleanup_(cleanup_free) char *path = xasprintf("%.*s/%s", (int)(end - folders), folders, name);
        struct stat st;
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0)
            return TAKE_PTR(path);
    }
    return NULL;
}
