/* Limits in files of a test, which plays the kernel: it holds what was written, or something else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "backends/native/cgroups.h"
#include "base/limits.h"
#include "temporary.h"

#define KEY "0123456789abcdef"
#define GROUP "mcp-sandbox-" KEY "/"

static const struct cgroup_values values = {.memory_bytes = 256 * MIB, .pids = 512, .cpus = 1.5};

/* All limits in one folder, of one version. */
static struct cgroups all_of(int version)
{
    struct cgroups c = {.unified = version == 2 ? temporary : NULL};
    for (int i = 0; i < CGROUP_LIMITS; i++)
        c.places[i] = (struct cgroup_place){.version = version, .v1 = version == 1 ? temporary : NULL};
    return c;
}

static const char *const files[3][8] = {
    [1] = {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "pids.max", "cpu.cfs_quota_us", "tasks"},
    [2] = {"memory.max", "memory.swap.max", "pids.max", "cpu.max"},
};

static void put(const char *file, const char *text)
{
    _cleanup_(cleanup_free) char *name = xasprintf(GROUP "%s", file);
    temporary_file(name, text);
}

static void take_away(const char *file)
{
    _cleanup_(cleanup_free) char *name = xasprintf(GROUP "%s", file);
    _cleanup_(cleanup_free) char *path = temporary_path(name);
    assert_int_equal(unlink(path), 0);
}

static int set(int version, struct error *err)
{
    const struct cgroups c = all_of(version);
    struct cgroup_birth birth = CGROUP_BIRTH_NONE;
    int r = cgroup_limit(&c, KEY, &values, &birth, err);
    fd_close(birth.oom);
    cgroup_birth_done(&birth);
    return r;
}

static int check(int version, struct error *err)
{
    const struct cgroups c = all_of(version);
    const struct cgroup_birth birth = {.is_unchecked = true};
    return cgroup_check(&c, KEY, &values, &birth, err);
}

static void set_all(int version)
{
    struct error err = ERROR_INIT;
    for (const char *const *file = files[version]; *file; file++)
        put(*file, "");
    if (set(version, &err) < 0)
        fail_msg("%s", err.msg);
}

static void assert_holds(const char *file, const char *text)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT(100);
    _cleanup_(cleanup_free) char *name = xasprintf(GROUP "%s", file);
    _cleanup_(cleanup_free) char *path = temporary_path(name);
    assert_int_equal(file_read(AT_FDCWD, path, &b, NULL), 0);
    assert_string_equal(buf_str(&b), text);
}

static void test_written(void **state)
{
    set_all(1);
    assert_holds("memory.limit_in_bytes", "268435456");
    assert_holds("memory.memsw.limit_in_bytes", "268435456");
    assert_holds("pids.max", "512");
    assert_holds("cpu.cfs_quota_us", "150000");
    set_all(2);
    assert_holds("memory.max", "268435456");
    assert_holds("memory.swap.max", "0");
    assert_holds("pids.max", "512");
    assert_holds("cpu.max", "150000 100000");
}

static const struct {
    int version;
    const char *file;
    const char *held;
    bool enough;
} rows[] = {
    {1, "memory.limit_in_bytes", "268435456\n", true},
    {1, "memory.limit_in_bytes", "268431360\n", true}, /* whole pages */
    {1, "memory.limit_in_bytes", "268435457\n", false},
    {1, "memory.limit_in_bytes", "9223372036854771712\n", false},
    {1, "memory.limit_in_bytes", "4096\n", false},
    {1, "memory.memsw.limit_in_bytes", "9223372036854771712\n", false},
    {1, "pids.max", "512\n", true},
    {1, "pids.max", "513\n", false},
    {1, "pids.max", "511\n", false},
    {1, "pids.max", "max\n", false},
    {1, "cpu.cfs_quota_us", "150000\n", true},
    {1, "cpu.cfs_quota_us", "-1\n", false}, /* unlimited */
    {1, "cpu.cfs_quota_us", "\n", false},
    {2, "memory.max", "268431360\n", true},
    {2, "memory.max", "max\n", false},
    {2, "memory.max", "268439552\n", false},
    {2, "memory.swap.max", "0\n", true},
    {2, "memory.swap.max", "4096\n", false},
    {2, "memory.swap.max", "max\n", false},
    {2, "pids.max", "max\n", false},
    {2, "cpu.max", "150000 100000\n", true},
    {2, "cpu.max", "max 100000\n", false},
    {2, "cpu.max", "150000 10000\n", false},
};

static void b43_what_is_held_counts(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct error err = ERROR_INIT;
        set_all(rows[i].version);
        put(rows[i].file, rows[i].held);
        int r = check(rows[i].version, &err);
        if ((r == 0) != rows[i].enough)
            fail_msg("%s with %s: %s", rows[i].file, rows[i].held, r == 0 ? "accepted" : err.msg);
        assert_int_equal(err.code, rows[i].enough ? ERR_NONE : ERR_UNAVAILABLE);
        if (!rows[i].enough)
            assert_non_null(strstr(err.msg, rows[i].file));
    }
}

static void test_missing_files(void **state)
{
    for (int version = 1; version <= 2; version++) {
        for (const char *const *file = files[version]; *file; file++) {
            struct error err = ERROR_INIT;
            bool optional = strstr(*file, "memsw") || strstr(*file, "swap");
            set_all(version);
            take_away(*file);
            assert_int_equal(check(version, &err), optional || strcmp(*file, "tasks") == 0 ? 0 : -1);
            assert_int_equal(set(version, &err), optional ? 0 : -1);
            assert_int_equal(err.code, optional ? ERR_NONE : ERR_UNAVAILABLE);
        }
    }
}

/* Told with its reason elsewhere. */
static void b43_limits_without_a_place(void **state)
{
    const struct cgroups c = {.unified = temporary};
    struct cgroup_birth birth = CGROUP_BIRTH_NONE;
    assert_int_equal(cgroup_limit(&c, KEY, &values, &birth, NULL), 0);
    assert_int_equal(cgroup_check(&c, KEY, &values, &birth, NULL), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, temporary_make, temporary_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_written),
        CASE(b43_what_is_held_counts),
        CASE(test_missing_files),
        CASE(b43_limits_without_a_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
