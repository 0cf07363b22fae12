/* Commands, and whatever they have left behind, are in sessions that our jobs have made (job.c). So whoever
 * is in the session of the machine's first process is the provider's own, and is left alone, and so is our
 * main process. All others are stopped as they are seen, that they can't fork away from their end, and
 * killed, over and over until none is seen: one that has ended, but wasn't collected, is nobody's program any
 * more. */
#include "guest/sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/job_wire.h"
#include "guest/proc.h"
#include "guest/report.h"
#include "guest/sys.h"

#define AGAIN_MS 10
#define PATIENCE_NS (10 * NS_PER_S) /* there may be some that the kernel holds */

/* -1: it has ended. */
static pid_t session_of(int proc, const char *pid)
{
    struct proc_stat stat;
    return !proc_read_stat(proc, pid, &stat) || stat.state == 'Z' || stat.state == 'X' ? -1 : stat.session;
}

static bool is_same_program(int proc, const char *pid)
{
    char path[64];
    struct stat own, other;
    snprintf(path, sizeof(path), "%.10s/exe", pid);
    return stat("/proc/self/exe", &own) == 0 && fstatat(proc, path, &other, 0) == 0 &&
           own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

static bool is_main(int proc, const char *pid)
{
    char path[64], line[64];
    snprintf(path, sizeof(path), "%.10s/cmdline", pid);
    _cleanup_fd_ int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
    line[n > 0 ? n : 0] = '\0';
    const size_t first = strlen(line) + 1;
    return n > 0 && first < (size_t)n && strcmp(line + first, JOB_MAIN) == 0 && is_same_program(proc, pid);
}

/* The kernel's have no program. */
static bool has_program(int proc, const char *pid)
{
    char path[64], target[8];
    snprintf(path, sizeof(path), "%.10s/exe", pid);
    return readlinkat(proc, path, target, sizeof(target)) > 0;
}

static bool is_to_end(int proc, const char *pid, pid_t first_session)
{
    const pid_t session = session_of(proc, pid);
    return atoi(pid) > 1 && atoi(pid) != getpid() && session >= 0 && session != first_session &&
           has_program(proc, pid) && !is_main(proc, pid);
}

/* How many there were; -1. */
static int sweep_once(struct guest_error *err)
{
    int count = 0;
    DIR *all = opendir("/proc");
    if (!all)
        return report(err, "list the processes");
    const int proc = dirfd(all);
    const pid_t first_session = session_of(proc, "1");
    for (const struct dirent *one; (one = readdir(all));) {
        const pid_t pid = (pid_t)strtol(one->d_name, NULL, 10);
        if (pid <= 0 || !is_to_end(proc, one->d_name, first_session))
            continue;
        count++;
        kill(pid, SIGSTOP);
        kill(pid, SIGKILL);
    }
    closedir(all);
    return count;
}

int sweep_all(struct guest_error *err)
{
    const int64_t until = sys_clock_ns() + PATIENCE_NS;
    for (;;) {
        const int count = sweep_once(err);
        if (count <= 0)
            return count;
        if (sys_clock_ns() >= until)
            return report_text(err, ETIMEDOUT, "end everything in the machine", "");
        poll(NULL, 0, AGAIN_MS);
    }
}
