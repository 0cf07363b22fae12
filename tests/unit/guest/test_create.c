/* The lives of the zygote and its computers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "harness.h"
#include "tests/skip.h"

#define SOON_MS 60000

static struct zygote zygote;
static struct ended ended;

static int set_up(void **state)
{
    zygote = zygote_start(GUEST_ROOT_TOOLBOX);
    return zygote.error.stage[0] != 0;
}

static int tear_down(void **state)
{
    zygote_stop(&zygote);
    return 0;
}

static struct computer make(const char *name)
{
    struct computer computer = computer_make(&zygote, name, 0);
    assert_string_equal(computer.error.stage, "");
    return computer;
}

static void test_files_stay_and_processes_go(void **state)
{
    struct computer computer = make("twice");
    assert_true(shell_run(&computer, "echo kept > /root/file; sleep 1000 >/dev/null 2>&1 &", &ended));
    computer_end(&computer);
    computer = make("twice");
    assert_true(shell_run(&computer, "cat /root/file; pgrep sleep", &ended));
    assert_string_equal(ended.out, "kept\n");
    computer_end(&computer);
}

static void test_computers_do_not_see_each_other(void **state)
{
    struct computer a = make("a"), b = make("b");
    assert_true(shell_run(&a, "echo secret > /tmp/of-a; hostname", &ended));
    assert_string_equal(ended.out, "a\n");
    assert_true(shell_run(&b, "ls /tmp; hostname; set -- /proc/[0-9]*; echo $#", &ended));
    assert_string_equal(ended.out, "b\n2\n"); /* init and the shell */
    computer_end(&a);
    computer_end(&b);
}

/* -- Names that come late */

static struct guest_reply send_name(const struct guest_name *name)
{
    struct guest_reply reply;
    int fd = -1;
    send_packet(zygote.control, name, sizeof(*name), NULL, 0);
    assert_true(receive_packet(zygote.control, &reply, sizeof(reply), &fd));
    assert_int_equal(fd, -1);
    assert_int_equal(reply.type, GUEST_REPLY);
    assert_int_equal(reply.request, name->request);
    return reply;
}

static struct guest_error give_name(pid_t pid, const char *hostname)
{
    static uint32_t number = 1000;
    struct guest_name name = {.type = GUEST_NAME, .request = ++number, .pid = pid};
    snprintf(name.hostname, sizeof(name.hostname), "%s", hostname);
    return send_name(&name).error;
}

static void assert_hostname(struct computer *computer, const char *expected)
{
    assert_true(shell_run(computer, "echo \"$(hostname)\"", &ended));
    ended.out[strcspn(ended.out, "\n")] = '\0';
    assert_string_equal(ended.out, expected);
}

static void test_a_name_may_come_later(void **state)
{
    struct computer a = make(".a"), b = make(".b");
    assert_hostname(&a, "");
    assert_string_equal(give_name(a.pid, "late").stage, "");
    assert_hostname(&a, "late");
    assert_hostname(&b, "");
    struct computer next = make("next"); /* the zygote is back where it was */
    assert_hostname(&next, "next");
    assert_hostname(&a, "late");
    assert_string_equal(give_name(b.pid, "later").stage, "");
    assert_hostname(&b, "later");
    computer_end(&a);
    computer_end(&b);
    computer_end(&next);
}

static void test_a_name_stays(void **state)
{
    struct computer early = make("early-name"), late = make(".late");
    assert_string_equal(give_name(late.pid, "late").stage, "");
    assert_int_equal(give_name(early.pid, "other").sys, ESRCH);
    assert_int_equal(give_name(late.pid, "other").sys, ESRCH);
    assert_hostname(&early, "early-name");
    assert_hostname(&late, "late");
    computer_end(&early);
    computer_end(&late);
}

static void test_who_is_no_computer_gets_no_name(void **state)
{
    char before[65], after[65];
    assert_int_equal(gethostname(before, sizeof(before)), 0);
    const pid_t strangers[] = {getpid(), zygote.pid, INT32_MAX};
    for (size_t i = 0; i < ARRAY_LEN(strangers); i++)
        assert_int_equal(give_name(strangers[i], "stranger").sys, ESRCH);
    assert_int_equal(gethostname(after, sizeof(after)), 0);
    assert_string_equal(after, before);

    struct computer computer = make(".ended");
    const pid_t pid = computer.pid;
    computer_end(&computer);
    while (kill(pid, 0) == 0) /* until the zygote has seen it, too */
        sched_yield();
    assert_int_equal(give_name(pid, "ended").sys, ESRCH);
}

