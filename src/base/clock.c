/* Clocks, and the names that the kernel gives to boots and processes. */
#include "base/clock.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"

#define PID_FS 0x50494446 /* PID_FS_MAGIC, newer than the C library's headers */

static int64_t read_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return t.tv_sec * NSEC_PER_SEC + t.tv_nsec;
}

int64_t clock_now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t clock_wall(void)
{
    return read_clock(CLOCK_REALTIME);
}

int64_t clock_deadline_after(double seconds)
{
    int64_t now = clock_now();
    if (isnan(seconds) || seconds <= 0)
        return now;
    double ns = seconds * (double)NSEC_PER_SEC;
    return ns >= (double)(DEADLINE_NONE - now) ? DEADLINE_NONE : now + (int64_t)ns;
}

int clock_poll_timeout(int64_t deadline)
{
    if (deadline == DEADLINE_NONE)
        return -1;
    int64_t now = clock_now();
    if (deadline <= now)
        return 0;
    int64_t ms = (deadline - now - 1) / NSEC_PER_MSEC + 1;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

static void put_number(char *at, int digits, int value)
{
    for (char *p = at + digits; p > at; value /= 10)
        *--p = (char)('0' + value % 10);
}

const char *clock_rfc3339(int64_t wall_ns, char buf[CLOCK_RFC3339_SIZE])
{
    time_t seconds = wall_ns / NSEC_PER_SEC;
    int64_t rest = wall_ns % NSEC_PER_SEC;
    if (rest < 0) {
        rest += NSEC_PER_SEC;
        seconds--;
    }
    struct tm tm = {0};
    gmtime_r(&seconds, &tm);
    const struct {
        int at, digits, value;
    } fields[] = {{0, 4, tm.tm_year + 1900},
                  {5, 2, tm.tm_mon + 1},
                  {8, 2, tm.tm_mday},
                  {11, 2, tm.tm_hour},
                  {14, 2, tm.tm_min},
                  {17, 2, tm.tm_sec},
                  {20, 3, (int)(rest / NSEC_PER_MSEC)}};
    strcpy(buf, "YYYY-MM-DDThh:mm:ss.mmmZ");
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        put_number(buf + fields[i].at, fields[i].digits, fields[i].value);
    return buf;
}

/* Reads the beginning of a small kernel file as a string; false if there is no such file. */
static bool read_kernel_file(const char *path, char *ret, size_t size)
{
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);
    if (n < 0)
        return false;
    ret[n] = '\0';
    return true;
}

static char boot_id[40];

static void read_boot_id(void)
{
    if (!read_kernel_file("/proc/sys/kernel/random/boot_id", boot_id, sizeof(boot_id)))
        boot_id[0] = '\0';
    boot_id[strcspn(boot_id, "\n")] = '\0';
}

const char *clock_boot_id(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_boot_id);
    return boot_id;
}

uint64_t clock_process_start(pid_t pid)
{
    char path[32], stat[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (!read_kernel_file(path, stat, sizeof(stat)))
        return 0;

    /* The process chooses its name, field 2, and may put spaces and parentheses there: count from the last
     * one. */
    char *p = strrchr(stat, ')');
    if (p && (strncmp(p, ") Z", 3) == 0 || strncmp(p, ") X", 3) == 0)) /* ended, and not waited for */
        return 0;
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    return p ? strtoull(p + 1, NULL, 10) : 0;
}

bool clock_process_is_hidden(pid_t pid)
{
    if (clock_process_start(pid) != 0)
        return false;
    struct pollfd p = {.fd = pidfd_open(pid, 0), .events = POLLIN};
    bool lives = p.fd >= 0 && poll(&p, 1, 0) == 0;
    fd_close(p.fd);
    return lives;
}

/* Before the file system of pidfds, they all had one inode. */
uint64_t clock_process_serial(int pidfd)
{
    struct statfs fs;
    struct stat st;
    return fstatfs(pidfd, &fs) == 0 && fs.f_type == PID_FS && fstat(pidfd, &st) == 0 ? st.st_ino : 0;
}
