/* Calls of a provider: what is repeated, what its answers may be, what its errors say. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/provider.h"
#include "base/clock.h"
#include "base/mem.h"
#include "tests/unit/net/peer.h"

#define JSON "Content-Type: application/json\r\n"
#define OK "HTTP/1.1 200 OK\r\n" JSON "Content-Length: 7\r\n\r\n{\"a\":1}"
#define BUSY "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy"
#define SLOW "HTTP/1.1 429 Slow\r\nContent-Length: 0\r\n\r\n"
#define STREAM "HTTP/1.1 200 OK\r\nContent-Type: application/connect+json\r\n"
#define SECRET "geheim-und-lang"
#define TEN "123456789 "
#define LONG TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN /* 190 bytes */

static struct peer peer;
static struct provider provider;
static json_t *answer;
static int status;
static struct error err;

static const struct wait for_ever = {.deadline = DEADLINE_NONE};

static int set_up(void **state)
{
    err = (struct error)ERROR_INIT;
    peer_listen_unix(&peer);
    provider = (struct provider){
        .name = "Cloud",
        .client = http_client_new(&(struct http_address){.url = peer.url, .unix_path = peer.path}, &err),
        .headers = {{"X-API-Key", SECRET}},
        .header_count = 1,
        .secret = "another," SECRET,
        .pace = pace_new(),
    };
    assert_non_null(provider.client);
    return 0;
}

static int tear_down(void **state)
{
    json_decref(answer);
    answer = NULL;
    http_client_free(provider.client);
    pace_free(provider.pace);
    peer_join(&peer);
    return 0;
}

/* Another peer, for another script. */
static void afresh(void)
{
    tear_down(NULL);
    set_up(NULL);
}

static int call(const char *method, bool repeatable)
{
    const struct provider_call c = {.method = method, .path = "/v1/things", .repeatable = repeatable};
    json_decref(answer);
    answer = NULL;
    return provider_call(&provider, &c, &for_ever, &answer, &status, &err);
}

/* The scripted answers, over one connection. */
#define ANSWERS(...) run_answers((const char *const[]){__VA_ARGS__, NULL})
static struct step script[64];

static void run_answers(const char *const *answers)
{
    struct step *s = script;
    *s++ = (struct step){ACCEPT, NULL, 0};
    for (; *answers; answers++) {
        *s++ = (struct step){HEAD, NULL, 0};
        *s++ = (struct step){SEND, *answers, 0};
    }
    *s = (struct step){END, NULL, 0};
    peer_run(&peer, script);
}

static void test_an_answer_is_json(void **state)
{
    ANSWERS(OK);
    assert_int_equal(call("GET", false), 0);
    assert_int_equal(json_integer_value(json_object_get(answer, "a")), 1);
    assert_non_null(strstr(buf_str(&peer.got), "X-API-Key: " SECRET));
}

static void test_what_is_no_json_is_refused(void **state)
{
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 7\r\n\r\n{\"a\":1}",
        "HTTP/1.1 200 OK\r\n" JSON "Content-Length: 5\r\n\r\n{\"a\":",
        "HTTP/1.1 200 OK\r\n" JSON "Content-Length: 0\r\n\r\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        ANSWERS(answers[i], OK);
        assert_int_equal(call("POST", false), -1);
        assert_int_equal(err.code, ERR_UNAVAILABLE);
        assert_non_null(strstr(err.msg, "Cloud answered POST"));
        assert_int_equal(call("GET", false), 0);
        afresh();
        ANSWERS(answers[i], OK); /* what harms nothing is asked for once more */
        assert_int_equal(call("GET", false), 0);
        afresh();
        ANSWERS(answers[i], answers[i]);
        assert_int_equal(call("GET", false), -1);
        assert_int_equal(err.code, ERR_UNAVAILABLE);
        assert_non_null(strstr(err.msg, "Cloud answered GET"));
        afresh();
    }
}

