/* What an answer of gRPC is taken for, in whatever pieces its lines and bytes come. */
#include "net/grpc_answer.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

#define HEAD "HTTP/2 200\r\n", "content-type: application/grpc+proto\r\n"

struct heard {
    struct grpc_answer answer;
    struct grpc_status status;
    struct error err;
    struct buf message;
    int messages;
};

static int setup(void **state)
{
    static struct heard h;
    h = (struct heard){.status = GRPC_STATUS_INIT, .message = BUF_INIT(GRPC_MESSAGE_MAX)};
    grpc_answer_init(&h.answer, "https://peer");
    *state = &h;
    return 0;
}

static int teardown(void **state)
{
    struct heard *h = *state;
    grpc_answer_done(&h->answer);
    grpc_status_done(&h->status);
    buf_done(&h->message);
    return 0;
}

static void lines(struct heard *h, ...)
{
    va_list all;
    va_start(all, h);
    for (const char *line; (line = va_arg(all, const char *));)
        assert_int_equal(grpc_answer_line(&h->answer, line, strlen(line), &h->err), 0);
    va_end(all);
}

static int body(struct heard *h, const void *bytes, size_t n, size_t cut)
{
    for (size_t at = 0; at < n; at += cut) {
        if (grpc_answer_body(&h->answer, (const char *)bytes + at, n - at < cut ? n - at : cut, &h->err) < 0)
            return -1;
        int there;
        while ((there = grpc_answer_take(&h->answer, &h->message, &h->err)) > 0)
            h->messages++;
        if (there < 0)
            return -1;
    }
    return 0;
}

static int end(struct heard *h)
{
    return grpc_answer_end(&h->answer, &h->status, &h->err);
}

static void messages_come_whole_however_they_are_cut(void **state)
{
    struct heard *h = *state;
    static const char two[] = "\0\0\0\0\3one\0\0\0\0\0\0\0\0\0\5three";
    for (size_t cut = 1; cut < sizeof(two); cut++) {
        teardown(state);
        setup(state);
        lines(h, HEAD, "\r\n", NULL);
        assert_int_equal(body(h, two, sizeof(two) - 1, cut), 0);
        assert_int_equal(h->messages, 3);
        assert_string_equal(buf_str(&h->message), "three");
        lines(h, "grpc-status: 0\r\n", "\r\n", NULL);
        assert_int_equal(end(h), 0);
        assert_int_equal(h->status.code, GRPC_OK);
    }
}

static void status_comes_in_trailers_or_alone_with_words_and_details(void **state)
{
    struct heard *h = *state;
    lines(h, HEAD, "Grpc-Status: 5\r\n", "grpc-message: no %27box%27 of 100%25%0Ahere %zz %\r\n",
          "grpc-status-details-bin: CAUSA2Zvbw\r\n", NULL);
    assert_int_equal(end(h), -1);
    assert_int_equal(h->status.code, GRPC_NOT_FOUND);
    assert_int_equal(h->err.code, ERR_NOT_FOUND);
    assert_string_equal(h->status.message, "no 'box' of 100%\nhere %zz %");
    assert_memory_equal(h->status.details.data,
                        "\x08\x05\x12\x03"
                        "foo",
                        7);
}

static void words_and_details_are_bounded(void **state)
{
    struct heard *h = *state;
    _cleanup_(cleanup_free) char *words = xasprintf("grpc-message: %0*d\r\n", 20000, 1);
    _cleanup_(cleanup_free) char *details = xasprintf("grpc-status-details-bin: %0*d\r\n", 20000, 0);
    lines(h, HEAD, "grpc-status: 2", words, details, NULL);
    assert_int_equal(end(h), -1);
    assert_int_equal(strlen(h->status.message), GRPC_WORDS_MAX - 1);
    assert_int_equal(h->status.details.len, 0);
    assert_int_equal(grpc_answer_line(&h->answer, words, strlen(words), &h->err), 0);
    assert_int_equal(grpc_answer_line(&h->answer, words, strlen(words), &h->err), -1);
    assert_int_equal(h->err.code, ERR_LIMIT);
}

