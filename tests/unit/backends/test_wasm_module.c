/* What is taken for a module, and what is said of everything else. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <sys/stat.h>

#include "backends/wasm/module.h"
#include "backends/wasm/wasm_limits.h"
#include "temporary.h"

#define MODULE "\0asm\1\0\0\0"

static char *write_file(const void *bytes, size_t n)
{
    char *path = temporary_path("m.wasm");
    assert_int_equal(file_replace(AT_FDCWD, path, bytes, n, false, NULL), 0);
    return path;
}

static void a_module_is_read(void **state)
{
    _cleanup_(cleanup_free) char *path = write_file(MODULE "rest", 12);
    struct module m;
    assert_int_equal(module_read(path, &m, NULL), 0);
    assert_int_equal(m.bytes.len, 12);
    assert_memory_equal(m.bytes.data, MODULE "rest", 12);
    assert_int_equal(strlen(m.hash), 64);
    module_done(&m);
}

static void strangers_are_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *words;
    } ROWS[] = {
        {"", 0, "not a WebAssembly module"},
        {"\0asm", 4, "not a WebAssembly module"},
        {"\0asm\2\0\0\0", 8, "not a WebAssembly module"},
        {"\177ELF\2\1\1\0", 8, "compiled code"},
        {"\0asm\r\0\1\0", 8, "component"},
        {"(module)", 8, "text"},
        {"#!/bin/sh\n", 10, "not a WebAssembly module"},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct error err = ERROR_INIT;
        struct module m;
        _cleanup_(cleanup_free) char *path = write_file(ROWS[i].bytes, ROWS[i].n);
        assert_int_equal(module_read(path, &m, &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
        assert_non_null(strstr(err.msg, ROWS[i].words));
        assert_non_null(strstr(err.msg, path));
    }
}

static void what_is_no_file_keeps_nobody_waiting(void **state)
{
    struct error err = ERROR_INIT;
    _cleanup_(cleanup_free) char *pipe = temporary_path("pipe");
    _cleanup_(cleanup_free) char *nothing = temporary_path("nothing");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(module_check(pipe, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_int_equal(module_check(temporary, &err), -1);
    assert_int_equal(module_check(nothing, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
}

static void one_too_large_is_refused(void **state)
{
    struct error err = ERROR_INIT;
    _cleanup_(cleanup_free) char *path = write_file(MODULE, 8);
    assert_int_equal(truncate(path, (off_t)LIMIT_WASM_MODULE_BYTES + 1), 0);
    assert_int_equal(module_check(path, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_non_null(strstr(err.msg, "64 MiB"));
    assert_int_equal(truncate(path, (off_t)LIMIT_WASM_MODULE_BYTES), 0);
    assert_int_equal(module_check(path, &err), 0);
}

static void its_name_is_the_stem(void **state)
{
    static const char *const ROWS[][2] = {{"/a/tool.wasm", "tool"},
                                          {"tool", "tool"},
                                          {"/a/.wasm", ".wasm"},
                                          {"/a/b.wasm.wasm", "b.wasm"},
                                          {"x.wat", "x.wat"}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        _cleanup_(cleanup_free) char *stem = module_stem(ROWS[i][0]);
        assert_string_equal(stem, ROWS[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_module_is_read, temporary_make, temporary_remove),
        cmocka_unit_test_setup_teardown(strangers_are_refused, temporary_make, temporary_remove),
        cmocka_unit_test_setup_teardown(what_is_no_file_keeps_nobody_waiting, temporary_make,
                                        temporary_remove),
        cmocka_unit_test_setup_teardown(one_too_large_is_refused, temporary_make, temporary_remove),
        cmocka_unit_test(its_name_is_the_stem),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
