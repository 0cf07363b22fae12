/* Words for the tool's description. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "backends/native/describe.h"
#include "temporary.h"

static const struct disks no_cap = DISKS_NONE;

static void assert_environment(const char *os_release, const char *expected)
{
    temporary_file("etc/os-release", os_release);
    _cleanup_(cleanup_free) char *words = describe_environment(temporary);
    assert_string_equal(words, expected);
}

static void test_environment(void **state)
{
    assert_environment("NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n",
                       "an isolated Debian GNU/Linux 12 (bookworm) computer");
    assert_environment("PRETTY_NAME=Alpine\n", "an isolated Alpine computer");
    assert_environment("NOT_PRETTY_NAME=x\n", "an isolated Linux computer");
    assert_environment("PRETTY_NAME=\"\"\n", "an isolated Linux computer");
    assert_environment("PRETTY_NAME=\xff\n", "an isolated Linux computer");
    assert_environment("", "an isolated Linux computer");
}

static void test_limits(void **state)
{
    struct cgroup_values v = {512 << 20, 512, 1.0};
    _cleanup_(cleanup_free) char *words = describe_limits(&v, NULL, &no_cap);
    assert_string_equal(words, "512 MiB of memory, 512 processes, 1 CPU");
    v = (struct cgroup_values){2LL << 30, 100, 1.5};
    _cleanup_(cleanup_free) char *more = describe_limits(&v, NULL, &no_cap);
    assert_string_equal(more, "2 GiB of memory, 100 processes, 1.5 CPUs");

    struct cgroups held = {
        .places = {{.version = 1}, {.version = 0, .why = (char *)"it is read-only"}, {.version = 2}}};
    _cleanup_(cleanup_free) char *partly = describe_limits(&v, &held, &no_cap);
    assert_string_equal(partly, "2 GiB of memory, 100 processes (not enforced: it is read-only), 1.5 CPUs");
    held.places[CGROUP_PIDS].weaker = "for each of its users";
    _cleanup_(cleanup_free) char *weaker = describe_limits(&v, &held, &no_cap);
    assert_string_equal(weaker,
                        "2 GiB of memory, 100 processes (for each of its users: it is read-only), 1.5 CPUs");
}

static void test_disk_limit(void **state)
{
    struct cgroup_values v = {512 << 20, 512, 1.0};
    struct disks disks = {.way = DISK_IMAGE, .limit.bytes = 3LL << 30};
    _cleanup_(cleanup_free) char *large = describe_limits(&v, NULL, &disks);
    assert_string_equal(large, "512 MiB of memory, 512 processes, 1 CPU, 3 GiB of disk");
    disks.limit.bytes = 96 << 20;
    _cleanup_(cleanup_free) char *held = describe_limits(&v, NULL, &disks);
    assert_string_equal(held, "512 MiB of memory, 512 processes, 1 CPU, 96 MiB of disk");
    disks = (struct disks){.way = DISK_WATCHED, .limit.bytes = 96 << 20, .why = "there are no loop devices"};
    _cleanup_(cleanup_free) char *watched = describe_limits(&v, NULL, &disks);
    assert_string_equal(watched, "512 MiB of memory, 512 processes, 1 CPU, 96 MiB of disk "
                                 "(watched while commands run, not enforced: there are no loop devices)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_environment, temporary_make, temporary_remove),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_disk_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
