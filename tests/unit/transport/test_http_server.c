/* Answers, streams, limits and ends, as a client sees them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "http_site.h"
#include "tests/skip.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

static void expect(char *answer, int status, const char *content)
{
    if (status_of(answer) != status || strcmp(content_of(answer), content) != 0)
        fail_msg("expected %d and '%s', not\n%.500s", status, content, answer);
    free(answer);
}

static void reset(int fd)
{
    const struct linger now = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    fd_close(fd);
}

/* -- Whole answers. */

static void test_keep_alive(void **state)
{
    static const struct {
        const char *request;
        bool stays;
    } cases[] = {
        {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", true},
        {"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", false},
        {"GET / HTTP/1.1\r\nHost: x\r\nConnection: foo, close\r\n\r\n", false},
        {"GET / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n", true},
        {"GET / HTTP/1.0\r\nHost: x\r\n\r\n", false},
    };
    struct site s;
    site_start(&s, &generous);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_fd_ int fd = dial(&s);
        for (int n = 0; n < (cases[i].stays ? 3 : 1); n++) {
            say_text(fd, cases[i].request);
            expect(hear(fd), 200, "GET / - 127.0.0.1 uid=-1 -*0 0:");
        }
        if (!cases[i].stays)
            assert_true(is_closed(fd));
    }
    site_stop(&s);
}

static void test_head_method(void **state)
{
    struct site s;
    site_start(&s, &generous);
    _cleanup_fd_ int fd = dial(&s);
    for (int i = 0; i < 2; i++) {
        say_text(fd, "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n");
        char *head = hear_head(fd);
        assert_non_null(strstr(head, "Content-Length: 32\r\n"));
        free(head);
    }
    say_text(fd, "HEAD /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    free(hear_head(fd));
    say_text(fd, GET("/"));
    expect(hear(fd), 200, "GET / - 127.0.0.1 uid=-1 -*0 0:");
    site_stop(&s);
}

static void test_unix_socket(void **state)
{
    struct site s;
    site_start(&s, &generous);
    _cleanup_fd_ int fd = dial_unix(&s);
    say_text(fd, GET("/"));
    char *expected = xasprintf("GET / - unix uid=%d -*0 0:", (int)getuid());
    expect(hear(fd), 200, expected);
    free(expected);
    site_stop(&s);
}

static void test_expectation(void **state)
{
    struct site s;
    site_start(&s, &generous);
    static const char head[] =
        "POST %s HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n";
    _cleanup_fd_ int fd = dial(&s);
    char *text = xasprintf(head, "/", 3);
    say_text(fd, text);
    expect(hear(fd), 100, "");
    say_text(fd, "abc");
    expect(hear(fd), 200, "POST / - 127.0.0.1 uid=-1 -*0 3:abc");
    free(text);

    /* Nobody asks for a body that nobody wants. */
    _cleanup_fd_ int refused = dial(&s);
    say_text(refused, text = xasprintf(head, "/early", 3));
    expect(hear(refused), 401, "early");
    assert_true(is_closed(refused));
    free(text);

    _cleanup_fd_ int long_one = dial(&s);
    say_text(long_one, text = xasprintf(head, "/", 1 << 24));
    expect(hear(long_one), 413, "");
    assert_true(is_closed(long_one));
    free(text);
    site_wait(&s, gone_is, 3);
    site_stop(&s);
}

static void say_post(int fd, const char *path, const char *more, size_t n)
{
    char *head = xasprintf("POST %s HTTP/1.1\r\nHost: x\r\n%s", path, more);
    if (strstr(more, "chunked")) {
        say_text(fd, head);
        say_text(fd, "\r\n");
    } else {
        char *with_length = xasprintf("%sContent-Length: %zu\r\n\r\n", head, n);
        say_text(fd, with_length);
        free(with_length);
    }
    free(head);
    char *piece = xmalloc(16 * KIB);
    memset(piece, 'x', 16 * KIB);
    for (size_t at = 0; at < n; at += 16 * KIB) {
        size_t part = n - at < 16 * KIB ? n - at : 16 * KIB;
        char size[20];
        snprintf(size, sizeof(size), "%zx\r\n", part);
        if (strstr(more, "chunked"))
            say_text(fd, size);
        say(fd, piece, part);
        if (strstr(more, "chunked"))
            say_text(fd, "\r\n");
    }
    if (strstr(more, "chunked"))
        say_text(fd, "0\r\n\r\n");
    free(piece);
}

/* An answer that is given before the body reaches whoever sends it all first, and the connection stays. */
static void test_early_answer(void **state)
{
    struct site s;
    site_start(&s, &generous);
    _cleanup_fd_ int fd = dial(&s);
    for (int i = 0; i < 3; i++) {
        say_post(fd, "/early", i == 1 ? "Transfer-Encoding: chunked\r\n" : "", 900000);
        expect(hear(fd), 401, "early");
    }
    site_stop(&s);
}

static void test_body_limit(void **state)
{
    static const char *const ways[] = {"", "Transfer-Encoding: chunked\r\n"};
    struct site s;
    site_start(&s, &generous);
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        _cleanup_fd_ int fd = dial(&s);
        say_post(fd, "/", ways[i], 1 * MIB);
        char *answer = hear(fd);
        assert_int_equal(status_of(answer), 200);
        assert_int_equal(strlen(strchr(content_of(answer), ':')), 1 * MIB + 1);
        free(answer);
        /* Who sends all of it first hears of it, up to a point. */
        for (size_t n = 1 * MIB + 1; n < 6 * MIB; n += 2 * MIB) {
            _cleanup_fd_ int sender = dial(&s);
            say_post(sender, "/", ways[i], n);
            expect(hear(sender), 413, "");
            assert_true(is_closed(sender));
        }
        _cleanup_fd_ int endless = dial(&s);
        say_post(endless, "/", ways[i], 64 * MIB);
        answer = hear_to_end(endless); /* perhaps lost in a reset */
        free(answer);
    }
    assert_int_equal(site_server_counts(&s).refused_limit, 8);
    site_stop(&s);
}

