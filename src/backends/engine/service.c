/* How it ends with us: Podman's service stops by itself when nobody has been connected for a time of our
 * choice (--time). We hold one connection all the time; the kernel closes it when we die, even by SIGKILL.
 * Podman counts a connection from its first request on, but closes it when it has been idle for twice that
 * time; so the held one has had its ping, and is left in the middle of a second request, which isn't idle.
 *
 * Its folder STATE/podman/XXXXXX is locked while we live: the next service started anywhere on this state
 * directory removes those that nobody holds. */
#include "backends/engine/service.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "backends/engine/contact.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/spawn.h"
#include "base/str.h"

#define IDLE_OPTION "--time=10" /* seconds */
#define START_TIMEOUT_NS (60 * NSEC_PER_SEC)
#define END_TIMEOUT_MS 1000 /* the server's own end waits for it */
#define FIRST_TRY_NS (5 * NSEC_PER_MSEC)
#define LAST_TRY_NS (200 * NSEC_PER_MSEC)
#define SAID_MAX 4096

struct service {
    char *folder, *socket;
    int lock; /* the folder */
    int said; /* memory that it writes to: a pipe could get full, and a broken one would end the service */
    int pidfd;
    int held; /* connection */
};

const char *service_socket(const struct service *s)
{
    return s->socket;
}

/* --- folder --- */

/* Those of servers that were killed. */
static void sweep(int parent)
{
    int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_(cleanup_closedir) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (e->d_name[0] == '.')
            continue;
        _cleanup_fd_ int folder = openat(parent, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (folder >= 0 && flock(folder, LOCK_EX | LOCK_NB) == 0)
            tree_remove(parent, e->d_name, NULL);
    }
}

static int make_folder(struct service *s, const char *state_dir, struct error *err)
{
    _cleanup_(cleanup_free) char *above = path_join(state_dir, "podman");
    if (dir_make(above, 0700, err) < 0)
        return -1;
    _cleanup_fd_ int parent = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* While we have it, no folder is there that isn't locked yet. */
    if (parent < 0 || flock(parent, LOCK_EX) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "lock %s", above);
    sweep(parent);
    _cleanup_(cleanup_free) char *folder = path_join(above, "XXXXXX");
    if (!mkdtemp(folder))
        return error_errno(err, ERR_UNAVAILABLE, errno, "make a folder in %s", above);
    s->folder = TAKE_PTR(folder);
    s->socket = path_join(s->folder, "podman.sock");
    s->lock = open(s->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->lock < 0 || flock(s->lock, LOCK_EX | LOCK_NB) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "lock %s", s->folder);
    return 0;
}

/* Its first words only: where there is no more room, what it writes is refused, which it takes as it is. */
static int make_said(struct service *s, struct error *err)
{
    s->said = memfd_create("podman-said", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (s->said < 0 || ftruncate(s->said, SAID_MAX) < 0 || fcntl(s->said, F_ADD_SEALS, F_SEAL_GROW) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "make room for what it says");
    return 0;
}

/* --- process --- */

/* Our environment without what would make Podman a client of another one, or speak to systemd in our name. */
static char **environment(void)
{
    static const char *const left_out[] = {"CONTAINER_HOST=", "CONTAINER_CONNECTION=", "NOTIFY_SOCKET=",
                                           "LISTEN_FDS=",     "LISTEN_PID=",           "LISTEN_FDNAMES="};
    char **env = xcalloc(strv_len(environ) + 1, sizeof(*env));
    size_t n = 0;
    for (char **e = environ; *e; e++) {
        bool out = false;
        for (size_t i = 0; i < ARRAY_LEN(left_out); i++)
            out |= str_has_prefix(*e, left_out[i]);
        if (!out)
            env[n++] = *e;
    }
    return env;
}

static int start_process(struct service *s, const char *program, struct error *err)
{
    _cleanup_(cleanup_free) char *url = xasprintf("unix://%s", s->socket);
    _cleanup_(cleanup_free) char **env = environment(); /* the strings are not ours */
    const char *const argv[] = {program, "--log-level=error", "system", "service", IDLE_OPTION, url, NULL};
    const int fds[] = {-1, s->said, s->said};
    const struct spawn_request request = {
        .path = program, .argv = (char *const *)argv, .env = env, .fds = fds, .fd_count = ARRAY_LEN(fds)};
    pid_t pid;
    return spawn(&request, &pid, &s->pidfd, err);
}

/* There is no event for "it listens now", so a connect is tried again and again, less and less often; the
 * wait between is for the process's end. */
static int await_socket(struct service *s, const struct wait *wait, struct error *err)
{
    for (int64_t pause = FIRST_TRY_NS;; pause = pause * 2 < LAST_TRY_NS ? pause * 2 : LAST_TRY_NS) {
        s->held = contact_connect(s->socket);
        if (s->held >= 0)
            return 0;
        struct error why = ERROR_INIT;
        struct wait until = wait_at_most(wait, clock_now() + pause);
        if (wait_fd(s->pidfd, POLLIN, &until, NULL, &why) == 0)
            return error_set(err, ERR_UNAVAILABLE, "it ended at once");
        if (wait_check(wait, err) < 0)
            return -1;
    }
}

static int hold(struct service *s, const struct wait *wait, struct error *err)
{
    if (await_socket(s, wait, err) < 0 || contact_ping(s->held, wait, err) < 0)
        return -1;
    static const char unfinished[] = "HEAD ";
    if (send(s->held, unfinished, strlen(unfinished), MSG_NOSIGNAL) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "hold a connection to it");
    return 0;
}

static int explain(struct service *s, struct error *err)
{
    char bytes[SAID_MAX];
    off_t written = lseek(s->said, 0, SEEK_CUR); /* the place is the service's as much as ours */
    ssize_t n = pread(s->said, bytes, written > 0 ? (size_t)written : 0, 0);
    _cleanup_(cleanup_free) char *said = contact_words(bytes, n > 0 ? (size_t)n : 0);
    if (!err || !*said)
        return error_prefix(err, "`podman system service`");
    return error_set(err, err->code, "`podman system service`: %s; it said: %s", err->msg, said);
}

struct service *service_start(const char *program, const char *state_dir, const struct wait *wait,
                              struct error *err)
{
    if (strlen(state_dir) + strlen("/podman/XXXXXX/podman.sock") >=
            sizeof(((struct sockaddr_un *)NULL)->sun_path) ||
        strpbrk(state_dir, "?#%")) {
        error_set(err, ERR_INVALID,
                  "the state directory can't hold a socket for Podman: give --state-dir a path of at most 80 "
                  "bytes, without ?, # and %%");
        return NULL;
    }
    struct service *s = xcalloc(1, sizeof(*s));
    s->lock = s->said = s->pidfd = s->held = -1;
    struct wait bounded = wait_at_most(wait, clock_now() + START_TIMEOUT_NS);
    int failed =
        make_folder(s, state_dir, err) < 0 || make_said(s, err) < 0 || start_process(s, program, err) < 0;
    if (!failed) {
        failed = hold(s, &bounded, err) < 0;
        if (failed)
            explain(s, err);
    }
    return failed ? service_stop(s) : s;
}

struct service *service_stop(struct service *s)
{
    if (!s)
        return NULL;
    fd_close(s->held);
    if (s->pidfd >= 0)
        spawn_end(s->pidfd, END_TIMEOUT_MS);
    fd_close(s->pidfd);
    fd_close(s->said);
    if (s->folder)
        tree_remove(AT_FDCWD, s->folder, NULL);
    fd_close(s->lock);
    free(s->folder);
    free(s->socket);
    free(s);
    return NULL;
}
