/* Where groups go, on fixture trees of each kind of machine. Mount points in the fixtures lead into a folder
 * of the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <cmocka.h>

#include "backends/native/cgroups.h"
#include "temporary.h"

static struct cgroups detected;

/* mounts: lines of "ROOT POINT TYPE OPTIONS", POINT beneath the test's folder. */
static void detect(const char *own, const char *const *mounts)
{
    struct buf b = BUF_INIT(65536);
    for (; *mounts; mounts++) {
        char root[64], point[64], type[16], options[64];
        assert_int_equal(sscanf(*mounts, "%63s %63s %15s %63s", root, point, type, options), 4);
        assert_int_equal(buf_printf(&b, "30 20 0:2%zu %s %s/%s rw,relatime shared:7 - %s none rw,%s\n", b.len,
                                    root, temporary, point, type, options),
                         0);
    }
    temporary_file("proc/cgroup", own);
    temporary_file("proc/mountinfo", buf_str(&b));
    buf_done(&b);
    _cleanup_(cleanup_free) char *own_file = temporary_path("proc/cgroup");
    _cleanup_(cleanup_free) char *mountinfo = temporary_path("proc/mountinfo");
    const struct cgroup_files files = {own_file, mountinfo};
    struct error err = ERROR_INIT;
    assert_int_equal(cgroups_detect(&files, &detected, &err), 0);
}

static void assert_path(const char *path, const char *expected)
{
    if (!expected) {
        assert_null(path);
        return;
    }
    _cleanup_(cleanup_free) char *full = temporary_path(expected);
    assert_non_null(path);
    assert_string_equal(path, full);
}

static void assert_versions(int memory, int pids, int cpu)
{
    assert_int_equal(detected.places[CGROUP_MEMORY].version, memory);
    assert_int_equal(detected.places[CGROUP_PIDS].version, pids);
    assert_int_equal(detected.places[CGROUP_CPU].version, cpu);
    for (int i = 0; i < CGROUP_LIMITS; i++)
        assert_int_equal(detected.places[i].why != NULL, detected.places[i].version == 0);
}

static int clean(void **state)
{
    cgroups_done(&detected);
    return temporary_remove(state);
}

#define OWN_V1 "8:pids:/\n5:memory:/box/inner\n2:cpu,cpuacct:/\n1:name=systemd:/\n"

static void test_v1(void **state)
{
    static const char *const mounts[] = {"/ cg/pids cgroup pids", "/ cg/memory cgroup memory",
                                         "/ cg/cpu cgroup cpu,cpuacct", NULL};
    temporary_folder("cg/pids");
    temporary_folder("cg/memory/box/inner");
    temporary_folder("cg/cpu");
    detect(OWN_V1, mounts);
    assert_versions(1, 1, 1);
    assert_path(detected.places[CGROUP_MEMORY].v1, "cg/memory/box/inner");
    assert_path(detected.places[CGROUP_PIDS].v1, "cg/pids");
    assert_path(detected.places[CGROUP_CPU].v1, "cg/cpu");
    assert_path(detected.unified, NULL);
}

/* Version 2 without controllers: to kill by only, beneath our own group. */
static void test_hybrid(void **state)
{
    static const char *const mounts[] = {"/ cg/pids cgroup pids", "/ cg/memory cgroup memory",
                                         "/ cg/cpu cgroup cpu,cpuacct", "/ cg/unified cgroup2 nsdelegate",
                                         NULL};
    temporary_folder("cg/pids");
    temporary_folder("cg/memory/box/inner");
    temporary_folder("cg/cpu");
    temporary_file("cg/unified/cgroup.controllers", "hugetlb\n");
    temporary_file("cg/unified/user.slice/cgroup.controllers", "\n");
    detect(OWN_V1 "0::/user.slice\n", mounts);
    assert_versions(1, 1, 1);
    assert_path(detected.unified, "cg/unified/user.slice");
    assert_null(detected.leaf);
    assert_null(detected.enable[0]);
}

