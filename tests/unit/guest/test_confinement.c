/* What hostile code inside sees and can't do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "harness.h"
#include "tests/skip.h"

static struct zygote zygote;
static struct computer computer;
static struct ended ended;

static int set_up(void **state)
{
    zygote = zygote_start(GUEST_ROOT_TOOLBOX);
    computer = computer_make(&zygote, "confined", have_cgroup2() ? GUEST_HAS_CGROUP2 : 0);
    return computer.error.stage[0] != 0;
}

static int tear_down(void **state)
{
    computer_end(&computer);
    zygote_stop(&zygote);
    return 0;
}

static void expect(const char *text, const char *output)
{
    assert_true(shell_run(&computer, text, &ended));
    assert_string_equal(ended.err, "");
    assert_string_equal(ended.out, output);
}

static void test_what_must_fail_fails(void **state)
{
    if (!getenv("GUEST_PROBE"))
        fail_msg("GUEST_PROBE must name the probe");
    expect("/probe", "ok\n");
}

static void test_no_path_of_the_host_shows(void **state)
{
    assert_true(shell_run(&computer, "cat /proc/self/mountinfo /proc/self/mounts /proc/1/mounts 2>/dev/null",
                          &ended));
    assert_non_null(strstr(ended.out, "overlay"));
    assert_null(strstr(ended.out, zygote.folder));
    assert_null(strstr(ended.out, "/var/tmp"));
    assert_null(strstr(ended.out, "cgroup"));
    assert_null(strstr(ended.out, "sysfs"));
}

static void test_the_root_holds_only_what_the_base_has(void **state)
{
    static const char *const absent[] = {"/state",      "/base", "/lower",     "/empty",
                                         "/etc/shadow", "/boot", "/lost+found"};
    for (size_t i = 0; i < ARRAY_LEN(absent); i++) {
        char text[64];
        snprintf(text, sizeof(text), "test ! -e %s && echo absent", absent[i]);
        expect(text, "absent\n");
    }
    expect("ls -A /sys /root /home /run /usr/local/etc | grep -v :", "\n\n\n\n");
}

static void test_devices_are_the_harmless_ones(void **state)
{
    expect("find /dev -type b -o -type c ! -path '/dev/pts/*' | sort | tr '\\n' ' '",
           "/dev/full /dev/null /dev/random /dev/tty /dev/urandom /dev/zero ");
    expect("head -c 3 /dev/zero | wc -c; echo x > /dev/null && echo written", "3\nwritten\n");
}

static void test_ids_are_the_computers_own(void **state)
{
    char path[64], text[4096] = "";
    expect("id -u; id -g; id -G; cat /proc/self/uid_map | tr -s ' '", "0\n0\n0\n 0 805306368 65536\n");
    snprintf(path, sizeof(path), "/proc/%d/status", computer.pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(read(fd, text, sizeof(text) - 1) > 0);
    close(fd);
    assert_non_null(strstr(text, "Uid:\t805306368\t805306368\t805306368\t805306368\n"));
    assert_non_null(strstr(text, "Gid:\t805306368\t805306368\t805306368\t805306368\n"));
    assert_non_null(strstr(text, "Groups:\t \n"));
    assert_non_null(strstr(text, "NoNewPrivs:\t1\n"));
    assert_non_null(strstr(text, "Seccomp:\t2\n"));
}

/* The base belongs to root inside, though to the host's root outside, and so do new files, whose owner
 * outside is no one's. */
static void test_files_belong_to_the_computers_root(void **state)
{
    char path[128];
    struct stat st;
    expect("stat -c %u /etc/passwd; echo x >> /etc/passwd; touch /tmp/new; chmod 4755 /tmp/new; stat -c '%u "
           "%a' /tmp/new",
           "0\n0 4755\n");
    snprintf(path, sizeof(path), "%s/state/confined/upper/tmp/new", zygote.folder);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_uid, ID_BASE);
    snprintf(path, sizeof(path), "%s/base/etc/passwd", zygote.folder);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_uid, 0);
}