static void test_a_malformed_name_is_answered(void **state)
{
    struct computer computer = make(".malformed");
    struct guest_name name = {.type = GUEST_NAME, .request = 78, .pid = computer.pid};
    assert_int_equal(send_name(&name).error.sys, EINVAL);
    memset(name.hostname, 'x', sizeof(name.hostname));
    assert_int_equal(send_name(&name).error.sys, EINVAL);
    name = (struct guest_name){.type = GUEST_NAME, .request = 79, .pid = 1, .hostname = "x"};
    assert_int_equal(send_name(&name).error.sys, EINVAL);
    assert_hostname(&computer, "");
    assert_string_equal(give_name(computer.pid, "well-formed").stage, "");
    assert_hostname(&computer, "well-formed");
    computer_end(&computer);
}

/* What is kept of each until it has a name goes with it. */
static void test_names_leave_no_descriptor(void **state)
{
    char command[64];
    struct computer warm = make(".warm");
    computer_end(&warm);
    snprintf(command, sizeof(command), "ls -l /proc/%d/fd | grep -c uts:", (int)zygote.pid);
    for (int i = 0; i < 10; i++) {
        struct computer computer = make(".descriptors");
        if (i % 2)
            assert_string_equal(give_name(computer.pid, "named").stage, "");
        const pid_t pid = computer.pid;
        computer_end(&computer);
        while (kill(pid, 0) == 0)
            sched_yield();
    }
    FILE *left = popen(command, "r");
    int count = -1;
    assert_non_null(left);
    assert_int_equal(fscanf(left, "%d", &count), 1);
    pclose(left);
    assert_int_equal(count, 0);
}

static void test_a_plain_root_works(void **state)
{
    struct zygote plain = zygote_start(GUEST_ROOT_TOOLBOX | GUEST_ROOT_PLAIN);
    assert_string_equal(plain.error.stage, "");
    struct computer computer = computer_make(&plain, "plain", 0);
    assert_string_equal(computer.error.stage, "");
    assert_true(shell_run(&computer, "echo x > /file && cat /file; touch /usr/x", &ended));
    assert_string_equal(ended.out, "x\n");
    assert_int_not_equal(ended.record.wait_status, 0);
    computer_end(&computer);
    zygote_stop(&plain);
}

/* What an earlier life left at the top of its root could lead our mounts astray. */
static void test_a_link_in_place_of_a_folder_is_refused(void **state)
{
    char path[128];
    struct computer computer = make("links");
    computer_end(&computer);
    snprintf(path, sizeof(path), "%s/state/links/upper/dev", zygote.folder);
    assert_int_equal(symlink("/state", path), 0);
    computer = computer_make(&zygote, "links", 0);
    assert_string_equal(computer.error.stage, "make dev");
    assert_int_equal(computer.error.sys, ENOTDIR);
    assert_true(computer_gone_within(&computer, SOON_MS));
    computer_end(&computer);
}

/* fd: to be passed with `go`, or -1. */
static void assert_fails_at(const char *stage, const char *folder, const struct guest_begin *go, int fd)
{
    struct guest_create create = {
        .type = GUEST_CREATE, .id_base = ID_BASE, .id_count = ID_COUNT, .hostname = "x"};
    struct guest_reply reply;
    struct guest_ready ready;
    int pidfd, pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    snprintf(create.folder, sizeof(create.folder), "%s", folder);
    send_packet(zygote.control, &create, sizeof(create), &pair[1], 1);
    close(pair[1]);
    send_packet(pair[0], go, sizeof(*go), &fd, fd >= 0 ? 1 : 0);
    assert_true(receive_packet(zygote.control, &reply, sizeof(reply), &pidfd));
    assert_true(receive_packet(pair[0], &ready, sizeof(ready), NULL));
    assert_string_equal(ready.error.stage, stage);
    close(pair[0]);
    close(pidfd);
}

static void test_a_folder_outside_the_state_is_refused(void **state)
{
    static const char *const folders[] = {"../base", "missing", "link"};
    const struct guest_begin go = {.type = GUEST_BEGIN};
    char path[128];
    snprintf(path, sizeof(path), "%s/state/link", zygote.folder);
    assert_int_equal(symlink("/etc", path), 0);
    for (size_t i = 0; i < ARRAY_LEN(folders); i++)
        assert_fails_at("open folder", folders[i], &go, -1);
}