static const char *const mounts_v2[] = {"/ cg cgroup2 nsdelegate,memory_recursiveprot", NULL};

/* A login session as root: not ours to divide, so a group at the top. */
static void test_v2_session(void **state)
{
    temporary_file("cg/cgroup.controllers", "cpuset cpu io memory hugetlb pids\n");
    temporary_file("cg/user.slice/session-1.scope/cgroup.events", "populated 1\n");
    temporary_file("cg/user.slice/session-1.scope/cgroup.controllers", "memory pids\n");
    detect("0::/user.slice/session-1.scope\n", mounts_v2);
    assert_versions(2, 2, 2);
    assert_path(detected.unified, "cg/mcp-sandbox-computer");
    assert_path(detected.enable[0], "cg");
    assert_path(detected.enable[1], "cg/mcp-sandbox-computer");
    assert_null(detected.leaf);
}

static void test_v2_root(void **state)
{
    temporary_file("cg/cgroup.controllers", "cpu memory pids\n");
    detect("0::/\n", mounts_v2);
    assert_versions(2, 2, 2);
    assert_path(detected.unified, "cg/mcp-sandbox-computer");
    assert_path(detected.enable[0], "cg");
    assert_null(detected.leaf);
}

static void delegate(const char *name)
{
    _cleanup_(cleanup_free) char *path = temporary_path(name);
    assert_int_equal(setxattr(path, "user.delegate", "1", 1, 0), 0);
}

static void test_v2_delegated(void **state)
{
    temporary_file("cg/cgroup.controllers", "cpu memory pids\n");
    temporary_file("cg/system.slice/run.scope/cgroup.events", "populated 1\n");
    temporary_file("cg/system.slice/run.scope/cgroup.controllers", "memory pids\n");
    delegate("cg/system.slice/run.scope");
    detect("0::/system.slice/run.scope\n", mounts_v2);
    assert_versions(2, 2, 0); /* cpu wasn't delegated */
    assert_path(detected.unified, "cg/system.slice/run.scope");
    assert_path(detected.enable[0], "cg/system.slice/run.scope");
    assert_path(detected.leaf, "cg/system.slice/run.scope/server");
    assert_null(detected.enable[1]);
}

/* The same server looks again, from the leaf that it has moved to. */
static void test_v2_delegated_again(void **state)
{
    temporary_file("cg/cgroup.controllers", "cpu memory pids\n");
    temporary_file("cg/run.scope/cgroup.controllers", "cpu memory pids\n");
    temporary_file("cg/run.scope/cgroup.events", "populated 1\n");
    temporary_file("cg/run.scope/server/cgroup.controllers", "\n");
    temporary_file("cg/run.scope/server/cgroup.events", "populated 1\n");
    delegate("cg/run.scope");
    detect("0::/run.scope/server\n", mounts_v2);
    assert_versions(2, 2, 2);
    assert_path(detected.unified, "cg/run.scope");
    assert_path(detected.leaf, "cg/run.scope/server");
}

/* An ordinary user's program, as a desktop starts it: not delegated itself, but beneath what is. That the top
 * isn't his to write to is played by what it isn't: the machine's. */
static void test_v2_user(void **state)
{
    temporary_file("cg/cgroup.events", "populated 1\n");
    temporary_file("cg/cgroup.controllers", "cpu io memory pids\n");
    temporary_file("cg/user.slice/user@1.service/cgroup.controllers", "memory pids\n");
    temporary_file("cg/user.slice/user@1.service/app.slice/a.scope/cgroup.controllers", "\n");
    delegate("cg/user.slice/user@1.service");
    detect("0::/user.slice/user@1.service/app.slice/a.scope\n", mounts_v2);
    assert_versions(2, 2, 0);
    assert_path(detected.unified, "cg/user.slice/user@1.service/mcp-sandbox-computer");
    assert_path(detected.enable[0], "cg/user.slice/user@1.service");
    assert_path(detected.enable[1], "cg/user.slice/user@1.service/mcp-sandbox-computer");
    assert_null(detected.leaf);
}

