/* TLS against a server that wants our certificate: who is trusted, requests, streams. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/spawn.h"
#include "tests/unit/net/peer.h"

static char dir[] = "/tmp/test-tls-XXXXXX";
static char url[64];
static int lifeline = -1; /* the peer ends when this is closed */
static pid_t peer_pid;
static char *peer_script;
static struct error err;

static char *in_dir(const char *name)
{
    return xasprintf("%s/%s", dir, name);
}

static int start_peer(void **state)
{
    int in[2], out[2], port = 0;
    if (!mkdtemp(dir) || pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
        return -1;
    char *argv[] = {(char *)"python3", peer_script, dir, NULL};
    char *env[] = {(char *)"PATH=/usr/bin:/bin", NULL};
    const int fds[] = {in[0], out[1], 2};
    const struct spawn_request r = {
        .path = "/usr/bin/python3", .argv = argv, .env = env, .fds = fds, .fd_count = 3};
    int r_spawn = spawn(&r, &peer_pid, NULL, &err);
    fd_close(in[0]);
    fd_close(out[1]);
    lifeline = in[1];
    FILE *f = fdopen(out[0], "r");
    bool told = r_spawn == 0 && fscanf(f, "%d", &port) == 1;
    fclose(f);
    snprintf(url, sizeof(url), "https://127.0.0.1:%d", port);
    return told ? 0 : -1;
}

static int stop_peer(void **state)
{
    fd_close(lifeline);
    waitpid(peer_pid, NULL, 0);
    return tree_remove(AT_FDCWD, dir, NULL);
}

static struct http_client *connect_with(const char *ca, const char *cert, bool insecure)
{
    _cleanup_(cleanup_free) char *ca_file = ca ? in_dir(ca) : NULL;
    _cleanup_(cleanup_free) char *cert_file = cert ? xasprintf("%s/%s.pem", dir, cert) : NULL;
    _cleanup_(cleanup_free) char *key_file = cert ? xasprintf("%s/%s.key", dir, cert) : NULL;
    const struct http_address a = {
        .url = url, .ca_file = ca_file, .cert_file = cert_file, .key_file = key_file, .insecure = insecure};
    struct http_client *c = http_client_new(&a, &err);
    if (!c)
        fail_msg("%s", err.msg);
    return c;
}

static int get(struct http_client *c, const char *path, struct http_response *ret)
{
    const struct http_request r = {.method = "GET", .path = path, .wait.deadline = clock_deadline_after(30)};
    err = (struct error)ERROR_INIT;
    return http_do(c, &r, ret, &err);
}

static void one_connection_serves_many_requests(void **state)
{
    struct http_client *c = connect_with("ca.pem", "client", false);
    struct http_response first = {0}, second = {0};
    if (get(c, "/count", &first) < 0 || get(c, "/count", &second) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(first.status, 200);
    assert_string_equal(buf_str(&first.body), buf_str(&second.body));
    http_response_done(&first);
    http_response_done(&second);
    http_client_free(c);
}

static void nobody_else_is_trusted(void **state)
{
    static const struct {
        const char *ca, *cert;
        const char *words;
    } cases[] = {
        {"other-ca.pem", "client", "certificate"},
        {NULL, "client", "certificate"},
        {"absent.pem", "client", ""},
        {"ca.pem", "absent", "key"},
        {"ca.pem", NULL, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct http_client *c = connect_with(cases[i].ca, cases[i].cert, false);
        struct http_response response = {0};
        assert_int_equal(get(c, "/count", &response), -1);
        if (err.code != ERR_UNAVAILABLE || !strstr(err.msg, cases[i].words) || !strstr(err.msg, url))
            fail_msg("%zu %s: %s", i, error_code_name(err.code), err.msg);
        http_client_free(c);
    }
}

static void unless_anybody_is(void **state)
{
    struct http_client *c = connect_with(NULL, "client", true);
    struct http_response response = {0};
    if (get(c, "/count", &response) < 0)
        fail_msg("%s", err.msg);
    http_response_done(&response);
    http_client_free(c);
}

/* An answer whose end is the connection's could be cut by anybody, but for TLS's own goodbye. */
static void an_end_without_goodbye_is_none(void **state)
{
    struct http_client *c = connect_with("ca.pem", "client", false);
    struct http_response response = {0};
    assert_int_equal(get(c, "/cut", &response), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "before the answer was complete"));
    http_client_free(c);
}

static ssize_t read_some(struct http_stream *s, void *buf, size_t size)
{
    ssize_t n;
    while ((n = http_stream_read(s, buf, size)) < 0 && errno == EAGAIN) {
        struct pollfd p = {.fd = http_stream_fd(s), .events = POLLIN};
        poll(&p, 1, -1);
    }
    return n;
}

static void expect_bytes(struct http_stream *s, const char *text)
{
    char got[64];
    size_t n = strlen(text);
    for (size_t at = 0; at < n;) {
        ssize_t some = read_some(s, got + at, n - at);
        assert_true(some > 0);
        at += (size_t)some;
    }
    assert_memory_equal(got, text, n);
}

static void streams_are_encrypted_too(void **state)
{
    struct http_client *c = connect_with("ca.pem", "client", false);
    struct http_stream *s = NULL;
    struct http_response response = {0};
    const struct http_request r = {
        .method = "POST", .path = "/stream", .wait.deadline = clock_deadline_after(30)};
    if (http_upgrade(c, &r, "tcp", &s, &response, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(response.status, 101);
    expect_bytes(s, "early");
    assert_int_equal(http_stream_write(s, "ping", 4), 4);
    expect_bytes(s, "ping");
    assert_int_equal(http_stream_end(s), -1);
    assert_int_equal(http_stream_write(s, "end", 3), 3);
    char byte;
    assert_int_equal(read_some(s, &byte, 1), 0);
    http_stream_free(s);
    http_response_done(&response);
    http_client_free(c);
}

int main(int argc, char **argv)
{
    if (access("/usr/bin/python3", X_OK) < 0 || access("/usr/bin/openssl", X_OK) < 0) {
        printf("# needs /usr/bin/python3 and /usr/bin/openssl\n");
        return 77;
    }
    peer_script = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_connection_serves_many_requests),
        cmocka_unit_test(nobody_else_is_trusted),
        cmocka_unit_test(unless_anybody_is),
        cmocka_unit_test(an_end_without_goodbye_is_none),
        cmocka_unit_test(streams_are_encrypted_too),
    };
    return cmocka_run_group_tests(tests, start_peer, stop_peer);
}
