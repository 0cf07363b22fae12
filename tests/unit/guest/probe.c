/* Hostile code, run inside a computer: tries what must fail and prints each thing that didn't fail as it
 * must. Prints "ok" at the end if nothing else was printed. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <linux/audit.h>
#include <linux/netlink.h>
#include <linux/sched.h>

#include "base/macros.h"

static long try_unshare_user(void)
{
    return unshare(CLONE_NEWUSER);
}

static long try_unshare_mount(void)
{
    return unshare(CLONE_NEWNS);
}

static long try_setns(void)
{
    return setns(0, 0);
}

static long try_clone_user(void)
{
    return syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
}

static long try_clone_high_bits(void)
{
    return syscall(SYS_clone, 0xff00000000000000UL | CLONE_NEWNET | SIGCHLD, 0, 0, 0, 0);
}

static long try_clone3(void)
{
    struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    return syscall(SYS_clone3, &args, sizeof(args), 0, 0, 0, 0);
}

static long try_mount(void)
{
    return mount("none", "/mnt", "tmpfs", 0, NULL);
}

static long try_umount(void)
{
    return umount2("/proc/sys", MNT_DETACH);
}

static long try_remount(void)
{
    return mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL);
}

static long try_open_tree(void)
{
    return syscall(SYS_open_tree, AT_FDCWD, "/", 1);
}

static long try_fsopen(void)
{
    return syscall(SYS_fsopen, "tmpfs", 0);
}

static long try_pivot(void)
{
    return syscall(SYS_pivot_root, ".", ".");
}

/* Of overlayfs: the kernel allows it to anybody. */
static long try_whiteout(void)
{
    return mknod("/tmp/whiteout", S_IFCHR, 0);
}

static long try_whiteout_high_bits(void)
{
    return syscall(SYS_mknodat, AT_FDCWD, "/tmp/whiteout", 1UL << 32 | 1U << 16 | S_IFCHR, 0);
}

static long try_mknod_file(void)
{
    int made = mknod("/tmp/made", S_IFREG | 0600, 0);
    unlink("/tmp/made");
    return made;
}

static long try_mknod(void)
{
    return mknod("/tmp/disk", S_IFBLK | 0600, makedev(254, 0));
}

static long try_keyctl(void)
{
    return syscall(SYS_keyctl, 0, -3, 0);
}

static long try_add_key(void)
{
    return syscall(SYS_add_key, "user", "a", "b", 1, -3);
}

static long try_bpf(void)
{
    return syscall(SYS_bpf, 0, NULL, 0);
}

static long try_io_uring(void)
{
    return syscall(SYS_io_uring_setup, 1, NULL);
}

static long try_userfaultfd(void)
{
    return syscall(SYS_userfaultfd, 1);
}

static long try_perf(void)
{
    return syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0);
}

static long try_handle(void)
{
    return syscall(SYS_open_by_handle_at, AT_FDCWD, NULL, 0);
}

static long try_reboot(void)
{
    return syscall(SYS_reboot, 0, 0, 0, NULL);
}

static long try_syslog(void)
{
    return syscall(SYS_syslog, 3, NULL, 0);
}

static long try_packet_socket(void)
{
    return socket(AF_PACKET, SOCK_RAW, 0);
}

static long try_alg_socket(void)
{
    return socket(AF_ALG, SOCK_SEQPACKET, 0);
}

static long try_vsock_socket(void)
{
    return socket(AF_VSOCK, SOCK_STREAM, 0);
}

static long try_audit_socket(void)
{
    return socket(AF_NETLINK, SOCK_RAW, NETLINK_AUDIT);
}

static long try_raw_socket(void)
{
    return socket(AF_INET, SOCK_RAW, 1);
}

static long try_tiocsti(void)
{
    return ioctl(0, TIOCSTI, "x");
}

static long try_tiocsti_high_bits(void)
{
    return syscall(SYS_ioctl, 0, 0xffffffff00000000UL | TIOCSTI, "x");
}

static long try_personality(void)
{
    return personality(READ_IMPLIES_EXEC);
}

static long try_ptrace_init(void)
{
    return ptrace(PTRACE_ATTACH, 1, NULL, NULL);
}

static long try_init_memory(void)
{
    return open("/proc/1/mem", O_RDONLY);
}

static long try_init_root(void)
{
    return open("/proc/1/root", O_RDONLY);
}

