/* The zygote: has the module loaded, and forks for each command. It has one thread and never asks WASI for
 * anything, so that what it forks can. It knows of a command only its process and its line:
 *
 *   request comes        fork; keep the line
 *   line is shut down    kill the process
 *   process has ended    say so on the line, close it
 *   control is closed    end, by which all processes are killed (PR_SET_PDEATHSIG) */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/wasm/runtime.h"
#include "backends/wasm/internal.h"
#include "backends/wasm/jail.h"
#include "backends/wasm/runner.h"
#include "backends/wasm/wasm_limits.h"
#include "base/fd.h"
#include "base/macros.h"

struct child {
    pid_t pid;
    int line;
    bool killed;
};

static struct {
    struct runner runner;
    int signals;
    struct child children[LIMIT_WASM_COMMANDS];
    size_t count;
} zygote;

/* --- setting up --- */

static int load(const char *library, bool fuel, struct error *err)
{
    struct runner *r = &zygote.runner;
    char code[32];
    snprintf(code, sizeof(code), "/proc/self/fd/%d", WASM_FD_CODE);
    r->exited = -1;
    if (runtime_load(library, err) < 0)
        return -1;
    r->engine = runtime_new(fuel);
    const struct wasmtime_error *e = wasmtime_module_deserialize_file(r->engine, code, &r->module);
    if (e)
        return runtime_failed(e, "load the compiled module", err);
    close(WASM_FD_CODE); /* the engine has its own */
    if (runtime_link(r->engine, &r->exited, &r->linker, err) < 0)
        return -1;
    e = wasmtime_linker_instantiate_pre(r->linker, r->module, &r->pre);
    return e ? runtime_failed(e, "link the module", err) : 0;
}

static int set_up(const char *library, bool fuel, struct error *err)
{
    sigset_t mask;
    umask(022);
    signal(SIGXFSZ, SIG_IGN); /* a file that has met its limit is an error for the guest, not its end */
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    zygote.signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (zygote.signals < 0 || setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "set up the zygote");
    if (load(library, fuel, err) < 0)
        return -1;
    zygote.runner.memory_bytes = jail_memory_now();
    return jail_drop_privileges(err);
}

/* --- commands --- */

/* On a line that may be full only if nobody reads it. */
static void tell(int line, const void *packet, size_t n)
{
    (void)!send(line, packet, n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void tell_no_room(int line, const char *why)
{
    struct wasm_verdict verdict = {.tag = WASM_VERDICT, .end = WASM_NO_ROOM};
    const struct wasm_over over = {.tag = WASM_OVER};
    snprintf(verdict.text, sizeof(verdict.text), "%s", why);
    tell(line, &verdict, sizeof(verdict));
    tell(line, &over, sizeof(over));
}

/* In the child: nothing of the others' and of the zygote's own is left. */
static _noreturn_ void become_command(pid_t parent, const struct wasm_request *request, const int *fds)
{
    sigset_t none;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    for (size_t i = 0; i < zygote.count; i++)
        close(zygote.children[i].line);
    close(zygote.signals);
    close(WASM_FD_CONTROL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    runner_run(&zygote.runner, request, fds);
}

/* The line is taken. */
static void start_command(const struct wasm_request *request, const int *fds)
{
    const pid_t parent = getpid();
    const pid_t pid = zygote.count < LIMIT_WASM_COMMANDS ? fork() : -1;
    if (pid == 0)
        become_command(parent, request, fds);
    if (pid > 0) {
        zygote.children[zygote.count++] = (struct child){.pid = pid, .line = fds[WASM_LINE]};
        return;
    }
    tell_no_room(fds[WASM_LINE], zygote.count == LIMIT_WASM_COMMANDS
                                     ? "too many commands run already: try again when some have ended"
                                     : "no further process can be started: try again later");
    fd_close(fds[WASM_LINE]);
}

/* All descriptors that came; those beyond WASM_FDS are closed. Returns how many. */
static size_t take_descriptors(struct msghdr *m, int *ret)
{
    size_t count = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) && count < WASM_FDS; i++)
            memcpy(&ret[count++], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
    }
    return count;
}

/* False: the control socket is closed. */
static bool read_request(void)
{
    struct wasm_request request;
    int fds[WASM_FDS];
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(fds))];
    } control = {.bytes = {0}};
    struct iovec part = {&request, sizeof(request)};
    struct msghdr m = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control)};
    ssize_t n = recvmsg(WASM_FD_CONTROL, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    if (n == 0)
        return false;
    size_t count = take_descriptors(&m, fds), kept = 0;
    if (n == sizeof(request) && count == WASM_FDS) {
        start_command(&request, fds);
        kept = 1; /* the line */
    }
    for (size_t i = kept; i < count; i++)
        fd_close(fds[i]);
    return true;
}

static void kill_command(struct child *c)
{
    char byte;
    if (recv(c->line, &byte, sizeof(byte), MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    c->killed = true;
    kill(c->pid, SIGKILL);
}

static void tell_end(const struct child *c, int status, const struct rusage *usage)
{
    const struct timeval *user = &usage->ru_utime, *system = &usage->ru_stime;
    const struct wasm_over over = {
        .tag = WASM_OVER,
        .signal = WIFSIGNALED(status) ? (uint32_t)WTERMSIG(status) : 0,
        .code = WIFEXITED(status) ? (uint32_t)WEXITSTATUS(status) : 0,
        .cpu_us =
            (uint64_t)(user->tv_sec + system->tv_sec) * 1000000 + (uint64_t)(user->tv_usec + system->tv_usec),
        .peak_bytes = (uint64_t)usage->ru_maxrss * KIB,
    };
    tell(c->line, &over, sizeof(over));
    fd_close(c->line);
}

static void collect(void)
{
    struct signalfd_siginfo info;
    struct rusage usage;
    int status;
    (void)!read(zygote.signals, &info, sizeof(info));
    for (pid_t pid; (pid = wait4(-1, &status, WNOHANG, &usage)) > 0;)
        for (size_t i = 0; i < zygote.count; i++)
            if (zygote.children[i].pid == pid) {
                tell_end(&zygote.children[i], status, &usage);
                zygote.children[i] = zygote.children[--zygote.count];
                break;
            }
}

/* --- the loop --- */

static void serve(void)
{
    static struct pollfd p[LIMIT_WASM_COMMANDS + 2];
    for (bool open = true; open;) {
        const size_t count = zygote.count;
        p[0] = (struct pollfd){.fd = WASM_FD_CONTROL, .events = POLLIN};
        p[1] = (struct pollfd){.fd = zygote.signals, .events = POLLIN};
        for (size_t i = 0; i < count; i++) {
            const struct child *c = &zygote.children[i];
            p[i + 2] = (struct pollfd){.fd = c->killed ? -1 : c->line, .events = POLLIN};
        }
        if (poll(p, count + 2, -1) < 0)
            continue;
        for (size_t i = 0; i < count; i++)
            if (p[i + 2].revents)
                kill_command(&zygote.children[i]);
        if (p[1].revents)
            collect();
        if (p[0].revents)
            open = read_request();
    }
}

int internal_zygote(const char *library, bool fuel, struct error *err)
{
    const char ready = WASM_READY;
    if (set_up(library, fuel, err) < 0)
        return -1;
    if (send(WASM_FD_CONTROL, &ready, sizeof(ready), MSG_NOSIGNAL) < 0)
        return error_errno(err, ERR_CANCELLED, errno, "say that the module is loaded");
    serve();
    _exit(0);
}
