/* Requests against a scripted server: whole answers, and all the ways in which there is none. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "tests/unit/net/peer.h"

#define OK "HTTP/1.1 200 OK\r\n"
#define FIVE "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

static struct peer peer;
static struct http_client *client;
static struct http_response response;
static struct error err;
static int descriptors;

static const struct wait for_ever = {.deadline = DEADLINE_NONE};

static void connect_client(void)
{
    const struct http_address a = {.url = peer.url, .unix_path = peer.path[0] ? peer.path : NULL};
    client = http_client_new(&a, &err);
    assert_non_null(client);
}

static int set_up(void **state)
{
    err = (struct error)ERROR_INIT;
    descriptors = open_descriptors();
    peer_listen_unix(&peer);
    connect_client();
    return 0;
}

static int tear_down(void **state)
{
    http_response_done(&response);
    response = (struct http_response){0};
    client = http_client_free(client);
    peer_join(&peer);
    return open_descriptors() == descriptors ? 0 : -1;
}

static struct http_request get(const char *path)
{
    return (struct http_request){.method = "GET", .path = path, .wait = for_ever};
}

static struct http_request post(const char *body)
{
    return (struct http_request){.method = "POST",
                                 .path = "/p",
                                 .body = body,
                                 .body_len = strlen(body),
                                 .content_type = "text/plain",
                                 .wait = for_ever};
}

static void expect(const struct http_request *r, int status, const char *body)
{
    http_response_done(&response);
    response = (struct http_response){0};
    if (http_do(client, r, &response, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(response.status, status);
    assert_string_equal(buf_str(&response.body), body);
}

static void expect_error(const struct http_request *r, enum error_code code, const char *words)
{
    err = (struct error)ERROR_INIT;
    assert_int_equal(http_do(client, r, &response, &err), -1);
    if (err.code != code || !strstr(err.msg, words))
        fail_msg("%s: %s", error_code_name(err.code), err.msg);
    assert_int_equal(response.status, 0);
}

/* One answer to one request, then the connection is closed. */
static void answer_with(const char *answer, size_t times)
{
    static struct step script[5];
    script[0] = (struct step){ACCEPT};
    script[1] = (struct step){HEAD};
    script[2] = (struct step){SEND, answer, times};
    script[3] = (struct step){END};
    peer_run(&peer, script);
}

static void next_peer(void)
{
    http_client_free(client);
    peer_join(&peer);
    peer_listen_unix(&peer);
    connect_client();
}

