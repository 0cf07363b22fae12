/* UTF-8: the well-formed and the ill-formed, by the examples of the Unicode standard (3.9, tables 3-7 to
 * 3-11). */
#include "base/utf8.h"

#include <string.h>

#include "base/macros.h"
#include "tests/unit/base/check.h"

#define R "\xEF\xBF\xBD"

static const struct {
    const char *bytes;
    const char *lossy; /* NULL: valid, so unchanged */
} cases[] = {
    {"", NULL},
    {"plain ASCII, longer than a machine word", NULL},
    {"\x7F", NULL},
    {"\xC2\x80 \xDF\xBF", NULL},
    {"\xE0\xA0\x80 \xED\x9F\xBF \xEE\x80\x80 \xEF\xBF\xBF", NULL},
    {"\xF0\x90\x80\x80 \xF4\x8F\xBF\xBF", NULL},
    {"12345678\xC3\xA9"
     "12345678",
     NULL},
    /* never a lead byte */
    {"\x80", R},
    {"a\xBF\xBFz", "a" R R "z"},
    {"\xFE\xFF\xF8", R R R},
    /* overlong: no byte of it is part of anything */
    {"\xC0\x80", R R},
    {"\xC1\xBF", R R},
    {"\xE0\x80\xAF", R R R},
    {"\xE0\x9F\xBF", R R R},
    {"\xF0\x80\x80\x80", R R R R},
    {"\xF0\x8F\xBF\xBF", R R R R},
    /* surrogates */
    {"\xED\xA0\x80\xED\xBF\xBF", R R R R R R},
    /* over U+10FFFF */
    {"\xF4\x90\x80\x80", R R R R},
    {"\xF5\x80", R R},
    /* cut off: one mark for the whole subsequence */
    {"\xC3", R},
    {"\xE2\x82", R},
    {"\xE2\x82z", R "z"},
    {"\xF0\x9F\x98", R},
    {"\xF0\x9F\x98\xE2\x82\xAC", R "\xE2\x82\xAC"},
    /* table 3-8 */
    {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", R R R R R R R R "A"},
    /* table 3-11 */
    {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", R R R R "A"},
};

static void validity_and_replacement_follow_the_standard(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(buf_done) struct buf out = BUF_INIT(1024);
        size_t n = strlen(cases[i].bytes);
        const char *wanted = cases[i].lossy ? cases[i].lossy : cases[i].bytes;
        assert_int_equal(utf8_valid(cases[i].bytes, n), cases[i].lossy == NULL);
        assert_int_equal(utf8_append_lossy(&out, cases[i].bytes, n), 0);
        assert_string_equal(buf_str(&out), wanted);
        assert_int_equal(utf8_lossy_length(cases[i].bytes, n), out.len);
        assert_true(utf8_valid(out.data, out.len));
    }
}

static void ill_formed_bytes_are_found_at_every_alignment(void **state)
{
    for (size_t at = 0; at < 40; at++) {
        char text[40];
        memset(text, 'a', sizeof(text));
        assert_true(utf8_valid(text, sizeof(text)));
        text[at] = '\x80';
        assert_false(utf8_valid(text, sizeof(text)));
    }
}

static void nul_is_a_character(void **state)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT(16);
    assert_true(utf8_valid("a\0b", 3));
    assert_int_equal(utf8_append_lossy(&out, "a\0\xFF", 3), 0);
    assert_int_equal(out.len, 5);
    assert_memory_equal(out.data, "a\0" R, 5);
}

static void lossy_append_over_the_maximum_changes_nothing(void **state)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT(6);
    assert_int_equal(buf_append_str(&out, "ab"), 0);
    assert_int_equal(utf8_append_lossy(&out, "x\xFF\xFF", 3), -1);
    assert_string_equal(buf_str(&out), "ab");
    assert_int_equal(utf8_append_lossy(&out, "x\xFF", 2), 0);
    assert_string_equal(buf_str(&out), "abx" R);
}

static void boundary_never_cuts_a_character(void **state)
{
    static const struct {
        const char *bytes;
        size_t boundary;
    } boundaries[] = {
        {"", 0},
        {"abc", 3},
        {"a\xC3", 1},
        {"a\xC3\xA9", 3},
        {"a\xE2\x82", 1},
        {"a\xE2", 1},
        {"a\xF0\x9F\x98", 1},
        {"a\xF0\x9F\x98\x80", 5},
        {"\xF0\x9F", 0},
        /* what can't become a character is not held back */
        {"a\x80\x80\x80", 4},
        {"a\xC0", 2},
        {"a\xED\xA0", 3},
        {"a\xE2\x82\xAC\x80", 5},
        {"\xFF", 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(boundaries); i++)
        assert_int_equal(utf8_boundary(boundaries[i].bytes, strlen(boundaries[i].bytes)),
                         boundaries[i].boundary);
}

static void leading_fragment_is_the_rest_of_a_cut_character(void **state)
{
    assert_int_equal(utf8_leading_fragment("", 0), 0);
    assert_int_equal(utf8_leading_fragment("abc", 3), 0);
    assert_int_equal(utf8_leading_fragment("\xC3\xA9", 2), 0);
    assert_int_equal(utf8_leading_fragment("\xA9z", 2), 1);
    assert_int_equal(utf8_leading_fragment("\x98\x80", 2), 2);
    assert_int_equal(utf8_leading_fragment("\x80\x80\x80\x80", 4), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(validity_and_replacement_follow_the_standard),
        cmocka_unit_test(ill_formed_bytes_are_found_at_every_alignment),
        cmocka_unit_test(nul_is_a_character),
        cmocka_unit_test(lossy_append_over_the_maximum_changes_nothing),
        cmocka_unit_test(boundary_never_cuts_a_character),
        cmocka_unit_test(leading_fragment_is_the_rest_of_a_cut_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
