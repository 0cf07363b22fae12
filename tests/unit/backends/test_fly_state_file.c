/* The record of Fly's app: as the Python program has it, and nothing that a user wrote is lost. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backends/fly/state_file.h"
#include "tests/unit/base/check.h"
#include "tests/unit/backends/temporary.h"

static struct error err;

static int set_up(void **state)
{
    err = (struct error)ERROR_INIT;
    return temporary_make(state);
}

static void test_what_is_written_is_read(void **state)
{
    struct stat st;
    _cleanup_(cleanup_free) char *path = temporary_path("fly.json");
    _cleanup_(cleanup_free) char *left = temporary_path("fly.json.tmp");
    _cleanup_(cleanup_free) char *app = NULL;
    _cleanup_(buf_done) struct buf text = BUF_INIT(100);
    assert_int_equal(state_file_write(path, "my-app-1", &err), 0);
    assert_int_equal(file_read(AT_FDCWD, path, &text, &err), 0);
    assert_string_equal(buf_str(&text), "{\"app\": \"my-app-1\"}");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(access(left, F_OK), -1);
    assert_int_equal(state_file_read(path, &app, &err), 0);
    assert_string_equal(app, "my-app-1");
}

static void test_other_programs_records_are_read(void **state)
{
    static const char *const texts[] = {"{\"app\":\"theirs\"}", "{\n  \"app\": \"theirs\"\n}\n",
                                        "{\"more\": [1], \"app\": \"theirs\"}"};
    _cleanup_(cleanup_free) char *path = temporary_path("fly.json");
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        char *app = NULL;
        temporary_file("fly.json", texts[i]);
        assert_int_equal(state_file_read(path, &app, &err), 0);
        assert_string_equal(app, "theirs");
        free(app);
    }
}

static void test_no_record_is_none(void **state)
{
    char *app = (char *)"unchanged";
    _cleanup_(cleanup_free) char *path = temporary_path("absent/fly.json");
    assert_int_equal(state_file_read(path, &app, &err), 0);
    assert_null(app);
}

static void test_what_is_no_record_is_told(void **state)
{
    static const char *const texts[] = {
        "",
        "{}",
        "not JSON",
        "[]",
        "\"app\"",
        "{\"app\": 1}",
        "{\"app\": \"\"}",
        "{\"app\": \"../../v1\"}",
        "{\"app\": \"a b\"}",
        "{\"app\": \"a?b=c\"}",
        "{\"app\": \"a\\u0000b\"}",
        "{\"app\": \"a\"} {\"app\": \"b\"}",
        "{\"app\": \"0123456789012345678901234567890123456789012345678901234567890123\"}"};
    _cleanup_(cleanup_free) char *path = temporary_path("fly.json");
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        char *app = (char *)"unchanged";
        temporary_file("fly.json", texts[i]);
        assert_int_equal(state_file_read(path, &app, &err), -1);
        assert_string_equal(app, "unchanged");
        assert_non_null(strstr(err.msg, path));
    }
}

static void test_where_it_is(void **state)
{
    setenv("HOME", "/home/me", 1);
    _cleanup_(cleanup_free) char *usual = state_file_place(NULL);
    _cleanup_(cleanup_free) char *told = state_file_place("/else/where");
    assert_string_equal(usual, "/home/me/.mcp-sandbox-computer-vm-for-ai/fly.json");
    assert_string_equal(told, "/else/where");
    unsetenv("HOME");
    assert_null(state_file_place(NULL));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, temporary_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_written_is_read),
        TEST(test_other_programs_records_are_read),
        TEST(test_no_record_is_none),
        TEST(test_what_is_no_record_is_told),
        TEST(test_where_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