static void test_late_answer(void **state)
{
    struct site s;
    site_start(&s, &generous);
    int fds[20];
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = dial(&s);
        say_text(fds[i], GET("/held") GET("/"));
    }
    site_wait(&s, held_is, ARRAY_LEN(fds));
    site_answer(&s);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        expect(hear(fds[i]), 200, "late");
        expect(hear(fds[i]), 200, "GET / - 127.0.0.1 uid=-1 -*0 0:");
        fd_close(fds[i]);
    }
    site_wait(&s, gone_is, 2 * ARRAY_LEN(fds));
    assert_int_equal(site_counts(&s).sent, 2 * ARRAY_LEN(fds));
    site_stop(&s);
}

/* Who waits for an answer and goes away is heard of at once, however it goes, and whatever else it has sent.
 */
static void test_peer_vanishes(void **state)
{
    struct site s;
    site_start(&s, &generous);
    for (int way = 0; way < 4; way++) {
        int fd = dial(&s);
        say_text(fd, way == 3 ? GET("/held") GET("/never looked at") : GET("/held"));
        site_wait(&s, held_is, way + 1);
        if (way == 0)
            fd_close(fd);
        else if (way == 1)
            reset(fd);
        else
            shutdown(fd, SHUT_WR);
        site_wait(&s, gone_is, way + 1);
        if (way >= 2) {
            assert_true(is_closed(fd));
            fd_close(fd);
        }
    }
    assert_int_equal(site_counts(&s).sent, 0);
    assert_int_equal(site_counts(&s).heads, 4);
    site_stop(&s);
}

/* -- Streams. */

static void test_stream(void **state)
{
    static const char chunks[] = "9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n9\r\ndata: 3\n\n\r\n0\r\n\r\n";
    struct site s;
    site_start(&s, &generous);
    for (int i = 0; i < 2; i++) {
        bool is_old = i == 1;
        _cleanup_fd_ int fd = dial(&s);
        say_text(fd, is_old ? "GET /held HTTP/1.0\r\n\r\n" : GET("/held"));
        site_wait(&s, held_is, i + 1);
        site_write(&s, "");
        char *head = hear_head(fd);
        assert_int_equal(status_of(head), 200);
        assert_non_null(strstr(head, "Content-Type: text/event-stream\r\n"));
        assert_int_equal(!strstr(head, "chunked"), is_old);
        free(head);
        site_write(&s, "data: 1\n\n");
        site_write(&s, "data: 2\n\n");
        site_write(&s, "data: 3\n\n");
        site_end(&s);
        char *rest = hear_to_end(fd);
        assert_string_equal(rest, is_old ? "data: 1\n\ndata: 2\n\ndata: 3\n\n" : chunks);
        free(rest);
        site_wait(&s, gone_is, i + 1);
        assert_int_equal(site_counts(&s).sent, i + 1);
    }
    site_stop(&s);
}

