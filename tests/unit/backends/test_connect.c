/* Connect: calls, and streams of envelopes, from a server that may send anything. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/connect.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/unit/net/peer.h"

#define JSON "Content-Type: application/json\r\n"
#define STREAM "HTTP/1.1 200 OK\r\nContent-Type: application/connect+json\r\nContent-Length: %zu\r\n\r\n"

static struct peer peer;
static struct provider provider;
static struct connect_stream *stream;
static json_t *message;
static struct error err;
static struct step script[8];
static char head[128];

static const struct wait for_ever = {.deadline = DEADLINE_NONE};

static int set_up(void **state)
{
    err = (struct error)ERROR_INIT;
    peer_listen_unix(&peer);
    provider = (struct provider){
        .name = "Cloud",
        .client = http_client_new(&(struct http_address){.url = peer.url, .unix_path = peer.path}, &err),
    };
    assert_non_null(provider.client);
    return 0;
}

static int tear_down(void **state)
{
    json_decref(message);
    message = NULL;
    stream = connect_close(stream);
    http_client_free(provider.client);
    peer_join(&peer);
    return 0;
}

/* Another peer, for another script. */
static void afresh(void)
{
    tear_down(NULL);
    set_up(NULL);
}

/* Sends the head of a stream, then these bytes. */
static void open_stream(const char *bytes, size_t n)
{
    int status;
    _cleanup_(cleanup_json_decref) json_t *request = json_pack("{s:s}", "say", "hello");
    snprintf(head, sizeof(head), STREAM, n);
    const struct step steps[] = {{ACCEPT, NULL, 0},
                                 {READ, "{\"say\":\"hello\"}", 0},
                                 {SEND, head, 0},
                                 {BYTES, bytes, n},
                                 {END, NULL, 0}};
    memcpy(script, steps, sizeof(steps));
    peer_run(&peer, script);
    stream = connect_close(stream);
    if (connect_open(&provider, "/p.S/M", request, &for_ever, &stream, &status, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(status, 200);
}

static int next(void)
{
    json_decref(message);
    message = NULL;
    return connect_next(stream, &for_ever, &message, &err);
}

#define OPEN(literal) open_stream(literal, sizeof(literal) - 1)
#define ONE "\0\0\0\0\7{\"n\":1}"
#define LAST "\2\0\0\0\2{}"

static void test_messages_and_their_end(void **state)
{
    OPEN(ONE ONE LAST);
    for (int n = 0; n < 2; n++) {
        assert_int_equal(next(), 1);
        assert_int_equal(json_integer_value(json_object_get(message, "n")), 1);
    }
    assert_int_equal(next(), 0);
    peer_stop(&peer);
    const char *asked = buf_str(&peer.got);
    assert_non_null(strstr(asked, "POST /p.S/M HTTP/1.1\r\n"));
    assert_non_null(strstr(asked, "Content-Type: application/connect+json\r\n"));
    assert_non_null(strstr(asked, "Connect-Protocol-Version: 1\r\n"));
    assert_memory_equal(strstr(asked, "\r\n\r\n") + 4, "\0\0\0\0\17{", 6);
}

static void test_the_servers_own_error(void **state)
{
    OPEN(ONE "\2\0\0\0\61{\"error\":{\"code\":\"not_found\",\"message\":\"no one\"}}");
    assert_int_equal(next(), 1);
    assert_int_equal(next(), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_non_null(strstr(err.msg, "no one"));
}

static void test_what_is_no_stream(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
    } rows[] = {
        {"", 0},
        {"\0\0\0", 3},
        {"\0\0\0\0\7{\"n\"", 9},
        {"\0\0\0\0\3{\"n\"", 9},     /* its JSON is cut */
        {"\1\0\0\0\2{}", 7},         /* compressed */
        {"\0\377\377\377\377{}", 7}, /* of 4 GiB */
        {"\0\0\20\0\1{}", 7},        /* a byte too long */
        {"\2\0\0\0\0", 5},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        open_stream(rows[i].bytes, rows[i].n);
        assert_int_equal(next(), -1);
        assert_int_equal(err.code, ERR_UNAVAILABLE);
        afresh();
    }
}

/* Half of a message is no reason to lose it, or to take it for one. */
static void test_a_wait_that_is_over_changes_nothing(void **state)
{
    static const char bytes[] = ONE "\0\0\0\0\7{\"n\"";
    int status;
    const struct wait over = {.deadline = clock_now() - 1};
    _cleanup_(cleanup_json_decref) json_t *request = json_object();
    snprintf(head, sizeof(head), STREAM, (size_t)100);
    const struct step steps[] = {{ACCEPT, NULL, 0}, {HEAD, NULL, 0},
                                 {SEND, head, 0},   {BYTES, bytes, sizeof(bytes) - 1},
                                 {HOLD, NULL, 0},   {END, NULL, 0}};
    memcpy(script, steps, sizeof(steps));
    peer_run(&peer, script);
    assert_int_equal(connect_open(&provider, "/p.S/M", request, &for_ever, &stream, &status, &err), 0);
    assert_int_equal(next(), 1);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(connect_next(stream, &over, &message, &err), -1);
        assert_int_equal(err.code, ERR_TIMEOUT);
    }
    connect_cut(stream);
    assert_int_equal(next(), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
}

static void test_calls(void **state)
{
    static const struct {
        const char *answer;
        enum error_code code;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\n" JSON "Content-Length: 7\r\n\r\n{\"a\":1}", ERR_NONE},
        {"HTTP/1.1 200 OK\r\n" JSON "Content-Length: 5\r\n\r\n{\"a\":", ERR_UNAVAILABLE},
        {"HTTP/1.1 404 N\r\n" JSON
         "Content-Length: 38\r\n\r\n{\"code\":\"not_found\",\"message\":\"no one\"}",
         ERR_NOT_FOUND},
        {"HTTP/1.1 503 N\r\n" JSON "Content-Length: 22\r\n\r\n{\"code\":\"unavailable\"}", ERR_UNAVAILABLE},
        {"HTTP/1.1 502 N\r\nContent-Length: 0\r\n\r\n", ERR_UNAVAILABLE},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct step steps[] = {
            {ACCEPT, NULL, 0}, {HEAD, NULL, 0}, {SEND, rows[i].answer, 0}, {END, NULL, 0}};
        _cleanup_(cleanup_json_decref) json_t *request = json_object();
        json_t *answer = NULL;
        memcpy(script, steps, sizeof(steps));
        peer_run(&peer, script);
        err = (struct error)ERROR_INIT;
        const int failed = connect_call(&provider, "/p.S/M", request, &for_ever, &answer, &err);
        assert_int_equal(failed, rows[i].code == ERR_NONE ? 0 : -1);
        assert_int_equal(err.code, rows[i].code);
        assert_int_equal(answer != NULL, rows[i].code == ERR_NONE);
        json_decref(answer);
        afresh();
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_messages_and_their_end),
        TEST(test_the_servers_own_error),
        TEST(test_what_is_no_stream),
        TEST(test_a_wait_that_is_over_changes_nothing),
        TEST(test_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
