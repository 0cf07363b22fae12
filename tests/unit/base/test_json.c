/* Reading JSON: strict where laxity would let two readers disagree. */
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/macros.h"
#include "base/mem.h"
#include "tests/unit/base/check.h"

static void ill_formed_texts_are_refused(void **state)
{
    static const char *const wrong[] = {
        "",
        " ",
        "{\"a\":1,\"a\":2}",
        "{\"a\":{\"b\":1,\"b\":1}}",
        "\"\xFF\"",
        "\"\xC0\x80\"",
        "\"\xED\xA0\x80\"",
        "\"\\ud800\"",
        "\"\\udc00\\ud800\"",
        "{\"\\udfff\":1}",
        "01",
        "-",
        "+1",
        ".5",
        "1.",
        "0x10",
        "1e400",
        "NaN",
        "Infinity",
        "nul",
        "TRUE",
        "'a'",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "[1 2]",
        "{\"a\" 1}",
        "\"a\nb\"",
        "\"\\x41\"",
        "\"\\u12\"",
        "\"open",
        "[1",
        "{} {}",
        "1 2",
        "// comment\n1",
        "\xEF\xBB\xBF{}",
        "[\"]",
        "]",
        "}{",
        "\\",
        "\"\\",
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct error err = ERROR_INIT;
        json_t *value = json_parse(wrong[i], strlen(wrong[i]), &err);
        if (value)
            fail_msg("accepted: %s", wrong[i]);
        assert_int_equal(err.code, ERR_INVALID);
        assert_true(strlen(err.msg) > 10);
    }
}

static void nul_bytes_outside_strings_are_refused(void **state)
{
    struct error err = ERROR_INIT;
    assert_null(json_parse("{}\0", 3, &err));
    assert_null(json_parse("\0{}", 3, &err));
    assert_null(json_parse("\"a\0b\"", 5, &err));
}

static void well_formed_texts_are_read(void **state)
{
    static const char *const right[] = {
        "{}",        "[]",   "null",  " true\r\n\t ", "\"\"",
        "-0",        "1e10", "[0.5]", "\"\\u0000\"",  "\"\\ud83d\\ude00 \xF0\x9F\x98\x80 \\/\"",
        "{\"\":{}}",
    };
    for (size_t i = 0; i < ARRAY_LEN(right); i++) {
        struct error err = ERROR_INIT;
        _cleanup_(cleanup_json_decref) json_t *value = json_parse(right[i], strlen(right[i]), &err);
        if (!value)
            fail_msg("refused: %s: %s", right[i], err.msg);
    }
}

static void messages_say_what_and_where(void **state)
{
    struct error err = ERROR_INIT;
    assert_null(json_parse("\xEF\xBB\xBF{}", 5, &err));
    assert_non_null(strstr(err.msg, "byte order mark"));
    assert_null(json_parse("{\n\"a\":1,\"a\":2}", 14, &err));
    assert_non_null(strstr(err.msg, "duplicate"));
    assert_non_null(strstr(err.msg, "line 2"));
    assert_null(json_parse("[1,2", 4, NULL));
}

static void integers_are_exact_up_to_64_bits(void **state)
{
    static const char text[] = "[9007199254740993,-9223372036854775808,9223372036854775807]";
    _cleanup_(cleanup_json_decref) json_t *value = json_parse(text, strlen(text), NULL);
    assert_true(json_integer_value(json_array_get(value, 0)) == 9007199254740993);
    assert_true(json_integer_value(json_array_get(value, 1)) == INT64_MIN);
    assert_true(json_integer_value(json_array_get(value, 2)) == INT64_MAX);
}

static void larger_integers_become_reals(void **state)
{
    static const char *const texts[] = {"123456789012345678901234567890", "-123456789012345678901234567890"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        _cleanup_(cleanup_json_decref) json_t *value = json_parse(texts[i], strlen(texts[i]), NULL);
        assert_true(json_is_real(value));
        assert_true(json_real_value(value) * (i ? -1 : 1) > 1.2e29);
    }
}

static char *nested(int depth, const char *open, const char *close)
{
    struct buf b = BUF_INIT(10 * MIB);
    for (int i = 0; i < depth; i++)
        assert_int_equal(buf_append_str(&b, open), 0);
    for (int i = 0; close && i < depth; i++)
        assert_int_equal(buf_append_str(&b, close), 0);
    return buf_steal(&b);
}