static void test_stream_at_head(void **state)
{
    struct site s;
    site_start(&s, &generous);
    _cleanup_fd_ int fd = dial(&s);
    say_text(fd, "POST /stream HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nab");
    site_wait(&s, heads_is, 1);
    say_text(fd, "c");
    char *head = hear_head(fd), event[14] = "";
    assert_int_equal(status_of(head), 200);
    assert_int_equal(recv(fd, event, sizeof(event), MSG_WAITALL), sizeof(event));
    assert_memory_equal(event, "9\r\ndata: 1\n\n\r\n", sizeof(event));
    free(head);
    assert_int_equal(site_counts(&s).requests, 0);
    site_stop(&s);
    assert_true(is_closed(fd));
}

static void test_stream_peer_vanishes(void **state)
{
    struct site s;
    site_start(&s, &generous);
    for (int way = 0; way < 3; way++) {
        int fd = dial(&s);
        say_text(fd, GET("/stream"));
        free(hear_head(fd));
        if (way == 0)
            fd_close(fd);
        else if (way == 1)
            reset(fd);
        else
            shutdown(fd, SHUT_WR);
        site_wait(&s, gone_is, way + 1);
        if (way == 2)
            fd_close(fd);
    }
    assert_int_equal(site_counts(&s).sent, 0);
    site_stop(&s);
}

/* What a reader doesn't take is bounded; the others are served meanwhile. */
static void test_stream_overflows(void **state)
{
    struct site s;
    site_start(&s, &generous);
    _cleanup_fd_ int fd = dial(&s), other = dial(&s);
    say_text(fd, GET("/flood"));
    site_wait(&s, gone_is, 1);
    assert_true(site_counts(&s).overflowed);
    assert_int_equal(site_counts(&s).sent, 0);
    say_text(other, GET("/"));
    expect(hear(other), 200, "GET / - 127.0.0.1 uid=-1 -*0 0:");
    char *rest = hear_to_end(fd);
    assert_null(strstr(rest, "\r\n0\r\n\r\n"));
    free(rest);
    site_stop(&s);
}

/* More than the kernel takes at once, in pieces of odd sizes, arrives whole. */
static void test_long_stream(void **state)
{
    struct http_server_limits limits = generous;
    limits.queue_bytes = BIG_BYTES;
    struct site s;
    site_start(&s, &limits);
    _cleanup_fd_ int fd = dial(&s);
    say_text(fd, GET("/held"));
    site_wait(&s, held_is, 1);
    site_write(&s, "");
    char *piece = xmalloc(100000);
    memset(piece, 'x', 99999);
    piece[99999] = '\0';
    for (int i = 0; i < 150; i++)
        site_write(&s, piece + i);
    site_end(&s);
    char *answer = hear(fd);
    assert_int_equal(strlen(content_of(answer)), 150 * 99999 - 149 * 150 / 2);
    assert_int_equal(strspn(content_of(answer), "x"), strlen(content_of(answer)));
    assert_true(is_closed(fd));
    free(answer);
    free(piece);
    site_wait(&s, gone_is, 1);
    assert_int_equal(site_counts(&s).sent, 1);
    site_stop(&s);
}

/* -- Slow clients. */

static void test_slow_reader(void **state)
{
    struct site s;
    site_start(&s, &generous);
    _cleanup_fd_ int other = dial(&s);
    int slow[4];
    for (size_t i = 0; i < ARRAY_LEN(slow); i++) {
        slow[i] = dial(&s);
        say_text(slow[i], GET("/big"));
    }
    for (int i = 0; i < 1000; i++) {
        say_text(other, GET("/"));
        expect(hear(other), 200, "GET / - 127.0.0.1 uid=-1 -*0 0:");
    }
    for (size_t i = 0; i < ARRAY_LEN(slow); i++) {
        char *answer = hear(slow[i]);
        assert_int_equal(strlen(content_of(answer)), BIG_BYTES);
        assert_int_equal(strspn(content_of(answer), "x"), BIG_BYTES);
        free(answer);
        fd_close(slow[i]);
    }
    site_stop(&s);
}

