/* See weak.h. Init is within the walls, too: code inside can end it, which ends the computer, since all that
 * it leaves behind falls to the zygote. The zygote is outside, and out of reach of signals where Landlock
 * keeps them in (ABI 6), or where the computer has a user of its own. */
#include "guest/weak.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "guest/landlock.h"
#include "guest/privileges.h"
#include "guest/report.h"
#include "guest/sys.h"

#define OWN_FOLDER "upper" /* as the other rungs name what a computer writes to */

/* What of the machine can be read, and run where it can be run at all. Absent ones are skipped. */
static const struct landlock_place readable[] = {
    {"/usr", LANDLOCK_RUN},
    {"/bin", LANDLOCK_RUN},
    {"/sbin", LANDLOCK_RUN},
    {"/lib", LANDLOCK_RUN},
    {"/lib32", LANDLOCK_RUN},
    {"/lib64", LANDLOCK_RUN},
    {"/libx32", LANDLOCK_RUN},
    {"/proc", LANDLOCK_READ}, /* the reapers walk it; nobody can hide other processes in it */
    {"/etc/alternatives", LANDLOCK_READ},
    {"/etc/group", LANDLOCK_READ},
    {"/etc/ld.so.cache", LANDLOCK_READ},
    {"/etc/ld.so.conf", LANDLOCK_READ},
    {"/etc/ld.so.conf.d", LANDLOCK_READ},
    {"/etc/localtime", LANDLOCK_READ},
    {"/etc/mime.types", LANDLOCK_READ},
    {"/etc/nsswitch.conf", LANDLOCK_READ},
    {"/etc/passwd", LANDLOCK_READ},
    {"/etc/protocols", LANDLOCK_READ},
    {"/etc/services", LANDLOCK_READ},
    {"/etc/ssl/certs", LANDLOCK_READ},
    {"/etc/timezone", LANDLOCK_READ},
    {"/dev/null", LANDLOCK_USE},
    {"/dev/zero", LANDLOCK_USE},
    {"/dev/full", LANDLOCK_USE},
    {"/dev/random", LANDLOCK_USE},
    {"/dev/urandom", LANDLOCK_USE},
    {".", LANDLOCK_OWN},
};

/* --- the zygote's part --- */

int weak_prepare(const char *state_dir, struct guest_error *err)
{
    if (!landlock_shuts_files())
        return report_text(err, EPERM, "shut in without namespaces",
                           "there is no Landlock: it takes Linux 5.19, or later, that has it on (lsm=)");
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        return report(err, "adopt processes");
    return chdir(state_dir) < 0 ? report_at(err, "enter", state_dir) : 0;
}

pid_t weak_clone(int *ret_pidfd)
{
    return (pid_t)syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, ret_pidfd, 0, 0);
}

/* --- init's part --- */

static int become_user(uint32_t id, struct guest_error *err)
{
    if (geteuid() != 0)
        return 0;
    if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, id, id, id) < 0 ||
        syscall(SYS_setresuid, id, id, id) < 0)
        return report(err, "become the computer's user");
    return 0;
}

int weak_enter(int folder, uint32_t id, struct guest_error *err)
{
    char path[PATH_MAX];
    if (fchdir(folder) < 0 || chdir(OWN_FOLDER) < 0)
        return report(err, "enter folder");
    if (become_user(id, err) < 0)
        return -1;
    if (!getcwd(path, sizeof(path)) || access(path, W_OK | X_OK) < 0)
        return report_text(err, errno, "enter folder",
                           "the computer's user can't reach it: use a --state-dir that others may pass");
    if (mkdir("tmp", 0700) < 0 && errno != EEXIST)
        return report(err, "make tmp");
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        return report(err, "adopt processes");
    return 0;
}

static int drop_capabilities(struct guest_error *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[2] = {};
    return syscall(SYS_capset, &header, none) < 0 ? report(err, "drop capabilities") : 0;
}

/* --- the second filter --- */

#define LOW(argument) (offsetof(struct seccomp_data, args) + (argument) * sizeof(uint64_t))
#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (offset))
#define FAIL(sys) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (sys))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define IF(value, more) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (more))

#define NEVER(number, sys) IF(number, 1), FAIL(sys)
/* Only on the caller itself, which it calls 0. */
#define ON_ITSELF(number) IF(number, 4), LOAD(LOW(0)), IF(0, 1), ALLOW, FAIL(EPERM)
/* Not on everybody at once. */
#define NOT_ON_ALL(number) IF(number, 4), LOAD(LOW(0)), IF(UINT32_MAX, 1), FAIL(EPERM), ALLOW

/* The other filter has the last word: what is let through here isn't allowed yet. No socket at all, since by
 * their names in the tree of files those of the machine's services could be reached; a pair that isn't of
 * datagrams has no other end to be given. */
static struct sock_filter filter[] = {
    LOAD(offsetof(struct seccomp_data, nr)),
    NEVER(SYS_socket, EAFNOSUPPORT),
    IF(SYS_socketpair, 7),
    LOAD(LOW(1)),
    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf),
    IF(SOCK_STREAM, 1),
    ALLOW,
    IF(SOCK_SEQPACKET, 1),
    ALLOW,
    FAIL(EPROTONOSUPPORT),
    NEVER(SYS_shmget, ENOSYS),
    NEVER(SYS_semget, ENOSYS),
    NEVER(SYS_msgget, ENOSYS),
    NEVER(SYS_mq_open, ENOSYS),
    NEVER(SYS_mq_unlink, ENOSYS),
    NEVER(SYS_truncate, EPERM), /* Landlock knows it since ABI 3 only */
    NEVER(SYS_setpriority, EPERM),
    NEVER(SYS_ioprio_set, EPERM),
    ON_ITSELF(SYS_prlimit64),
    ON_ITSELF(SYS_sched_setaffinity),
    ON_ITSELF(SYS_sched_setattr),
    ON_ITSELF(SYS_sched_setparam),
    ON_ITSELF(SYS_sched_setscheduler),
    NOT_ON_ALL(SYS_kill),
    ALLOW,
};

int weak_shut_in(struct guest_error *err)
{
    const struct sock_fprog program = {.len = ARRAY_LEN(filter), .filter = filter};
    if (drop_capabilities(err) < 0)
        return -1;
    /* Where /proc shows users what is theirs (hidepid), it must show us our reapers. Who is in with us learns
     * nothing from our memory. */
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
        return report(err, "show processes");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return report(err, "set no_new_privs");
    if (landlock_shut_files(readable, ARRAY_LEN(readable), err) < 0)
        return -1;
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
        return report(err, "load the second filter");
    return privileges_load_filter(err);
}