static void nesting_is_limited(void **state)
{
    struct error err = ERROR_INIT;
    _cleanup_(cleanup_free) char *allowed = nested(LIMIT_JSON_DEPTH, "[", "]");
    _cleanup_(cleanup_json_decref) json_t *value = json_parse(allowed, strlen(allowed), &err);
    assert_non_null(value);

    _cleanup_(cleanup_free) char *over = nested(LIMIT_JSON_DEPTH + 1, "[", "]");
    assert_null(json_parse(over, strlen(over), &err));
    assert_non_null(strstr(err.msg, "nested deeper than 64"));

    _cleanup_(cleanup_free) char *far_over = nested(100000, "[", NULL);
    assert_null(json_parse(far_over, strlen(far_over), &err));
    _cleanup_(cleanup_free) char *objects = nested(100000, "{\"a\":", NULL);
    assert_null(json_parse(objects, strlen(objects), &err));
}

static void values_are_counted(void **state)
{
    struct error err = ERROR_INIT;
    json_t *value = json_parse_few("[1,{\"a\":2},\",[{\"]", 17, 5, &err);
    assert_non_null(value);
    json_decref(value);
    assert_null(json_parse_few("[1,{\"a\":2},\",[{\"]", 17, 4, &err));
    assert_string_equal(err.msg, "JSON has more than 4 values");

    _cleanup_(buf_done) struct buf b = BUF_INIT(10 * MIB);
    assert_int_equal(buf_append_str(&b, "["), 0);
    for (size_t i = 0; i < LIMIT_JSON_VALUES; i++)
        assert_int_equal(buf_append_str(&b, "0,"), 0);
    assert_int_equal(buf_append_str(&b, "0]"), 0);
    assert_null(json_parse(b.data, b.len, &err));
    assert_non_null(strstr(err.msg, "more than"));
}

static void brackets_in_strings_are_no_nesting(void **state)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT(MIB);
    assert_int_equal(buf_append_str(&b, "\"\\\"\\\\"), 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(buf_append_str(&b, "[{"), 0);
    assert_int_equal(buf_append_str(&b, "\""), 0);
    _cleanup_(cleanup_json_decref) json_t *value = json_parse(b.data, b.len, NULL);
    assert_int_equal(json_string_length(value), 2002);
}

static void lookups_say_nothing_about_absence(void **state)
{
    static const char text[] = "{\"s\":\"text\",\"n\":1,\"o\":{\"x\":null},\"cut\":\"a\\u0000b\"}";
    _cleanup_(cleanup_json_decref) json_t *value = json_parse(text, strlen(text), NULL);
    assert_string_equal(json_get_string(value, "s"), "text");
    assert_null(json_get_string(value, "n"));
    assert_null(json_get_string(value, "missing"));
    assert_null(json_get_string(NULL, "s"));
    assert_null(json_get_string(json_object_get(value, "s"), "s"));
    assert_null(json_get_string(value, "cut"));
    assert_non_null(json_get_object(value, "o"));
    assert_null(json_get_object(value, "s"));
    assert_null(json_get_object(NULL, "s"));
}

static void values_are_dumped_compactly_and_bounded(void **state)
{
    static const char text[] = "{\"a\":[1,-2.5,0.1,true,false,null],\"b\":\"\\u0000\\n\xE2\x82\xAC\"}";
    _cleanup_(cleanup_json_decref) json_t *value = json_parse(text, strlen(text), NULL);
    _cleanup_(buf_done) struct buf b = BUF_INIT(100), tight = BUF_INIT(20);
    assert_int_equal(json_append(&b, value), 0);
    assert_string_equal(buf_str(&b), text);
    assert_int_equal(buf_append_str(&tight, "x"), 0);
    assert_int_equal(json_append(&tight, value), -1);
    assert_string_equal(buf_str(&tight), "x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ill_formed_texts_are_refused),
        cmocka_unit_test(nul_bytes_outside_strings_are_refused),
        cmocka_unit_test(well_formed_texts_are_read),
        cmocka_unit_test(messages_say_what_and_where),
        cmocka_unit_test(integers_are_exact_up_to_64_bits),
        cmocka_unit_test(larger_integers_become_reals),
        cmocka_unit_test(nesting_is_limited),
        cmocka_unit_test(values_are_counted),
        cmocka_unit_test(brackets_in_strings_are_no_nesting),
        cmocka_unit_test(lookups_say_nothing_about_absence),
        cmocka_unit_test(values_are_dumped_compactly_and_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