/* What all readers together leave unread is bounded too: a long answer that is too much isn't sent, short
 * ones always are, and what was read makes room. */
static void start_narrow(struct site *s)
{
    struct http_server_limits limits = generous;
    limits.unread_bytes = BIG_BYTES + BIG_BYTES / 2;
    limits.queue_bytes = BIG_BYTES;
    site_start(s, &limits);
}

static void expect_big(char *answer)
{
    assert_int_equal(strlen(content_of(answer)), BIG_BYTES);
    free(answer);
}

static void test_unread_answers(void **state)
{
    struct site s;
    start_narrow(&s);
    _cleanup_fd_ int slow = dial(&s);
    say_text(slow, GET("/big"));
    free(ask(&s, GET("/")));
    for (int i = 0; i < 3; i++) {
        char *answer = ask(&s, GET("/big"));
        assert_string_equal(answer, "");
        free(answer);
        expect(ask(&s, GET("/")), 200, "GET / - 127.0.0.1 uid=-1 -*0 0:");
    }
    expect_big(hear(slow));
    site_wait(&s, gone_is, 8);
    expect_big(ask(&s, GET("/big")));
    site_stop(&s);
}

/* A stream that holds little goes on; one that would hold much is given up. */
static void test_unread_streams(void **state)
{
    struct site s;
    start_narrow(&s);
    _cleanup_fd_ int slow = dial(&s), first = dial(&s), second = dial(&s);
    say_text(slow, GET("/big"));
    say_text(first, GET("/held"));
    site_wait(&s, held_is, 1);
    free(ask(&s, GET("/")));
    char *piece = xmalloc(BIG_BYTES);
    memset(piece, 'x', BIG_BYTES - 1000);
    piece[BIG_BYTES - 1000] = '\0';
    site_write(&s, "");
    site_write(&s, "data: 1\n\n");
    site_write(&s, piece);
    site_wait(&s, gone_is, 2);
    char *answer = hear_to_end(first);
    assert_non_null(strstr(answer, "data: 1\n\n"));
    assert_true(strlen(answer) < 1000);
    free(answer);

    expect_big(hear(slow));
    site_wait(&s, gone_is, 3);
    say_text(second, GET("/held"));
    site_wait(&s, held_is, 2);
    site_write(&s, "");
    site_write(&s, piece);
    site_end(&s);
    answer = hear(second);
    assert_int_equal(strlen(content_of(answer)), strlen(piece));
    free(answer);
    assert_true(is_closed(second));
    free(piece);
    site_stop(&s);
}

#define SHORT 0.05

static void shorten(double *seconds, double by_case)
{
    if (by_case > 0)
        *seconds = by_case;
}