static long try_init_program(void)
{
    return open("/proc/1/exe", O_RDONLY);
}

static long try_init_calls(void)
{
    char text[64];
    int fd = open("/proc/1/syscall", O_RDONLY);
    return fd < 0 ? -1 : read(fd, text, sizeof(text));
}

static long try_init_score(void)
{
    return open("/proc/1/oom_score_adj", O_WRONLY);
}

static long try_sysctl(void)
{
    return open("/proc/sys/kernel/core_pattern", O_WRONLY);
}

static long try_write_usr(void)
{
    return open("/usr/bin/planted", O_CREAT | O_WRONLY, 0755);
}

static long try_write_dev(void)
{
    return open("/dev/planted", O_CREAT | O_WRONLY, 0644);
}

static long try_capability(void)
{
    return prctl(PR_CAPBSET_READ, 21 /* CAP_SYS_ADMIN */) == 0 ? (errno = EPERM, -1) : 0;
}

#ifdef __x86_64__
static long try_x32(void)
{
    return syscall(0x40000000L + SYS_getpid);
}
#endif

static const struct {
    const char *name;
    long (*attempt)(void);
    int expected;
} attempts[] = {
    {"unshare a user namespace", try_unshare_user, EPERM},
    {"unshare a mount namespace", try_unshare_mount, EPERM},
    {"setns", try_setns, EPERM},
    {"clone a user namespace", try_clone_user, EPERM},
    {"clone with high bits set", try_clone_high_bits, EPERM},
    {"clone3 without the token", try_clone3, ENOSYS},
    {"mount", try_mount, EPERM},
    {"umount", try_umount, EPERM},
    {"remount", try_remount, EPERM},
    {"open_tree", try_open_tree, EPERM},
    {"fsopen", try_fsopen, EPERM},
    {"pivot_root", try_pivot, EPERM},
    {"mknod of a disk", try_mknod, EPERM},
    {"mknod of a whiteout", try_whiteout, EPERM},
    {"mknod of a whiteout with high bits", try_whiteout_high_bits, EPERM},
    {"mknod of a file", try_mknod_file, 0},
    {"keyctl", try_keyctl, EPERM},
    {"add_key", try_add_key, EPERM},
    {"bpf", try_bpf, EPERM},
    {"io_uring_setup", try_io_uring, EPERM},
    {"userfaultfd", try_userfaultfd, EPERM},
    {"perf_event_open", try_perf, EPERM},
    {"open_by_handle_at", try_handle, EPERM},
    {"reboot", try_reboot, EPERM},
    {"syslog", try_syslog, EPERM},
    {"AF_PACKET", try_packet_socket, EAFNOSUPPORT},
    {"AF_ALG", try_alg_socket, EAFNOSUPPORT},
    {"AF_VSOCK", try_vsock_socket, EAFNOSUPPORT},
    {"NETLINK_AUDIT", try_audit_socket, EAFNOSUPPORT},
    {"raw socket", try_raw_socket, EPERM},
    {"TIOCSTI", try_tiocsti, EPERM},
    {"TIOCSTI with high bits", try_tiocsti_high_bits, EPERM},
    {"personality", try_personality, EPERM},
    {"ptrace of init", try_ptrace_init, EPERM},
    {"init's memory", try_init_memory, EACCES},
    {"init's root", try_init_root, EACCES},
    {"init's program", try_init_program, EACCES},
    {"init's system calls", try_init_calls, EACCES},
    {"init's score", try_init_score, EACCES},
    {"sysctl", try_sysctl, EACCES},
    {"write in /usr", try_write_usr, EROFS},
    {"write in /dev", try_write_dev, EROFS},
    {"CAP_SYS_ADMIN in the bounding set", try_capability, EPERM},
#ifdef __x86_64__
    {"x32", try_x32, ENOSYS},
#endif
};

int main(void)
{
    int wrong = 0;
    for (size_t i = 0; i < ARRAY_LEN(attempts); i++) {
        long result = attempts[i].attempt();
        int got = result < 0 ? errno : 0;
        if (got == attempts[i].expected)
            continue;
        printf("%s: %s instead of %s\n", attempts[i].name, result < 0 ? strerror(got) : "worked",
               strerror(attempts[i].expected));
        wrong++;
    }
    if (wrong == 0)
        printf("ok\n");
    return wrong > 0;
}
