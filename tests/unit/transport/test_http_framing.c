/* What comes in as raw bytes: which of it is a request, and which is refused. After each that is refused
 * another client, whose connection was there before, is served as ever. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "http_site.h"

#define HOST "Host: x\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n"
#define LAST "Connection: close\r\n"

struct message {
    const char *bytes;
    size_t n;
};
#define MESSAGE(text)                                                                                        \
    {                                                                                                        \
        text, sizeof(text) - 1                                                                               \
    }

/* -- Refused: 400 (or what is in `status`) and the end of the connection, and nobody hears of a request. */

struct bad {
    const char *what;
    int status; /* 0: just the end */
    struct message message;
};

static const struct bad bad[] = {
    /* smuggling */
    {"length and chunked", 400,
     MESSAGE("POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n" CHUNKED "\r\n0\r\n\r\n")},
    {"chunked and length", 400,
     MESSAGE("POST / HTTP/1.1\r\n" HOST CHUNKED "Content-Length: 5\r\n\r\n0\r\n\r\n")},
    {"two lengths", 400,
     MESSAGE("POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab")},
    {"the same length twice", 400,
     MESSAGE("POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\na")},
    {"a list of lengths", 400, MESSAGE("POST / HTTP/1.1\r\n" HOST "Content-Length: 1, 1\r\n\r\na")},
    {"a signed length", 400, MESSAGE("POST / HTTP/1.1\r\n" HOST "Content-Length: +1\r\n\r\na")},
    {"a negative length", 400, MESSAGE("POST / HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\na")},
    {"a hexadecimal length", 400, MESSAGE("POST / HTTP/1.1\r\n" HOST "Content-Length: 0x1\r\n\r\na")},
    {"an empty length", 400, MESSAGE("POST / HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\na")},
    {"two numbers as a length", 400, MESSAGE("POST / HTTP/1.1\r\n" HOST "Content-Length: 1 2\r\n\r\na")},
    {"a length that nothing can hold", 413,
     MESSAGE("POST / HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999999\r\n\r\na")},
    {"chunked twice", 400, MESSAGE("POST / HTTP/1.1\r\n" HOST CHUNKED CHUNKED "\r\n0\r\n\r\n")},
    {"xchunked", 400, MESSAGE("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n")},
    {"gzip, chunked", 400,
     MESSAGE("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n")},
    {"chunked, identity", 400,
     MESSAGE("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n")},
    {"an empty encoding", 400, MESSAGE("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding:\r\n\r\n0\r\n\r\n")},
    {"chunked after a tab of the other kind", 400,
     MESSAGE("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: \x0b"
             "chunked\r\n\r\n0\r\n\r\n")},
    {"chunked in HTTP/1.0", 400, MESSAGE("POST / HTTP/1.0\r\n" HOST CHUNKED "\r\n0\r\n\r\n")},
    {"a blank before the colon of the encoding", 400,
     MESSAGE("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n")},
    {"a tab before the colon of the encoding", 400,
     MESSAGE("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n")},
    {"a blank before the colon of the length", 400,
     MESSAGE("POST / HTTP/1.1\r\n" HOST "Content-Length : 1\r\n\r\na")},
    {"an encoding in a folded line", 400,
     MESSAGE("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n")},
    {"a request within the body of another", 400,
     MESSAGE("POST / HTTP/1.1\r\n" HOST "Content-Length: 6\r\n" CHUNKED
             "\r\n0\r\n\r\nGET /evil HTTP/1.1\r\n" HOST "\r\n")},
    /* Host */
    {"no Host", 400, MESSAGE("GET / HTTP/1.1\r\n\r\n")},
    {"no Host among others", 400, MESSAGE("GET / HTTP/1.1\r\nAccept: a\r\n\r\n")},
    {"two Hosts", 400, MESSAGE("GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n")},
    {"two Hosts in HTTP/1.0", 400, MESSAGE("GET / HTTP/1.0\r\nHost: x\r\nHost: x\r\n\r\n")},
    {"a blank after Host", 400, MESSAGE("GET / HTTP/1.1\r\nHost : x\r\n\r\n")},
    /* lines */
    {"a folded line", 400, MESSAGE("GET / HTTP/1.1\r\n" HOST "A: b\r\n c\r\n\r\n")},
    {"a line folded by a tab", 400, MESSAGE("GET / HTTP/1.1\r\n" HOST "A: b\r\n\tc\r\n\r\n")},
    {"two folded lines", 400, MESSAGE("GET / HTTP/1.1\r\n" HOST "A: b\r\n c\r\n d\r\n\r\n")},
    {"a folded first line", 400, MESSAGE("GET / HTTP/1.1\r\n Host: x\r\n\r\n")},
    {"a folded line of blanks", 400, MESSAGE("GET / HTTP/1.1\r\n" HOST "A: b\r\n \r\n\r\n")},
    {"bare LFs", 400, MESSAGE("GET / HTTP/1.1\nHost: x\n\n")},
    {"a bare LF after the request line", 400, MESSAGE("GET / HTTP/1.1\nHost: x\r\n\r\n")},
    {"a bare LF after a header", 400, MESSAGE("GET / HTTP/1.1\r\nHost: x\nA: b\r\n\r\n")},
    {"a bare LF after the last header", 400, MESSAGE("GET / HTTP/1.1\r\nHost: x\n\r\n")},
    {"a bare LF at the end", 400, MESSAGE("GET / HTTP/1.1\r\nHost: x\r\n\n")},
    {"a bare CR", 400, MESSAGE("GET / HTTP/1.1\r\n" HOST "A: b\rc\r\n\r\n")},
    {"CR CR LF", 400, MESSAGE("GET / HTTP/1.1\r\nHost: x\r\r\n\r\n")},
    {"a NUL in a value", 400, MESSAGE("GET / HTTP/1.1\r\n" HOST "A: b\0c\r\n\r\n")},
    {"a NUL that hides a header", 400, MESSAGE("GET / HTTP/1.1\r\n" HOST "A: b\0\r\n\r\n")},
    {"a NUL in a name", 400, MESSAGE("GET / HTTP/1.1\r\n" HOST "A\0: b\r\n\r\n")},
    {"a NUL for the empty line", 400, MESSAGE("GET / HTTP/1.1\r\n" HOST "\0Content-Length: 5\r\n\r\n")},
    {"a NUL and nothing for the empty line", 400, MESSAGE("GET / HTTP/1.1\r\n" HOST "\0\r\n\r\n")},
    {"a control character in a value", 400,
     MESSAGE("GET / HTTP/1.1\r\n" HOST "A: b\x01"
             "c\r\n\r\n")},
    {"a DEL in a value", 400,
     MESSAGE("GET / HTTP/1.1\r\n" HOST "A: b\x7f"
             "c\r\n\r\n")},
    {"a name that is no token", 400, MESSAGE("GET / HTTP/1.1\r\n" HOST "A(b): c\r\n\r\n")},
    {"an empty name", 400, MESSAGE("GET / HTTP/1.1\r\n" HOST ": c\r\n\r\n")},
    {"a name in UTF-8", 400, MESSAGE("GET / HTTP/1.1\r\n" HOST "\xc3\xa4: c\r\n\r\n")},
    {"a line without a colon", 400, MESSAGE("GET / HTTP/1.1\r\n" HOST "abc\r\n\r\n")},
    /* the request line */
    {"a blank in the target", 400, MESSAGE("GET /a b HTTP/1.1\r\n" HOST "\r\n")},
    {"two blanks before the target", 400, MESSAGE("GET  / HTTP/1.1\r\n" HOST "\r\n")},
    {"two blanks after the target", 400, MESSAGE("GET /  HTTP/1.1\r\n" HOST "\r\n")},
    {"a blank at the end of the line", 400, MESSAGE("GET / HTTP/1.1 \r\n" HOST "\r\n")},
    {"a target in UTF-8", 400, MESSAGE("GET /\xc3\xa4 HTTP/1.1\r\n" HOST "\r\n")},
    {"a control character in the target", 400, MESSAGE("GET /\x01 HTTP/1.1\r\n" HOST "\r\n")},
    {"a NUL in the target", 400, MESSAGE("GET /a\0b HTTP/1.1\r\n" HOST "\r\n")},
    {"a NUL in the query", 400, MESSAGE("GET /a?b\0c HTTP/1.1\r\n" HOST "\r\n")},
    {"a NUL in the method", 400, MESSAGE("G\0T / HTTP/1.1\r\n" HOST "\r\n")},
    {"a method that is no token", 400, MESSAGE("G(T / HTTP/1.1\r\n" HOST "\r\n")},
    {"a blank at the beginning", 0, MESSAGE(" GET / HTTP/1.1\r\n" HOST "\r\n")},
    {"tabs for blanks", 0, MESSAGE("GET\t/\tHTTP/1.1\r\n" HOST "\r\n")},
    {"HTTP/0.9", 400, MESSAGE("GET /\r\n\r\n")},
    {"HTTP/2.0", 505, MESSAGE("GET / HTTP/2.0\r\n" HOST "\r\n")},
    {"HTTP/1.10", 400, MESSAGE("GET / HTTP/1.10\r\n" HOST "\r\n")},
    {"http/1.1", 400, MESSAGE("GET / http/1.1\r\n" HOST "\r\n")},
    {"the preface of HTTP/2", 505, MESSAGE("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")},
    {"TLS", 0, MESSAGE("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")},
};