static void answers_of_every_framing_come_whole(void **state)
{
    static const struct {
        const char *answer;
        int status;
        const char *body;
    } cases[] = {
        {FIVE, 200, "hello"},
        {OK "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nTrailer: 1\r\n\r\n", 200,
         "hello"},
        {OK "\r\nto the end", 200, "to the end"},
        {"HTTP/1.0 200 OK\r\n\r\nold", 200, "old"},
        {"HTTP/1.1 204 No Content\r\n\r\n", 204, ""},
        {"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", 304, ""},
        {"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone", 404, "none"},
        {"HTTP/1.1 301 Moved\r\nLocation: http://engine/b\r\nContent-Length: 4\r\n\r\nlook", 301, "look"},
        {"HTTP/1.1 401 No\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n", 401, ""},
        {"HTTP/1.1 103 Early\r\nA: b\r\n\r\n" FIVE, 200, "hello"},
        {OK "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 200, "hello"},
        {"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello", 200, "hello"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        answer_with(cases[i].answer, 1);
        const struct http_request r = get("/a");
        expect(&r, cases[i].status, cases[i].body);
        next_peer();
    }
}

static void the_request_is_what_was_asked_for(void **state)
{
    static const struct step script[] = {{ACCEPT}, {HEAD}, {READ, "body"}, {SEND, FIVE}, {END}};
    const struct http_header headers[] = {{"X-Auth", "abc="}, {"X-Empty", ""}};
    struct http_request r = post("body");
    r.path = "/v1.41/../a%20b?x=1&y=%2F";
    r.headers = headers;
    r.header_count = 2;
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    peer_run(&peer, script);
    expect(&r, 200, "hello");
    unsetenv("http_proxy");

    const char *got = buf_str(&peer.got);
    assert_ptr_equal(strstr(got, "POST /v1.41/../a%20b?x=1&y=%2F HTTP/1.1\r\nHost: engine\r\n"), got);
    assert_non_null(strstr(got, "\r\nX-Auth: abc=\r\n"));
    assert_non_null(strstr(got, "\r\nX-Empty: \r\n"));
    assert_non_null(strstr(got, "\r\nContent-Type: text/plain\r\n"));
    assert_non_null(strstr(got, "\r\nContent-Length: 4\r\n"));
    assert_null(strstr(got, "Expect"));
}

static void methods_say_whether_there_is_a_body(void **state)
{
    static const struct step script[] = {{ACCEPT},     {HEAD},       {SEND, OK "Content-Length: 9\r\n\r\n"},
                                         {HEAD},       {SEND, FIVE}, {HEAD},
                                         {SEND, FIVE}, {HEAD},       {SEND, FIVE},
                                         {END}};
    static const char *const methods[] = {"HEAD", "DELETE", "POST", "PUT"};
    peer_run(&peer, script);
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        struct http_request r = get("/x");
        r.method = methods[i];
        expect(&r, 200, i == 0 ? "" : "hello");
    }
    const char *deletes = strstr(buf_str(&peer.got), "DELETE /x"), *posts = strstr(deletes, "POST /x");
    assert_non_null(posts);
    assert_true(strstr(deletes, "Content-Length") > posts);
    assert_non_null(strstr(strstr(posts, "PUT /x"), "\r\nContent-Length: 0\r\n"));
    assert_int_equal(peer.accepted, 1);
}

static void headers_are_kept_in_lower_case(void **state)
{
    answer_with("HTTP/1.1 100 Continue\r\nGone: 1\r\n\r\n" OK
                "Content-TYPE:application/json; charset=utf-8 \r\nDocker-Stat: abc\r\nEmpty:\r\n"
                "Transfer-Encoding: chunked\r\n\r\n0\r\nDocker-Stat: trailer\r\n\r\n",
                1);
    const struct http_request r = get("/");
    expect(&r, 200, "");
    assert_string_equal(response.content_type, "application/json; charset=utf-8");
    _cleanup_(cleanup_free) char *stat = http_response_header(&response, "docker-stat");
    _cleanup_(cleanup_free) char *empty = http_response_header(&response, "empty");
    assert_string_equal(stat, "abc");
    assert_string_equal(empty, "");
    assert_null(http_response_header(&response, "docker"));
    assert_null(http_response_header(&response, "gone"));
}

static void a_connection_is_used_again(void **state)
{
    static const struct step script[] = {{ACCEPT}, {HEAD}, {SEND, FIVE}, {HEAD}, {SEND, FIVE}, {END}};
    const struct http_request r = get("/");
    peer_run(&peer, script);
    expect(&r, 200, "hello");
    expect(&r, 200, "hello");
    assert_int_equal(peer.accepted, 1);
}

/* The peer closes when the second request has come: nobody could have seen it before. */
static void a_dead_connection_is_replaced_once_for_get(void **state)
{
    static const struct step script[] = {{ACCEPT},     {HEAD}, {SEND, FIVE}, {HEAD}, {ACCEPT}, {HEAD},
                                         {SEND, FIVE}, {HEAD}, {ACCEPT},     {HEAD}, {END}};
    const struct http_request r = get("/");
    peer_run(&peer, script);
    expect(&r, 200, "hello");
    expect(&r, 200, "hello");
    response = (http_response_done(&response), (struct http_response){0});
    expect_error(&r, ERR_UNAVAILABLE, "without an answer");
    peer_stop(&peer);
    assert_int_equal(peer.accepted, 3);
}

static void a_post_that_was_sent_is_not_sent_again(void **state)
{
    static const struct step script[] = {{ACCEPT}, {HEAD}, {SEND, FIVE},   {HEAD}, {READ, "once"},
                                         {ACCEPT}, {HEAD}, {READ, "once"}, {END}};
    const struct http_request first = get("/"), second = post("once");
    peer_run(&peer, script);
    expect(&first, 200, "hello");
    response = (http_response_done(&response), (struct http_response){0});
    expect_error(&second, ERR_UNAVAILABLE, "whether the request took effect isn't known");
    peer_stop(&peer);
    const char *once = strstr(buf_str(&peer.got), "once");
    assert_non_null(once);
    assert_null(strstr(once + 1, "once"));
}

static void a_connection_known_to_be_dead_costs_no_post(void **state)
{
    static const struct step script[] = {{ACCEPT}, {HEAD}, {SEND, FIVE}, {END}};
    static const struct step again[] = {{ACCEPT}, {HEAD}, {READ, "once"}, {SEND, FIVE}, {END}};
    const struct http_request first = get("/"), second = post("once");
    peer_run(&peer, script);
    expect(&first, 200, "hello");
    pthread_join(peer.thread, NULL);
    peer_run(&peer, again);
    expect(&second, 200, "hello");
}

static void what_is_no_answer_is_unavailable(void **state)
{
    static const char *const answers[] = {
        "",
        "garbage\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "HTTP/1.1 200 OK\r\nContent-Le",
        OK "Content-Length: 5\r\n\r\nhell",
        OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
        OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        OK "Transfer-Encoding: chunked\r\n\r\nxyz\r\nhello\r\n0\r\n\r\n",
        OK "Transfer-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
        OK "Content-Length: -5\r\n\r\nhello",
        OK "Content-Length: 5x\r\n\r\nhello",
        OK "Content-Length: 5\r\nContent-Length: 4\r\n\r\nhello",
        OK "no colon\r\nContent-Length: 5\r\n\r\nhello",
        OK ": no name\r\nContent-Length: 5\r\n\r\nhello",
        OK "A: \x01\r\nContent-Length: 5\r\n\r\nhello",
        OK "A: b\r\n folded\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 999 No\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 20 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 099 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/3 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 100 Continue\r\n\r\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        answer_with(answers[i], 1);
        const struct http_request r = get("/a");
        expect_error(&r, ERR_UNAVAILABLE, peer.path);
        next_peer();
    }
}

static void long_answers_are_cut_off(void **state)
{
    static const struct {
        const char *start, *more, *words;
    } cases[] = {
        {OK "Content-Length: 1000000000\r\n\r\n", "0123456789abcdef", "longer than 1000 bytes"},
        {OK "Transfer-Encoding: chunked\r\n\r\n", "10\r\n0123456789abcdef\r\n", "longer than 1000 bytes"},
        {"HTTP/1.1 500 Oops\r\n\r\n", "0123456789abcdef", "longer than 1000 bytes"},
        {OK, "Header-Of-Some-Length: and its value\r\n", "headers are longer than 65536 bytes"},
        {"", "HTTP/1.1 100 Continue\r\n\r\n", "headers are longer than 65536 bytes"},
        {OK "Transfer-Encoding: chunked\r\n\r\n0\r\n", "Trailer-Of-Some-Length: value\r\n",
         "headers are longer than 65536 bytes"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct step script[] = {
            {ACCEPT}, {HEAD}, {SEND, cases[i].start}, {SEND, cases[i].more, 100000}, {END}};
        struct http_request r = get("/");
        r.max_body = 1000;
        peer_run(&peer, script);
        expect_error(&r, ERR_LIMIT, cases[i].words);
        next_peer();
    }
}

static void a_body_of_just_the_limit_is_fine(void **state)
{
    answer_with(FIVE, 1);
    struct http_request r = get("/");
    r.max_body = 5;
    expect(&r, 200, "hello");
}

static int count_bytes(void *ctx, const void *bytes, size_t n, struct error *e)
{
    *(size_t *)ctx += n;
    return 0;
}

static int dislike(void *ctx, const void *bytes, size_t n, struct error *e)
{
    return error_set(e, ERR_DENIED, "not to my taste");
}

static void a_sink_takes_what_would_be_too_long(void **state)
{
    static const struct step script[] = {
        {ACCEPT}, {HEAD}, {SEND, OK "\r\n"}, {SEND, "0123456789", 1000000}, {END}};
    size_t total = 0;
    struct http_request r = get("/");
    r.sink = count_bytes;
    r.ctx = &total;
    r.max_body = 1;
    peer_run(&peer, script);
    expect(&r, 200, "");
    assert_int_equal(total, 10000000);
}

static void a_sink_gets_no_error_page(void **state)
{
    size_t total = 0;
    struct http_request r = get("/");
    r.sink = count_bytes;
    r.ctx = &total;
    answer_with("HTTP/1.1 500 Oops\r\nContent-Length: 3\r\n\r\nbad", 1);
    expect(&r, 500, "bad");
    assert_int_equal(total, 0);
}

static void a_sink_can_end_it(void **state)
{
    struct http_request r = get("/");
    r.sink = dislike;
    answer_with(FIVE, 1);
    expect_error(&r, ERR_DENIED, "not to my taste");
}

static ssize_t give_three_times(void *ctx, void *buf, size_t size, struct error *e)
{
    int *given = ctx;
    if (*given == 3)
        return 0;
    ++*given;
    memcpy(buf, "piece", 5);
    return 5;
}

static ssize_t give_nothing(void *ctx, void *buf, size_t size, struct error *e)
{
    return error_set(e, ERR_INTERNAL, "the file has gone");
}

static void a_source_is_sent_in_chunks(void **state)
{
    static const struct step script[] = {{ACCEPT}, {HEAD}, {READ, "0\r\n\r\n"}, {SEND, FIVE}, {END}};
    int given = 0;
    struct http_request r = get("/archive");
    r.method = "PUT";
    r.source = give_three_times;
    r.content_type = "application/x-tar";
    r.ctx = &given;
    peer_run(&peer, script);
    expect(&r, 200, "hello");
    const char *got = buf_str(&peer.got);
    assert_ptr_equal(strstr(got, "PUT /archive HTTP/1.1"), got);
    assert_non_null(strstr(got, "\r\nTransfer-Encoding: chunked\r\n"));
    assert_non_null(strstr(got, "\r\nContent-Type: application/x-tar\r\n"));
    assert_null(strstr(got, "Expect"));
    int pieces = 0;
    for (const char *p = got; (p = strstr(p, "piece")); p++)
        pieces++;
    assert_int_equal(pieces, 3);
}

static void a_source_can_end_it(void **state)
{
    static const struct step script[] = {{ACCEPT}, {HEAD}, {DRAIN}, {END}};
    struct http_request r = get("/archive");
    r.method = "PUT";
    r.source = give_nothing;
    peer_run(&peer, script);
    expect_error(&r, ERR_INTERNAL, "the file has gone");
}

static void an_early_refusal_of_an_upload_is_seen(void **state)
{
    static const struct step script[] = {
        {ACCEPT}, {HEAD}, {SEND, "HTTP/1.1 404 None\r\nContent-Length: 4\r\n\r\nnone"}, {HOLD}, {END}};
    size_t n = 8 * MIB;
    _cleanup_(cleanup_free) char *body = xcalloc(1, n);
    struct http_request r = post("");
    r.body = body;
    r.body_len = n;
    peer_run(&peer, script);
    expect(&r, 404, "none");
}

/* Where a request can be when it is to stop: each script ends in a wait that only the client ends. */
static const struct step silent[] = {{ACCEPT}, {HEAD}, {FIRE}, {HOLD}, {END}};
static const struct step in_the_head[] = {{ACCEPT}, {HEAD}, {SEND, OK "Content-"}, {FIRE}, {HOLD}, {END}};
static const struct step in_the_body[] = {{ACCEPT}, {HEAD}, {SEND, OK "Content-Length: 9\r\n\r\nhel"},
                                          {FIRE},   {HOLD}, {END}};
static const struct step in_a_chunk[] = {
    {ACCEPT}, {HEAD}, {SEND, OK "Transfer-Encoding: chunked\r\n\r\n9\r\nhel"}, {FIRE}, {HOLD}, {END}};
static const struct step deaf[] = {{ACCEPT}, {FIRE}, {HOLD}, {END}};
static const struct step endless[] = {
    {ACCEPT}, {HEAD}, {SEND, OK "\r\n"}, {FIRE}, {SEND, "0123456789", 10000000}, {END}};
static const struct step *const stops[] = {silent, in_the_head, in_the_body, in_a_chunk, deaf, endless};

static void stop_everywhere(bool by_cancel)
{
    _cleanup_(cleanup_free) char *large = xcalloc(1, 8 * MIB);
    for (size_t i = 0; i < ARRAY_LEN(stops); i++) {
        size_t total = 0;
        struct http_request r = post("");
        r.body = large;
        r.body_len = stops[i] == deaf ? 8 * MIB : 0;
        r.sink = stops[i] == endless ? count_bytes : NULL;
        r.ctx = &total;
        peer.cancel = cancel_new();
        r.wait.cancel = by_cancel ? peer.cancel : NULL;
        r.wait.deadline = by_cancel ? DEADLINE_NONE : clock_deadline_after(0.05);
        peer_run(&peer, stops[i]);
        expect_error(&r, by_cancel ? ERR_CANCELLED : ERR_TIMEOUT, peer.path);
        struct cancel *token = peer.cancel;
        next_peer();
        cancel_unref(token);
    }
}

static void cancel_ends_it_wherever_it_is(void **state)
{
    stop_everywhere(true);
}

static void the_deadline_ends_it_wherever_it_is(void **state)
{
    stop_everywhere(false);
}

static void a_wait_that_is_over_connects_to_nothing(void **state)
{
    struct http_request r = get("/");
    r.wait.deadline = 0;
    expect_error(&r, ERR_TIMEOUT, "time limit");
    assert_int_equal(fd_set_nonblocking(peer.listener, true), 0);
    assert_int_equal(accept4(peer.listener, NULL, NULL, SOCK_CLOEXEC), -1);
}

static int fill_backlog(int fds[8])
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", peer.path);
    for (int i = 0; i < 8; i++) {
        fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (connect(fds[i], (struct sockaddr *)&a, sizeof(a)) < 0) {
            assert_int_equal(errno, EAGAIN);
            fd_close(fds[i]);
            return i;
        }
    }
    return 8;
}

static void *fire(void *token)
{
    cancel_fire(token, ERR_DELETED);
    return NULL;
}

static void a_full_backlog_is_waited_for(void **state)
{
    static const struct step script[] = {{ACCEPT}, {ACCEPT}, {HEAD}, {SEND, FIVE}, {END}};
    int fds[8], n = fill_backlog(fds);
    assert_int_equal(n, 1);
    struct http_request r = get("/");
    r.wait.deadline = clock_deadline_after(0.05);
    expect_error(&r, ERR_TIMEOUT, peer.path);

    r.wait = (struct wait){DEADLINE_NONE, cancel_new()};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fire, r.wait.cancel), 0);
    expect_error(&r, ERR_DELETED, "deleted");
    pthread_join(thread, NULL);
    cancel_unref(r.wait.cancel);

    r.wait = for_ever;
    peer_run(&peer, script);
    expect(&r, 200, "hello");
    fd_close(fds[0]);
}

