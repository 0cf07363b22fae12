/* A computer that outlives its server, as init sees it: servers leave, or are lost, and others come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/macros.h"
#include "harness.h"

static struct zygote zygote;

/* A computer, with the address of its socket, and its lock's file. */
struct kept {
    struct computer computer;
    struct sockaddr_un address;
    int lock;
};

static int open_lock(void)
{
    char path[96];
    snprintf(path, sizeof(path), "%s/lock", zygote.folder);
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

static bool is_locked(void)
{
    int fd = open_lock();
    bool locked = flock(fd, LOCK_EX | LOCK_NB) < 0;
    close(fd);
    return locked;
}

static struct kept keep(const char *name, uint32_t flags)
{
    static unsigned number;
    struct kept k = {.computer = computer_make(&zygote, name, flags),
                     .address = {.sun_family = AF_UNIX},
                     .lock = open_lock()};
    const struct guest_keep request = {.type = GUEST_KEEP};
    assert_string_equal(k.computer.error.stage, "");
    assert_int_equal(flock(k.lock, LOCK_EX | LOCK_NB), 0);
    snprintf(k.address.sun_path, sizeof(k.address.sun_path), "%s/socket-%u", zygote.folder, number++);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&k.address, sizeof(k.address)), 0);
    send_packet(k.computer.channel, &request, sizeof(request), (const int[]){listener, k.lock}, 2);
    close(listener);
    close(k.lock);
    return k;
}

static int visit(const struct kept *k)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&k->address, sizeof(k->address)), 0);
    return fd;
}

static struct guest_ready attach_as(struct kept *k, uint32_t version, uint32_t flags)
{
    const struct guest_attach request = {.type = GUEST_ATTACH, .version = version, .flags = flags};
    struct guest_ready ready;
    int self = pidfd_open(getpid(), 0);
    k->computer.channel = visit(k);
    send_packet(k->computer.channel, &request, sizeof(request), &self, 1);
    close(self);
    assert_true(receive_packet(k->computer.channel, &ready, sizeof(ready), NULL));
    assert_int_equal(ready.type, GUEST_READY);
    return ready;
}

static struct guest_ready attach(struct kept *k)
{
    return attach_as(k, GUEST_VERSION, GUEST_ATTACH_KEEP);
}

static void run_ok(struct kept *k, const char *command, const char *out)
{
    struct ended ended;
    assert_true(shell_run(&k->computer, command, &ended));
    assert_string_equal(ended.out, out);
}

static void finish(struct kept *k)
{
    pidfd_send_signal(k->computer.pidfd, SIGKILL, NULL, 0);
    computer_end(&k->computer);
    assert_false(is_locked());
}

static uint32_t scope_flag(void **state)
{
    return *(const uint32_t *)*state;
}

static void test_processes_go_on_from_server_to_server(void **state)
{
    struct kept k = keep("on", scope_flag(state));
    run_ok(&k, "sleep 300 >/dev/null 2>&1 & echo $! >/tmp/pid; echo one", "one\n");
    for (int i = 0; i < 3; i++) {
        close(k.computer.channel);
        struct guest_ready ready = attach(&k);
        assert_string_equal(ready.error.stage, "");
        assert_int_equal(ready.next_exec, k.computer.next_id);
        run_ok(&k, "kill -0 $(cat /tmp/pid) && echo alive", "alive\n");
        assert_true(is_locked());
    }
    finish(&k);
}

static void test_without_a_process_it_ends_with_its_server(void **state)
{
    struct kept k = keep("empty", scope_flag(state));
    run_ok(&k, "echo one", "one\n");
    computer_end(&k.computer);
    assert_false(is_locked());
}

static void test_it_ends_with_its_last_process(void **state)
{
    struct kept k = keep("last", scope_flag(state));
    run_ok(&k, "mkfifo /tmp/end; (read x </tmp/end) >/dev/null 2>&1 &", "");
    close(k.computer.channel);
    attach(&k);
    run_ok(&k, "(sleep 0.1; echo >/tmp/end) >/dev/null 2>&1 &", "");
    computer_end(&k.computer);
    assert_false(is_locked());
}

static void test_what_is_waited_for_ends_with_the_server(void **state)
{
    static const char *const argv[] = {"/bin/sh", "-c", "sleep 300 & echo $! >/tmp/waited; sleep 300", NULL};
    struct kept k = keep("waited", scope_flag(state));
    struct ended ended;
    run_ok(&k, "sleep 300 >/dev/null 2>&1 & echo $! >/tmp/pid", "");
    struct started waited = command_start(&k.computer, &(struct command){.argv = argv});
    run_ok(&k, "until [ -s /tmp/waited ]; do sleep 0.01; done", "");
    close(k.computer.channel);
    assert_false(command_end(&waited, &ended)); /* nobody is told how it ended */
    attach(&k);
    run_ok(&k,
           "while kill -0 $(cat /tmp/waited) 2>/dev/null; do sleep 0.01; done; kill -0 $(cat /tmp/pid) && "
           "echo on",
           "on\n");
    finish(&k);
}