/* The other client. Its connection is kept. */
static void check_bystander(int fd)
{
    say_text(fd, "POST /ok HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nhi");
    char *answer = hear(fd);
    assert_string_equal(content_of(answer), "POST /ok - 127.0.0.1 uid=-1 -*0 2:hi");
    free(answer);
}

static int count(const char *in, const char *what)
{
    int n = 0;
    for (const char *at = strstr(in, what); at; at = strstr(at + 1, what))
        n++;
    return n;
}

/* One answer, to its end, however the library has come to it. */
static void check_alone(const char *what, const char *answer)
{
    const char *length = strstr(answer, "Content-Length: ");
    if (count(answer, "HTTP/1.1 ") != 1 || !length ||
        strlen(content_of(answer)) != strtoul(length + strlen("Content-Length: "), NULL, 10))
        fail_msg("%s: %s", what, answer);
}

static void test_malformed(void **state)
{
    struct site s;
    site_start(&s, &generous);
    _cleanup_fd_ int bystander = dial(&s);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        _cleanup_fd_ int fd = dial(&s);
        say(fd, bad[i].message.bytes, bad[i].message.n);
        char *answer = hear_to_end(fd);
        if (status_of(answer) != bad[i].status)
            fail_msg("%s: %s", bad[i].what, answer);
        if (bad[i].status)
            check_alone(bad[i].what, answer);
        free(answer);
        check_bystander(bystander);
    }
    assert_int_equal(site_counts(&s).heads, ARRAY_LEN(bad));
    struct http_server_counts counts = site_server_counts(&s);
    assert_int_equal(counts.requests, ARRAY_LEN(bad));
    assert_true(counts.refused_framing + 10 > ARRAY_LEN(bad)); /* what has no status is not counted */
    printf("%zu malformed requests\n", ARRAY_LEN(bad));
    site_stop(&s);
}