static void nobody_there_is_unavailable(void **state)
{
    const struct http_request r = get("/");
    unlink(peer.path);
    expect_error(&r, ERR_UNAVAILABLE, peer.path);
    assert_int_equal(err.sys, ENOENT);

    http_client_free(client);
    peer_join(&peer);
    peer_listen_tcp(&peer);
    connect_client();
    fd_close(TAKE_FD(peer.listener));
    expect_error(&r, ERR_UNAVAILABLE, "can't connect");
    assert_int_equal(err.sys, ECONNREFUSED);
}

static void tcp_serves_as_well(void **state)
{
    static const struct step script[] = {{ACCEPT}, {HEAD}, {SEND, FIVE}, {HEAD}, {SEND, FIVE}, {END}};
    const struct http_request r = get("/");
    http_client_free(client);
    peer_join(&peer);
    peer_listen_tcp(&peer);
    connect_client();
    peer_run(&peer, script);
    expect(&r, 200, "hello");
    expect(&r, 200, "hello");
    assert_int_equal(peer.accepted, 1);
}

/* One end for the client, the other for the script. */
static int dial_pair(void *ctx, const struct wait *wait, struct error *e)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    ((struct peer *)ctx)->connection = pair[1];
    static const struct step script[] = {{HEAD}, {SEND, FIVE}, {HEAD}, {SEND, FIVE}, {END}};
    peer_run(ctx, script);
    return pair[0];
}

