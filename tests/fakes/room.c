/* A room, and the process that holds it: what support/room.mjs says of rooms is done here.
 *
 *   room FOLDER LAYER DISK
 *
 * FOLDER/layer: where the room's own files are mounted; LAYER: what they begin as; DISK: options of a tmpfs.
 * In a layer, "upper" has the files that differ from the machine's, and "own" the folders in which nothing of
 * the machine's is seen. The first process of the room is ours; when it ends, all end.
 *
 * Descriptor 3 is a socket, by which the fake tells what is to be done, one after the other: a length (32
 * bits), and as many bytes of strings with a NUL behind each. The answer is a line.
 *
 * - start UID FOLDER INPUT ARGUMENTS ARGUMENT... NAME=VALUE...: "started PID IN OUT ERR" once its program
 * runs or can't be run, with our ends of its pipes, to be opened in /proc (IN is -1 without INPUT), or
 * "failed WHY";
 * - taken FD...: they have been opened; no answer;
 * - kill PID SIGNAL: no answer;
 * - all SIGNAL, to every process but ours: "done", after SIGKILL once they are gone.
 *
 * "ended PID CODE SIGNAL" is told unasked, of every process that becomes ours. "ready" comes before all else.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"

#define FAKE_FD 3
#define REQUEST_MAX (64U << 20)
#define NOT_STARTED 126
#define NOT_FOUND 127

_noreturn_ static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* Paths are within FOLDER/layer; sources, too, unless they begin with a slash. */
static const struct {
    const char *type, *source, *target, *options;
    unsigned long flags;
} mounts[] = {
    {"overlay", "room", "root", "lowerdir=/,upperdir=saved/upper,workdir=work", 0},
    {NULL, "/dev", "root/dev", NULL, MS_BIND | MS_REC},
    {"tmpfs", "room", "root/dev/shm", "mode=1777", 0},
    {"proc", "proc", "root/proc", NULL, 0},
    {NULL, "saved/own/root", "root/root", NULL, MS_BIND},
    {NULL, "saved/own/home", "root/home", NULL, MS_BIND},
    {NULL, "saved/own/var-tmp", "root/var/tmp", NULL, MS_BIND},
    {NULL, "saved/own/tmp", "root/tmp", NULL, MS_BIND},
};

static void copy_layer(const char *layer)
{
    int status;
    const pid_t pid = fork();
    if (pid == 0) {
        execlp("cp", "cp", "-a", layer, "saved", NULL);
        fail("cp");
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
        fail(layer);
}

static void furnish(const char *folder, const char *layer, const char *disk)
{
    char options[64];
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || chdir(folder) < 0)
        fail(folder);
    (void)snprintf(options, sizeof(options), "mode=755%s", disk);
    if (mount("room", "layer", "tmpfs", 0, options) < 0 || chdir("layer") < 0)
        fail("the layer");
    copy_layer(layer);
    if (mkdir("work", 0755) < 0 || mkdir("root", 0755) < 0)
        fail("folders");
    for (size_t i = 0; i < ARRAY_LEN(mounts); i++)
        if (mount(mounts[i].source, mounts[i].target, mounts[i].type, mounts[i].flags, mounts[i].options) < 0)
            fail(mounts[i].target);
    if (chroot("root") < 0 || chdir("/") < 0)
        fail("root");
}

/* The strings of a request. */
struct words {
    char *next, *end;
};

static char *word(struct words *w)
{
    if (w->next == w->end) {
        errno = EBADMSG;
        fail("the fake's request");
    }
    char *found = w->next;
    w->next += strlen(found) + 1;
    return found;
}

static int number(struct words *w)
{
    return atoi(word(w));
}

struct start {
    uid_t uid;
    const char *folder;
    bool input;
    char **argv, **env;
};

/* As many words, and a NULL. */
static char **list(struct words *w, size_t count)
{
    char **all = calloc(count + 1, sizeof(*all));
    for (size_t i = 0; all && i < count; i++)
        all[i] = word(w);
    if (!all)
        fail("memory");
    return all;
}

static size_t words_left(struct words w)
{
    size_t count = 0;
    for (; w.next < w.end; count++)
        (void)word(&w);
    return count;
}

/* The ends that are the command's. */
_noreturn_ static void become(const struct start *s, const int ends[3])
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int fd = 0; fd < 3; fd++)
        if (dup2(ends[fd], fd) < 0)
            _exit(NOT_STARTED);
    if (chdir(s->folder) < 0) {
        perror(s->folder);
        _exit(NOT_STARTED);
    }
    if (s->uid != 0 && (setgroups(0, NULL) < 0 || setresgid(s->uid, s->uid, s->uid) < 0 ||
                        setresuid(s->uid, s->uid, s->uid) < 0)) {
        perror("another user");
        _exit(NOT_STARTED);
    }
    environ = s->env;
    execvp(s->argv[0], s->argv);
    const int code = errno == ENOENT || errno == ENOTDIR ? NOT_FOUND : NOT_STARTED;
    perror(s->argv[0]);
    _exit(code);
}

