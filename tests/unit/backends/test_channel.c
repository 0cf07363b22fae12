/* Packets with descriptors beside them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "backends/native/channel.h"
#include "base/clock.h"
#include "base/fd.h"

static int pair[2];
static const struct wait soon = {.deadline = 1}; /* passed long ago */

static int set_up(void **state)
{
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
}

static int tear_down(void **state)
{
    fd_close(pair[0]);
    fd_close(pair[1]);
    return 0;
}

static void test_packet(void **state)
{
    char got[16];
    int fd = 7, ends[2];
    struct wait wait = {.deadline = DEADLINE_NONE};
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(channel_send(pair[0], "head", 4, "body", 4, ends, 2, &wait, NULL), 0);
    fd_close(ends[0]);
    fd_close(ends[1]);
    assert_int_equal(channel_receive(pair[1], got, sizeof(got), &fd), 8);
    assert_memory_equal(got, "headbody", 8);
    assert_true(fd >= 0); /* the pipe's first end; the second was closed */
    assert_int_equal(read(fd, got, 1), 0);
    fd_close(fd);
    assert_int_equal(channel_receive(pair[1], got, sizeof(got), &fd), -1);
    assert_int_equal(errno, EAGAIN);
}

static void test_closed(void **state)
{
    struct error err = ERROR_INIT;
    char got[16];
    int fd;
    struct wait wait = {.deadline = DEADLINE_NONE};
    pair[1] = fd_close(pair[1]);
    assert_int_equal(channel_receive(pair[0], got, sizeof(got), &fd), 0);
    assert_int_equal(fd, -1);
    assert_int_equal(channel_send(pair[0], "x", 1, NULL, 0, NULL, 0, &wait, &err), -1);
    assert_int_equal(err.code, ERR_GONE);
}

/* Closing with something unread resets the connection, but what was said before is still to be heard. */
static void test_last_words(void **state)
{
    struct wait wait = {.deadline = DEADLINE_NONE};
    char got[16];
    int fd;
    assert_int_equal(channel_send(pair[0], "unread", 6, NULL, 0, NULL, 0, &wait, NULL), 0);
    assert_int_equal(channel_send(pair[1], "bye", 3, NULL, 0, NULL, 0, &wait, NULL), 0);
    pair[1] = fd_close(pair[1]);
    assert_int_equal(channel_receive(pair[0], got, sizeof(got), &fd), 3);
    assert_memory_equal(got, "bye", 3);
    assert_int_equal(channel_receive(pair[0], got, sizeof(got), &fd), 0);
}

static void test_full(void **state)
{
    static const char packet[8192];
    struct error err = ERROR_INIT;
    int sent = 0;
    while (channel_send(pair[0], packet, sizeof(packet), NULL, 0, NULL, 0, &soon, &err) == 0)
        assert_true(++sent < 10000);
    assert_int_equal(err.code, ERR_TIMEOUT);
    assert_true(sent > 0);
}

static void test_failed(void **state)
{
    struct error err = ERROR_INIT;
    struct guest_error e = {.stage = "mount overlay", .sys = EINVAL};
    assert_int_equal(channel_failed(&e, &err), -1);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    e = (struct guest_error){.stage = "clone", .sys = EAGAIN, .text = "too many"};
    channel_failed(&e, &err);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_string_equal(err.msg, "clone: Resource temporarily unavailable: too many");
    memset(&e, 'x', sizeof(e)); /* no NUL anywhere */
    channel_failed(&e, &err);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(test_packet), CASE(test_closed), CASE(test_last_words),
                                       CASE(test_full), CASE(test_failed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
