/* Why there are no user namespaces, told from files like those of /proc; and who has which ids to give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "backends/native/rung.h"
#include "backends/native/subids.h"
#include "temporary.h"

static void assert_told(const char *words)
{
    struct error err = ERROR_INIT;
    error_set(&err, ERR_DENIED, "write uid_map: Operation not permitted");
    assert_int_equal(rung_refused(temporary, &err), -1);
    assert_int_equal(err.code, ERR_DENIED);
    if (!strstr(err.msg, words))
        print_error("%s\n", err.msg);
    assert_non_null(strstr(err.msg, words));
}

static void test_unknown_reason(void **state)
{
    temporary_file("self/status", "Name:\tx\nSeccomp:\t0\n");
    assert_told("write uid_map: Operation not permitted");
    assert_int_equal(rung_check(temporary, false, NULL), 0);
}

static void test_none_allowed(void **state)
{
    temporary_file("sys/user/max_user_namespaces", "0\n");
    assert_told("sysctl -w user.max_user_namespaces=");
    assert_int_equal(rung_check(temporary, false, NULL), -1);
    assert_int_equal(rung_check(temporary, true, NULL), -1);
}

static void test_kept_for_root(void **state)
{
    temporary_file("sys/user/max_user_namespaces", "1000\n");
    temporary_file("sys/kernel/unprivileged_userns_clone", "0\n");
    assert_told("sysctl -w kernel.unprivileged_userns_clone=1");
    assert_int_equal(rung_check(temporary, false, NULL), -1);
    assert_int_equal(rung_check(temporary, true, NULL), 0);
}

/* A profile may allow it all the same, so it is tried. The message is whole: its end is there. */
static void b42_apparmor(void **state)
{
    temporary_file("sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
    assert_told("/etc/apparmor.d/");
    assert_told("kernel.apparmor_restrict_unprivileged_userns=0`");
    assert_told("--allow-weak-isolation");
    assert_int_equal(rung_check(temporary, false, NULL), 0);
}

static void test_container(void **state)
{
    temporary_file("self/status", "Name:\tx\nSeccomp:\t2\n");
    assert_told("--security-opt seccomp=unconfined");
}

static void test_words(void **state)
{
    for (enum rung rung = RUNG_ROOT; rung < RUNGS; rung++)
        assert_true(strlen(rung_name(rung)) > 0);
    assert_non_null(strstr(rung_words(RUNG_WEAK), "weak"));
    assert_null(rung_words(RUNG_ROOT));
}

/* Two processes of ours, with three threads and one; what belongs to others doesn't count. */
static void test_processes_before(void **state)
{
    temporary_file("10/task/10/x", "");
    temporary_file("10/task/11/x", "");
    temporary_file("10/task/12/x", "");
    temporary_file("20/task/20/x", "");
    temporary_file("self/task/1/x", "");
    const uint32_t expected = geteuid() == 0 ? 0 : 4; /* root gives each computer a user of its own */
    assert_int_equal(rung_processes_before(RUNG_WEAK, temporary), expected);
    assert_int_equal(rung_processes_before(RUNG_ONE_ID, temporary), 0);
}

static uint32_t read_ids(const char *text, uint32_t *ret_first)
{
    temporary_file("subuid", text);
    _cleanup_(cleanup_free) char *path = temporary_path("subuid");
    return subids_read(path, "anna", 1000, ret_first);
}

static void test_subids(void **state)
{
    uint32_t first = 0;
    assert_int_equal(read_ids("bert:100000:65536\nanna:165536:65536\n", &first), 65536);
    assert_int_equal(first, 165536);
    assert_int_equal(read_ids("1000:300000:2000\nanna:400000:1000\n", &first), 2000);
    assert_int_equal(first, 300000);
    assert_int_equal(read_ids("anna:1:5", &first), 5); /* without a line's end */
    assert_int_equal(read_ids("", &first), 0);
    assert_int_equal(read_ids("bert:100000:65536\n", &first), 0);
    assert_int_equal(read_ids("anna\nanna:\nanna:5\nanna:x:5\nanna:5:x\n:::\n\n", &first), 0);
    assert_int_equal(read_ids("anna:0:5\nanna:5:-5\nanna:4294967290:100\n", &first), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_unknown_reason, temporary_make, temporary_remove),
        cmocka_unit_test_setup_teardown(test_none_allowed, temporary_make, temporary_remove),
        cmocka_unit_test_setup_teardown(test_kept_for_root, temporary_make, temporary_remove),
        cmocka_unit_test_setup_teardown(b42_apparmor, temporary_make, temporary_remove),
        cmocka_unit_test_setup_teardown(test_container, temporary_make, temporary_remove),
        cmocka_unit_test_setup_teardown(test_words, temporary_make, temporary_remove),
        cmocka_unit_test_setup_teardown(test_processes_before, temporary_make, temporary_remove),
        cmocka_unit_test_setup_teardown(test_subids, temporary_make, temporary_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
