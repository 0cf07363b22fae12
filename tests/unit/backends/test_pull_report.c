/* The engine's account of a pull: however it is divided, whatever is in it. */
#include "backends/engine/pull_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/mem.h"
#include "tests/unit/base/check.h"

#define KB "000"
#define STATE(id, status) "{\"status\":\"" status "\",\"progressDetail\":{},\"id\":\"" id "\"}"
#define LOADING(id, current, total)                                                                          \
    "{\"status\":\"Downloading\",\"progressDetail\":{\"current\":" current ",\"total\":" total               \
    "},\"progress\":\"[=> ]\",\"id\":\"" id "\"}"

/* In heap memory of just its size, in pieces of `step` bytes. */
static int feed(struct pull_report *r, const char *text, size_t step, struct error *err)
{
    int result = 0;
    for (size_t at = 0, n = strlen(text); at < n && result == 0; at += step) {
        size_t len = n - at < step ? n - at : step;
        char *piece = xmalloc(len);
        memcpy(piece, text + at, len);
        result = pull_report_feed(r, piece, len, err);
        free(piece);
    }
    return result == 0 ? pull_report_end(r, err) : result;
}

static void assert_status(const char *text, unsigned downloaded, unsigned layers, uint64_t done,
                          uint64_t total, bool unpacking)
{
    const size_t steps[] = {1, 2, 7, 100, SIZE_MAX / 2};
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        struct pull_report *r = xmalloc(sizeof(*r));
        struct pull_status s;
        struct error err = ERROR_INIT;
        pull_report_init(r);
        if (feed(r, text, steps[i], &err) < 0)
            fail_msg("%s: %s", text, err.msg);
        pull_report_status(r, &s);
        assert_int_equal(s.downloaded, downloaded);
        assert_int_equal(s.layers, layers);
        assert_int_equal(s.done, done);
        assert_int_equal(s.total, total);
        assert_int_equal(s.unpacking, unpacking);
        pull_report_done(r);
        free(r);
    }
}

static void assert_fails(const char *text, const char *words)
{
    const size_t steps[] = {1, 3, SIZE_MAX / 2};
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        struct pull_report *r = xmalloc(sizeof(*r));
        struct error err = ERROR_INIT;
        pull_report_init(r);
        assert_int_equal(feed(r, text, steps[i], &err), -1);
        assert_int_equal(err.code, ERR_UNAVAILABLE);
        if (!strstr(err.msg, words))
            fail_msg("'%s' is not in: %s", words, err.msg);
        pull_report_done(r);
        free(r);
    }
}

static void layers_are_counted_from_their_first_mention(void **state)
{
    assert_status("", 0, 0, 0, 0, false);
    assert_status("{\"status\":\"Pulling from library/debian\",\"id\":\"bookworm-slim\"}\r\n", 0, 0, 0, 0,
                  false);
    assert_status(STATE("a", "Pulling fs layer") "\n" STATE("b", "Pulling fs layer") "\n" STATE(
                      "a", "Waiting") "\n" STATE("c", "Already exists"),
                  1, 3, 0, 0, false);
    /* Podman's last line has an id that isn't a layer's. */
    assert_status(STATE("a", "Pulling fs layer") STATE("a", "Download complete")
                      STATE("image", "Download complete"),
                  1, 1, 0, 0, true);
}

static void bytes_are_of_the_download(void **state)
{
#define BOTH                                                                                                 \
    STATE("a", "Pulling fs layer")                                                                           \
    STATE("b", "Pulling fs layer") LOADING("a", "5" KB, "20" KB) LOADING("b", "1" KB, "10" KB)
    assert_status(BOTH, 0, 2, 6000, 30000, false);
    assert_status(BOTH LOADING("a", "9" KB, "20" KB), 0, 2, 10000, 30000, false);
    assert_status(BOTH STATE("a", "Verifying Checksum"), 1, 2, 21000, 30000, false);
    assert_status(BOTH STATE("a", "Download complete") STATE("b", "Download complete"), 2, 2, 30000, 30000,
                  true);
    assert_status(BOTH STATE("a", "Pull complete")
                      STATE("b", "Download complete") "{\"status\":\"Extracting\",\"progressDetail\":{"
                                                      "\"current\":1,\"total\":2},\"id\":"
                                                      "\"b\"}",
                  2, 2, 30000, 30000, true);
    assert_status(BOTH STATE("a", "Pull complete") STATE("b", "Pull complete"), 2, 2, 30000, 30000, false);
    assert_status(BOTH STATE("a", "Download complete") STATE("a", "Retrying in 5 seconds"), 0, 2, 6000, 30000,
                  false);
}

static void lines_are_not_needed(void **state)
{
    assert_status(" \t\r\n" STATE("a", "Waiting") STATE("b", "Waiting") "\n\n" STATE("c", "Waiting") " ", 0,
                  3, 0, 0, false);
    assert_status("{\"status\":\"Waiting\",\n \"id\":\n\"}{\\\"]\" }" STATE("b", "Waiting"), 0, 2, 0, 0,
                  false);
}

static void what_is_unknown_is_ignored(void **state)
{
    assert_status(
        "{}{\"aux\":{\"ID\":\"x\",\"list\":[[{}]]}}{\"status\":7,\"id\":\"a\"}{\"id\":\"a\"}"
        "{\"status\":\"Waiting\"}{\"status\":\"Waiting\",\"id\":null}{\"status\":\"Dancing\",\"id\":"
        "\"a\"}{\"error\":null}{\"error\":\"\"}{\"errorDetail\":{}}{\"errorDetail\":\"x\"}",
        0, 0, 0, 0, false);
}