static void test_leaving_says_whether_it_goes_on(void **state)
{
    const struct guest_leave leave = {.type = GUEST_LEAVE};
    struct guest_ready ready;
    struct kept k = keep("leave", scope_flag(state));
    run_ok(&k, "sleep 300 >/dev/null 2>&1 & echo $! >/tmp/pid", "");
    send_packet(k.computer.channel, &leave, sizeof(leave), NULL, 0);
    assert_true(receive_packet(k.computer.channel, &ready, sizeof(ready), NULL));
    close(k.computer.channel);
    attach(&k);
    run_ok(&k, "kill $(cat /tmp/pid); while kill -0 $(cat /tmp/pid) 2>/dev/null; do sleep 0.01; done", "");
    send_packet(k.computer.channel, &leave, sizeof(leave), NULL, 0);
    assert_false(receive_packet(k.computer.channel, &ready, sizeof(ready), NULL));
    computer_end(&k.computer);
}

static void test_a_server_that_does_not_keep_it_is_its_last(void **state)
{
    struct kept k = keep("unkept", scope_flag(state));
    run_ok(&k, "sleep 300 >/dev/null 2>&1 &", "");
    close(k.computer.channel);
    attach_as(&k, GUEST_VERSION, 0);
    computer_end(&k.computer);
}

static void test_another_version_is_refused(void **state)
{
    struct kept k = keep("version", scope_flag(state));
    run_ok(&k, "sleep 300 >/dev/null 2>&1 &", "");
    close(k.computer.channel);
    assert_string_equal(attach_as(&k, GUEST_VERSION + 1, 0).error.stage, "attach");
    close(k.computer.channel);
    assert_string_equal(attach(&k).error.stage, "");
    finish(&k);
}

/* Before it has said who it is, nothing that it asks for is done; and nobody is kept out. */
/* Init may have closed it already: one that comes later goes first. */
static void say_to_init(int visit, const void *packet, size_t size)
{
    assert_true(send(visit, packet, size, MSG_NOSIGNAL) == (ssize_t)size || errno == EPIPE);
}

static void test_a_visitor_has_no_say(void **state)
{
    const struct guest_leave leave = {.type = GUEST_LEAVE};
    const struct guest_attach without_pidfd = {
        .type = GUEST_ATTACH, .version = GUEST_VERSION, .flags = GUEST_ATTACH_KEEP};
    struct kept k = keep("visitor", scope_flag(state));
    run_ok(&k, "sleep 300 >/dev/null 2>&1 &", "");
    close(k.computer.channel);
    int silent = visit(&k), rude = visit(&k), vague = visit(&k);
    say_to_init(rude, &leave, sizeof(leave));
    say_to_init(vague, &without_pidfd, sizeof(without_pidfd));
    assert_string_equal(attach(&k).error.stage, "");
    run_ok(&k, "echo served", "served\n");
    /* While somebody is served, others wait. */
    int late = visit(&k);
    struct pollfd polled = {.fd = late, .events = POLLIN};
    run_ok(&k, "echo served", "served\n");
    assert_int_equal(poll(&polled, 1, 0), 0);
    close(silent);
    close(rude);
    close(vague);
    close(late);
    finish(&k);
}

static int set_up(void **state)
{
    zygote = zygote_start(GUEST_ROOT_TOOLBOX);
    return zygote.error.stage[0] ? -1 : 0;
}

static int tear_down(void **state)
{
    zygote_stop(&zygote);
    return 0;
}

int main(void)
{
    static uint32_t without = 0, reapers = GUEST_SCOPE_REAPER;
#define BOTH_WAYS(test)                                                                                      \
    {#test, test, NULL, NULL, &without},                                                                     \
    {                                                                                                        \
#test " (reapers)", test, NULL, NULL, &reapers                                                       \
    }
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(test_processes_go_on_from_server_to_server),
        BOTH_WAYS(test_without_a_process_it_ends_with_its_server),
        BOTH_WAYS(test_it_ends_with_its_last_process),
        BOTH_WAYS(test_what_is_waited_for_ends_with_the_server),
        BOTH_WAYS(test_leaving_says_whether_it_goes_on),
        BOTH_WAYS(test_a_server_that_does_not_keep_it_is_its_last),
        BOTH_WAYS(test_another_version_is_refused),
        BOTH_WAYS(test_a_visitor_has_no_say),
    };
    const char *obstacle = harness_obstacle();
    if (obstacle) {
        printf("skipped: %s\n", obstacle);
        return 77;
    }
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