static void http_status_tells_where_there_is_no_other(void **state)
{
    static const struct {
        const char *line;
        enum grpc_code code;
        enum error_code means;
    } cases[] = {{"HTTP/2 401", GRPC_UNAUTHENTICATED, ERR_DENIED},
                 {"HTTP/2 403", GRPC_PERMISSION_DENIED, ERR_DENIED},
                 {"HTTP/2 404", GRPC_UNIMPLEMENTED, ERR_UNSUPPORTED},
                 {"HTTP/2 429", GRPC_UNAVAILABLE, ERR_UNAVAILABLE},
                 {"HTTP/2 503", GRPC_UNAVAILABLE, ERR_UNAVAILABLE},
                 {"HTTP/2 418", GRPC_UNKNOWN, ERR_UNAVAILABLE}};
    struct heard *h = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        teardown(state);
        setup(state);
        lines(h, cases[i].line, "content-type: text/html", NULL);
        assert_int_equal(body(h, "<html>", 6, 6), -1);
        assert_int_equal(end(h), -1);
        assert_int_equal(h->status.code, cases[i].code);
        assert_int_equal(h->err.code, cases[i].means);
    }
}

static void an_interim_head_says_nothing(void **state)
{
    struct heard *h = *state;
    lines(h, "HTTP/2 103", "content-type: text/html", "grpc-status: 5", "\r\n", HEAD, "grpc-status: 0", NULL);
    assert_int_equal(end(h), 0);
}

static void what_ends_too_early_is_no_success(void **state)
{
    struct heard *h = *state;
    lines(h, HEAD, NULL);
    assert_int_equal(body(h, "\0\0\0\0\3on", 7, 7), 0);
    assert_int_equal(end(h), -1); /* no status */
    assert_int_equal(h->status.code, GRPC_UNAVAILABLE);
    lines(h, "grpc-status: 0", NULL);
    assert_int_equal(end(h), -1); /* half a message */
    assert_int_equal(h->status.code, GRPC_UNAVAILABLE);
    assert_non_null(strstr(h->err.msg, "within a message"));
}

static void what_are_no_messages_is_refused_at_once(void **state)
{
    static const char *const frames[] = {"\1\0\0\0\0", "\x80\0\0\0\0", "\0\0\x40\0\1"};
    static const enum error_code codes[] = {ERR_UNAVAILABLE, ERR_UNAVAILABLE, ERR_LIMIT};
    struct heard *h = *state;
    for (size_t i = 0; i < ARRAY_LEN(frames); i++) {
        teardown(state);
        setup(state);
        lines(h, HEAD, NULL);
        assert_int_equal(body(h, frames[i], 5, 1), -1);
        assert_int_equal(h->err.code, codes[i]);
    }
}

static void other_types_than_grpc_are_none(void **state)
{
    static const char *const types[] = {"application/grpc-web", "application/grpcx", "text/plain", ""};
    struct heard *h = *state;
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        teardown(state);
        setup(state);
        _cleanup_(cleanup_free) char *line = xasprintf("content-type: %s\r\n", types[i]);
        lines(h, "HTTP/2 200", line, NULL);
        assert_int_equal(body(h, "\0\0\0\0\0", 5, 5), -1);
        assert_int_equal(end(h), -1);
        assert_int_equal(h->err.code, ERR_UNAVAILABLE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(messages_come_whole_however_they_are_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(status_comes_in_trailers_or_alone_with_words_and_details, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(words_and_details_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(http_status_tells_where_there_is_no_other, setup, teardown),
        cmocka_unit_test_setup_teardown(an_interim_head_says_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(what_ends_too_early_is_no_success, setup, teardown),
        cmocka_unit_test_setup_teardown(what_are_no_messages_is_refused_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(other_types_than_grpc_are_none, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
