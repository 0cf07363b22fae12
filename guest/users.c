/* See users.h. An ordinary user may map nothing but the own id; for a range of others there are the helpers
 * newuidmap and newgidmap, which the server starts while we wait. */
#include "guest/users.h"

#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "guest/report.h"
#include "guest/request.h"
#include "guest/sys.h"

#define NOBODY 65534U
#define MAP_MAX 64

static int write_file(int dir, const char *name, const char *text, struct guest_error *err)
{
    _cleanup_fd_ int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
    const ssize_t size = (ssize_t)strlen(text);
    return fd < 0 || write(fd, text, (size_t)size) != size ? report_at(err, "write", name) : 0;
}

static int map_one_id(uid_t uid, gid_t gid, struct guest_error *err)
{
    char users[MAP_MAX], groups[MAP_MAX];
    snprintf(users, sizeof(users), "0 %u 1", uid);
    snprintf(groups, sizeof(groups), "0 %u 1", gid);
    _cleanup_fd_ int self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (self < 0)
        return report(err, "open process");
    /* Or a group that takes rights away could be left. */
    if (write_file(self, "setgroups", "deny", err) < 0 || write_file(self, "uid_map", users, err) < 0 ||
        write_file(self, "gid_map", groups, err) < 0)
        return -1;
    return 0;
}

static int await_map(struct packet *packet, struct guest_error *err)
{
    const struct guest_reply reply = {.type = GUEST_REPLY, .pid = getpid()};
    packet_send(GUEST_FD_CONTROL, &reply, sizeof(reply), -1, 0);
    if (packet_receive(GUEST_FD_CONTROL, packet, 0) <= 0 ||
        request_type(packet->bytes, packet->size) != GUEST_BEGIN)
        return report_text(err, ECANCELED, "wait for ids", "the server gave up");
    packet_close_fds(packet);
    return 0;
}

/* --- the user's own half --- */

/* What the kernel counts by user, all computers have on the account of the user who runs the server. Half of
 * it stays his: code inside can't leave his other programs without timers or inotify. Limits are told to the
 * user namespace when it is made. */
static int halve_limits(struct guest_error *err)
{
    static const int counted[] = {RLIMIT_SIGPENDING, RLIMIT_MSGQUEUE};
    for (unsigned i = 0; i < ARRAY_LEN(counted); i++) {
        struct rlimit limit;
        if (getrlimit(counted[i], &limit) < 0)
            return report(err, "get limits");
        if (limit.rlim_cur == RLIM_INFINITY)
            continue;
        limit.rlim_max = limit.rlim_cur /= 2;
        if (setrlimit(counted[i], &limit) < 0)
            return report(err, "set limits");
    }
    return 0;
}

/* From within the new namespace. In a container these settings may be read-only: then nothing is kept. */
static void halve_inotify(void)
{
    static const char *const names[][2] = {
        {"/proc/sys/fs/inotify/max_user_instances", "/proc/sys/user/max_inotify_instances"},
        {"/proc/sys/fs/inotify/max_user_watches", "/proc/sys/user/max_inotify_watches"},
    };
    for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
        char text[24] = "";
        _cleanup_fd_ int whole = open(names[i][0], O_RDONLY | O_CLOEXEC);
        _cleanup_fd_ int half = open(names[i][1], O_WRONLY | O_CLOEXEC);
        if (whole < 0 || half < 0 || read(whole, text, sizeof(text) - 1) <= 0)
            continue;
        const int length = snprintf(text, sizeof(text), "%d", atoi(text) / 2);
        if (write(half, text, (size_t)length) < 0)
            continue;
    }
}

/* --- entering --- */

int users_enter(uint32_t flags, struct packet *packet, struct guest_error *err)
{
    const uid_t uid = geteuid();
    const gid_t gid = getegid();
    if (!(flags & GUEST_USERS))
        return 0;
    if (halve_limits(err) < 0)
        return -1;
    if (unshare(CLONE_NEWUSER) < 0)
        return report(err, "make user namespace");
    halve_inotify();
    if (flags & GUEST_ONE_ID)
        return map_one_id(uid, gid, err);
    if (await_map(packet, err) < 0)
        return -1;
    if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, 0, 0, 0) < 0 ||
        syscall(SYS_setresuid, 0, 0, 0) < 0)
        return report(err, "become root of user namespace");
    return 0;
}

int users_map(int process, const struct guest_create *create, struct guest_error *err)
{
    const uint32_t count = create->id_count, last = create->id_base + count - 1;
    char map[MAP_MAX];
    if (count == 1 || count > NOBODY)
        snprintf(map, sizeof(map), "0 %u %u", create->id_base, count);
    else
        snprintf(map, sizeof(map), "0 %u %u\n%u %u 1", create->id_base, count - 1, NOBODY, last);
    return write_file(process, "uid_map", map, err) < 0 ? -1 : write_file(process, "gid_map", map, err);
}

/* --- one id --- */

#define FAKED(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), BPF_STMT(BPF_RET | BPF_K, SUCCESS)
#define SUCCESS (SECCOMP_RET_ERRNO | 0)

/* Other architectures' numbers never come as far as their meaning: the other filter ends them. */
static struct sock_filter fake[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
#ifdef SYS_chown
    FAKED(SYS_chown),
    FAKED(SYS_lchown),
#endif
    FAKED(SYS_fchown),
    FAKED(SYS_fchownat),
    FAKED(SYS_setgroups),
    FAKED(SYS_setuid),
    FAKED(SYS_setgid),
    FAKED(SYS_setreuid),
    FAKED(SYS_setregid),
    FAKED(SYS_setresuid),
    FAKED(SYS_setresgid),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

int users_fake(struct guest_error *err)
{
    const struct sock_fprog program = {.len = ARRAY_LEN(fake), .filter = fake};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? report(err, "fake ids") : 0;
}