static void test_files_of_the_hosts_root_stay_closed(void **state)
{
    expect("find /usr -type f ! -perm -o+r -exec cat {} + 2>/dev/null | wc -c", "0\n");
}

static void test_kernel_secrets_are_masked(void **state)
{
    static const char *const empty[] = {"/proc/kcore",       "/proc/keys",         "/proc/kmsg",
                                        "/proc/timer_list",  "/proc/interrupts",   "/proc/key-users",
                                        "/proc/sched_debug", "/proc/latency_stats"};
    for (size_t i = 0; i < ARRAY_LEN(empty); i++) {
        char text[96];
        snprintf(text, sizeof(text), "test ! -e %s || wc -c < %s", empty[i], empty[i]);
        assert_true(shell_run(&computer, text, &ended));
        assert_true(strcmp(ended.out, "") == 0 || strcmp(ended.out, "0\n") == 0);
    }
}

static void test_init_can_not_be_ended_from_inside(void **state)
{
    assert_true(shell_run(
        &computer, "kill -9 1; kill -STOP 1; kill -TERM 1; kill -CHLD 1; ls /proc/1/fd /proc/1/ns/", &ended));
    assert_string_equal(ended.out, "");
    expect("for limit in as cpu data fsize nofile stack; do prlimit --pid 1 --$limit=0 && echo $limit; done "
           "2>/dev/null; "
           "prlimit --pid $$ --nofile | wc -l",
           "2\n");
    expect("echo alive", "alive\n");
}

/* All that is running gets stopped and killed, the next command works. */
static void test_a_storm_inside_leaves_the_next_command_working(void **state)
{
    assert_true(shell_run(&computer, "sleep 1000 & kill -STOP -1; kill -KILL -1", &ended));
    expect("echo alive", "alive\n");
}

static void test_sockets_of_the_host_are_out_of_reach(void **state)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0guest-test-abstract"};
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&name, sizeof(name)), 0);
    assert_int_equal(listen(listener, 1), 0);
    expect("wc -l < /proc/net/unix; tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '", "1\nlo\n");
    close(listener);
}

static void test_loopback_is_up(void **state)
{
    if (access("/usr/bin/perl", X_OK) < 0)
        skip_because("perl is not installed");
    expect("perl -MIO::Socket::INET -e '$l=IO::Socket::INET->new(Listen=>1,LocalAddr=>\"127.0.0.1\");"
           "$c=IO::Socket::INET->new(PeerAddr=>\"127.0.0.1\",PeerPort=>$l->sockport); print "
           "$c?\"connected\":\"no\"'",
           "connected");
}

static void test_limits_hold(void **state)
{
    assert_true(shell_run(&computer, "head -c 3000000 /dev/zero > /dev/shm/x", &ended));
    assert_int_not_equal(ended.record.wait_status, 0);
    expect("wc -c < /dev/shm/x; rm /dev/shm/x; ulimit -Hn; ulimit -Hc", "1048576\n1024\n0\n");
    assert_true(shell_run(&computer, "ulimit -n 2000", &ended));
    assert_int_not_equal(ended.record.wait_status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_must_fail_fails),
        cmocka_unit_test(test_no_path_of_the_host_shows),
        cmocka_unit_test(test_the_root_holds_only_what_the_base_has),
        cmocka_unit_test(test_devices_are_the_harmless_ones),
        cmocka_unit_test(test_ids_are_the_computers_own),
        cmocka_unit_test(test_files_belong_to_the_computers_root),
        cmocka_unit_test(test_files_of_the_hosts_root_stay_closed),
        cmocka_unit_test(test_kernel_secrets_are_masked),
        cmocka_unit_test(test_init_can_not_be_ended_from_inside),
        cmocka_unit_test(test_a_storm_inside_leaves_the_next_command_working),
        cmocka_unit_test(test_sockets_of_the_host_are_out_of_reach),
        cmocka_unit_test(test_loopback_is_up),
        cmocka_unit_test(test_limits_hold),
    };
    const char *obstacle = harness_obstacle();
    if (obstacle) {
        printf("skipped: %s\n", obstacle);
        return 77;
    }
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
