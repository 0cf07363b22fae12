/* Podman without a socket: a service is started, held, and ends with us. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>

#include "address_world.h"
#include "backends/engine/contact.h"
#include "fake_programs.h"
#include "tests/skip.h"

static bool real_podman(void)
{
    _cleanup_fd_ int fd = contact_connect("/run/podman/podman.sock");
    return fd >= 0;
}

static void a_service_is_started_and_stopped(void **state)
{
    if (real_podman())
        skip_because("a Podman of this machine answers");
    struct engine_address a = {0};
    struct engine_options o = options("podman");
    fake_program("podman", "service");
    setenv("NOTIFY_SOCKET", "/nonexistent", 1); /* the fake refuses to run with it */
    assert_false(engine_address_likely(&o));    /* nothing is started for a question */
    find(&o, &a);
    unsetenv("NOTIFY_SOCKET");
    assert_string_equal(a.origin, "a service that was started for it");
    assert_string_equal(a.url, "http://docker");
    _cleanup_(cleanup_free) char *socket = xstrdup(a.unix_path);
    _cleanup_(cleanup_free) char *expected =
        xasprintf("--log-level=error system service --time=10 unix://%s\n", socket);
    assert_file("arguments", expected);
    _cleanup_fd_ int connection = contact_connect(socket);
    assert_true(connection >= 0);
    assert_int_equal(contact_ping(connection, &forever, NULL), 0);
    engine_address_done(&a);
    assert_false(have_children());
    *strrchr(socket, '/') = '\0';
    assert_int_equal(access(socket, F_OK), -1); /* its folder is gone */
}

static void a_podman_by_its_path(void **state)
{
    if (real_podman())
        skip_because("a Podman of this machine answers");
    struct engine_address a = {0};
    fake_program("podman", "service");
    _cleanup_(cleanup_free) char *from = temporary_path("bin/podman");
    _cleanup_(cleanup_free) char *to = temporary_path("podman");
    assert_int_equal(rename(from, to), 0);
    point("PATH", "bin");
    struct engine_options o = options(to);
    find(&o, &a);
    assert_non_null(a.service);
    engine_address_done(&a);
}

/* Far more than is kept of it; and it lives on. */
static void a_service_that_talks(void **state)
{
    if (real_podman())
        skip_because("a Podman of this machine answers");
    struct engine_address a = {0};
    struct engine_options o = options("podman");
    fake_program("podman", "talkative");
    find(&o, &a);
    _cleanup_fd_ int connection = contact_connect(a.unix_path);
    assert_int_equal(contact_ping(connection, &forever, NULL), 0);
    engine_address_done(&a);
}

static void a_service_that_fails(void **state)
{
    if (real_podman())
        skip_because("a Podman of this machine answers");
    struct engine_options o = options("podman");
    fake_program("podman", "refused");
    assert_not_found(&o, ERR_UNAVAILABLE, "Permission denied (publickey).");
    fake_program("podman", "stuck");
    struct engine_address a = {0};
    struct error err = ERROR_INIT;
    struct wait wait = {.deadline = clock_deadline_after(1)};
    assert_int_equal(engine_address_find(&o, &wait, &a, &err), -1);
    assert_int_equal(err.code, ERR_TIMEOUT);
    assert_contains(err.msg, "it said: connecting");
    assert_false(have_children());
    _cleanup_(cleanup_free) char *folders = temporary_path("state/podman");
    assert_int_equal(rmdir(folders), 0); /* nothing is left in it */
}

static void no_podman_at_all(void **state)
{
    if (real_podman())
        skip_because("a Podman of this machine answers");
    struct engine_options o = options("podman");
    point("PATH", "bin");
    assert_not_found(&o, ERR_UNAVAILABLE, "podman in PATH: there is none");
    assert_not_found(&o, ERR_UNAVAILABLE, "/run/podman/podman.sock");
    char deep[200];
    memset(deep, 'a', sizeof(deep));
    memcpy(deep, temporary, strlen(temporary));
    deep[strlen(temporary)] = '/';
    deep[sizeof(deep) - 1] = '\0';
    o.state_dir = deep;
    fake_program("podman", "service");
    assert_not_found(&o, ERR_INVALID, "--state-dir");
}

/* A server that is killed takes its service with it, and the next one cleans up; not what is in use. */
static void a_service_ends_with_a_killed_server(void **state)
{
    if (real_podman())
        skip_because("a Podman of this machine answers");
    int ready[2];
    struct engine_options o = options("podman");
    fake_program("podman", "service");
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t server = fork();
    if (server == 0) {
        struct engine_address a = {0};
        if (engine_address_find(&o, &forever, &a, NULL) == 0 && write(ready[1], "", 1) == 1)
            pause();
        _exit(1);
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    fd_close(ready[0]);
    fd_close(ready[1]);
    _cleanup_fd_ int service = open_process("pid");
    kill(server, SIGKILL);
    assert_int_equal(waitpid(server, NULL, 0), server);
    assert_ends(service);

    struct engine_address a = {0}, b = {0};
    find(&o, &a);
    find(&o, &b);
    assert_int_equal(access(a.unix_path, F_OK), 0);
    engine_address_done(&a);
    engine_address_done(&b);
    _cleanup_(cleanup_free) char *folders = temporary_path("state/podman");
    assert_int_equal(rmdir(folders), 0); /* that of the killed one is gone, too */
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, world_make, temporary_remove)

int main(int argc, char **argv)
{
    if (argc > 2)
        return fake_program_run(argc, argv);
    const struct CMUnitTest tests[] = {
        CASE(a_service_is_started_and_stopped),
        CASE(a_podman_by_its_path),
        CASE(a_service_that_talks),
        CASE(a_service_that_fails),
        CASE(no_podman_at_all),
        CASE(a_service_ends_with_a_killed_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
