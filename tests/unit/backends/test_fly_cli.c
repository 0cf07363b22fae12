/* flyctl: where it is found, what it is asked, and what the checksums of a release say. Installing it needs a
 * provider: tests/clouds/fly-account.test.mjs. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backends/fly/cli.h"
#include "base/clock.h"
#include "tests/unit/base/check.h"
#include "tests/unit/backends/temporary.h"

#define SUM "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define UPPER "0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF"
#define OTHER "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"

static void program(const char *name, const char *script)
{
    _cleanup_(cleanup_free) char *path = temporary_path(name);
    temporary_file(name, script);
    assert_int_equal(chmod(path, 0755), 0);
}

static void expect_found(const char *name, const char *expected)
{
    _cleanup_(cleanup_free) char *dir = temporary_path("fly");
    _cleanup_(cleanup_free) char *found = cli_find(name, dir);
    _cleanup_(cleanup_free) char *wanted = expected ? temporary_path(expected) : NULL;
    if (wanted)
        assert_string_equal(found, wanted);
    else
        assert_null(found);
}

static void test_where_it_is_found(void **state)
{
    _cleanup_(cleanup_free) char *path = temporary_path("path"), *own = temporary_path("own");
    setenv("PATH", path, 1);
    expect_found("fly", NULL);
    program("fly/bin/flyctl", "#!/bin/sh\n");
    expect_found("fly", "fly/bin/flyctl");
    expect_found("flyctl", "fly/bin/flyctl");
    expect_found("my-fly", NULL);
    temporary_file("path/flyctl", "not to be executed");
    expect_found("fly", "fly/bin/flyctl");
    program("path/flyctl", "#!/bin/sh\n");
    expect_found("fly", "path/flyctl");
    program("path/fly", "#!/bin/sh\n");
    expect_found("fly", "path/fly");
    expect_found("flyctl", "path/flyctl");
    program("path/my-fly", "#!/bin/sh\n");
    expect_found("my-fly", "path/my-fly");
    expect_found(own, NULL);
    program("own", "#!/bin/sh\n");
    expect_found(own, "own");
}

static void test_its_token(void **state)
{
    static const struct {
        const char *script, *machines;
    } rows[] = {
        {"echo deprecated >&2; echo \"fm2_$1-$2,o\"", "FlyV1 fm2_auth-token"},
        {"printf fm2_a", "FlyV1 fm2_a"},
        {"echo fm2_a; exit 1", NULL},
        {"echo 'Error: no access token available' >&2; exit 1", NULL},
        {"echo please log in", NULL},
        {"exec yes", NULL},
        {"", NULL},
    };
    const struct wait wait = {.deadline = DEADLINE_NONE};
    _cleanup_(cleanup_free) char *path = temporary_path("fly");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct fly_token token = {0};
        _cleanup_(cleanup_free) char *script = xasprintf("#!/bin/sh\n%s\n", rows[i].script);
        program("fly", script);
        assert_int_equal(cli_token(path, &wait, &token), rows[i].machines ? 1 : 0);
        if (rows[i].machines)
            assert_string_equal(token.machines, rows[i].machines);
        fly_token_done(&token);
    }
}

static void test_one_that_hangs_is_none(void **state)
{
    struct fly_token token = {0};
    const struct wait wait = {.deadline = clock_deadline_after(0.1)};
    _cleanup_(cleanup_free) char *path = temporary_path("fly");
    program("fly", "#!/bin/sh\nsleep 1000\n");
    assert_int_equal(cli_token(path, &wait, &token), 0);
}

static void test_checksums(void **state)
{
    static const struct {
        const char *text, *sum;
    } rows[] = {
        {SUM "  a.tar.gz\n", SUM},
        {SUM " *a.tar.gz", SUM},
        {OTHER "  b.tar.gz\n" SUM "  a.tar.gz\n", SUM},
        {OTHER "  not-a.tar.gz\n" OTHER "  a.tar.gz.sig\r\n" SUM "  a.tar.gz\r\n", SUM},
        {UPPER "  a.tar.gz", UPPER},
        {OTHER "  b.tar.gz\n", NULL},
        {OTHER "a.tar.gz\n", NULL},
        {"0123  a.tar.gz\n", NULL},
        {"z123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef  a.tar.gz\n", NULL},
        {"a.tar.gz\n", NULL},
        {"<html>nothing here</html>", NULL},
        {"\n\n \n", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        _cleanup_(cleanup_free) char *sum = cli_sum_of(rows[i].text, "a.tar.gz");
        if (rows[i].sum)
            assert_string_equal(sum, rows[i].sum);
        else
            assert_null(sum);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, temporary_make, temporary_remove)

int main(void)
{
    char *path = xstrdup(getenv("PATH"));
    const struct CMUnitTest tests[] = {
        TEST(test_its_token),
        TEST(test_one_that_hangs_is_none),
        TEST(test_where_it_is_found),
        TEST(test_checksums),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    setenv("PATH", path, 1);
    free(path);
    return failed;
}