static void numbers_that_cannot_be_are_none(void **state)
{
    assert_status(LOADING("a", "-5", "-1") LOADING("b", "1e3", "true") LOADING("c", "7", "4503599627370496"),
                  0, 3, 0, 0, false);
    assert_status(LOADING("a", "99999999999999999999", "99999999999999999999"), 0, 1, 0, 0, false);
    assert_status(LOADING("a", "50", "20"), 0, 1, 20, 20, false);
    assert_status("{\"status\":\"Downloading\",\"id\":\"a\"}", 0, 1, 0, 0, false);
}

static void layers_have_a_maximum(void **state)
{
    struct buf b = BUF_INIT(1 << 20);
    for (int i = 0; i < PULL_LAYERS_MAX + 100; i++)
        assert_int_equal(buf_printf(&b, "{\"status\":\"Waiting\",\"id\":\"layer%d\"}", i), 0);
    assert_status(b.data, 0, PULL_LAYERS_MAX, 0, 0, false);
    buf_done(&b);
}

static void errors_are_the_engines_words(void **state)
{
    assert_fails("{\"errorDetail\":{\"message\":\"manifest unknown\"},\"error\":\"shorter\"}",
                 "manifest unknown");
    assert_fails(STATE("a", "Waiting") "{\"error\":\"no space left on device\"}" STATE("b", "Waiting"),
                 "no space left on device");
}

static void garbage_is_told_from_an_answer(void **state)
{
    assert_fails("<html>", "no JSON");
    assert_fails(STATE("a", "Waiting") ",", "no JSON");
    assert_fails("[]", "no JSON");
    assert_fails("\"text\"", "no JSON");
    assert_fails("{]", "not valid JSON");
    assert_fails("{\"status\":\"\xff\"}", "not valid JSON");
    assert_fails("{\"a\":1,\"a\":2}", "not valid JSON");
    assert_fails("{\"status\":\"Waiting\"", "cut short");
    assert_fails("{\"status\":\"Wait", "cut short");

    struct buf b = BUF_INIT(1 << 20);
    assert_int_equal(buf_append_str(&b, "{\"status\":\""), 0);
    for (int i = 0; i < 70000; i++)
        assert_int_equal(buf_append_byte(&b, 'x'), 0);
    assert_fails(b.data, "more than 65536 bytes");
    buf_clear(&b);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(buf_append_str(&b, "{\"a\":"), 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(buf_append_byte(&b, '}'), 0);
    assert_fails(b.data, "nested deeper");
    buf_done(&b);
}

static void a_nul_is_no_blank(void **state)
{
    struct pull_report *r = xmalloc(sizeof(*r));
    struct error err = ERROR_INIT;
    pull_report_init(r);
    assert_int_equal(pull_report_feed(r, "\n\0{}", 4, &err), -1);
    assert_non_null(strstr(err.msg, "no JSON"));
    pull_report_done(r);
    free(r);
}

/* Sentences of engines and registries. */
static void words_have_a_meaning(void **state)
{
    static const struct {
        const char *words;
        enum error_code code;
    } rows[] = {
        {"manifest for debian:nosuch not found: manifest unknown: manifest unknown", ERR_NOT_FOUND},
        {"repository name not known to registry", ERR_NOT_FOUND},
        {"name unknown: repository name not known to registry", ERR_NOT_FOUND},
        {"reading manifest x in localhost:5000/y: manifest unknown: Not Found", ERR_NOT_FOUND},
        {"pull access denied for x, repository does not exist or may require 'docker login': denied: "
         "requested "
         "access to the resource is denied",
         ERR_DENIED},
        {"unauthorized: authentication required", ERR_DENIED},
        {"Get \"https://localhost:5000/v2/x/manifests/1\": no basic auth credentials", ERR_DENIED},
        {"unable to retrieve auth token: invalid username/password: unauthorized", ERR_DENIED},
        {"no matching manifest for linux/s390x in the manifest list entries", ERR_UNSUPPORTED},
        {"choosing an image from manifest list docker://x: no image found in manifest list for architecture "
         "s390x",
         ERR_UNSUPPORTED},
        {"Get \"https://registry-1.docker.io/v2/\": dial tcp: lookup registry-1.docker.io: no such host",
         ERR_UNAVAILABLE},
        {"Get \"http://127.0.0.1:1/v2/\": dial tcp 127.0.0.1:1: connect: connection refused",
         ERR_UNAVAILABLE},
        {"toomanyrequests: You have reached your pull rate limit", ERR_UNAVAILABLE},
        {"write /var/lib/docker/tmp/x: no space left on device", ERR_UNAVAILABLE},
        {"connect to the socket: Permission denied", ERR_UNAVAILABLE},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (pull_meaning(rows[i].words, ERR_UNAVAILABLE) != rows[i].code)
            fail_msg("%s: %s", rows[i].words, error_code_name(pull_meaning(rows[i].words, ERR_UNAVAILABLE)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_counted_from_their_first_mention),
        cmocka_unit_test(bytes_are_of_the_download),
        cmocka_unit_test(lines_are_not_needed),
        cmocka_unit_test(what_is_unknown_is_ignored),
        cmocka_unit_test(numbers_that_cannot_be_are_none),
        cmocka_unit_test(layers_have_a_maximum),
        cmocka_unit_test(errors_are_the_engines_words),
        cmocka_unit_test(garbage_is_told_from_an_answer),
        cmocka_unit_test(a_nul_is_no_blank),
        cmocka_unit_test(words_have_a_meaning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