/* Each end -1 where there is none. */
struct pipes {
    int theirs[3], ours[3];
};

static int open_pipe(struct pipes *p, int i)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    p->theirs[i] = ends[i == 0 ? 0 : 1];
    p->ours[i] = ends[i == 0 ? 1 : 0];
    return 0;
}

static int open_pipes(struct pipes *ret, bool input)
{
    *ret = (struct pipes){{-1, -1, -1}, {-1, -1, -1}};
    if (!input)
        ret->theirs[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return (input ? open_pipe(ret, 0) : ret->theirs[0]) < 0 || open_pipe(ret, 1) < 0 || open_pipe(ret, 2) < 0
               ? -1
               : 0;
}

static void close_ends(const int ends[3])
{
    for (int i = 0; i < 3; i++)
        if (ends[i] >= 0)
            (void)close(ends[i]);
}

/* Its program runs, or it has ended. */
static pid_t run(const struct start *s, const struct pipes *p)
{
    int running[2];
    char unused;
    if (pipe2(running, O_CLOEXEC) < 0)
        return -1;
    const pid_t pid = fork();
    if (pid == 0)
        become(s, p->theirs);
    (void)close(running[1]);
    if (pid > 0)
        (void)!read(running[0], &unused, sizeof(unused));
    (void)close(running[0]);
    return pid;
}

static void start(struct words *w)
{
    struct pipes p;
    struct start s = {.uid = (uid_t)number(w), .folder = word(w), .input = number(w) != 0};
    s.argv = list(w, (size_t)number(w));
    s.env = list(w, words_left(*w));
    const pid_t pid = open_pipes(&p, s.input) < 0 ? -1 : run(&s, &p);
    if (pid > 0) {
        (void)dprintf(FAKE_FD, "started %d %d %d %d\n", (int)pid, p.ours[0], p.ours[1], p.ours[2]);
    } else {
        (void)dprintf(FAKE_FD, "failed %s\n", strerror(errno));
        close_ends(p.ours);
    }
    close_ends(p.theirs);
    free(s.argv);
    free(s.env);
}

static void tell_end(pid_t pid, int status)
{
    (void)dprintf(FAKE_FD, "ended %d %d %d\n", (int)pid, WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                  WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

/* options: of waitpid(2) */
static void reap(int options)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, options)) > 0)
        tell_end(pid, status);
}

static void signal_all(int signal)
{
    (void)kill(-1, signal);
    if (signal == SIGKILL)
        reap(0);
    (void)dprintf(FAKE_FD, "done\n");
}

static void obey(struct words w)
{
    const char *what = word(&w);
    if (strcmp(what, "start") == 0) {
        start(&w);
    } else if (strcmp(what, "taken") == 0) {
        while (w.next < w.end)
            (void)close(number(&w));
    } else if (strcmp(what, "kill") == 0) {
        const pid_t pid = number(&w);
        (void)kill(pid, number(&w));
    } else if (strcmp(what, "all") == 0) {
        signal_all(number(&w));
    }
}

/* False when the fake has gone. */
static bool take(void *ret, size_t size)
{
    for (size_t got = 0; got < size;) {
        const ssize_t n = read(FAKE_FD, (char *)ret + got, size - got);
        if (n <= 0)
            return false;
        got += (size_t)n;
    }
    return true;
}

static bool serve_one(void)
{
    uint32_t size;
    if (!take(&size, sizeof(size)) || size > REQUEST_MAX)
        return false;
    char *request = malloc(size + 1);
    if (!request)
        fail("memory");
    const bool whole = take(request, size);
    request[whole ? size : 0] = '\0';
    if (whole)
        obey((struct words){request, request + size});
    free(request);
    return whole;
}

static void hold(void)
{
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_BLOCK, &children, NULL);
    struct pollfd fds[] = {{.fd = FAKE_FD, .events = POLLIN},
                           {.fd = signalfd(-1, &children, SFD_CLOEXEC), .events = POLLIN}};
    if (fds[1].fd < 0 || fcntl(FAKE_FD, F_SETFD, FD_CLOEXEC) < 0)
        fail("room");
    (void)dprintf(FAKE_FD, "ready\n");
    while (poll(fds, ARRAY_LEN(fds), -1) > 0) {
        struct signalfd_siginfo told;
        if (fds[1].revents && read(fds[1].fd, &told, sizeof(told)) > 0)
            reap(WNOHANG);
        if (fds[0].revents && !serve_one())
            return;
    }
}

int main(int argc, char **argv)
{
    int status = 0;
    if (argc != 4) {
        fprintf(stderr, "usage: room FOLDER LAYER DISK\n");
        return 2;
    }
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || unshare(CLONE_NEWNS | CLONE_NEWPID) < 0)
        fail("namespaces");
    const pid_t pid = fork();
    if (pid < 0)
        fail("fork");
    if (pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || setsid() < 0)
            fail("session");
        furnish(argv[1], argv[2], argv[3]);
        hold();
        return 0;
    }
    (void)close(FAKE_FD);
    (void)waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
