/* The wall by itself, without namespaces, capabilities dropped or a filter: each case in a child, as root. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/landlock.h>

#include "guest/landlock.h"
#include "tests/skip.h"

#define ABI_REFER 2
#define ABI_SCOPES 6

static char folder[] = "/tmp/landlock-XXXXXX";
static long abi;
static pid_t outside;

static const struct sockaddr_un outer = {.sun_family = AF_UNIX, .sun_path = "\0test-landlock-outer"};
static const struct sockaddr_un inner = {.sun_family = AF_UNIX, .sun_path = "\0test-landlock-inner"};

static int listen_at(const struct sockaddr_un *name)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)name, sizeof(*name)) < 0 || listen(fd, 1) < 0)
        return -1;
    return fd;
}

static int connect_to(const struct sockaddr_un *name)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return connect(fd, (const struct sockaddr *)name, sizeof(*name));
}

/* The errno with which attempt() fails within the domain; 0: it doesn't. */
static int fails_with(int (*attempt)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct guest_error err = {};
        if (chdir(folder) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || landlock_restrict(&err) < 0)
            _exit(255);
        _exit(attempt() < 0 ? errno : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_not_equal(WEXITSTATUS(status), 255);
    return WEXITSTATUS(status);
}

static void skip_below(long wanted)
{
    if (abi < wanted)
        skip_because("this kernel has no such Landlock");
}

static int mount_something(void)
{
    return mount("none", folder, "tmpfs", 0, "size=4k");
}

static int mount_by_parts(void)
{
    return (int)syscall(SYS_move_mount, AT_FDCWD, "/tmp", AT_FDCWD, folder, 0);
}

static int remount_root(void)
{
    return mount(NULL, "/", NULL, MS_BIND | MS_REMOUNT | MS_NOATIME, NULL);
}

static int unmount_proc(void)
{
    return umount2("/proc", MNT_DETACH);
}

static int pivot(void)
{
    return (int)syscall(SYS_pivot_root, ".", ".");
}

static void test_mounts_stay(void **state)
{
    skip_below(ABI_REFER);
    assert_int_equal(fails_with(mount_something), EPERM);
    assert_int_equal(fails_with(mount_by_parts), EPERM);
    assert_int_equal(fails_with(remount_root), EPERM);
    assert_int_equal(fails_with(unmount_proc), EPERM);
    assert_int_equal(fails_with(pivot), EPERM);
}

static int make_memory(void)
{
    return mknod("memory", S_IFCHR | 0600, makedev(1, 1));
}

static int make_disk(void)
{
    return mknod("disk", S_IFBLK | 0600, makedev(8, 0));
}

static int make_other_nodes(void)
{
    return mkfifo("fifo", 0600) < 0 || mkdir("nodes", 0700) < 0 || symlink("/", "link") < 0 ? -1 : 0;
}

static void test_devices_are_not_made(void **state)
{
    skip_below(ABI_REFER);
    assert_int_equal(fails_with(make_memory), EACCES);
    assert_int_equal(fails_with(make_disk), EACCES);
    assert_int_equal(fails_with(make_other_nodes), 0);
}

/* A package manager moves and links files between folders, or falls back to copying them. */
static int move_between_folders(void)
{
    if (mkdir("from", 0700) < 0 || mkdir("to", 0700) < 0 || mknod("from/file", S_IFREG | 0600, 0) < 0)
        return -1;
    return rename("from/file", "to/file") < 0 || link("to/file", "from/again") < 0 ? -1 : 0;
}

static void test_files_move_between_folders(void **state)
{
    assert_int_equal(fails_with(move_between_folders), 0);
}

static int signal_outside(void)
{
    return kill(outside, SIGKILL);
}

static int stop_outside_by_pidfd(void)
{
    int pidfd = (int)syscall(SYS_pidfd_open, outside, 0);
    return (int)syscall(SYS_pidfd_send_signal, pidfd, SIGSTOP, NULL, 0);
}

static int signal_inside(void)
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    return kill(pid, SIGKILL) < 0 || waitpid(pid, &status, 0) != pid ? -1 : 0;
}

static void test_signals_stay_inside(void **state)
{
    skip_below(ABI_SCOPES);
    assert_int_equal(fails_with(signal_outside), EPERM);
    assert_int_equal(fails_with(stop_outside_by_pidfd), EPERM);
    assert_int_equal(fails_with(signal_inside), 0);
}

static int connect_outside(void)
{
    return connect_to(&outer);
}

static int connect_inside(void)
{
    return listen_at(&inner) < 0 ? -1 : connect_to(&inner);
}

static void test_abstract_sockets_stay_inside(void **state)
{
    skip_below(ABI_SCOPES);
    assert_int_equal(fails_with(connect_outside), EPERM);
    assert_int_equal(fails_with(connect_inside), 0);
}

static int trace_outside(void)
{
    return (int)ptrace(PTRACE_SEIZE, outside, NULL, NULL);
}

static int read_memory_outside(void)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d/mem", outside);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static void test_nothing_outside_is_traced(void **state)
{
    skip_below(ABI_REFER);
    assert_int_equal(fails_with(trace_outside), EPERM);
    assert_int_equal(fails_with(read_memory_outside), EACCES);
}

static int set_up(void **state)
{
    abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (!mkdtemp(folder) || listen_at(&outer) < 0 || (outside = fork()) < 0)
        return -1;
    while (outside == 0)
        pause();
    return 0;
}

/* The process outside is still there, and running. */
static int tear_down(void **state)
{
    int status;
    char command[64];
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    int failed = waitpid(outside, &status, WNOHANG | WUNTRACED) != 0;
    kill(outside, SIGKILL);
    waitpid(outside, &status, 0);
    return failed | system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mounts_stay),
        cmocka_unit_test(test_devices_are_not_made),
        cmocka_unit_test(test_files_move_between_folders),
        cmocka_unit_test(test_signals_stay_inside),
        cmocka_unit_test(test_abstract_sockets_stay_inside),
        cmocka_unit_test(test_nothing_outside_is_traced),
    };
    if (geteuid() != 0) {
        printf("skipped: needs root, whom nothing else would refuse\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
