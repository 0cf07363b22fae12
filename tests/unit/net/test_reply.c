/* Answers that are read piece by piece. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tests/unit/net/peer.h"

#define CHUNKED "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
#define FIVE "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

static struct peer peer;
static struct http_client *client;
static struct http_reply *reply;
static struct http_response response;
static struct error err;
static int descriptors;

static const struct wait for_ever = {.deadline = DEADLINE_NONE};

static int set_up(void **state)
{
    err = (struct error)ERROR_INIT;
    descriptors = open_descriptors();
    peer_listen_unix(&peer);
    client = http_client_new(&(struct http_address){.url = peer.url, .unix_path = peer.path}, &err);
    assert_non_null(client);
    return 0;
}

static int tear_down(void **state)
{
    reply = http_reply_close(reply);
    http_response_done(&response);
    response = (struct http_response){0};
    client = http_client_free(client);
    peer_join(&peer);
    return open_descriptors() == descriptors ? 0 : -1;
}

/* Another peer, for another script. */
static void afresh(void)
{
    assert_int_equal(tear_down(NULL), 0);
    set_up(NULL);
}

static void open_it(void)
{
    const struct http_request get = {.method = "GET", .path = "/", .wait = for_ever};
    http_response_done(&response);
    if (http_open(client, &get, &reply, &response, &err) < 0)
        fail_msg("%s", err.msg);
}

/* All of it, by reads of so many bytes. */
static void expect_body(const char *body, size_t size)
{
    _cleanup_(buf_done) struct buf all = BUF_INIT(1000);
    char piece[64];
    ssize_t n;
    while ((n = http_reply_read(reply, piece, size, &for_ever, &err)) > 0)
        assert_int_equal(buf_append(&all, piece, (size_t)n), 0);
    if (n < 0)
        fail_msg("%s", err.msg);
    assert_string_equal(buf_str(&all), body);
    assert_int_equal(http_reply_read(reply, piece, size, &for_ever, &err), 0); /* its end stays its end */
}

static void test_each_framing(void **state)
{
    static const struct {
        const char *answer, *body;
    } rows[] = {
        {CHUNKED "3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nTrailer: t\r\n\r\n", "abcdefg"},
        {FIVE, "hello"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", ""},
        {"HTTP/1.1 204 No Content\r\n\r\n", ""},
        {"HTTP/1.1 200 OK\r\n\r\nto the end", "to the end"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (size_t size = 1; size <= 64; size *= 8) {
            const struct step script[] = {
                {ACCEPT, NULL, 0}, {HEAD, NULL, 0}, {SEND, rows[i].answer, 0}, {END, NULL, 0}};
            peer_run(&peer, script);
            open_it();
            assert_int_equal(response.status / 100, 2);
            expect_body(rows[i].body, size);
            afresh();
        }
}

static void test_one_that_was_read_leaves_its_connection(void **state)
{
    const struct step script[] = {
        {ACCEPT, NULL, 0}, {HEAD, NULL, 0}, {SEND, CHUNKED "2\r\nab\r\n0\r\n\r\n", 0},
        {HEAD, NULL, 0},   {SEND, FIVE, 0}, {END, NULL, 0}};
    peer_run(&peer, script);
    open_it();
    expect_body("ab", 64);
    reply = http_reply_close(reply);
    open_it();
    expect_body("hello", 64);
    peer_stop(&peer);
    assert_int_equal(peer.accepted, 1);
}

static void test_a_wait_that_was_over_can_be_taken_up_again(void **state)
{
    char piece[64];
    const struct wait over = {.deadline = clock_now() - 1};
    const struct step script[] = {{ACCEPT, NULL, 0},
                                  {HEAD, NULL, 0},
                                  {SEND, CHUNKED "2\r\nab\r\n", 0},
                                  {HEAD, NULL, 0},
                                  {END, NULL, 0}};
    peer_run(&peer, script);
    open_it();
    assert_int_equal(http_reply_read(reply, piece, sizeof(piece), &for_ever, &err), 2);
    for (int again = 0; again < 3; again++) {
        assert_int_equal(http_reply_read(reply, piece, sizeof(piece), &over, &err), -1);
        assert_int_equal(err.code, ERR_TIMEOUT);
    }
    http_reply_cut(reply);
    assert_int_equal(http_reply_read(reply, piece, sizeof(piece), &for_ever, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    peer_stop(&peer);
}

static void test_what_ends_too_soon_is_no_end(void **state)
{
    static const char *const answers[] = {
        CHUNKED "5\r\nab",
        CHUNKED "2\r\nab",
        CHUNKED "2\r\nab\r\n",
        CHUNKED "0\r\n",
        CHUNKED "x\r\n",
        CHUNKED "1\r\nabc",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab",
    };
    char piece[64];
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        const struct step script[] = {
            {ACCEPT, NULL, 0}, {HEAD, NULL, 0}, {SEND, answers[i], 0}, {END, NULL, 0}};
        ssize_t n;
        peer_run(&peer, script);
        open_it();
        while ((n = http_reply_read(reply, piece, sizeof(piece), &for_ever, &err)) > 0)
            continue;
        assert_int_equal(n, -1);
        assert_int_equal(err.code, ERR_UNAVAILABLE);
        afresh();
    }
}

static void test_what_is_no_success_comes_whole(void **state)
{
    const struct step script[] = {{ACCEPT, NULL, 0},
                                  {HEAD, NULL, 0},
                                  {SEND, "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone", 0},
                                  {END, NULL, 0}};
    peer_run(&peer, script);
    open_it();
    assert_null(reply);
    assert_int_equal(response.status, 404);
    assert_string_equal(buf_str(&response.body), "none");
    peer_stop(&peer);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_each_framing),
        TEST(test_one_that_was_read_leaves_its_connection),
        TEST(test_a_wait_that_was_over_can_be_taken_up_again),
        TEST(test_what_ends_too_soon_is_no_end),
        TEST(test_what_is_no_success_comes_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