/* -- Refused as soon as their head is there, though more comes. The handler hears of the request, but not of
 * its body. */

static const struct bad bad_chunks[] = {
    {"0x3", 400, MESSAGE("0x3\r\nabc\r\n0\r\n\r\n")},
    {"-3", 400, MESSAGE("-3\r\nabc\r\n0\r\n\r\n")},
    {"no size", 400, MESSAGE("\r\nabc\r\n0\r\n\r\n")},
    {"no number", 400, MESSAGE("xyz\r\nabc\r\n0\r\n\r\n")},
    {"a blank after the size", 400, MESSAGE("3 \r\nabc\r\n0\r\n\r\n")},
    {"a blank before the size", 400, MESSAGE(" 3\r\nabc\r\n0\r\n\r\n")},
    {"a chunk that is longer than it says", 400, MESSAGE("3\r\nabcd\r\n0\r\n\r\n")},
    {"a size that nothing can hold", 413, MESSAGE("fffffffffffffffff\r\nabc\r\n0\r\n\r\n")},
    {"a size without an extension's semicolon", 400, MESSAGE("3 a=b\r\nabc\r\n0\r\n\r\n")},
    {"a trailer without a colon", 400, MESSAGE("0\r\nabc\r\n\r\n")},
};

static void test_malformed_chunks(void **state)
{
    struct site s;
    site_start(&s, &generous);
    _cleanup_fd_ int bystander = dial(&s);
    for (size_t i = 0; i < ARRAY_LEN(bad_chunks); i++) {
        _cleanup_fd_ int fd = dial(&s);
        say_text(fd, "POST / HTTP/1.1\r\n" HOST CHUNKED "\r\n");
        say(fd, bad_chunks[i].message.bytes, bad_chunks[i].message.n);
        char *answer = hear_to_end(fd);
        if (status_of(answer) != bad_chunks[i].status)
            fail_msg("%s: %s", bad_chunks[i].what, answer);
        free(answer);
        check_bystander(bystander);
    }
    assert_int_equal(site_counts(&s).requests, ARRAY_LEN(bad_chunks));
    site_stop(&s);
}