/* Each is cut off by its own deadline; a request that had begun is told. */
static void test_deadlines(void **state)
{
    static const struct {
        const char *what, *says;
        struct http_server_limits limits;
        bool reads;
        int status;
        bool counts;
    } cases[] = {
        {"nothing at all", "", {.head_seconds = SHORT}, true, 0, true},
        {"half a request line", "GET / HT", {.head_seconds = SHORT}, true, 0, true},
        {"half a head", "GET / HTTP/1.1\r\nHost: x\r\n", {.head_seconds = SHORT}, true, 408, true},
        {"half a body",
         "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\na",
         {.body_seconds = SHORT},
         true,
         408,
         true},
        {"half a chunk",
         "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\na",
         {.body_seconds = SHORT},
         true,
         408,
         true},
        {"half a trailer",
         "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA",
         {.body_seconds = SHORT},
         true,
         408,
         true},
        {"no second request", GET("/"), {.idle_seconds = SHORT}, true, 200, false},
        {"half a second request", GET("/") "GET", {.idle_seconds = SHORT}, true, 200, false},
        {"a long answer that isn't read", GET("/big"), {.write_seconds = SHORT}, false, 200, true},
        {"a long stream that isn't read", GET("/held"), {.write_seconds = SHORT}, false, 200, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct http_server_limits limits = generous;
        const struct http_server_limits *l = &cases[i].limits;
        shorten(&limits.head_seconds, l->head_seconds);
        shorten(&limits.body_seconds, l->body_seconds);
        shorten(&limits.idle_seconds, l->idle_seconds);
        shorten(&limits.write_seconds, l->write_seconds);
        limits.queue_bytes = BIG_BYTES;
        struct site s;
        site_start(&s, &limits);
        _cleanup_fd_ int fd = dial(&s);
        say_text(fd, cases[i].says);
        if (strstr(cases[i].says, "held")) {
            site_wait(&s, held_is, 1);
            site_write(&s, "");
            char *text = xmalloc(10 * MIB);
            memset(text, 'x', 10 * MIB);
            text[10 * MIB - 1] = '\0';
            site_write(&s, text);
            free(text);
        }
        if (!cases[i].reads)
            site_wait(&s, gone_is, 1);
        char *answer = hear_to_end(fd);
        if (status_of(answer) != cases[i].status)
            fail_msg("%s: %.200s", cases[i].what, answer);
        if (!cases[i].reads)
            assert_int_equal(site_counts(&s).sent, 0);
        assert_int_equal(site_server_counts(&s).cut_slow, cases[i].counts);
        free(answer);
        site_stop(&s);
    }
}

/* A chunk's extension that fills the buffer has the library look away from the connection for good. */
static void test_stuck_chunk(void **state)
{
    struct http_server_limits limits = generous;
    limits.body_seconds = SHORT;
    struct site s;
    site_start(&s, &limits);
    char *extension = xmalloc(200 * KIB);
    memset(extension, 'a', 200 * KIB);
    /* The second time on a connection that was suspended before, which the library watches in another way. */
    for (int i = 0; i < 2; i++) {
        _cleanup_fd_ int fd = dial(&s), other = dial(&s);
        if (i == 1) {
            say_text(fd, GET("/held"));
            site_wait(&s, held_is, 1);
            site_answer(&s);
            expect(hear(fd), 200, "late");
        }
        int before = site_counts(&s).heads;
        say_text(fd, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3;");
        say(fd, extension, 100 * KIB);
        site_wait(&s, gone_is, before + 1);
        free(hear_to_end(fd));
        say_text(other, GET("/"));
        expect(hear(other), 200, "GET / - 127.0.0.1 uid=-1 -*0 0:");
        site_wait(&s, gone_is, before + 2);
    }
    free(extension);
    site_stop(&s);
}

/* -- Many clients. */

static void test_connection_limit(void **state)
{
    struct http_server_limits limits = generous;
    limits.connections = 4;
    struct site s;
    site_start(&s, &limits);
    int fds[5];
    for (int i = 0; i < 4; i++) {
        fds[i] = dial(&s);
        say_text(fds[i], GET("/held"));
        site_wait(&s, held_is, i + 1);
    }
    fds[4] = dial(&s); /* by the kernel; not accepted */
    say_text(fds[4], GET("/"));
    char byte;
    assert_int_equal(site_server_counts(&s).connections, 4);
    assert_int_equal(recv(fds[4], &byte, 1, MSG_DONTWAIT), -1);
    fd_close(fds[0]);
    expect(hear(fds[4]), 200, "GET / - 127.0.0.1 uid=-1 -*0 0:");

    /* That one idles now, and makes room for the next. */
    _cleanup_fd_ int next = dial(&s);
    say_text(next, GET("/"));
    expect(hear(next), 200, "GET / - 127.0.0.1 uid=-1 -*0 0:");
    assert_true(is_closed(fds[4]));
    for (int i = 1; i < 5; i++)
        fd_close(fds[i]);
    site_stop(&s);
}

static void test_peer_limit(void **state)
{
    struct http_server_limits limits = generous;
    limits.connections_per_peer = 2;
    struct site s;
    site_start(&s, &limits);
    _cleanup_fd_ int first = dial(&s), second = dial(&s), third = dial(&s);
    assert_true(is_closed(third));
    say_text(first, GET("/"));
    expect(hear(first), 200, "GET / - 127.0.0.1 uid=-1 -*0 0:");
    for (int i = 0; i < 5; i++) { /* who comes by a unix socket isn't counted */
        _cleanup_fd_ int by_unix = dial_unix(&s);
        say_text(by_unix, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        free(hear_to_end(by_unix));
    }
    assert_int_equal(site_server_counts(&s).refused_limit, 1);
    say_text(second, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    free(hear_to_end(second));
    site_wait(&s, gone_is, 7);
    /* Until the server has closed that one too. */
    for (bool served = false; !served;) {
        _cleanup_fd_ int again = dial(&s);
        say_text(again, GET("/"));
        char *answer = hear(again);
        served = status_of(answer) == 200;
        free(answer);
    }
    site_stop(&s);
}

#define CROWD 2000

static void test_crowd(void **state)
{
    struct rlimit files;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur < 2 * CROWD + 100)
        skip_because("so many files may not be open here");
    struct site s;
    site_start(&s, &generous);
    int *fds = xcalloc(CROWD, sizeof(*fds));
    for (int i = 0; i < CROWD; i++) {
        fds[i] = dial(&s);
        say_text(fds[i], i % 2 ? GET("/stream") : GET("/"));
    }
    for (int i = 0; i < CROWD; i++) {
        char *answer = i % 2 ? hear_head(fds[i]) : hear(fds[i]);
        assert_int_equal(status_of(answer), 200);
        free(answer);
    }
    assert_int_equal(site_server_counts(&s).connections, CROWD);
    char *answer = ask(&s, GET("/"));
    expect(answer, 200, "GET / - 127.0.0.1 uid=-1 -*0 0:");
    for (int i = 0; i < CROWD; i++)
        fd_close(fds[i]);
    site_wait(&s, gone_is, CROWD + 1);
    assert_int_equal(site_counts(&s).sent, CROWD / 2 + 1);
    free(fds);
    site_stop(&s);
}

/* -- The end. */

static void test_stop_accepting(void **state)
{
    struct site s;
    site_start(&s, &generous);
    _cleanup_fd_ int waiting = dial(&s), idle = dial(&s);
    say_text(idle, GET("/"));
    expect(hear(idle), 200, "GET / - 127.0.0.1 uid=-1 -*0 0:");
    say_text(waiting, GET("/held"));
    site_wait(&s, held_is, 1);
    site_stop_accepting(&s);
    const struct sockaddr_in a = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)s.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    _cleanup_fd_ int late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(late, (const struct sockaddr *)&a, sizeof(a)), -1);
    site_answer(&s);
    expect(hear(waiting), 200, "late");
    say_text(idle, GET("/"));
    expect(hear(idle), 200, "GET / - 127.0.0.1 uid=-1 -*0 0:");
    site_stop(&s);
}

/* In every state that a connection can be in. site_stop() checks that each request is heard of a last time.
 */
static void test_stop(void **state)
{
    static const char *const says[] = {
        "",
        "GET",
        "GET / HTTP/1.1\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\na",
        GET("/"),
        GET("/held"),
        GET("/held") GET("/"),
        GET("/stream"),
        GET("/big"),
        "GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\na",
    };
    struct site s;
    site_start(&s, &generous);
    int fds[ARRAY_LEN(says)];
    for (size_t i = 0; i < ARRAY_LEN(says); i++) {
        fds[i] = dial(&s);
        say_text(fds[i], says[i]);
    }
    site_wait(&s, heads_is, 7);
    site_stop(&s);
    for (size_t i = 0; i < ARRAY_LEN(says); i++) {
        free(hear_to_end(fds[i]));
        fd_close(fds[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keep_alive),
        cmocka_unit_test(test_head_method),
        cmocka_unit_test(test_unix_socket),
        cmocka_unit_test(test_expectation),
        cmocka_unit_test(test_early_answer),
        cmocka_unit_test(test_body_limit),
        cmocka_unit_test(test_late_answer),
        cmocka_unit_test(test_peer_vanishes),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_stream_at_head),
        cmocka_unit_test(test_stream_peer_vanishes),
        cmocka_unit_test(test_stream_overflows),
        cmocka_unit_test(test_long_stream),
        cmocka_unit_test(test_slow_reader),
        cmocka_unit_test(test_unread_answers),
        cmocka_unit_test(test_unread_streams),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_stuck_chunk),
        cmocka_unit_test(test_connection_limit),
        cmocka_unit_test(test_peer_limit),
        cmocka_unit_test(test_crowd),
        cmocka_unit_test(test_stop_accepting),
        cmocka_unit_test(test_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
