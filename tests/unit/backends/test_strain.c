/* What is left of JSON without the texts of one member: the same from whatever pieces it comes in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "backends/strain.h"

static const struct {
    const char *in, *out;
} rows[] = {
    {"{\"raw\":\"AAAA\",\"b\":1}", "{\"raw\":\"\",\"b\":1}"},
    {"{\"raw\" \n:\t \"AAAA\"}", "{\"raw\" \n:\t \"\"}"},
    {"[{\"x\":[{\"raw\":\"A\"},{\"raw\":\"B\"}]}]", "[{\"x\":[{\"raw\":\"\"},{\"raw\":\"\"}]}]"},
    {"{\"raw\":\"a\\\"b\\\\\",\"b\":\"c\"}", "{\"raw\":\"\",\"b\":\"c\"}"},
    {"{\"raw\":\"\"}", "{\"raw\":\"\"}"},
    /* Others stay: longer and shorter names, other types, a text that is the name, escaped names. */
    {"{\"raw2\":\"A\",\"ra\":\"B\",\"\":\"C\"}", "{\"raw2\":\"A\",\"ra\":\"B\",\"\":\"C\"}"},
    {"{\"raw\":{\"a\":\"b\"},\"c\":\"d\"}", "{\"raw\":{\"a\":\"b\"},\"c\":\"d\"}"},
    {"{\"raw\":null,\"c\":\"d\"}", "{\"raw\":null,\"c\":\"d\"}"},
    {"{\"a\":\"raw\",\"b\":\"c\"}", "{\"a\":\"raw\",\"b\":\"c\"}"},
    {"[\"raw\",\"b\"]", "[\"raw\",\"b\"]"},
    {"{\"raw\":\"raw\",\"b\":\"c\"}", "{\"raw\":\"\",\"b\":\"c\"}"},
    {"{\"a\":\"\\\"raw\\\":\\\"b\\\"\"}", "{\"a\":\"\\\"raw\\\":\\\"b\\\"\"}"},
    {"{\"\\u0072aw\":\"b\"}", "{\"\\u0072aw\":\"b\"}"},
};

static void the_same_from_any_pieces(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const size_t n = strlen(rows[i].in);
        for (size_t piece = 1; piece <= n; piece++) {
            struct strain s = {.name = "raw"};
            struct buf left = BUF_INIT(1000);
            for (size_t at = 0; at < n; at += piece)
                assert_int_equal(strain_feed(&s, rows[i].in + at, n - at < piece ? n - at : piece, &left), 0);
            assert_string_equal(buf_str(&left), rows[i].out);
            buf_done(&left);
        }
    }
}

static void what_is_left_has_a_maximum(void **state)
{
    struct strain s = {.name = "raw"};
    _cleanup_(buf_done) struct buf left = BUF_INIT(12);
    char text[100] = "{\"raw\":\"";
    memset(text + 8, 'A', sizeof(text) - 8);
    for (int i = 0; i < 50; i++)
        assert_int_equal(strain_feed(&s, i ? text + 8 : text, sizeof(text) - (i ? 8 : 0), &left), 0);
    assert_int_equal(strain_feed(&s, "\",\"b\":1}", 8, &left), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_from_any_pieces),
        cmocka_unit_test(what_is_left_has_a_maximum),
    };
    return cmocka_run_group_tests_name("strain", tests, NULL, NULL);
}