/* -- Accepted. */

struct good {
    const char *what;
    struct message message;
    const char *echo;
};

static const struct good good[] = {
    {"blanks around values",
     MESSAGE("GET / HTTP/1.1\r\nHost:x   \r\nX-Test: \t b c \t\r\nE:\r\nF:   \r\n" LAST "\r\n"),
     "GET / - 127.0.0.1 uid=-1 b c*1 0:"},
    {"the first of two headers", MESSAGE("GET / HTTP/1.1\r\n" HOST "X-Test: 1\r\nx-tEST: 2\r\n" LAST "\r\n"),
     "GET / - 127.0.0.1 uid=-1 1*2 0:"},
    {"UTF-8 in a value", MESSAGE("GET / HTTP/1.1\r\n" HOST "X-Test: \xc3\xa4\r\n" LAST "\r\n"),
     "GET / - 127.0.0.1 uid=-1 \xc3\xa4*1 0:"},
    {"an empty value", MESSAGE("GET / HTTP/1.1\r\n" HOST "X-Test:\r\n" LAST "\r\n"),
     "GET / - 127.0.0.1 uid=-1 *1 0:"},
    {"HTTP/1.0 without Host", MESSAGE("GET / HTTP/1.0\r\n\r\n"), "GET / - 127.0.0.1 uid=-1 -*0 0:"},
    {"a later HTTP/1", MESSAGE("GET / HTTP/1.9\r\n" HOST LAST "\r\n"), "GET / - 127.0.0.1 uid=-1 -*0 0:"},
    {"empty lines before", MESSAGE("\r\n\r\nGET / HTTP/1.1\r\n" HOST LAST "\r\n"),
     "GET / - 127.0.0.1 uid=-1 -*0 0:"},
    {"the target as it came", MESSAGE("GET /a%2e/%00?b=c&d=%20+e&f HTTP/1.1\r\n" HOST LAST "\r\n"),
     "GET /a%2e/%00 b=c&d=%20+e&f 127.0.0.1 uid=-1 -*0 0:"},
    {"an empty query", MESSAGE("GET /a? HTTP/1.1\r\n" HOST LAST "\r\n"), "GET /a  127.0.0.1 uid=-1 -*0 0:"},
    {"a target with two question marks", MESSAGE("GET /a?b?c HTTP/1.1\r\n" HOST LAST "\r\n"),
     "GET /a b?c 127.0.0.1 uid=-1 -*0 0:"},
    {"an absolute target", MESSAGE("GET http://x/a HTTP/1.1\r\n" HOST LAST "\r\n"),
     "GET /a - 127.0.0.1 uid=-1 -*0 0:"},
    {"an absolute target without a path", MESSAGE("GET HTTPS://x?b=/c HTTP/1.1\r\n" HOST LAST "\r\n"),
     "GET / b=/c 127.0.0.1 uid=-1 -*0 0:"},
    {"a target of another scheme", MESSAGE("GET ftp://x/a HTTP/1.1\r\n" HOST LAST "\r\n"),
     "GET ftp://x/a - 127.0.0.1 uid=-1 -*0 0:"},
    {"the server as a target", MESSAGE("OPTIONS * HTTP/1.1\r\n" HOST LAST "\r\n"),
     "OPTIONS * - 127.0.0.1 uid=-1 -*0 0:"},
    {"a method of its own", MESSAGE("M-SEARCH / HTTP/1.1\r\n" HOST LAST "\r\n"),
     "M-SEARCH / - 127.0.0.1 uid=-1 -*0 0:"},
    {"cookies of all kinds",
     MESSAGE("GET / HTTP/1.1\r\n" HOST "Cookie: =x; =; a=\"b\r\nCookie:  \r\n" LAST "\r\n"),
     "GET / - 127.0.0.1 uid=-1 -*0 0:"},
    {"a body", MESSAGE("POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\n" LAST "\r\na\0b"),
     "POST / - 127.0.0.1 uid=-1 -*0 3:a"},
    {"a length with zeros", MESSAGE("POST / HTTP/1.1\r\n" HOST "Content-Length: 0003\r\n" LAST "\r\nabc"),
     "POST / - 127.0.0.1 uid=-1 -*0 3:abc"},
    {"an empty body", MESSAGE("POST / HTTP/1.1\r\n" HOST "Content-Length: 0\r\n" LAST "\r\n"),
     "POST / - 127.0.0.1 uid=-1 -*0 0:"},
    {"a body of a GET", MESSAGE("GET / HTTP/1.1\r\n" HOST "Content-Length: 3\r\n" LAST "\r\nabc"),
     "GET / - 127.0.0.1 uid=-1 -*0 3:abc"},
    {"chunks",
     MESSAGE("POST / HTTP/1.1\r\n" HOST CHUNKED LAST "\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n"),
     "POST / - 127.0.0.1 uid=-1 -*0 13:abc0123456789"},
    {"chunks with extensions and a trailer",
     MESSAGE("POST / HTTP/1.1\r\n" HOST "transfer-encoding: CHUNKED\r\n" LAST
             "\r\n03;a=\"b\"\r\nabc\r\n0;c\r\nX-Test: d\r\n"
             "\r\n"),
     "POST / - 127.0.0.1 uid=-1 -*0 3:abc"},
};

