/* Compiled modules are found again if they are whole and our own, and nothing else is run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <dirent.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "backends/wasm/cache.h"
#include "backends/wasm/memory_file.h"
#include "backends/wasm/wasm_limits.h"
#include "temporary.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define CODE "machine code of some bytes"

static int open_cache(void)
{
    struct error err = ERROR_INIT;
    int cache = cache_open(temporary, &err);
    if (cache < 0)
        fail_msg("%s", err.msg);
    return cache;
}

static void put(int cache, const struct cache_key *key, const char *text)
{
    _cleanup_fd_ int code = memory_file_new("test", NULL);
    assert_int_equal(fd_write_all(code, text, strlen(text)), 0);
    assert_int_equal(memory_file_seal(code, NULL), 0);
    cache_put(cache, key, code);
}

static void finds(int cache, const struct cache_key *key, const char *text)
{
    char read_back[64] = "";
    _cleanup_fd_ int code = cache_find(cache, key);
    if (!text) {
        assert_int_equal(code, -1);
        return;
    }
    assert_true(code >= 0);
    assert_int_equal(pread(code, read_back, sizeof(read_back) - 1, 0), strlen(text));
    assert_string_equal(read_back, text);
    assert_int_equal(pwrite(code, "x", 1, 0), -1); /* it stays what it is */
    assert_int_equal(ftruncate(code, 1), -1);
}

/* The names in it, of which there are so many; the last is kept. */
static size_t list(int cache, char ret_last[256])
{
    size_t count = 0;
    int fd = openat(cache, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_(cleanup_closedir) DIR *folder = fdopendir(fd);
    assert_non_null(folder);
    for (const struct dirent *e; (e = readdir(folder));)
        if (e->d_name[0] != '.') {
            snprintf(ret_last, 256, "%s", e->d_name);
            count++;
        }
    return count;
}

static void what_was_put_is_found(void **state)
{
    const struct cache_key key = cache_key(HASH, 50, false), fuel = cache_key(HASH, 50, true),
                           other = cache_key(HASH, 48, false);
    _cleanup_fd_ int cache = open_cache();
    finds(cache, &key, NULL);
    put(cache, &key, CODE);
    put(cache, &fuel, CODE " with fuel");
    _cleanup_fd_ int again = open_cache();
    finds(again, &key, CODE);
    finds(again, &fuel, CODE " with fuel");
    finds(again, &other, NULL);
    cache_drop(again, &key);
    finds(again, &key, NULL);
    finds(again, &fuel, CODE " with fuel");
}

/* -- What isn't sound is neither found nor kept. */

static void flip(int cache, const char *name)
{
    _cleanup_fd_ int fd = openat(cache, name, O_RDWR | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "X", 1, 5), 1);
}
static void cut(int cache, const char *name)
{
    _cleanup_fd_ int fd = openat(cache, name, O_RDWR | O_CLOEXEC);
    assert_int_equal(ftruncate(fd, 10), 0);
}
static void empty(int cache, const char *name)
{
    _cleanup_fd_ int fd = openat(cache, name, O_RDWR | O_CLOEXEC);
    assert_int_equal(ftruncate(fd, 0), 0);
}
static void lengthen(int cache, const char *name)
{
    _cleanup_fd_ int fd = openat(cache, name, O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_int_equal(write(fd, "\0", 1), 1);
}
static void open_to_all(int cache, const char *name)
{
    assert_int_equal(fchmodat(cache, name, 0622, 0), 0);
}
static void link_to(int cache, const char *name)
{
    assert_int_equal(renameat(cache, name, cache, "away"), 0);
    assert_int_equal(symlinkat("away", cache, name), 0);
}
static void name_twice(int cache, const char *name)
{
    assert_int_equal(linkat(cache, name, cache, "twin", 0), 0);
}
static void make_folder(int cache, const char *name)
{
    assert_int_equal(unlinkat(cache, name, 0), 0);
    assert_int_equal(mkdirat(cache, name, 0700), 0);
}
static void make_pipe(int cache, const char *name)
{
    assert_int_equal(unlinkat(cache, name, 0), 0);
    assert_int_equal(mkfifoat(cache, name, 0600), 0);
}

static void what_is_spoiled_is_not(void **state)
{
    static void (*const WAYS[])(int cache, const char *name) = {
        flip, cut, empty, lengthen, open_to_all, link_to, name_twice, make_folder, make_pipe};
    const struct cache_key key = cache_key(HASH, 50, false);
    for (size_t i = 0; i < ARRAY_LEN(WAYS); i++) {
        char name[256] = "";
        struct stat st;
        _cleanup_fd_ int cache = open_cache();
        put(cache, &key, CODE);
        assert_int_equal(list(cache, name), 1);
        WAYS[i](cache, name);
        finds(cache, &key, NULL);
        assert_int_equal(fstatat(cache, name, &st, AT_SYMLINK_NOFOLLOW), -1);
        put(cache, &key, CODE);
        finds(cache, &key, CODE);
        assert_int_equal(tree_remove(AT_FDCWD, temporary, NULL), 0);
    }
}

static void a_folder_of_others_is_not_trusted(void **state)
{
    struct error err = ERROR_INIT;
    fd_close(open_cache());
    _cleanup_(cleanup_free) char *path = temporary_path("wasm-cache");
    assert_int_equal(chmod(path, 0770), 0);
    assert_int_equal(cache_open(temporary, &err), -1);
    assert_int_equal(err.code, ERR_DENIED);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(symlink("/tmp", path), 0);
    assert_int_equal(cache_open(temporary, &err), -1);
}

static void it_is_bounded(void **state)
{
    char name[256];
    _cleanup_fd_ int cache = open_cache();
    for (int i = 0; i < 2 * LIMIT_WASM_CACHE_FILES; i++) {
        const struct cache_key key = cache_key(HASH, i, false);
        put(cache, &key, CODE);
    }
    assert_int_equal(list(cache, name), LIMIT_WASM_CACHE_FILES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_put_is_found, temporary_make, temporary_remove),
        cmocka_unit_test_setup_teardown(what_is_spoiled_is_not, temporary_make, temporary_remove),
        cmocka_unit_test_setup_teardown(a_folder_of_others_is_not_trusted, temporary_make, temporary_remove),
        cmocka_unit_test_setup_teardown(it_is_bounded, temporary_make, temporary_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