/* A session of ssh: nothing above it is delegated. Its own group is still good to kill by. */
static void test_v2_login(void **state)
{
    temporary_file("cg/cgroup.events", "populated 1\n");
    temporary_file("cg/cgroup.controllers", "cpu memory pids\n");
    temporary_file("cg/user.slice/session-1.scope/cgroup.controllers", "cpu memory pids\n");
    detect("0::/user.slice/session-1.scope\n", mounts_v2);
    assert_versions(0, 0, 0);
    assert_path(detected.unified, "cg/user.slice/session-1.scope");
    assert_non_null(strstr(detected.places[CGROUP_MEMORY].why, "isn't delegated"));
    assert_null(detected.leaf);
    assert_null(detected.enable[0]);
}

/* The namespace's root is not the machine's: it has cgroup.events. */
static void test_v2_container(void **state)
{
    temporary_file("cg/cgroup.controllers", "cpu memory pids\n");
    temporary_file("cg/cgroup.events", "populated 1\n");
    detect("0::/\n", mounts_v2);
    assert_versions(2, 2, 2);
    assert_path(detected.unified, "cg");
    assert_path(detected.leaf, "cg/server");
    assert_path(detected.enable[0], "cg");
}

/* Without a namespace of its own a container sees its group as the mount's root. */
static void test_v2_bind(void **state)
{
    static const char *const mounts[] = {"/docker/abc cg cgroup2 nsdelegate", NULL};
    temporary_file("cg/cgroup.controllers", "cpu memory pids\n");
    temporary_file("cg/cgroup.events", "populated 1\n");
    detect("0::/docker/abc\n", mounts);
    assert_versions(2, 2, 2);
    assert_path(detected.unified, "cg");
    assert_path(detected.leaf, "cg/server");
}

static void test_not_shown(void **state)
{
    static const char *const mounts[] = {"/docker/abc cg cgroup2 x", "/docker/abc pids cgroup pids", NULL};
    temporary_file("cg/cgroup.controllers", "cpu memory pids\n");
    detect("8:pids:/docker/abcdef\n0::/../other\n", mounts);
    assert_versions(0, 0, 0);
    assert_path(detected.unified, NULL);
}

static void test_nothing_at_all(void **state)
{
    static const char *const mounts[] = {"/ proc2 proc rw", NULL};
    detect("0::/\n", mounts);
    assert_versions(0, 0, 0);
    assert_path(detected.unified, NULL);
}

static void test_odd_mount_points(void **state)
{
    static const char *const mounts[] = {"/ cg\\040v2 cgroup2 x", NULL};
    temporary_file("cg v2/cgroup.controllers", "cpu memory pids\n");
    detect("0::/\n", mounts);
    assert_path(detected.unified, "cg v2/mcp-sandbox-computer");
}

static void test_oom_count(void **state)
{
    static const struct {
        const char *text;
        uint64_t count;
    } cases[] = {
        {"low 0\nhigh 0\nmax 17\noom 2\noom_kill 3\noom_group_kill 0\n", 3},
        {"oom_kill_disable 0\nunder_oom 0\noom_kill 5\n", 5},
        {"oom_kill_disable 0\nunder_oom 0\n", 0},
        {"", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        temporary_file("events", cases[i].text);
        _cleanup_(cleanup_free) char *path = temporary_path("events");
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        assert_int_equal(cgroup_oom_kills(fd), cases[i].count);
        assert_int_equal(cgroup_oom_kills(fd), cases[i].count); /* again, from the beginning */
    }
    assert_int_equal(cgroup_oom_kills(-1), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, temporary_make, clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_v1),
        CASE(test_hybrid),
        CASE(test_v2_session),
        CASE(test_v2_root),
        CASE(test_v2_delegated),
        CASE(test_v2_delegated_again),
        CASE(test_v2_user),
        CASE(test_v2_login),
        CASE(test_v2_container),
        CASE(test_v2_bind),
        CASE(test_not_shown),
        CASE(test_nothing_at_all),
        CASE(test_odd_mount_points),
        CASE(test_oom_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