static void test_a_disk_that_is_none_is_told(void **state)
{
    const struct guest_begin go = {.type = GUEST_BEGIN, .flags = GUEST_BEGIN_DISK};
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_fails_at("read request", "unused", &go, -1);
    assert_fails_at("attach disk", "unused", &go, file);
    close(file);
}

static void test_a_malformed_create_is_answered_and_the_next_works(void **state)
{
    const struct guest_create create = {.type = GUEST_CREATE, .request = 77, .id_base = 0, .folder = "x"};
    struct guest_reply reply;
    send_packet(zygote.control, "\2", 1, NULL, 0); /* no packet at all */
    send_packet(zygote.control, &create, sizeof(create), NULL, 0);
    assert_true(receive_packet(zygote.control, &reply, sizeof(reply), NULL));
    assert_int_equal(reply.request, 77);
    assert_string_equal(reply.error.stage, "read request");
    struct computer computer = make("after");
    computer_end(&computer);
}

static void test_the_channels_end_ends_the_computer(void **state)
{
    struct computer computer = make("channel");
    assert_true(shell_run(&computer, "setsid sleep 1000 >/dev/null 2>&1 &", &ended));
    close(computer.channel);
    assert_true(computer_gone_within(&computer, SOON_MS));
    close(computer.pidfd);
}

static void test_the_servers_end_ends_all(void **state)
{
    struct zygote other = zygote_start(GUEST_ROOT_TOOLBOX);
    struct computer a = computer_make(&other, "a", 0), b = computer_make(&other, "b", 0);
    assert_string_equal(b.error.stage, "");
    close(other.control); /* the channels stay open: it is the zygote that kills */
    other.control = -1;
    assert_true(computer_gone_within(&a, SOON_MS));
    assert_true(computer_gone_within(&b, SOON_MS));
    zygote_stop(&other);
    computer_end(&a);
    computer_end(&b);
}

static void test_the_zygotes_death_ends_no_computer(void **state)
{
    struct zygote other = zygote_start(GUEST_ROOT_TOOLBOX);
    struct computer computer = computer_make(&other, "orphan", 0);
    assert_string_equal(computer.error.stage, "");
    kill(other.pid, SIGKILL);
    waitpid(other.pid, NULL, 0);
    assert_true(shell_run(&computer, "echo alive", &ended));
    assert_string_equal(ended.out, "alive\n");
    computer_end(&computer);
    other.pid = -1;
    zygote_stop(&other);
}

/* Requests may come before the computer is complete. */
static void test_an_early_command_waits_for_its_computer(void **state)
{
    struct computer computer = computer_begin(&zygote, "early", 0);
    struct guest_ready ready;
    assert_true(shell_run(&computer, "echo early", &ended));
    assert_string_equal(ended.out, "early\n");
    assert_true(receive_packet(computer.channel, &ready, sizeof(ready), NULL));
    computer_end(&computer);
}

static void test_many_at_a_time(void **state)
{
    enum { COUNT = 100 }; /* more than the zygote has slots */
    static struct computer computers[COUNT];
    char name[16];
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof(name), "m%d", i);
        computers[i] = computer_begin(&zygote, name, 0);
        assert_string_equal(computers[i].error.stage, "");
    }
    for (int i = 0; i < COUNT; i++) {
        struct guest_ready ready;
        assert_true(receive_packet(computers[i].channel, &ready, sizeof(ready), NULL));
        assert_string_equal(ready.error.stage, "");
    }
    for (int i = 0; i < COUNT; i++)
        computer_end(&computers[i]);
}

#define IN_ONE_ALREADY 77

static int run_in_a_chroot(const char *root)
{
    if (unshare(CLONE_NEWNS) < 0)
        return 1;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return errno == EINVAL ? IN_ONE_ALREADY : 1;
    if (mount("/", root, NULL, MS_BIND | MS_REC, NULL) < 0 || chroot(root) < 0 || chdir("/") < 0)
        return 1;
    struct zygote jailed = zygote_start(GUEST_ROOT_TOOLBOX);
    struct computer computer = computer_make(&jailed, "jailed", 0);
    bool good = !computer.error.stage[0] && shell_run(&computer, "echo $((6 * 7))", &ended) &&
                strcmp(ended.out, "42\n") == 0;
    computer_end(&computer);
    zygote_stop(&jailed);
    return good ? 0 : 1;
}

