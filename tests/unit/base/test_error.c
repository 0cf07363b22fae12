/* Error objects: what they say, how they are cut, and the table of codes. */
#include "base/error.h"

#include <errno.h>
#include <string.h>

#include "base/utf8.h"
#include "tests/unit/base/check.h"

static void set_formats_and_returns_minus_one(void **state)
{
    struct error err = ERROR_INIT;
    assert_int_equal(error_set(&err, ERR_LIMIT, "at most %d", 3), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_int_equal(err.sys, 0);
    assert_string_equal(err.msg, "at most 3");
    assert_int_equal(error_set(NULL, ERR_LIMIT, "nobody listens"), -1);
}

static void errno_is_kept_and_told(void **state)
{
    struct error err = ERROR_INIT;
    assert_int_equal(error_errno(&err, ERR_DENIED, EACCES, "open %s", "x"), -1);
    assert_int_equal(err.sys, EACCES);
    assert_string_equal(err.msg, "open x: Permission denied");
    assert_int_equal(error_errno(NULL, ERR_DENIED, EACCES, "x"), -1);
}

static void prefix_keeps_code_and_errno(void **state)
{
    struct error err = ERROR_INIT;
    error_errno(&err, ERR_DENIED, EACCES, "open x");
    assert_int_equal(error_prefix(&err, "computer %s", "a"), -1);
    assert_int_equal(err.code, ERR_DENIED);
    assert_int_equal(err.sys, EACCES);
    assert_string_equal(err.msg, "computer a: open x: Permission denied");
    assert_int_equal(error_prefix(NULL, "x"), -1);
}

static void own_message_may_be_an_argument(void **state)
{
    struct error err = ERROR_INIT;
    error_set(&err, ERR_INVALID, "inner");
    error_set(&err, ERR_INVALID, "<%s>", err.msg);
    assert_string_equal(err.msg, "<inner>");
}

static void long_messages_are_cut_between_characters(void **state)
{
    char text[700];
    struct error err = ERROR_INIT;
    for (size_t shift = 0; shift < 4; shift++) {
        memset(text, 'a', shift);
        for (size_t i = shift; i + 4 < sizeof(text); i += 4)
            memcpy(text + i, "\xF0\x9F\x98\x80", 5);
        error_set(&err, ERR_INVALID, "%s", text);
        assert_true(strlen(err.msg) > sizeof(err.msg) - 5);
        assert_true(utf8_valid(err.msg, strlen(err.msg)));
        error_prefix(&err, "%s", text);
        assert_true(utf8_valid(err.msg, strlen(err.msg)));
    }
}

static void every_code_has_a_name_and_sane_numbers(void **state)
{
    for (int a = ERR_INVALID; a < ERR_CODE_COUNT; a++) {
        assert_non_null(error_code_name((enum error_code)a));
        assert_true(error_http_status((enum error_code)a) >= 400 &&
                    error_http_status((enum error_code)a) < 600);
        assert_true(error_jsonrpc_code((enum error_code)a) < -32000);
        assert_int_equal(error_exit_code((enum error_code)a), 1);
        /* What exists already, with other properties, is a wrong argument for those outside. */
        for (int b = ERR_INVALID; b < a && a != ERR_EXISTS; b++)
            assert_string_not_equal(error_code_name((enum error_code)a), error_code_name((enum error_code)b));
    }
    assert_int_equal(error_exit_code(ERR_NONE), 0);
    assert_string_equal(error_code_name(ERR_CWD_NOT_FOUND), "cwd_not_found");
    assert_int_equal(error_jsonrpc_code(ERR_INVALID), -32602);
    assert_int_equal(error_jsonrpc_code(ERR_INTERNAL), -32603);
    assert_string_equal(error_code_name((enum error_code)1000), "internal");
}

static void errnos_have_codes(void **state)
{
    assert_int_equal(error_code_of_errno(ENOENT), ERR_NOT_FOUND);
    assert_int_equal(error_code_of_errno(EACCES), ERR_DENIED);
    assert_int_equal(error_code_of_errno(ENOSPC), ERR_LIMIT);
    assert_int_equal(error_code_of_errno(EIO), ERR_INTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_formats_and_returns_minus_one),
        cmocka_unit_test(errno_is_kept_and_told),
        cmocka_unit_test(prefix_keeps_code_and_errno),
        cmocka_unit_test(own_message_may_be_an_argument),
        cmocka_unit_test(long_messages_are_cut_between_characters),
        cmocka_unit_test(every_code_has_a_name_and_sane_numbers),
        cmocka_unit_test(errnos_have_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