static int dial_nowhere(void *ctx, const struct wait *wait, struct error *e)
{
    return error_set(e, ERR_DENIED, "ssh: permission denied (publickey)");
}

static void dialled_connections_serve_as_well(void **state)
{
    const struct http_request r = get("/");
    http_client_free(client);
    const struct http_address a = {.url = "http://remote", .dial = dial_pair, .dial_ctx = &peer};
    client = http_client_new(&a, &err);
    expect(&r, 200, "hello");
    expect(&r, 200, "hello");

    http_client_free(client);
    response = (http_response_done(&response), (struct http_response){0});
    const struct http_address nowhere = {.url = "http://remote", .dial = dial_nowhere};
    client = http_client_new(&nowhere, &err);
    expect_error(&r, ERR_DENIED, "publickey");
}

struct caller {
    pthread_t thread;
    int status;
};

static void *call_slowly(void *arg)
{
    struct caller *c = arg;
    struct http_response own = {0};
    const struct http_request r = get("/");
    if (http_do(client, &r, &own, NULL) == 0)
        c->status = own.status;
    http_response_done(&own);
    return NULL;
}

/* More than the lanes that are kept: each has its own connection, none waits for another. */
static void callers_do_not_wait_for_each_other(void **state)
{
    struct caller callers[12] = {0};
    int connections[12];
    http_client_free(client);
    peer_join(&peer);
    peer_listen_tcp(&peer);
    connect_client();
    for (size_t i = 0; i < 12; i++)
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call_slowly, &callers[i]), 0);
    for (size_t i = 0; i < 12; i++)
        connections[i] = accept4(peer.listener, NULL, NULL, SOCK_CLOEXEC);
    for (size_t i = 0; i < 12; i++)
        assert_int_equal(fd_write_all(connections[i], FIVE, strlen(FIVE)), 0);
    for (size_t i = 0; i < 12; i++) {
        pthread_join(callers[i].thread, NULL);
        assert_int_equal(callers[i].status, 200);
        fd_close(connections[i]);
    }
}

