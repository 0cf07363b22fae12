/* The checks on what the server sends, as bytes alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "base/macros.h"
#include "guest/request.h"

static bool parse(const char *body, size_t size, uint32_t argc, uint32_t envc, struct request_exec *ret)
{
    static char copy[256];
    const struct guest_exec exec = {.argc = argc, .envc = envc, .body_bytes = (uint32_t)size};
    memcpy(copy, body, size);
    return request_exec_parse(&exec, copy, size, ret);
}

static void test_a_body_is_cut_into_its_strings(void **state)
{
    static const char body[] = "/tmp\0cat\0-n\0A=1"; /* with its last NUL */
    struct request_exec exec;
    assert_true(parse(body, sizeof(body), 2, 1, &exec));
    assert_string_equal(exec.cwd, "/tmp");
    assert_string_equal(exec.argv[0], "cat");
    assert_string_equal(exec.argv[1], "-n");
    assert_null(exec.argv[2]);
    assert_string_equal(exec.envp[0], "A=1");
    assert_null(exec.envp[1]);
}

static void test_counts_that_do_not_fit_are_refused(void **state)
{
    static const char body[] = "/\0true\0A=1";
    struct request_exec exec;
    assert_false(parse(body, sizeof(body), 0, 2, &exec));
    assert_false(parse(body, sizeof(body), 1, 0, &exec));
    assert_false(parse(body, sizeof(body), 1, 2, &exec));
    assert_false(parse(body, sizeof(body) - 1, 1, 1, &exec));
    assert_false(parse(body, 0, 1, 0, &exec));
    assert_false(parse(body, sizeof(body), UINT32_MAX, 1, &exec));
    assert_false(parse(body, sizeof(body), 1, UINT32_MAX, &exec));
    assert_true(parse(body, sizeof(body), 1, 1, &exec));
}

static void test_a_packet_is_as_long_as_its_type_says(void **state)
{
    static const struct {
        uint32_t type;
        size_t size;
    } types[] = {
        {GUEST_SETUP, sizeof(struct guest_setup)},   {GUEST_CREATE, sizeof(struct guest_create)},
        {GUEST_KILL, sizeof(struct guest_kill)},     {GUEST_NAME, sizeof(struct guest_name)},
        {GUEST_OWN, sizeof(struct guest_own)},       {GUEST_KEEP, sizeof(struct guest_keep)},
        {GUEST_ATTACH, sizeof(struct guest_attach)}, {GUEST_LEAVE, sizeof(struct guest_leave)},
    };
    static union {
        uint32_t type;
        char bytes[sizeof(struct guest_setup) + 1];
    } packet;
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        packet.type = types[i].type;
        assert_int_equal(request_type(&packet, types[i].size), types[i].type);
        assert_int_equal(request_type(&packet, types[i].size - 1), 0);
        assert_int_equal(request_type(&packet, types[i].size + 1), 0);
    }
    packet.type = GUEST_EXEC;
    assert_int_equal(request_type(&packet, sizeof(struct guest_exec) + 1), GUEST_EXEC);
    assert_int_equal(request_type(&packet, sizeof(struct guest_exec) - 1), 0);
    packet.type = 99;
    assert_int_equal(request_type(&packet, sizeof(packet)), 0);
    packet.type = GUEST_READY; /* ours to send, not to get */
    assert_int_equal(request_type(&packet, sizeof(struct guest_ready)), 0);
    assert_int_equal(request_type(&packet, 3), 0);
}

static void test_a_path_is_absolute_and_ends(void **state)
{
    struct guest_open open = {.type = GUEST_OPEN, .path = "/tmp/x"};
    assert_int_equal(request_type(&open, sizeof(open)), GUEST_OPEN);
    open.path[0] = 't';
    assert_int_equal(request_type(&open, sizeof(open)), 0);
    memset(open.path, '/', sizeof(open.path));
    assert_int_equal(request_type(&open, sizeof(open)), 0);
}

static void test_a_create_must_be_in_order(void **state)
{
    const struct guest_create good = {
        .type = GUEST_CREATE, .id_base = 100000, .id_count = 65536, .hostname = "h", .folder = "p/c"};
    assert_true(request_create_ok(&good, 1));
    assert_false(request_create_ok(&good, 0));
    assert_false(request_create_ok(&good, 2));
    struct guest_create bad = good;
    bad.flags = GUEST_HAS_CGROUP2;
    assert_false(request_create_ok(&bad, 1));
    assert_true(request_create_ok(&bad, 2));
    bad = good;
    bad.id_base = 0; /* the zygote's root: alone, if at all */
    assert_false(request_create_ok(&bad, 1));
    bad.id_count = 1;
    assert_true(request_create_ok(&bad, 1));
    bad = good;
    bad.id_base = UINT32_MAX - 10;
    assert_false(request_create_ok(&bad, 1));
    bad = good;
    memset(bad.hostname, 'h', sizeof(bad.hostname));
    assert_false(request_create_ok(&bad, 1));
    bad = good;
    bad.folder[0] = '/';
    assert_false(request_create_ok(&bad, 1));
}

