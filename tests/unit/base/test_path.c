/* Paths as text. */
#include "base/path.h"

#include <stdlib.h>

#include "base/macros.h"
#include "base/mem.h"
#include "tests/unit/base/check.h"

static void join_puts_one_slash(void **state)
{
    static const char *const cases[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"/", "b", "/b"}, {"", "b", "b"}, {"/a/b", "c/d", "/a/b/c/d"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(cleanup_free) char *joined = path_join(cases[i][0], cases[i][1]);
        assert_string_equal(joined, cases[i][2]);
    }
}

static void absolute_starts_at_the_root(void **state)
{
    assert_true(path_is_absolute("/a"));
    assert_false(path_is_absolute("a/b"));
    assert_false(path_is_absolute(""));
}

static void basename_is_what_follows_the_last_slash(void **state)
{
    assert_string_equal(path_basename("/usr/bin/env"), "env");
    assert_string_equal(path_basename("env"), "env");
    assert_string_equal(path_basename("a/"), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(join_puts_one_slash),
        cmocka_unit_test(absolute_starts_at_the_root),
        cmocka_unit_test(basename_is_what_follows_the_last_slash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