static void what_would_break_a_line_is_refused(void **state)
{
    const struct http_header bad[] = {{"A", "b\r\nC: d"}, {"A\n", "b"}, {"A:", "b"}, {"", "b"}};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct http_request r = get("/");
        r.headers = &bad[i];
        r.header_count = 1;
        expect_error(&r, ERR_INVALID, "");
    }
    static const char *const paths[] = {"", "relative", "/a b", "/a\r\nX: y"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        const struct http_request r = get(paths[i]);
        expect_error(&r, ERR_INVALID, "encoded path");
    }
}

static void addresses_are_checked(void **state)
{
    static const char *const urls[] = {"ftp://a", "http://", "http://a/b", "https://u@h", "file:///etc", "a"};
    for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
        const struct http_address a = {.url = urls[i]};
        assert_null(http_client_new(&a, &err));
        assert_int_equal(err.code, ERR_INVALID);
        assert_non_null(strstr(err.msg, urls[i]));
    }
    char path[200];
    memset(path, 'a', sizeof(path) - 1);
    path[0] = '/';
    path[sizeof(path) - 1] = '\0';
    const struct http_address a = {.url = "http://engine", .unix_path = path};
    const struct http_request r = get("/");
    http_client_free(client);
    client = http_client_new(&a, &err);
    expect_error(&r, ERR_UNAVAILABLE, "107 bytes");
}

