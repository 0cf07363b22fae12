/* The rule for ids, and random ones. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>

#include "base/slug.h"

static void rule(void **state)
{
    static const char *const GOOD[] = {"a",
                                       "0",
                                       "a-b",
                                       "web-1",
                                       "steady-otter-a31f",
                                       "a--b",
                                       "abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz0"};
    static const char *const BAD[] = {
        "",    "-",
        "-a",  "a-",
        "A",   "a_b",
        "a.b", "a b",
        "a/b", "..",
        "ä",   "a\n",
        "'",   "abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz01"};
    for (size_t i = 0; i < ARRAY_LEN(GOOD); i++)
        assert_int_equal(slug_check(GOOD[i], NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        struct error err = ERROR_INIT;
        assert_int_equal(slug_check(BAD[i], &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
        assert_non_null(strstr(err.msg, "1 to 63 characters of a-z, 0-9 and '-'")); /* says what is right */
    }
}

static void random_ones(void **state)
{
    char a[SLUG_SIZE], b[SLUG_SIZE];
    int different = 0;
    for (int i = 0; i < 1000; i++) {
        slug_random(a);
        slug_random(b);
        assert_int_equal(slug_check(a, NULL), 0);
        const char *first = strchr(a, '-'), *second = strrchr(a, '-');
        assert_true(first && first < second); /* adjective-noun-hhhh */
        assert_int_equal(strspn(second + 1, "0123456789abcdef"), 4);
        assert_int_equal(strlen(second + 1), 4);
        different += strcmp(a, b) != 0;
    }
    assert_true(different > 990);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rule), cmocka_unit_test(random_ones)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
