/* Leaving HTTP behind: streams, refusals, and answers that are neither. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "tests/unit/net/peer.h"

#define SWITCH "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
#define NO "HTTP/1.1 409 Conflict\r\n"

static struct peer peer;
static struct http_client *client;
static struct http_stream *stream;
static struct http_response response;
static struct error err;
static int descriptors;

static const struct wait for_ever = {.deadline = DEADLINE_NONE};

static int set_up(void **state)
{
    err = (struct error)ERROR_INIT;
    descriptors = open_descriptors();
    peer_listen_unix(&peer);
    const struct http_address a = {.url = peer.url, .unix_path = peer.path};
    client = http_client_new(&a, &err);
    return client ? 0 : -1;
}

static int tear_down(void **state)
{
    stream = http_stream_free(stream);
    http_response_done(&response);
    response = (struct http_response){0};
    client = http_client_free(client);
    peer_join(&peer);
    return open_descriptors() == descriptors ? 0 : -1;
}

static int upgrade(const struct wait *wait, size_t max_body)
{
    const struct http_request r = {.method = "POST",
                                   .path = "/attach?stream=1",
                                   .body = "{}",
                                   .body_len = 2,
                                   .content_type = "application/json",
                                   .max_body = max_body,
                                   .wait = *wait};
    return http_upgrade(client, &r, "tcp", &stream, &response, &err);
}

static void expect_stream(const struct step *script, int status)
{
    peer_run(&peer, script);
    if (upgrade(&for_ever, 0) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(response.status, status);
    assert_non_null(stream);
}

static ssize_t read_some(void *buf, size_t size)
{
    ssize_t n;
    while ((n = http_stream_read(stream, buf, size)) < 0 && errno == EAGAIN) {
        struct pollfd p = {.fd = http_stream_fd(stream), .events = POLLIN};
        poll(&p, 1, -1);
    }
    return n;
}

static void expect_bytes(const char *text)
{
    char got[256];
    size_t n = strlen(text), at = 0;
    while (at < n) {
        ssize_t some = read_some(got + at, n - at);
        assert_true(some > 0);
        at += (size_t)some;
    }
    assert_memory_equal(got, text, n);
}

static void bytes_go_both_ways(void **state)
{
    static const struct step script[] = {{ACCEPT},       {HEAD},         {READ, "{}"}, {SEND, SWITCH},
                                         {READ, "ping"}, {SEND, "pong"}, {HOLD},       {END}};
    expect_stream(script, 101);
    char byte;
    assert_int_equal(http_stream_read(stream, &byte, 1), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(http_stream_write(stream, "ping", 4), 4);
    expect_bytes("pong");
    stream = http_stream_free(stream);
    peer_stop(&peer);
    const char *got = buf_str(&peer.got);
    assert_ptr_equal(strstr(got, "POST /attach?stream=1 HTTP/1.1\r\nHost: engine\r\n"), got);
    assert_non_null(strstr(got, "\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"));
    assert_non_null(strstr(got, "\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}ping"));
}

static void bytes_behind_the_head_are_the_streams(void **state)
{
    static const struct step script[] = {
        {ACCEPT}, {HEAD}, {READ, "{}"}, {SEND, SWITCH "right\r\n\r\nbehind"}, {SEND, ", later"}, {END}};
    expect_stream(script, 101);
    expect_bytes("r");
    expect_bytes("ight\r\n\r\nbehind, later");
    char byte;
    assert_int_equal(read_some(&byte, 1), 0);
    assert_int_equal(read_some(&byte, 1), 0);
}

static void a_raw_stream_in_a_200_is_one_too(void **state)
{
    static const struct step script[] = {
        {ACCEPT},
        {HEAD},
        {READ, "{}"},
        {SEND, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: raw\r\n\r\nhello"},
        {READ, "in"},
        {SEND, "out"},
        {END}};
    expect_stream(script, 200);
    assert_string_equal(response.content_type, "raw");
    expect_bytes("hello");
    assert_int_equal(http_stream_write(stream, "in", 2), 2);
    expect_bytes("out");
}

static void the_end_of_input_is_seen_over_there(void **state)
{
    static const struct step script[] = {
        {ACCEPT}, {HEAD}, {READ, "{}"}, {SEND, SWITCH}, {DRAIN}, {SEND, "that was all"}, {END}};
    expect_stream(script, 101);
    assert_int_equal(http_stream_end(stream), 0);
    expect_bytes("that was all");
}

static void a_peer_that_does_not_read_stops_the_writer(void **state)
{
    static const struct step script[] = {{ACCEPT}, {HEAD}, {READ, "{}"}, {SEND, SWITCH}, {HOLD}, {END}};
    static const char bytes[65536];
    expect_stream(script, 101);
    ssize_t n;
    while ((n = http_stream_write(stream, bytes, sizeof(bytes))) > 0)
        continue;
    assert_int_equal(n, -1);
    assert_int_equal(errno, EAGAIN);
}

static void a_broken_stream_is_an_errno_and_no_signal(void **state)
{
    static const struct step script[] = {{ACCEPT}, {HEAD}, {READ, "{}"}, {SEND, SWITCH}, {END}};
    char byte;
    expect_stream(script, 101);
    assert_int_equal(read_some(&byte, 1), 0);
    assert_int_equal(http_stream_write(stream, "x", 1), -1);
    assert_int_equal(errno, EPIPE);
}

static void a_refusal_comes_with_its_body(void **state)
{
    static const struct {
        const char *answer;
        int status;
        const char *body;
    } cases[] = {
        {NO "Content-Length: 11\r\n\r\nnot running", 409, "not running"},
        {NO "Transfer-Encoding: chunked\r\n\r\n4\r\nnot \r\n7;x\r\nrunning\r\n0\r\nA: b\r\n\r\n", 409,
         "not running"},
        {NO "\r\nnot running", 409, "not running"},
        {"HTTP/1.1 204 No Content\r\n\r\n", 204, ""},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", 200, "[]"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n", 200, "[]"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct step script[] = {{ACCEPT}, {HEAD}, {READ, "{}"}, {SEND, cases[i].answer}, {END}};
        peer_run(&peer, script);
        if (upgrade(&for_ever, 0) < 0)
            fail_msg("%s", err.msg);
        assert_null(stream);
        assert_int_equal(response.status, cases[i].status);
        assert_string_equal(buf_str(&response.body), cases[i].body);
        tear_down(NULL);
        set_up(NULL);
    }
}

static void what_is_neither_is_an_error(void **state)
{
    static const struct {
        const char *answer, *more;
        enum error_code code;
    } cases[] = {
        {"", "", ERR_UNAVAILABLE},
        {"garbage\r\n\r\n", "", ERR_UNAVAILABLE},
        {"HTTP/1.1 101 Switching Proto", "", ERR_UNAVAILABLE},
        {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: tcp\r\n", "", ERR_UNAVAILABLE},
        {NO "Content-Length: 12\r\n\r\nnot running", "", ERR_UNAVAILABLE},
        {NO "Transfer-Encoding: chunked\r\n\r\n4\r\nnot running", "", ERR_UNAVAILABLE},
        {NO "Transfer-Encoding: chunked\r\n\r\n-1\r\nx", "", ERR_UNAVAILABLE},
        {NO "Transfer-Encoding: chunked\r\n\r\n\r\nx", "", ERR_UNAVAILABLE},
        {NO "Transfer-Encoding: chunked\r\n\r\n1000000000000000\r\nx", "", ERR_UNAVAILABLE},
        {NO "Transfer-Encoding: chunked\r\n\r\n4 4\r\nnot \r\n0\r\n\r\n", "", ERR_UNAVAILABLE},
        {"HTTP/1.1 101 Yes\r\n", "Header-Of-Some-Length: and its value\r\n", ERR_LIMIT},
        {"HTTP/1.1 101 Yes\r\n", "a line without an end", ERR_LIMIT},
        {NO "\r\n", "not running", ERR_LIMIT},
        {NO "Content-Length: 99999999\r\n\r\n", "not running", ERR_LIMIT},
        {NO "Transfer-Encoding: chunked\r\n\r\n", "b\r\nnot running\r\n", ERR_LIMIT},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct step script[] = {
            {ACCEPT}, {HEAD}, {READ, "{}"}, {SEND, cases[i].answer}, {SEND, cases[i].more, 20000}, {END}};
        peer_run(&peer, script);
        assert_int_equal(upgrade(&for_ever, 1000), -1);
        if (err.code != cases[i].code || !strstr(err.msg, peer.path))
            fail_msg("%zu %s: %s", i, error_code_name(err.code), err.msg);
        assert_null(stream);
        assert_int_equal(response.status, 0);
        tear_down(NULL);
        set_up(NULL);
    }
}

static void it_stops_wherever_it_is(void **state)
{
    static const struct step silent[] = {{ACCEPT}, {HEAD}, {FIRE}, {HOLD}, {END}};
    static const struct step in_the_head[] = {{ACCEPT}, {HEAD}, {SEND, "HTTP/1.1 101 S"},
                                              {FIRE},   {HOLD}, {END}};
    static const struct step in_the_body[] = {{ACCEPT}, {HEAD}, {SEND, NO "\r\nnot"}, {FIRE}, {HOLD}, {END}};
    static const struct step *const stops[] = {silent, in_the_head, in_the_body};
    for (size_t i = 0; i < ARRAY_LEN(stops) * 2; i++) {
        bool by_cancel = i % 2;
        struct cancel *token = peer.cancel = cancel_new();
        const struct wait wait = {by_cancel ? DEADLINE_NONE : clock_deadline_after(0.05),
                                  by_cancel ? token : NULL};
        peer_run(&peer, stops[i / 2]);
        assert_int_equal(upgrade(&wait, 0), -1);
        assert_int_equal(err.code, by_cancel ? ERR_CANCELLED : ERR_TIMEOUT);
        tear_down(NULL);
        cancel_unref(token);
        set_up(NULL);
    }
}

static void tcp_streams_as_well(void **state)
{
    static const struct step script[] = {{ACCEPT},       {HEAD},         {READ, "{}"}, {SEND, SWITCH "early"},
                                         {READ, "ping"}, {SEND, "pong"}, {DRAIN},      {SEND, "all"},
                                         {END}};
    http_client_free(client);
    peer_join(&peer);
    peer_listen_tcp(&peer);
    const struct http_address a = {.url = peer.url};
    client = http_client_new(&a, &err);
    expect_stream(script, 101);
    expect_bytes("early");
    assert_int_equal(http_stream_write(stream, "ping", 4), 4);
    expect_bytes("pong");
    assert_int_equal(http_stream_end(stream), 0);
    expect_bytes("all");
}

struct flood {
    size_t left;
    unsigned char next;
};

static void *write_flood(void *arg)
{
    struct flood *f = arg;
    unsigned char bytes[4096];
    while (f->left > 0) {
        size_t n = f->left < sizeof(bytes) ? f->left : sizeof(bytes);
        for (size_t i = 0; i < n; i++)
            bytes[i] = (unsigned char)(f->next + i);
        ssize_t sent = http_stream_write(stream, bytes, n);
        if (sent < 0 && errno == EAGAIN) {
            struct pollfd p = {.fd = http_stream_fd(stream), .events = POLLOUT};
            poll(&p, 1, -1);
            continue;
        }
        if (sent < 0)
            break;
        f->next = (unsigned char)(f->next + sent);
        f->left -= (size_t)sent;
    }
    return NULL;
}

static void *answer_and_echo(void *arg)
{
    int fd = *(int *)arg;
    char c, last[6] = "";
    while (memcmp(last, "\r\n\r\n{}", 6) != 0 && recv(fd, &c, 1, 0) == 1) {
        memmove(last, last + 1, 5);
        last[5] = c;
    }
    fd_write_all(fd, SWITCH, strlen(SWITCH));
    char bytes[65536];
    for (ssize_t n; (n = recv(fd, bytes, sizeof(bytes), 0)) > 0;)
        fd_write_all(fd, bytes, (size_t)n);
    fd_close(fd);
    return NULL;
}

static int dial_echo(void *ctx, const struct wait *wait, struct error *e)
{
    struct peer *p = ctx;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    p->connection = pair[1];
    assert_int_equal(pthread_create(&p->thread, NULL, answer_and_echo, &p->connection), 0);
    return pair[0];
}

static void one_thread_reads_while_another_writes(void **state)
{
    http_client_free(client);
    peer_join(&peer);
    const struct http_address a = {.url = "http://remote", .dial = dial_echo, .dial_ctx = &peer};
    client = http_client_new(&a, &err);
    if (upgrade(&for_ever, 0) < 0)
        fail_msg("%s", err.msg);

    struct flood out = {.left = 8 * MIB}, in = {.left = 8 * MIB};
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, write_flood, &out), 0);
    while (in.left > 0) {
        unsigned char bytes[5000];
        ssize_t n = read_some(bytes, sizeof(bytes));
        assert_true(n > 0);
        for (ssize_t i = 0; i < n; i++)
            if (bytes[i] != in.next++)
                fail_msg("a byte is wrong");
        in.left -= (size_t)n;
    }
    pthread_join(writer, NULL);
    stream = http_stream_free(stream);
    pthread_join(peer.thread, NULL);
    peer.connection = -1;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(bytes_go_both_ways),
        CASE(bytes_behind_the_head_are_the_streams),
        CASE(a_raw_stream_in_a_200_is_one_too),
        CASE(the_end_of_input_is_seen_over_there),
        CASE(a_peer_that_does_not_read_stops_the_writer),
        CASE(a_broken_stream_is_an_errno_and_no_signal),
        CASE(a_refusal_comes_with_its_body),
        CASE(what_is_neither_is_an_error),
        CASE(it_stops_wherever_it_is),
        CASE(tcp_streams_as_well),
        CASE(one_thread_reads_while_another_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
