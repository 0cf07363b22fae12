/* Connections over ssh: what it is asked to do, whose end they are, and what it says when it fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "address_world.h"
#include "backends/engine/dial.h"
#include "fake_programs.h"

static void ssh_address(const char *engine, const char *host, struct engine_address *ret)
{
    struct engine_options o = options(engine);
    o.docker_host = host;
    find(&o, ret);
    assert_non_null(ret->dialer);
}

static void assert_echo(int fd, const char *text)
{
    char back[64] = "";
    struct pollfd p = {.fd = fd, .events = POLLIN};
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(poll(&p, 1, 60000), 1);
    assert_int_equal(read(fd, back, sizeof(back)), strlen(text));
    assert_string_equal(back, text);
}

static void ssh_carries_bytes(void **state)
{
    struct error err = ERROR_INIT;
    struct engine_address a = {0};
    fake_program("ssh", "engine");
    ssh_address("docker", "ssh://me@host:77", &a);
    _cleanup_fd_ int fd = dialer_dial(a.dialer, &forever, &err);
    if (fd < 0)
        fail_msg("%s", err.msg);
    assert_file("arguments", "-T -o BatchMode=yes -o ConnectTimeout=30 -p 77 -- me@host docker system "
                             "dial-stdio\n");
    assert_echo(fd, "GET / HTTP/1.1");
    assert_echo(fd, "more");
    /* The end of our input reaches the far side, and its end us. */
    char byte;
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    assert_int_equal(read(fd, &byte, 1), 0);
    engine_address_done(&a);
    assert_false(have_children());
}

static void ssh_names_the_far_socket(void **state)
{
    static const struct {
        const char *engine, *arguments;
    } cases[] = {
        {"docker", "-T -o BatchMode=yes -o ConnectTimeout=30 -- host docker --host=unix:///run/d.sock system "
                   "dial-stdio\n"},
        {"podman", "-T -o BatchMode=yes -o ConnectTimeout=30 -- host podman --url=unix:///run/d.sock system "
                   "dial-stdio\n"},
    };
    fake_program("ssh", "engine");
    _cleanup_(cleanup_free) char *log = temporary_path("arguments");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(engine_address_done) struct engine_address a = {0};
        unlink(log);
        ssh_address(cases[i].engine, "ssh://host/run/d.sock", &a);
        _cleanup_fd_ int fd = dialer_dial(a.dialer, &forever, NULL);
        assert_true(fd >= 0);
        assert_file("arguments", cases[i].arguments);
    }
}

/* Also one that doesn't care for the end of its input. */
static void ssh_ends_with_its_connection(void **state)
{
    struct engine_address a = {0};
    fake_program("ssh", "stubborn-engine");
    ssh_address("docker", "ssh://host", &a);
    int fd = dialer_dial(a.dialer, &forever, NULL);
    assert_true(fd >= 0);
    _cleanup_fd_ int process = open_process("pid");
    fd_close(fd);
    assert_ends(process);
    engine_address_done(&a);
    assert_false(have_children());
}

static void ssh_ends_with_its_address(void **state)
{
    struct engine_address a = {0};
    char byte;
    fake_program("ssh", "stubborn-engine");
    ssh_address("docker", "ssh://host", &a);
    _cleanup_fd_ int fd = dialer_dial(a.dialer, &forever, NULL);
    assert_true(fd >= 0);
    engine_address_done(&a);
    assert_false(have_children());
    assert_int_equal(read(fd, &byte, 1), 0);
}

static void what_ssh_says_is_the_error(void **state)
{
    static const struct {
        const char *role, *words;
        enum error_code code;
    } cases[] = {
        {"refused", "ssh me@host: me@host: Permission denied (publickey).", ERR_UNAVAILABLE},
        {"silent", "ssh me@host docker system dial-stdio: the connection was closed", ERR_UNAVAILABLE},
        {"chatty", "no engine; it says: Welcome to host!", ERR_UNAVAILABLE},
        {"flood", "the last words", ERR_UNAVAILABLE},
        {"stuck", "connecting", ERR_TIMEOUT},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct engine_address a = {0};
        struct error err = ERROR_INIT;
        fake_program("ssh", cases[i].role);
        ssh_address("docker", "ssh://me@host", &a);
        struct wait wait = {.deadline =
                                cases[i].code == ERR_TIMEOUT ? clock_deadline_after(1) : DEADLINE_NONE};
        assert_int_equal(dialer_dial(a.dialer, &wait, &err), -1);
        assert_contains(err.msg, cases[i].words);
        assert_int_equal(err.code, cases[i].code);
        engine_address_done(&a);
        assert_false(have_children());
    }
}

static void ssh_is_missing(void **state)
{
    _cleanup_(engine_address_done) struct engine_address a = {0};
    struct error err = ERROR_INIT;
    ssh_address("docker", "ssh://host", &a);
    point("PATH", "bin");
    assert_int_equal(dialer_dial(a.dialer, &forever, &err), -1);
    assert_contains(err.msg, "no ssh in PATH");
}

/* Through the client that callers get. */
static void requests_over_ssh(void **state)
{
    struct engine_address a = {0};
    struct error err = ERROR_INIT;
    fake_program("ssh", "engine");
    ssh_address("docker", "ssh://host", &a);
    struct http_client *client = engine_address_client(&a, &err);
    if (!client)
        fail_msg("%s", err.msg);
    for (int i = 0; i < 2; i++) {
        const struct http_request request = {.method = "HEAD", .path = "/_ping", .wait = forever};
        struct http_response response = {0};
        if (http_do(client, &request, &response, &err) < 0)
            fail_msg("%s", err.msg);
        assert_int_equal(response.status, 200);
        http_response_done(&response);
    }
    http_client_free(client);
    engine_address_done(&a);
    assert_false(have_children());
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, world_make, temporary_remove)

int main(int argc, char **argv)
{
    if (argc > 2)
        return fake_program_run(argc, argv);
    const struct CMUnitTest tests[] = {
        CASE(ssh_carries_bytes),         CASE(ssh_names_the_far_socket),   CASE(ssh_ends_with_its_connection),
        CASE(ssh_ends_with_its_address), CASE(what_ssh_says_is_the_error), CASE(ssh_is_missing),
        CASE(requests_over_ssh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