static void text_is_encoded(void **state)
{
    static const char *const cases[][2] = {{"", ""},
                                           {"aZ09-._~", "aZ09-._~"},
                                           {"a b/c?d=e&f", "a%20b%2Fc%3Fd%3De%26f"},
                                           {"\xc3\xa9%\n", "%C3%A9%25%0A"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(cleanup_free) char *encoded = http_encode(cases[i][0]);
        assert_string_equal(encoded, cases[i][1]);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(answers_of_every_framing_come_whole),
        CASE(the_request_is_what_was_asked_for),
        CASE(methods_say_whether_there_is_a_body),
        CASE(headers_are_kept_in_lower_case),
        CASE(a_connection_is_used_again),
        CASE(a_dead_connection_is_replaced_once_for_get),
        CASE(a_post_that_was_sent_is_not_sent_again),
        CASE(a_connection_known_to_be_dead_costs_no_post),
        CASE(what_is_no_answer_is_unavailable),
        CASE(long_answers_are_cut_off),
        CASE(a_body_of_just_the_limit_is_fine),
        CASE(a_sink_takes_what_would_be_too_long),
        CASE(a_sink_gets_no_error_page),
        CASE(a_sink_can_end_it),
        CASE(a_source_is_sent_in_chunks),
        CASE(a_source_can_end_it),
        CASE(an_early_refusal_of_an_upload_is_seen),
        CASE(cancel_ends_it_wherever_it_is),
        CASE(the_deadline_ends_it_wherever_it_is),
        CASE(a_wait_that_is_over_connects_to_nothing),
        CASE(a_full_backlog_is_waited_for),
        CASE(nobody_there_is_unavailable),
        CASE(tcp_serves_as_well),
        CASE(dialled_connections_serve_as_well),
        CASE(callers_do_not_wait_for_each_other),
        CASE(what_would_break_a_line_is_refused),
        CASE(addresses_are_checked),
        CASE(text_is_encoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
