/* As a container's first process, or as one more that an engine has started: one loop over the stream
 * (frames.c), the commands (command.c) and signals. It has no privileges that its commands haven't, and runs
 * as whatever user the container has.
 *
 *   open     frames come and go
 *   closing  the stream, or the lease, is over, and not all is to end with it: commands that run are killed;
 *            then an ordinary process exits, and the first one lives on to collect orphans, until the end of
 *            the container
 *
 * The end of the first process is the end of all others. An ordinary one that is to take all with it kills
 * what it has started: it is a subreaper, so that is all beneath it. */
#include "guest/serve.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <linux/capability.h>

#include "guest/clear.h"
#include "guest/command.h"
#include "guest/early.h"
#include "guest/firewall.h"
#include "guest/frames.h"
#include "guest/oom.h"
#include "guest/privileges.h"
#include "guest/reaper.h"
#include "guest/request.h"
#include "guest/signals.h"
#include "guest/sys.h"

/* Our own descriptors: three for each command, two more where the output is long, and some. */
#define FILES_MAX 1024
#define CLOSING_NS (5 * NS_PER_S)
#define END_STEP_MS 50
/* For so long what a quick command says goes out with HELLO and READY, which nobody waits for: each message
 * costs whoever carries it. */
#define HOLD_NS (20 * NS_PER_MS)
#define SIGNAL_HALT 37 /* what images with systemd are stopped by: its SIGRTMIN+3 */

/* Those that engines stop a container with, as its image or its user says. An ordinary process is ended by
 * REAPER_KILL_SIGNAL only. */
static const int stop_signals[] = {REAPER_KILL_SIGNAL, SIGINT, SIGQUIT, SIGHUP, SIGNAL_HALT};

/* Until we are told otherwise all ends with the stream. */
static struct {
    bool first; /* we are the container's first process */
    bool configured, closing;
    bool has_run; /* a command, or refused to */
    struct serve_config config;
    struct rlimit nofile; /* as we were given it */
    int64_t lease_until, closing_until;
    int64_t hold_until; /* 0: nothing is held back */
} serve = {.config = {.flags = SERVE_DIES}, .lease_until = INT64_MAX, .closing_until = INT64_MAX};

/* --- the end --- */

static _Noreturn void end_all(void)
{
    const int64_t until = sys_clock_ns() + CLOSING_NS;
    struct pollfd signals = {.fd = FD_SIGNALS, .events = POLLIN};
    struct signalfd_siginfo drained;
    while (!serve.first && commands_reap() && sys_clock_ns() < until) {
        commands_kill_everything();
        poll(&signals, 1, END_STEP_MS);
        while (read(FD_SIGNALS, &drained, sizeof(drained)) > 0)
            continue;
    }
    _exit(0);
}

/* Nobody speaks to us any more. */
static void close_stream(void)
{
    if (serve.closing)
        return;
    if (serve.config.flags & SERVE_DIES)
        end_all();
    serve.closing = true;
    serve.lease_until = INT64_MAX;
    serve.closing_until = sys_clock_ns() + CLOSING_NS;
    frames_close();
    commands_kill_running();
}

/* --- frames --- */

static void set_up_firewall(struct serve_ready *ready)
{
    int failed = 0;
    if (!(serve.config.flags & SERVE_FIREWALL))
        return;
    if (serve.first) {
        failed = firewall_close(&ready->error);
        ready->firewall = failed < 0 ? SERVE_FIREWALL_FAILED : SERVE_FIREWALL_ON;
    }
    /* Whoever has it could open what is closed: also where we are not the first process. */
    struct guest_error err;
    if (privileges_give_up(CAP_NET_ADMIN, &err) < 0 && failed == 0) {
        ready->firewall = SERVE_FIREWALL_FAILED;
        ready->error = err;
    }
}

static int configure(const struct frame *frame)
{
    struct serve_ready ready = {.firewall = SERVE_FIREWALL_NONE};
    struct serve_config config = {0};
    if (serve.configured || !frame->body)
        return -1;
    memcpy(&config, frame->body, frame->head.size);
    if (!request_config_ok(&config))
        return -1;
    serve.config = config;
    serve.configured = true;
    commands_set_up(&serve.config, &serve.nofile);
    set_up_firewall(&ready);
    ready.has_shell[0] = access("/bin/bash", X_OK) == 0;
    ready.has_shell[1] = access("/bin/sh", X_OK) == 0;
    frames_put(SERVE_READY, 0, &ready, sizeof(ready), NULL, 0);
    return 0;
}

static int handle_frame(struct frame *frame)
{
    if (!serve.configured && frame->head.type != SERVE_CONFIG)
        return -1;
    switch (frame->head.type) {
    case SERVE_CONFIG:
        return configure(frame);
    case SERVE_RUN:
        serve.has_run = true;
        return commands_run(frame);
    case SERVE_KILL:
        commands_kill(frame->head.id);
        return 0;
    case SERVE_CLEAR:
        clear_begin(frame->head.id, serve.first);
        return 0;
    default: /* SERVE_PING: others don't come so far */
        frames_put(SERVE_PONG, 0, NULL, 0, NULL, 0);
        return 0;
    }
}

/* What is asked for behind a CLEAR is for the time after it. */
static bool is_listening(void)
{
    return !serve.closing && !clear_is_on() && frames_can_answer();
}

static void read_frames(int64_t now)
{
    struct frame *frame;
    int came = 1;
    while (came == 1 && is_listening()) {
        came = frames_read(&frame);
        if (came == 1 && handle_frame(frame) < 0)
            came = -1;
        if (came == 1)
            frames_next();
    }
    if (came < 0) {
        close_stream();
        return;
    }
    if (serve.config.lease_s > 0)
        serve.lease_until = now + serve.config.lease_s * NS_PER_S;
}

