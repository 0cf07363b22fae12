/* One command:
 *
 *   RUNNING  its reaper (reaper.c) watches over it; whatever is ready is read and written, until the reaper's
 *            record says that its first process has ended, or that it couldn't be started
 *   DRAINING what is in the pipes is read, and for a short grace more while background processes hold them;
 *            their end is never waited for
 *   SENDING  the tails, then END, as the queue has room
 *
 * A kill can come at any time. From then on END waits until all of the command is gone, so that it can say
 * so; but not for ever, since there are processes that we may not kill.
 *
 * A reaper lives as long as anything of its command does, also after END. Hostile code of our own user may
 * stop or kill a reaper: what that one watched over falls to us (we are a subreaper, or the first process)
 * and is ended. */
#include "guest/command.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/capture.h"
#include "guest/memory.h"
#include "guest/oom.h"
#include "guest/reaper.h"
#include "guest/start.h"
#include "guest/sys.h"

#define REAPERS_MAX 1024 /* of commands and of what they have left running */
#define FILES_EACH 4     /* of our limit: poll(2) fails with more entries than that */
#define DRAIN_GRACE_NS (250 * NS_PER_MS)
#define DRAIN_BYTES (1U << 20)         /* read in that time */
#define KILL_AGAIN_NS (50 * NS_PER_MS) /* at first, then doubled: many take their time */
#define KILL_PATIENCE_NS (10000 * NS_PER_MS)
#define ROOM_LEAST (64U << 10) /* of a disk that isn't full */

enum state { RUNNING, DRAINING, SENDING, OVER };

struct command {
    uint32_t id;
    enum state state;
    pid_t reaper; /* -1: gone, and all of the command with it */
    struct pipes pipes;
    void *body; /* of the frame, as long as there is input in it */
    size_t body_size;
    struct capture capture;
    struct guest_exit record;
    uint64_t oom_before;
    int64_t deadline; /* DRAINING */
    size_t budget;
    bool blocked; /* the queue had no room for what is to be said */
    bool killing;
    int64_t kill_again, kill_step, kill_until;
};

static struct {
    const struct serve_config *config;
    struct rlimit nofile;
    int reports;
    struct command commands[SERVE_COMMANDS_MAX];
    unsigned count, most;
    pid_t reapers[REAPERS_MAX];
    unsigned reaper_count;
    bool strays; /* processes of a killed reaper may live */
} all;           /* all zero, so that it takes no room in the file */

static struct command *find_command(uint32_t id)
{
    for (unsigned i = 0; i < all.count; i++)
        if (all.commands[i].id == id)
            return &all.commands[i];
    return NULL;
}

void commands_set_up(const struct serve_config *config, const struct rlimit *nofile)
{
    all.config = config;
    all.nofile = *nofile;
    rlim_t wanted = config->nofile, polled = nofile->rlim_max / FILES_EACH;
    if (wanted > 0)
        all.nofile.rlim_cur = all.nofile.rlim_max = wanted < nofile->rlim_max ? wanted : nofile->rlim_max;
    all.most = polled < SERVE_COMMANDS_MAX ? (unsigned)polled : SERVE_COMMANDS_MAX;
}

/* --- starting --- */

static void command_done(struct command *c)
{
    pipes_close(&c->pipes);
    c->body = memory_give(c->body, c->body_size);
    capture_done(&c->capture);
}

static void refuse(uint32_t id, uint32_t stage, int sys)
{
    const struct serve_end end = {.exit = {.id = id, .stage = stage, .sys = sys}};
    frames_put_end(id, &end);
}

/* Takes the frame's body. */
static void run(struct frame *frame, struct request_run *run)
{
    struct command *c = &all.commands[all.count];
    *c = (struct command){.id = frame->head.id, .pipes = PIPES_NONE};
    c->body = frame->body;
    c->body_size = frame->head.size;
    frame->body = NULL;
    c->oom_before = oom_kills();
    capture_init(&c->capture, c->id, run->output_limit, run->spool_limit, all.config->spool_dir);
    c->reaper = start_command(c->id, run, c->body, c->body_size, &all.nofile, all.config->flags & SERVE_DIES,
                              &c->pipes);
    if (c->reaper < 0) {
        refuse(c->id, GUEST_STAGE_FORK, errno);
        command_done(c);
        return;
    }
    all.reapers[all.reaper_count++] = c->reaper;
    all.count++;
    if (c->pipes.in < 0)
        c->body = memory_give(c->body, c->body_size);
}

int commands_run(struct frame *frame)
{
    const uint32_t id = frame->head.id;
    struct request_run request;
    if (!all.config || find_command(id))
        return -1;
    if (all.count >= all.most || all.reaper_count == REAPERS_MAX)
        refuse(id, GUEST_STAGE_REQUEST, EAGAIN);
    else if (!frame->body)
        refuse(id, GUEST_STAGE_FORK, ENOMEM);
    else if (!request_run_parse(frame->body, frame->head.size, &request))
        refuse(id, GUEST_STAGE_REQUEST, EINVAL);
    else
        run(frame, &request);
    return 0;
}