/* Where the kernel refuses user namespaces, and / is no root of mounts. */
static void test_a_server_may_run_in_a_chroot(void **state)
{
    char root[] = "/var/tmp/guest-test-root-XXXXXX";
    assert_non_null(mkdtemp(root));
    pid_t pid = fork();
    if (pid == 0)
        _exit(run_in_a_chroot(root));
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(rmdir(root), 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == IN_ONE_ALREADY)
        skip_because("runs in a chroot already, as all tests do");
    assert_int_equal(status, 0);
}

/* The zygote's tree soon holds no mount of a complete computer any more, and never more than a few; the
 * host's holds none at all. */
static unsigned count_mounts(pid_t pid, const char *text)
{
    char path[64], line[4096];
    unsigned count = 0;
    snprintf(path, sizeof(path), "/proc/%d/mounts", pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file))
        count += strstr(line, text) != NULL;
    fclose(file);
    return count;
}

static void test_no_mount_is_left_behind(void **state)
{
    for (int i = 0; i < 20; i++) {
        struct computer computer = make("mounts");
        assert_int_equal(count_mounts(getpid(), zygote.folder), 0);
        assert_true(count_mounts(zygote.pid, "/lower/") <= 9);
        computer_end(&computer);
    }
    while (count_mounts(zygote.pid, "/lower/") > 0) /* the test's own time limit ends a wait in vain */
        poll(NULL, 0, 5);
}

static int mount_where_all_is_shared(void)
{
    if (unshare(CLONE_NEWNS) < 0)
        return 1;
    if (mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL) < 0)
        return errno == EINVAL ? IN_ONE_ALREADY : 1;
    const unsigned before = count_mounts(getpid(), "");
    for (unsigned flags = GUEST_ROOT_TOOLBOX;; flags |= GUEST_ROOT_PLAIN) {
        struct zygote other = zygote_start(flags);
        struct computer computer = computer_make(&other, "shared", 0);
        bool good = !computer.error.stage[0] && count_mounts(getpid(), "") == before;
        computer_end(&computer);
        zygote_stop(&other);
        if (!good || count_mounts(getpid(), "") != before)
            return 1;
        if (flags & GUEST_ROOT_PLAIN)
            return 0;
    }
}

/* As systemd makes it: what is mounted on a mount, or on a copy of it, is mounted on all copies. */
static void test_the_machines_mounts_stay_where_they_are_shared(void **state)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(mount_where_all_is_shared());
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == IN_ONE_ALREADY)
        skip_because("in a chroot no mounts can be shared");
    assert_int_equal(status, 0);
}

static void test_a_bad_setup_is_told(void **state)
{
    struct zygote other = zygote_start(1U << 31 | GUEST_ROOT_TOOLBOX);
    assert_string_equal(other.error.stage, "");
    zygote_stop(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_stay_and_processes_go),
        cmocka_unit_test(test_computers_do_not_see_each_other),
        cmocka_unit_test(test_a_name_may_come_later),
        cmocka_unit_test(test_a_name_stays),
        cmocka_unit_test(test_who_is_no_computer_gets_no_name),
        cmocka_unit_test(test_a_malformed_name_is_answered),
        cmocka_unit_test(test_names_leave_no_descriptor),
        cmocka_unit_test(test_a_plain_root_works),
        cmocka_unit_test(test_a_link_in_place_of_a_folder_is_refused),
        cmocka_unit_test(test_a_folder_outside_the_state_is_refused),
        cmocka_unit_test(test_a_disk_that_is_none_is_told),
        cmocka_unit_test(test_a_malformed_create_is_answered_and_the_next_works),
        cmocka_unit_test(test_the_channels_end_ends_the_computer),
        cmocka_unit_test(test_the_servers_end_ends_all),
        cmocka_unit_test(test_the_zygotes_death_ends_no_computer),
        cmocka_unit_test(test_an_early_command_waits_for_its_computer),
        cmocka_unit_test(test_many_at_a_time),
        cmocka_unit_test(test_a_server_may_run_in_a_chroot),
        cmocka_unit_test(test_no_mount_is_left_behind),
        cmocka_unit_test(test_the_machines_mounts_stay_where_they_are_shared),
        cmocka_unit_test(test_a_bad_setup_is_told),
    };
    const char *obstacle = harness_obstacle();
    if (obstacle) {
        printf("skipped: %s\n", obstacle);
        return 77;
    }
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