static void test_well_formed(void **state)
{
    struct site s;
    site_start(&s, &generous);
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        /* At once, and byte by byte. */
        for (size_t step = good[i].message.n; step > 0; step = step == 1 ? 0 : 1) {
            _cleanup_fd_ int fd = dial(&s);
            for (size_t at = 0; at < good[i].message.n; at += step)
                say(fd, good[i].message.bytes + at, step);
            char *answer = hear_to_end(fd);
            if (status_of(answer) != 200 || strcmp(content_of(answer), good[i].echo) != 0)
                fail_msg("%s: %s", good[i].what, answer);
            free(answer);
        }
    }
    assert_int_equal(site_counts(&s).requests, 2 * ARRAY_LEN(good));
    assert_int_equal(site_server_counts(&s).refused_framing, 0);
    site_stop(&s);
}

/* Each is answered, in order, before the malformed one; what follows that is never looked at. */
static void test_pipelined(void **state)
{
    static const char requests[] = "GET /1 HTTP/1.1\r\n" HOST "\r\n"
                                   "POST /2 HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc"
                                   "POST /3 HTTP/1.1\r\n" HOST CHUNKED "\r\n3\r\ndef\r\n0\r\n\r\n"
                                   "POST /early HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nghi"
                                   "\r\nGET /4 HTTP/1.1\r\n" HOST "\r\n"
                                   "GET /5 HTTP/1.1\r\n" HOST HOST "\r\n"
                                   "GET /6 HTTP/1.1\r\n" HOST "\r\n";
    static const char *const contents[] = {
        "GET /1 - 127.0.0.1 uid=-1 -*0 0:", "POST /2 - 127.0.0.1 uid=-1 -*0 3:abc",
        "POST /3 - 127.0.0.1 uid=-1 -*0 3:def", "early", "GET /4 - 127.0.0.1 uid=-1 -*0 0:"};
    struct site s;
    site_start(&s, &generous);
    _cleanup_fd_ int fd = dial(&s);
    say(fd, requests, sizeof(requests) - 1);
    for (size_t i = 0; i < ARRAY_LEN(contents); i++) {
        char *answer = hear(fd);
        assert_string_equal(content_of(answer), contents[i]);
        free(answer);
    }
    char *answer = hear(fd);
    assert_int_equal(status_of(answer), 400);
    free(answer);
    assert_true(is_closed(fd));
    assert_int_equal(site_counts(&s).heads, ARRAY_LEN(contents));
    site_stop(&s);
}

