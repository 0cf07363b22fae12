/* A reaper is init's child and the parent of one command. Whatever the command leaves behind, in whatever
 * session or group, falls to the reaper (PR_SET_CHILD_SUBREAPER): its descendants are the scope, found by
 * walking /proc. It ends when it has none.
 *
 * Ending a scope: stop all, until a walk shows nothing new that runs, so that nothing forks while it is
 * killed; then kill all. What slipped through shows up when its parent's death is noticed: each such notice
 * walks again. */
#include "guest/reaper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "guest/init.h"
#include "guest/sys.h"
#include "guest/title.h"

#define PROCESSES_MAX 4096 /* of one walk; more are found by the next */
#define STOP_ROUNDS 16

struct process {
    pid_t pid, parent;
    char state;
    bool ours;
};

static struct process processes[PROCESSES_MAX];
static unsigned process_count;

/* --- walking --- */

static bool read_process(const char *name, struct process *ret)
{
    char path[32], text[128];
    snprintf(path, sizeof(path), "/proc/%.10s/stat", name);
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (size <= 0)
        return false;
    text[size] = 0;
    const char *behind_name = strrchr(text, ')'); /* the name itself may hold anything */
    *ret = (struct process){.pid = (pid_t)strtol(name, NULL, 10)};
    return behind_name && sscanf(behind_name, ") %c %d", &ret->state, &ret->parent) == 2;
}

static int compare_pids(const void *a, const void *b)
{
    return *(const pid_t *)a - ((const struct process *)b)->pid;
}

/* /proc lists by pid. */
static struct process *find_process(pid_t pid)
{
    return bsearch(&pid, processes, process_count, sizeof(processes[0]), compare_pids);
}

static bool alive(const struct process *process)
{
    return process->ours && process->state != 'Z' && process->state != 'X';
}

/* What a walk is for. */
struct walk {
    pid_t root;
    const pid_t *kept; /* not these, and nothing beneath them */
    unsigned kept_count;
    int signal;       /* to be sent to each that is found; 0: none */
    unsigned running; /* how many of those still ran */
};

static bool is_kept(const struct walk *walk, pid_t pid)
{
    for (unsigned i = 0; i < walk->kept_count; i++)
        if (walk->kept[i] == pid)
            return true;
    return false;
}

/* If its parent is ours, so is it. The signal goes out at once: a process that flees, by forking and exiting,
 * over and over, would not be there any more at the end of the walk. */
static bool claim(struct process *process, struct walk *walk)
{
    if (process->ours || is_kept(walk, process->pid))
        return false;
    const struct process *parent = find_process(process->parent);
    process->ours = process->parent == walk->root || (parent && parent->ours);
    if (alive(process) && walk->signal) {
        kill(process->pid, walk->signal);
        walk->running += process->state != 'T';
    }
    return process->ours;
}

/* Marks the descendants of root. Children mostly follow their parents; where numbers have wrapped round, it
 * takes more rounds. */
static void take_walk(struct walk *walk)
{
    process_count = 0;
    DIR *proc = opendir("/proc");
    if (!proc)
        return;
    for (struct dirent *entry; process_count < PROCESSES_MAX && (entry = readdir(proc));)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            read_process(entry->d_name, &processes[process_count]))
            claim(&processes[process_count++], walk);
    closedir(proc);
    for (bool changed = true; changed;) {
        changed = false;
        for (unsigned i = 0; i < process_count; i++)
            changed |= claim(&processes[i], walk);
    }
}

bool reaper_kill_beneath(pid_t root, const pid_t *kept, unsigned kept_count)
{
    for (unsigned round = 0; round < STOP_ROUNDS; round++) {
        struct walk stop = {.root = root, .kept = kept, .kept_count = kept_count, .signal = SIGSTOP};
        take_walk(&stop);
        if (stop.running == 0)
            break;
    }
    bool any = false;
    for (unsigned i = 0; i < process_count; i++) {
        if (alive(&processes[i]))
            kill(processes[i].pid, SIGKILL);
        any |= processes[i].ours;
    }
    return any;
}

/* --- watching --- */

static void fill_background(struct guest_exit *record)
{
    take_walk(&(struct walk){.root = getpid()});
    for (unsigned i = 0; i < process_count; i++) {
        if (!alive(&processes[i]))
            continue;
        if (record->background_count < GUEST_BACKGROUND_MAX)
            record->background[record->background_count++] = processes[i].pid;
        else
            record->background_more++;
    }
}

static void send_record(int reports, const struct guest_exit *record)
{
    while (send(reports, record, sizeof(*record), MSG_NOSIGNAL) < 0 && errno == EINTR)
        continue;
}

/* Ends the reaper with the last child. If it kills, the record says that all is gone, so it comes last. */
static void reap(int reports, pid_t command, struct guest_exit *record, bool killing)
{
    static bool ended, told;
    int wait_status;
    pid_t pid;
    while ((pid = waitpid(-1, &wait_status, WNOHANG)) > 0) {
        if (pid != command)
            continue;
        record->wait_status = wait_status;
        ended = true;
    }
    const bool last = pid < 0 && errno == ECHILD;
    if (ended && !told && (last || !killing)) {
        if (!last)
            fill_background(record);
        send_record(reports, record);
        told = true;
    }
    if (last)
        _exit(0);
}

static bool told_to_kill(void)
{
    struct signalfd_siginfo info;
    bool told = false;
    while (read(FD_SIGNALS, &info, sizeof(info)) == (ssize_t)sizeof(info))
        told |= info.ssi_signo == REAPER_KILL_SIGNAL;
    return told;
}

/* What init has open, the channel and other commands' pipes, is not for us to keep open. */
static void keep_only(int reports)
{
    sys_close_range(STDERR_FILENO + 1, FD_SIGNALS - 1);
    sys_close_range(FD_SIGNALS + 1, (unsigned)reports - 1);
    sys_close_range((unsigned)reports + 1, ~0U);
}

static _Noreturn void watch(int reports, const struct launch *launch, uint32_t id)
{
    struct guest_exit record = {.id = id};
    title_set("sandbox-reaper");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (launch->tied)
        prctl(PR_SET_PDEATHSIG, REAPER_KILL_SIGNAL);
    pid_t command = exec_launch(launch, &record.stage, &record.sys);
    keep_only(reports);
    if (launch->mapped)
        munmap(launch->mapped, launch->mapped_size);
    if (command < 0) {
        send_record(reports, &record);
        _exit(0);
    }
    struct pollfd polled = {.fd = FD_SIGNALS, .events = POLLIN};
    for (bool killing = false;;) {
        if (poll(&polled, 1, -1) < 0)
            continue;
        killing |= told_to_kill();
        reap(reports, command, &record, killing);
        if (killing)
            reaper_kill_beneath(getpid(), NULL, 0);
    }
}

int reaper_make_reports(int reapers_end)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    unsigned theirs = pair[0] == reapers_end ? 0 : 1;
    return sys_move_fd(pair[theirs], reapers_end) < 0 ? -1 : pair[1 - theirs];
}

pid_t reaper_start(int reports, const struct launch *launch, uint32_t id)
{
    pid_t pid = fork();
    if (pid == 0)
        watch(reports, launch, id);
    return pid;
}
