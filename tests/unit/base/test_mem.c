/* Allocation helpers and arrays of strings. */
#include "base/mem.h"

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/base/check.h"

static void strings_are_copied(void **state)
{
    _cleanup_(cleanup_free) char *whole = xstrdup("abc"), *part = xstrndup("abcdef", 4),
                                 *all = xstrndup("ab", 9);
    _cleanup_(cleanup_free) char *formatted = xasprintf("%s-%d", "x", 7);
    assert_string_equal(whole, "abc");
    assert_string_equal(part, "abcd");
    assert_string_equal(all, "ab");
    assert_string_equal(formatted, "x-7");
    assert_null(xstrdup(NULL));
}

static void zero_sizes_are_allocations_too(void **state)
{
    _cleanup_(cleanup_free) void *a = xmalloc(0), *b = xcalloc(0, 8);
    assert_non_null(a);
    assert_non_null(b);
}

static void string_arrays_are_counted_copied_freed(void **state)
{
    char *words[] = {(char *)"one", (char *)"two", NULL};
    _cleanup_(cleanup_strv_free) char **copy = strv_copy(words);
    _cleanup_(cleanup_strv_free) char **empty = strv_copy(NULL);
    assert_int_equal(strv_len(copy), 2);
    assert_string_equal(copy[1], "two");
    assert_ptr_not_equal(copy[1], words[1]);
    assert_int_equal(strv_len(empty), 0);
    assert_int_equal(strv_len(NULL), 0);
    strv_free(NULL);
}

static void overflowing_size_aborts(void **state)
{
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        free(xrealloc_array(NULL, SIZE_MAX / 2, 3));
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_copied),
        cmocka_unit_test(zero_sizes_are_allocations_too),
        cmocka_unit_test(string_arrays_are_counted_copied_freed),
        cmocka_unit_test(overflowing_size_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
