/* A reaper is init's child and the parent of one command. Whatever the command leaves behind, in whatever
 * session or group, falls to the reaper (PR_SET_CHILD_SUBREAPER): its descendants are the scope, found by
 * walking /proc. It ends when it has none.
 *
 * A computer without a /proc of its own is walked in that of its maker (FD_PROC), where all processes have
 * other numbers: walks go by those, signals by ours.
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
#include "guest/proc.h"
#include "guest/sys.h"
#include "guest/title.h"

#define PROCESSES_MAX 32768 /* of one walk; more are found by the next */
#define STOP_ROUNDS 16

struct process {
    pid_t pid, parent; /* as the folder numbers them that is walked */
    pid_t own;         /* as we number it; known of ours */
    char state;
    bool ours;
};

static struct process processes[PROCESSES_MAX];
static unsigned process_count;
static bool has_other_numbers; /* FD_PROC is open */

/* --- numbers --- */

int reaper_open_proc(void)
{
    has_other_numbers = true;
    return sys_move_fd(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC), FD_PROC);
}

static int open_proc(void)
{
    return has_other_numbers ? openat(FD_PROC, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                             : open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* The last number of a line "NAME:\tNUMBER ...", such as the innermost namespace's. A line may be longer than
 * we read at once: then it goes on with numbers, never with a name. -1: none. */
static pid_t read_number(int proc, const char *file, const char *name)
{
    char line[256];
    pid_t number = -1;
    FILE *lines = fdopen(openat(proc, file, O_RDONLY | O_CLOEXEC), "r");
    while (lines && number < 0 && fgets(line, sizeof(line), lines))
        if (strncmp(line, name, strlen(name)) == 0)
            number = (pid_t)strtol(strrchr(line, '\t') + 1, NULL, 10);
    if (lines)
        fclose(lines);
    return number;
}

/* How the walk numbers a process that we know. */
static pid_t number_there(int proc, pid_t own)
{
    char file[48];
    if (!has_other_numbers)
        return own;
    _cleanup_fd_ int pidfd = (int)syscall(SYS_pidfd_open, own, 0);
    snprintf(file, sizeof(file), "self/fdinfo/%d", pidfd);
    return pidfd < 0 ? -1 : read_number(proc, file, "Pid:");
}

static pid_t number_here(int proc, pid_t there)
{
    char file[32];
    if (!has_other_numbers)
        return there;
    snprintf(file, sizeof(file), "%d/status", (int)there);
    return read_number(proc, file, "NSpid:");
}

/* --- walking --- */

static bool read_process(int proc, const char *name, struct process *ret)
{
    struct proc_stat stat;
    if (!proc_read_stat(proc, name, &stat))
        return false;
    *ret = (struct process){.pid = (pid_t)strtol(name, NULL, 10), .parent = stat.parent, .state = stat.state};
    return true;
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
    int proc;
    pid_t root;        /* as the walk numbers it */
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
    if (process->ours)
        return false;
    const struct process *parent = find_process(process->parent);
    if (process->parent != walk->root && !(parent && parent->ours))
        return false;
    process->own = number_here(walk->proc, process->pid);
    process->ours = process->own > 0 && !is_kept(walk, process->own);
    if (alive(process) && walk->signal) {
        kill(process->own, walk->signal);
        walk->running += process->state != 'T';
    }
    return process->ours;
}

/* Marks the descendants of root. Children mostly follow their parents; where numbers have wrapped round, it
 * takes more rounds. */
static void take_walk(pid_t root, struct walk *walk)
{
    process_count = 0;
    DIR *proc = fdopendir(open_proc());
    if (!proc)
        return;
    walk->proc = dirfd(proc);
    walk->root = number_there(walk->proc, root);
    for (struct dirent *entry; process_count < PROCESSES_MAX && (entry = readdir(proc));)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            read_process(walk->proc, entry->d_name, &processes[process_count]))
            claim(&processes[process_count++], walk);
    for (bool changed = true; changed;) {
        changed = false;
        for (unsigned i = 0; i < process_count; i++)
            changed |= claim(&processes[i], walk);
    }
    closedir(proc);
}

bool reaper_kill_beneath(pid_t root, const pid_t *kept, unsigned kept_count)
{
    for (unsigned round = 0; round < STOP_ROUNDS; round++) {
        struct walk stop = {.kept = kept, .kept_count = kept_count, .signal = SIGSTOP};
        take_walk(root, &stop);
        if (stop.running == 0)
            break;
    }
    bool any = false;
    for (unsigned i = 0; i < process_count; i++) {
        if (alive(&processes[i]))
            kill(processes[i].own, SIGKILL);
        any |= processes[i].ours;
    }
    return any;
}

bool reaper_finds_beneath(pid_t root, const pid_t *but, unsigned but_count)
{
    const struct walk list = {.kept = but, .kept_count = but_count};
    take_walk(root, &(struct walk){});
    bool found = process_count == 0; /* we can't see */
    for (unsigned i = 0; i < process_count; i++)
        found |= alive(&processes[i]) && !is_kept(&list, processes[i].own);
    return found;
}

/* --- watching --- */

static void fill_background(struct guest_exit *record)
{
    take_walk(getpid(), &(struct walk){});
    for (unsigned i = 0; i < process_count; i++) {
        if (!alive(&processes[i]))
            continue;
        if (record->background_count < GUEST_BACKGROUND_MAX)
            record->background[record->background_count++] = processes[i].own;
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
    struct rusage usage;
    pid_t pid;
    while ((pid = wait4(-1, &wait_status, WNOHANG, &usage)) > 0) {
        if (pid != command)
            continue;
        record->wait_status = wait_status;
        exec_tell_usage(&usage, record);
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
    sys_close_range((unsigned)reports + 1 + has_other_numbers, ~0U); /* FD_PROC follows */
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