static void test_who_outlives_the_server_has_a_lock_and_a_group(void **state)
{
    const struct guest_create good = {.type = GUEST_CREATE,
                                      .flags = GUEST_KEPT,
                                      .id_base = 100000,
                                      .id_count = 65536,
                                      .hostname = "h",
                                      .folder = "p/c",
                                      .group = "sandbox-1"};
    assert_true(request_create_ok(&good, 2));
    assert_false(request_create_ok(&good, 1));
    struct guest_create bad = good;
    bad.flags |= GUEST_HAS_CGROUP2;
    assert_false(request_create_ok(&bad, 2));
    assert_true(request_create_ok(&bad, 3));
    static const char *const names[] = {"", "a/b", "/"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        bad = good;
        strcpy(bad.group, names[i]);
        assert_false(request_create_ok(&bad, 2));
    }
    bad = good;
    memset(bad.group, 'g', sizeof(bad.group));
    assert_false(request_create_ok(&bad, 2));
}

static void test_a_change_of_owners_must_be_in_order(void **state)
{
    const struct guest_own good = {.type = GUEST_OWN, .id = 1, .folder = "p/c"};
    assert_true(request_own_ok(&good, 0));
    assert_false(request_own_ok(&good, 1));
    struct guest_own bad = good;
    bad.folder[0] = '\0';
    assert_false(request_own_ok(&bad, 0));
    bad.folder[0] = '/';
    assert_false(request_own_ok(&bad, 0));
    memset(bad.folder, 'f', sizeof(bad.folder));
    assert_false(request_own_ok(&bad, 0));
}

static void test_a_name_must_be_in_order(void **state)
{
    const struct guest_name good = {.type = GUEST_NAME, .pid = 2, .hostname = "h"};
    assert_true(request_name_ok(&good, 0));
    assert_true(request_name_ok(&good, 1)); /* with its lock */
    assert_false(request_name_ok(&good, 2));
    struct guest_name bad = good;
    bad.hostname[0] = '\0';
    assert_false(request_name_ok(&bad, 0));
    bad = good;
    memset(bad.hostname, 'h', sizeof(bad.hostname));
    assert_false(request_name_ok(&bad, 0));
    for (int pid = -2; pid < 2; pid++) {
        bad = good;
        bad.pid = pid;
        assert_false(request_name_ok(&bad, 0));
    }
}

static void test_descriptors_are_where_the_flags_say(void **state)
{
    struct request_fds fds;
    assert_true(request_exec_fds(0, &fds));
    assert_int_equal(fds.count, 3);
    assert_int_equal(fds.in, -1);
    assert_int_equal(fds.status, 2);
    const uint32_t all = GUEST_EXEC_STDIN | GUEST_EXEC_SCOPE | GUEST_EXEC_BODY | GUEST_EXEC_SCRIPT;
    assert_true(request_exec_fds(all, &fds));
    assert_int_equal(fds.count, 7);
    assert_int_equal(fds.in, 0);
    assert_int_equal(fds.status, 3);
    assert_int_equal(fds.scope, 4);
    assert_int_equal(fds.body, 5);
    assert_int_equal(fds.script, 6);
    assert_false(request_exec_fds(GUEST_EXEC_SCOPE | GUEST_EXEC_SCOPE_DIR, &fds));
    assert_int_equal(fds.status, 2);
}

/* --- what comes with the start --- */

static ssize_t early(const char *letters, char ret[64])
{
    memset(ret, 0, 64);
    memcpy(ret, letters, strlen(letters));
    return request_early(ret, strlen(letters));
}

static void test_what_comes_with_the_start_is_base64(void **state)
{
    static const struct {
        const char *letters;
        ssize_t size;
        const char *bytes;
    } cases[] = {
        {"QQ==", 1, "A"},
        {"QUI=", 2, "AB"},
        {"QUJD", 3, "ABC"},
        {"QUJDRA==", 4, "ABCD"},
        {"+/+/", 3, "\xfb\xff\xbf"},
        {"AAAA", 3, "\0\0"},
        {"", -1},
        {"Q", -1},
        {"QQ", -1},
        {"QQ=", -1},
        {"====", -1},
        {"Q===", -1},
        {"=QQQ", -1},
        {"Q=Q=", -1},
        {"QUI=QUI=", -1},
        {"QU-_", -1},
        {"QUJ\n", -1},
        {" QUJ", -1},
        {"QUJ\x80", -1},
        {"QUJDR", -1},
    };
    char text[64];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(early(cases[i].letters, text), cases[i].size);
        if (cases[i].size > 0)
            assert_memory_equal(text, cases[i].bytes, (size_t)cases[i].size);
    }
    static char long_text[SERVE_EARLY_MAX + 4];
    memset(long_text, 'A', sizeof(long_text));
    assert_int_equal(request_early(long_text, SERVE_EARLY_MAX), SERVE_EARLY_MAX / 4 * 3);
    memset(long_text, 'A', sizeof(long_text));
    assert_int_equal(request_early(long_text, SERVE_EARLY_MAX + 4), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_body_is_cut_into_its_strings),
        cmocka_unit_test(test_counts_that_do_not_fit_are_refused),
        cmocka_unit_test(test_a_packet_is_as_long_as_its_type_says),
        cmocka_unit_test(test_a_path_is_absolute_and_ends),
        cmocka_unit_test(test_a_create_must_be_in_order),
        cmocka_unit_test(test_who_outlives_the_server_has_a_lock_and_a_group),
        cmocka_unit_test(test_a_name_must_be_in_order),
        cmocka_unit_test(test_a_change_of_owners_must_be_in_order),
        cmocka_unit_test(test_descriptors_are_where_the_flags_say),
        cmocka_unit_test(test_what_comes_with_the_start_is_base64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