/* --- loop --- */

/* As the first process we are stopped by the engine, from outside, which has no number here. What a command
 * sends has one. */
static void read_signals(void)
{
    struct signalfd_siginfo info;
    while (read(FD_SIGNALS, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGCHLD || (serve.first && info.ssi_pid != 0))
            continue;
        if (serve.first)
            _exit(0);
        close_stream();
    }
}

static bool is_held(int64_t now)
{
    return now < serve.hold_until && !frames_urgent();
}

static int poll_timeout(int64_t now)
{
    if (is_listening() && frames_ahead())
        return 0;
    int64_t due = commands_due();
    due = serve.lease_until < due ? serve.lease_until : due;
    due = serve.closing_until < due ? serve.closing_until : due;
    due = clear_due() < due ? clear_due() : due;
    due = is_held(now) && serve.hold_until < due ? serve.hold_until : due;
    if (due == INT64_MAX)
        return -1;
    int64_t ms = (due - now + NS_PER_MS - 1) / NS_PER_MS;
    return ms < 0 ? 0 : ms < INT32_MAX ? (int)ms : INT32_MAX;
}

static void check_once(void)
{
    const bool once = serve.config.flags & SERVE_ONCE && !serve.first;
    if (once && serve.has_run && commands_are_over() && !frames_pending())
        _exit(0);
}

static void check_clock(int64_t now)
{
    if (now >= serve.lease_until)
        close_stream();
    bool over = serve.closing && (commands_are_over() || now >= serve.closing_until);
    if (over && !serve.first)
        _exit(0);
    if (over)
        serve.closing_until = INT64_MAX;
}

static void turn(void)
{
    enum { SIGNALS, REPORTS, IN, OUT, COMMANDS };
    static struct pollfd polled[COMMANDS + COMMANDS_POLLED];
    const bool open = !serve.closing, writing = frames_pending() && !is_held(sys_clock_ns());
    polled[SIGNALS] = (struct pollfd){.fd = FD_SIGNALS, .events = POLLIN};
    polled[REPORTS] = (struct pollfd){.fd = commands_reports(), .events = POLLIN};
    polled[IN] = (struct pollfd){.fd = is_listening() ? FD_FRAMES_IN : -1, .events = POLLIN};
    polled[OUT] = (struct pollfd){.fd = open ? FD_FRAMES_OUT : -1, .events = writing ? POLLOUT : 0};
    unsigned count = COMMANDS + commands_poll(polled + COMMANDS);
    if (poll(polled, count, poll_timeout(sys_clock_ns())) < 0)
        return;
    const int64_t now = sys_clock_ns();
    if (polled[SIGNALS].revents)
        read_signals();
    if (polled[REPORTS].revents)
        commands_read_reports();
    commands_reap();
    commands_go_on(polled + COMMANDS, now);
    if (!serve.closing && (polled[IN].revents || frames_ahead()))
        read_frames(now);
    clear_go_on(now);
    if (!serve.closing &&
        ((!is_held(now) && frames_flush() < 0) || polled[OUT].revents & (POLLERR | POLLHUP)))
        close_stream();
    check_once();
    check_clock(now);
}

/* --- starting --- */

/* Standard descriptors become /dev/null, for commands without input, and so that no reaper keeps the stream
 * open. */
static int take_stream(bool more)
{
    if (dup3(STDIN_FILENO, FD_FRAMES_IN, O_CLOEXEC) < 0 || dup3(STDOUT_FILENO, FD_FRAMES_OUT, O_CLOEXEC) < 0)
        return -1;
    sys_close_range(FD_FRAMES_OUT + 1, ~0U);
    if (more && dup3(STDERR_FILENO, FD_FRAMES_MORE, O_CLOEXEC) < 0)
        return -1;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (dup2(null, fd) < 0)
            return -1;
    close(null);
    if (fcntl(FD_FRAMES_IN, F_SETFL, O_NONBLOCK) < 0 || fcntl(FD_FRAMES_OUT, F_SETFL, O_NONBLOCK) < 0)
        return -1;
    return 0;
}

static int take_files_limit(void)
{
    if (getrlimit(RLIMIT_NOFILE, &serve.nofile) < 0)
        return -1;
    struct rlimit ours = serve.nofile;
    ours.rlim_cur = ours.rlim_max < FILES_MAX ? ours.rlim_max : FILES_MAX;
    return setrlimit(RLIMIT_NOFILE, &ours);
}

static int set_up(bool more, bool first)
{
    sigset_t stop;
    void *early = NULL;
    size_t early_size = 0;
    if (first && early_take(&early, &early_size) < 0)
        return -1;
    sigemptyset(&stop);
    serve.first = getpid() == 1;
    for (unsigned i = 0; serve.first && i < ARRAY_LEN(stop_signals); i++)
        sigaddset(&stop, stop_signals[i]);
    if (take_stream(more) < 0 || signals_take(&stop) < 0 || commands_open_reports() < 0 ||
        frames_open(more, early, early_size) < 0)
        return -1;
    oom_open_score();
    oom_open_count();
    if (take_files_limit() < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return -1;
    return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

int serve_run(bool more, bool first)
{
    const struct serve_hello hello = {.magic = SERVE_MAGIC, .version = SERVE_VERSION, .pid = getpid()};
    if (set_up(more, first) < 0)
        return 1;
    frames_put(SERVE_HELLO, 0, &hello, sizeof(hello), NULL, 0);
    if (frames_ahead())
        serve.hold_until = sys_clock_ns() + HOLD_NS;
    else if (frames_flush() < 0)
        return 1;
    for (;;)
        turn();
}
