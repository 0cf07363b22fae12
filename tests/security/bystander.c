/* See bystander.h. Nothing here changes anything: what it takes to see whether it can be had is given back.
 */
#include "bystander.h"

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

#define CLOCK_TOLERANCE_S 2
#define SETTING_MAX 4096
#define TAKEN 32 /* of each kind: more than a share of nothing would give */

static const char *const settings[] = {
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/poweroff_cmd",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/domainname",
    "/proc/sys/kernel/sysrq",
    "/proc/sys/kernel/panic",
    "/proc/sys/kernel/pid_max",
    "/proc/sys/kernel/randomize_va_space",
    "/proc/sys/kernel/dmesg_restrict",
    "/proc/sys/fs/suid_dumpable",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/kernel/pty/max",
    "/sys/kernel/uevent_helper",
    "/proc/sys/kernel/tainted",
    "/proc/sys/kernel/random/boot_id",
    "/proc/swaps",
    "/etc/passwd",
    "/etc/ld.so.preload",
};
static const char *const programs[] = {"/bin/sh", "/usr/bin/env", "/usr/bin/true", "/usr/bin/id", "/usr"};

struct bystander {
    char settings[ARRAY_LEN(settings)][SETTING_MAX];
    struct stat programs[ARRAY_LEN(programs)];
    int64_t clock_offset; /* of the time of day against the time since boot, in seconds */
};

/* "" where there is no such setting. */
static void read_setting(const char *path, char *ret)
{
    memset(ret, 0, SETTING_MAX);
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, ret, SETTING_MAX - 1) < 0)
        ret[0] = '\0';
}

static int64_t clock_offset(void)
{
    struct timespec day, boot;
    clock_gettime(CLOCK_REALTIME, &day);
    clock_gettime(CLOCK_BOOTTIME, &boot);
    return day.tv_sec - boot.tv_sec;
}

/* A report that is full loses lines, never the count. */
static size_t tell(struct buf *report, const char *what, const char *name)
{
    (void)!buf_printf(report, "%s%s\n", what, name);
    return 1;
}

struct bystander *bystander_remember(void)
{
    struct bystander *b = xcalloc(1, sizeof(*b));
    for (size_t i = 0; i < ARRAY_LEN(settings); i++)
        read_setting(settings[i], b->settings[i]);
    for (size_t i = 0; i < ARRAY_LEN(programs); i++)
        (void)stat(programs[i], &b->programs[i]);
    b->clock_offset = clock_offset();
    return b;
}

struct bystander *bystander_free(struct bystander *b)
{
    free(b);
    return NULL;
}

static bool same_program(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mode == b->st_mode &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

size_t bystander_changes(const struct bystander *b, struct buf *ret)
{
    size_t count = 0;
    for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
        char now[SETTING_MAX];
        read_setting(settings[i], now);
        if (strcmp(now, b->settings[i]) == 0)
            continue;
        count += tell(ret, "another setting: ", settings[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
        struct stat now = {0};
        (void)stat(programs[i], &now);
        if (same_program(&now, &b->programs[i]))
            continue;
        count += tell(ret, "another program: ", programs[i]);
    }
    const int64_t drift = clock_offset() - b->clock_offset;
    if (drift > CLOCK_TOLERANCE_S || drift < -CLOCK_TOLERANCE_S)
        count += tell(ret, "another time: ", "the clock was set");
    return count;
}

static int take_inotify(void)
{
    return inotify_init1(IN_CLOEXEC);
}

static int take_epoll(void)
{
    return epoll_create1(EPOLL_CLOEXEC);
}

static int take_terminal(void)
{
    return posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
}

static int take_pipe(void)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    fd_close(ends[1]);
    return ends[0];
}

static const struct {
    const char *name;
    int (*take)(void); /* a descriptor */
} kinds[] = {{"inotify instances", take_inotify},
             {"epoll instances", take_epoll},
             {"terminals", take_terminal},
             {"pipes", take_pipe}};

static bool can_take(int (*take)(void))
{
    int fds[TAKEN], count = 0;
    while (count < TAKEN && (fds[count] = take()) >= 0)
        count++;
    for (int i = 0; i < count; i++)
        fd_close(fds[i]);
    return count == TAKEN;
}

static bool can_make_timers(void)
{
    timer_t timers[TAKEN];
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    int count = 0;
    while (count < TAKEN && timer_create(CLOCK_MONOTONIC, &event, &timers[count]) == 0)
        count++;
    for (int i = 0; i < count; i++)
        (void)timer_delete(timers[i]);
    return count == TAKEN;
}

static bool can_make_queue(void)
{
    char name[32];
    struct mq_attr attr = {.mq_maxmsg = 10, .mq_msgsize = 4096};
    (void)snprintf(name, sizeof name, "/bystander-%d", (int)getpid());
    mqd_t queue = mq_open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0600, &attr);
    if (queue == (mqd_t)-1)
        return errno == ENOSYS;
    (void)mq_unlink(name);
    (void)mq_close(queue);
    return true;
}

static bool can_make_aio(void)
{
    unsigned long context = 0;
    if (syscall(SYS_io_setup, 128, &context) < 0)
        return errno == ENOSYS;
    (void)syscall(SYS_io_destroy, context);
    return true;
}

static bool can_make_segment(void)
{
    int id = shmget(IPC_PRIVATE, 4096, 0600);
    return id >= 0 ? shmctl(id, IPC_RMID, NULL) == 0 : errno == ENOSYS;
}

static const struct {
    const char *name;
    bool (*can)(void);
} deeds[] = {{"timers", can_make_timers},
             {"message queues", can_make_queue},
             {"asynchronous I/O", can_make_aio},
             {"shared memory", can_make_segment}};

size_t bystander_lacks(struct buf *ret)
{
    size_t count = 0;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (can_take(kinds[i].take))
            continue;
        count += tell(ret, "the host has no more ", kinds[i].name);
    }
    for (size_t i = 0; i < ARRAY_LEN(deeds); i++) {
        if (deeds[i].can())
            continue;
        count += tell(ret, "the host has no more ", deeds[i].name);
    }
    return count;
}
