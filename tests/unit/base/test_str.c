/* String helpers: what is a number, a size, a truth value, and how far two words are apart. */
#include "base/str.h"

#include <stdlib.h>

#include "base/macros.h"
#include "base/mem.h"
#include "tests/unit/base/check.h"

static void prefixes_suffixes_and_case(void **state)
{
    assert_true(str_has_prefix("--flag", "--"));
    assert_true(str_has_prefix("x", ""));
    assert_false(str_has_prefix("-", "--"));
    assert_true(str_has_suffix("a.tar.gz", ".gz"));
    assert_false(str_has_suffix("gz", ".gz"));
    assert_true(str_equal_nocase("HoSt", "hOsT"));
    assert_false(str_equal_nocase("host", "hosts"));
}

static void trim_takes_blanks_off_both_ends_only(void **state)
{
    static const char *const pairs[][2] = {{"", ""}, {" \t\r\n", ""}, {"a", "a"}, {"  a b\n", "a b"}};
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        _cleanup_(cleanup_free) char *trimmed = str_trim(pairs[i][0]);
        assert_string_equal(trimmed, pairs[i][1]);
    }
}

static void integers_are_strict(void **state)
{
    int64_t v;
    assert_true(str_parse_i64("0", &v) && v == 0);
    assert_true(str_parse_i64("-17", &v) && v == -17);
    assert_true(str_parse_i64("+5", &v) && v == 5);
    assert_true(str_parse_i64("010", &v) && v == 10);
    assert_true(str_parse_i64("9223372036854775807", &v) && v == INT64_MAX);
    assert_true(str_parse_i64("-9223372036854775808", &v) && v == INT64_MIN);
    static const char *const wrong[] = {"",     "-",   "+-1", " 1",  "1 ",  "1.0",
                                        "0x10", "1e3", "abc", "12a", "- 1", "9223372036854775808"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        v = 77;
        assert_false(str_parse_i64(wrong[i], &v));
        assert_true(v == 77);
    }
}

static void reals_are_strict_and_finite(void **state)
{
    double v;
    assert_true(str_parse_double("1.5", &v) && v >= 1.5 && v <= 1.5);
    assert_true(str_parse_double("-2e3", &v) && v >= -2000 && v <= -2000);
    assert_true(str_parse_double(".5", &v) && v >= 0.5 && v <= 0.5);
    assert_true(str_parse_double("30", &v) && v >= 30 && v <= 30);
    static const char *const wrong[] = {"",      " 1",   "1 ",   "nan", "inf", "-inf",
                                        "1e999", "0x10", "1.5s", "e",   ".",   "1-1"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        assert_false(str_parse_double(wrong[i], &v));
}

static void sizes_have_binary_suffixes(void **state)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } right[] = {
        {"0", 0},
        {"512", 512},
        {"512b", 512},
        {"512k", 512 << 10},
        {"512KB", 512 << 10},
        {"64KiB", 64 << 10},
        {"512m", 512 << 20},
        {"2G", 2LL << 30},
        {"1.5g", 3LL << 29},
        {"0.5k", 512},
        {"1t", 1LL << 40},
        {"9223372036854775807", INT64_MAX},
    };
    for (size_t i = 0; i < ARRAY_LEN(right); i++) {
        int64_t v = -1;
        assert_true(str_parse_size(right[i].text, &v));
        assert_true(v == right[i].bytes);
    }
    static const char *const wrong[] = {
        "",           "-1",  "k",   "1x",     "1kk", "1 k", " 1",
        "1.",         ".5k", "1ib", "1.5.5k", "1e3", "nan", "9223372036854775808",
        "9000000000g"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        int64_t v;
        assert_false(str_parse_size(wrong[i], &v));
    }
}

static void truth_has_a_few_names(void **state)
{
    static const char *const yes[] = {"true", "1", "YES", "On", " true\n"};
    static const char *const no[] = {"false", "0", "No", "OFF", "\tno "};
    static const char *const neither[] = {"", "2", "truee", "y", "t rue", "enabled"};
    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        bool v = false;
        assert_true(str_parse_bool(yes[i], &v) && v);
    }
    for (size_t i = 0; i < ARRAY_LEN(no); i++) {
        bool v = true;
        assert_true(str_parse_bool(no[i], &v) && !v);
    }
    for (size_t i = 0; i < ARRAY_LEN(neither); i++) {
        bool v;
        assert_false(str_parse_bool(neither[i], &v));
    }
}

static void edit_distance_counts_typing_mistakes(void **state)
{
    static const struct {
        const char *a, *b;
        int distance;
    } pairs[] = {
        {"", "", 0},
        {"command", "command", 0},
        {"command", "COMMAND", 0},
        {"command", "comand", 1},
        {"command", "commmand", 1},
        {"command", "commend", 1},
        {"command", "comamnd", 1},
        {"timeout", "timout_", 2},
        {"ca", "abc", 3}, /* optimal string alignment: a swapped pair is not edited again */
        {"", "abc", 3},
        {"abc", "", 3},
        {"kitten", "sitting", 3},
    };
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        assert_int_equal(str_edit_distance(pairs[i].a, pairs[i].b, 10), pairs[i].distance);
        assert_int_equal(str_edit_distance(pairs[i].b, pairs[i].a, 10), pairs[i].distance);
    }
}

static void edit_distance_over_the_maximum_is_told_as_such(void **state)
{
    char longer[66];
    for (size_t i = 0; i < 65; i++)
        longer[i] = 'a';
    longer[65] = '\0';
    assert_int_equal(str_edit_distance("kitten", "sitting", 2), 3);
    assert_int_equal(str_edit_distance(longer, longer, 2), 3);
    longer[64] = '\0';
    assert_int_equal(str_edit_distance(longer, longer, 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefixes_suffixes_and_case),
        cmocka_unit_test(trim_takes_blanks_off_both_ends_only),
        cmocka_unit_test(integers_are_strict),
        cmocka_unit_test(reals_are_strict_and_finite),
        cmocka_unit_test(sizes_have_binary_suffixes),
        cmocka_unit_test(truth_has_a_few_names),
        cmocka_unit_test(edit_distance_counts_typing_mistakes),
        cmocka_unit_test(edit_distance_over_the_maximum_is_told_as_such),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