static void test_statuses_are_errors_in_the_providers_words(void **state)
{
    static const struct {
        const char *answer;
        enum error_code code;
        const char *words;
    } rows[] = {
        {"HTTP/1.1 404 N\r\n" JSON "Content-Length: 33\r\n\r\n{\"code\":404,\"message\":\"not here\"}",
         ERR_NOT_FOUND, "not here"},
        {"HTTP/1.1 401 N\r\nContent-Length: 2\r\n\r\nno", ERR_DENIED, "401: no"},
        {"HTTP/1.1 409 N\r\nContent-Length: 0\r\n\r\n", ERR_EXISTS, "nothing more"},
        {"HTTP/1.1 400 N\r\nContent-Length: 19\r\n\r\nbad " SECRET, ERR_INVALID, "nothing more"},
        {"HTTP/1.1 302 N\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n", ERR_UNAVAILABLE,
         "302"},
        {"HTTP/1.1 404 N\r\n" JSON "Content-Length: 29\r\n\r\n{\"error\":\"not here\",\"code\":1}",
         ERR_NOT_FOUND, "404: not here"},
        {"HTTP/1.1 400 N\r\nContent-Length: 11\r\n\r\nbad another", ERR_INVALID, "nothing more"},
        {"HTTP/1.1 400 N\r\nContent-Length: 205\r\n\r\n" LONG SECRET, ERR_INVALID, "nothing more"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        ANSWERS(rows[i].answer);
        assert_int_equal(call("GET", false), -1);
        assert_int_equal(err.code, rows[i].code);
        assert_non_null(strstr(err.msg, rows[i].words));
        assert_null(strstr(err.msg, "geheim"));
        assert_null(strstr(err.msg, "another"));
        afresh();
    }
}

static void test_what_may_have_had_an_effect_is_not_repeated(void **state)
{
    ANSWERS(BUSY);
    assert_int_equal(call("POST", false), -1);
    assert_int_equal(status, 503);
    afresh();
    const struct step lost[] = {{ACCEPT, NULL, 0}, {HEAD, NULL, 0}, {END, NULL, 0}};
    peer_run(&peer, lost);
    assert_int_equal(call("POST", false), -1);
    assert_int_equal(status, 0);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
}

static void test_what_helps_is_repeated(void **state)
{
    ANSWERS(BUSY, BUSY, OK);
    assert_int_equal(call("GET", false), 0);
    afresh();
    ANSWERS(BUSY, OK);
    assert_int_equal(call("POST", true), 0);
    afresh();
    ANSWERS(SLOW, OK); /* it had no effect */
    assert_int_equal(call("POST", false), 0);
}

/* As with a limit on how many there may be: nobody else comes through either. */
static void test_too_much_is_an_error_in_the_end(void **state)
{
    ANSWERS(SLOW, SLOW, SLOW, SLOW, SLOW);
    assert_int_equal(call("POST", false), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_int_equal(status, 429);
}

static void test_calls_of_their_own_pace_slow_others_not(void **state)
{
    struct pace *own = pace_new();
    const struct provider_call c = {.method = "POST", .path = "/", .pace = own};
    const struct wait brief = {.deadline = clock_now() + 5 * NSEC_PER_SEC};
    ANSWERS("HTTP/1.1 429 Slow\r\nRetry-After: 1000\r\nContent-Length: 0\r\n\r\n", OK);
    struct error refused = ERROR_INIT;
    const struct wait over = {.deadline = clock_now() + NSEC_PER_SEC / 2};
    assert_int_equal(provider_call(&provider, &c, &over, NULL, NULL, &refused), -1);
    assert_int_equal(refused.code, ERR_LIMIT); /* why it had to wait, not that it waited */
    const struct provider_call other = {.method = "POST", .path = "/"};
    assert_int_equal(provider_call(&provider, &other, &brief, NULL, NULL, &err), 0);
    pace_free(own);
}

static void test_not_beyond_the_wait(void **state)
{
    const struct provider_call c = {.method = "GET", .path = "/"};
    const struct wait brief = {.deadline = clock_now() + NSEC_PER_SEC};
    ANSWERS("HTTP/1.1 429 Slow\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n");
    assert_int_equal(provider_call(&provider, &c, &brief, NULL, &status, &err), -1);
}

static void test_the_budget_of_repetitions_ends(void **state)
{
    int granted = 0;
    while (pace_may_repeat(provider.pace) && granted < 1000)
        granted++;
    assert_in_range(granted, 1, 100);
    ANSWERS(BUSY);
    assert_int_equal(call("GET", false), -1); /* at once */
    for (int i = 0; i < 10; i++)
        pace_succeeded(provider.pace);
    assert_true(pace_may_repeat(provider.pace));
}

static void test_delays_grow_and_differ(void **state)
{
    bool differ = false;
    for (int n = 0; n < 100; n++) {
        const int64_t first = pace_delay(0), late = pace_delay(50);
        assert_true(first >= 100 * NSEC_PER_MSEC && first <= 200 * NSEC_PER_MSEC);
        assert_true(late >= 2500 * NSEC_PER_MSEC && late <= 5000 * NSEC_PER_MSEC);
        differ |= first != pace_delay(0);
    }
    assert_true(differ);
}

static void test_bases(void **state)
{
    static const struct {
        const char *url, *base;
    } rows[] = {
        {"https://api.e2b.app", "https://api.e2b.app"},
        {"https://api.e2b.app/", "https://api.e2b.app"},
        {"http://127.0.0.1:80", "http://127.0.0.1:80"},
        {"http://[::1]:80/", "http://[::1]:80"},
        {"http://localhost", "http://localhost"},
        {"http://localhost.example.com", NULL},
        {"http://127.0.0.1@example.com", NULL},
        {"http://example.com", NULL},
        {"http://10.0.0.1:80", NULL},
        {"ftp://localhost", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        _cleanup_(cleanup_free) char *base = provider_base("X_URL", rows[i].url, &err);
        if (rows[i].base)
            assert_string_equal(base, rows[i].base);
        else
            assert_null(base);
    }
    assert_non_null(strstr(err.msg, "X_URL"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_an_answer_is_json),
        TEST(test_what_is_no_json_is_refused),
        TEST(test_statuses_are_errors_in_the_providers_words),
        TEST(test_what_may_have_had_an_effect_is_not_repeated),
        TEST(test_what_helps_is_repeated),
        TEST(test_too_much_is_an_error_in_the_end),
        TEST(test_calls_of_their_own_pace_slow_others_not),
        TEST(test_not_beyond_the_wait),
        TEST(test_the_budget_of_repetitions_ends),
        TEST(test_delays_grow_and_differ),
        TEST(test_bases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