/* --- ending --- */

static void signal_reaper(struct command *c)
{
    if (c->reaper > 0) {
        kill(c->reaper, REAPER_KILL_SIGNAL);
        kill(c->reaper, SIGCONT);
    }
    c->kill_again = sys_clock_ns() + c->kill_step;
    c->kill_step *= 2;
}

static void kill_command(struct command *c)
{
    if (!c->killing)
        c->kill_until = sys_clock_ns() + KILL_PATIENCE_NS;
    c->kill_step = KILL_AGAIN_NS;
    c->killing = true;
    signal_reaper(c);
}

void commands_kill(uint32_t id)
{
    struct command *c = find_command(id);
    if (c)
        kill_command(c);
}

void commands_kill_running(void)
{
    for (unsigned i = 0; i < all.count; i++)
        if (all.commands[i].state == RUNNING)
            kill_command(&all.commands[i]);
}

bool commands_are_over(void)
{
    return all.count == 0;
}

static bool is_gone(const struct command *c)
{
    return c->reaper < 0 && !all.strays;
}

static void finish(struct command *c, const struct guest_exit *record)
{
    if (c->state != RUNNING)
        return;
    c->record = *record;
    if (c->record.background_count > GUEST_BACKGROUND_MAX)
        c->record.background_count = GUEST_BACKGROUND_MAX;
    c->state = DRAINING;
    c->deadline = sys_clock_ns() + DRAIN_GRACE_NS;
    c->budget = DRAIN_BYTES;
    c->pipes.in = sys_close(c->pipes.in);
    c->body = memory_give(c->body, c->body_size);
}

int commands_open_reports(void)
{
    all.reports = reaper_make_reports(FD_SYNC);
    return all.reports;
}

int commands_reports(void)
{
    return all.reports;
}

void commands_read_reports(void)
{
    struct guest_exit record;
    while (recv(all.reports, &record, sizeof(record), MSG_DONTWAIT) == (ssize_t)sizeof(record)) {
        struct command *c = find_command(record.id);
        if (c)
            finish(c, &record);
    }
}

/* --- children --- */

static bool is_reaper(pid_t pid)
{
    for (unsigned i = 0; i < all.reaper_count; i++)
        if (all.reapers[i] == pid)
            return true;
    return false;
}

static void forget_reaper(pid_t pid)
{
    for (unsigned i = 0; i < all.reaper_count; i++)
        if (all.reapers[i] == pid)
            all.reapers[i] = all.reapers[--all.reaper_count];
}

/* A reaper that didn't exit was killed by hostile code: its command counts as killed. */
static void handle_end(pid_t pid, int wait_status)
{
    all.strays |= !WIFEXITED(wait_status);
    forget_reaper(pid);
    for (unsigned i = 0; i < all.count; i++) {
        struct command *c = &all.commands[i];
        if (c->reaper != pid)
            continue;
        c->reaper = -1;
        finish(c, &(struct guest_exit){.id = c->id, .wait_status = wait_status});
    }
}

static bool kill_strays(void)
{
    return reaper_kill_beneath(getpid(), all.reapers, all.reaper_count);
}

/* Orphans that we adopted are nobody's and are dropped. */
bool commands_reap(void)
{
    int wait_status;
    pid_t pid;
    while ((pid = waitpid(-1, &wait_status, WNOHANG | WUNTRACED)) > 0) {
        if (!is_reaper(pid))
            continue;
        if (WIFSTOPPED(wait_status)) {
            kill(pid, SIGCONT);
            continue;
        }
        commands_read_reports();
        handle_end(pid, wait_status);
    }
    if (all.strays)
        all.strays = kill_strays();
    return pid == 0;
}

/* Through the reapers: where /proc is mounted with hidepid, only they see what is beneath them. */
void commands_kill_everything(void)
{
    for (unsigned i = 0; i < all.reaper_count; i++) {
        kill(all.reapers[i], REAPER_KILL_SIGNAL);
        kill(all.reapers[i], SIGCONT);
    }
    kill_strays();
}

/* --- going on --- */