/* -- Heads without end. */

static char *filled(size_t n, const char *before, const char *piece)
{
    char *text = xmalloc(n + 1);
    size_t at = strlen(before), step = strlen(piece);
    memcpy(text, before, at);
    for (; at < n; at++)
        text[at] = piece[(at - strlen(before)) % step];
    text[n] = '\0';
    return text;
}

static void test_endless_heads(void **state)
{
    static const struct {
        const char *before, *piece;
        int status;
    } heads[] = {
        {"GET /", "a", 414},
        {"", "a", 414},
        {"GET / HTTP/1.1\r\n" HOST "A: ", "a", 431},
        {"GET / HTTP/1.1\r\n" HOST, "a", 431},
        {"GET / HTTP/1.1\r\n" HOST, "A: b\r\n", 431},
        {"GET / HTTP/1.1\r\n" HOST "Cookie: ", "a=b; ", 431},
        {"POST / HTTP/1.1\r\n" HOST CHUNKED "\r\n0\r\n", "A: b\r\n", 431},
        {"POST / HTTP/1.1\r\n" HOST CHUNKED "\r\n0\r\nA: ", "b", 431},
    };
    struct site s;
    site_start(&s, &generous);
    _cleanup_fd_ int bystander = dial(&s);
    for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
        _cleanup_fd_ int fd = dial(&s);
        char *text = filled(1 * MIB, heads[i].before, heads[i].piece);
        say(fd, text, 1 * MIB);
        char *answer = hear_to_end(fd);
        /* It may be lost in a reset. */
        if (status_of(answer) && status_of(answer) != heads[i].status)
            fail_msg("%s%s...: %s", heads[i].before, heads[i].piece, answer);
        free(answer);
        free(text);
        check_bystander(bystander);
    }
    assert_int_equal(site_counts(&s).requests, ARRAY_LEN(heads));
    assert_true(site_server_counts(&s).refused_limit >= ARRAY_LEN(heads));
    site_stop(&s);
}

static void test_head_within_limit(void **state)
{
    struct site s;
    site_start(&s, &generous);
    char *padding = filled(24 * KIB, "Padding: ", "a"), *request;
    request = xasprintf("GET / HTTP/1.1\r\n" HOST "%s\r\n\r\n", padding);
    char *answer = ask(&s, request);
    assert_int_equal(status_of(answer), 200);
    free(answer);
    free(request);
    free(padding);
    site_stop(&s);
}

/* Closed by the peer at each place where that can be; the server's half is closed too, and nothing stays. */
static void test_half_closed(void **state)
{
    static const char request[] = "POST /held HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc";
    struct site s;
    site_start(&s, &generous);
    _cleanup_fd_ int bystander = dial(&s);
    for (size_t n = 0; n < sizeof(request); n++) {
        _cleanup_fd_ int fd = dial(&s);
        say(fd, request, n);
        shutdown(fd, SHUT_WR);
        assert_true(is_closed(fd));
        check_bystander(bystander);
    }
    site_wait(&s, gone_is, site_counts(&s).heads);
    site_stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_malformed),     cmocka_unit_test(test_malformed_chunks),
        cmocka_unit_test(test_well_formed),   cmocka_unit_test(test_pipelined),
        cmocka_unit_test(test_endless_heads), cmocka_unit_test(test_head_within_limit),
        cmocka_unit_test(test_half_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