/* Returns the number of bytes; 0: nothing there now, or closed. */
static size_t read_stream(struct command *c, unsigned stream)
{
    static char chunk[CAPTURE_CHUNK];
    if (c->pipes.out[stream] < 0)
        return 0;
    ssize_t n = read(c->pipes.out[stream], chunk, sizeof(chunk));
    if (n > 0)
        capture_add(&c->capture, stream, chunk, (size_t)n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        c->pipes.out[stream] = sys_close(c->pipes.out[stream]);
    return n > 0 ? (size_t)n : 0;
}

/* All that is there, within the budget. False: the queue has no room for it. */
static bool read_what_is_there(struct command *c)
{
    for (size_t n = 1; n > 0 && c->budget > 0;) {
        n = 0;
        for (unsigned stream = 0; stream < 2; stream++) {
            if (!capture_is_ready(&c->capture))
                return false;
            n += read_stream(c, stream);
        }
        c->budget -= n < c->budget ? n : c->budget;
    }
    return true;
}

static bool must_wait_for_the_kill(const struct command *c, int64_t now)
{
    return c->killing && !is_gone(c) && now < c->kill_until;
}

static bool is_drained(struct command *c, int64_t now)
{
    bool others = !c->killing && (c->record.background_count || c->record.background_more);
    c->blocked = !read_what_is_there(c);
    if (c->blocked)
        return false;
    bool open = c->pipes.out[0] >= 0 || c->pipes.out[1] >= 0;
    return !others || !open || c->budget == 0 || now >= c->deadline;
}

/* One that is read only, or doesn't say how large it is, can't be full. */
static bool disk_is_full(void)
{
    struct statfs s;
    if (statfs("/", &s) < 0 || s.f_blocks == 0 || s.f_flags & ST_RDONLY)
        return false;
    const uint64_t left = (uint64_t)(geteuid() == 0 ? s.f_bfree : s.f_bavail) * (uint64_t)s.f_bsize;
    return left < ROOM_LEAST || (s.f_files > 0 && s.f_ffree == 0);
}

static bool send_end(struct command *c)
{
    struct serve_end end = {
        .exit = c->record, .killed = c->killing && is_gone(c), .disk_full = disk_is_full()};
    if (!capture_send_tails(&c->capture) || !frames_can_answer())
        return false;
    if (end.killed)
        end.exit.background_count = end.exit.background_more = 0;
    uint64_t kills = oom_kills();
    end.oom_kills = kills > c->oom_before ? (uint32_t)(kills - c->oom_before) : 0;
    capture_tell(&c->capture, &end);
    return frames_put_end(c->id, &end);
}

static void go_on(struct command *c, const struct pollfd polled[3], int64_t now)
{
    c->blocked = false;
    if (c->killing && now >= c->kill_again)
        signal_reaper(c);
    if (c->killing && now >= c->kill_until)
        finish(c, &(struct guest_exit){.id = c->id, .wait_status = SIGKILL});
    if (c->pipes.in >= 0 && polled[2].revents)
        pipes_write_input(&c->pipes);
    if (c->pipes.in < 0)
        c->body = memory_give(c->body, c->body_size);
    if (c->state == RUNNING || must_wait_for_the_kill(c, now)) {
        for (unsigned stream = 0; stream < 2; stream++)
            if (polled[stream].revents && capture_is_ready(&c->capture))
                read_stream(c, stream);
        return;
    }
    if (c->state == DRAINING && is_drained(c, now)) {
        c->pipes.out[0] = sys_close(c->pipes.out[0]);
        c->pipes.out[1] = sys_close(c->pipes.out[1]);
        c->state = SENDING;
    }
    if (c->state != SENDING)
        return;
    c->blocked = !send_end(c);
    if (c->blocked)
        return;
    command_done(c);
    c->state = OVER;
}

unsigned commands_poll(struct pollfd *ret)
{
    for (unsigned i = 0; i < all.count; i++, ret += 3) {
        const struct command *c = &all.commands[i];
        /* What can't be read must not be polled either: its end would be told over and over. */
        bool ready = capture_is_ready(&c->capture);
        ret[0] = (struct pollfd){.fd = ready ? c->pipes.out[0] : -1, .events = POLLIN};
        ret[1] = (struct pollfd){.fd = ready ? c->pipes.out[1] : -1, .events = POLLIN};
        ret[2] = (struct pollfd){.fd = c->pipes.in, .events = POLLOUT};
    }
    return all.count * 3;
}

int64_t commands_due(void)
{
    int64_t due = INT64_MAX;
    for (unsigned i = 0; i < all.count; i++) {
        const struct command *c = &all.commands[i];
        if (c->blocked && frames_room() >= CAPTURE_CHUNK)
            return 0;
        if (c->killing && !is_gone(c))
            due = c->kill_again < due ? c->kill_again : due;
        else if (c->state == DRAINING && capture_is_ready(&c->capture))
            due = c->deadline < due ? c->deadline : due;
    }
    return due;
}

void commands_go_on(const struct pollfd *polled, int64_t now)
{
    for (unsigned i = 0; i < all.count; i++)
        go_on(&all.commands[i], polled + 3 * (size_t)i, now);
    for (unsigned i = 0; i < all.count;)
        if (all.commands[i].state == OVER)
            all.commands[i] = all.commands[--all.count];
        else
            i++;
}
