/* What a command finds in its environment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "backends/native/environment.h"

/* NUL-separated entries as lines. */
static const char *lines(struct buf *b)
{
    for (size_t i = 0; i < b->len; i++)
        if (b->data[i] == '\0')
            b->data[i] = '\n';
    return buf_str(b);
}

static void test_defaults(void **state)
{
    struct buf b = BUF_INIT(4096);
    uint32_t count;
    assert_int_equal(environment_append(&b, "steady-otter", NULL, NULL, NULL, &count, NULL), 0);
    assert_int_equal(count, 4);
    assert_string_equal(lines(&b), "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
                                   "LANG=C.UTF-8\nHOSTNAME=steady-otter\nHOME=/root\n");
    buf_done(&b);
}

static void test_home(void **state)
{
    struct buf b = BUF_INIT(4096);
    uint32_t count;
    char *const extra[] = {(char *)"TMPDIR=/x", (char *)"PATH=/bin", NULL};
    assert_int_equal(environment_append(&b, "h", "/s/c", NULL, NULL, &count, NULL), 0);
    assert_int_equal(count, 5);
    assert_non_null(strstr(lines(&b), "HOME=/s/c\nTMPDIR=/s/c/tmp\n"));
    buf_done(&b);
    b = (struct buf)BUF_INIT(4096);
    assert_int_equal(environment_append(&b, "h", "/s/c", NULL, extra, &count, NULL), 0);
    assert_string_equal(lines(&b), "LANG=C.UTF-8\nHOSTNAME=h\nHOME=/s/c\nTMPDIR=/x\nPATH=/bin\n");
    buf_done(&b);
}

static void test_later_wins(void **state)
{
    struct buf b = BUF_INIT(4096);
    uint32_t count;
    char *const extra[] = {(char *)"A=1",       (char *)"LANG=de_DE",     (char *)"AB=x=y", (char *)"A=2",
                           (char *)"PATH=/bin", (char *)"HOSTNAME=other", (char *)"EMPTY=", NULL};
    assert_int_equal(environment_append(&b, "h", NULL, NULL, extra, &count, NULL), 0);
    assert_int_equal(count, 7);
    assert_string_equal(lines(&b),
                        "HOME=/root\nLANG=de_DE\nAB=x=y\nA=2\nPATH=/bin\nHOSTNAME=other\nEMPTY=\n");
    buf_done(&b);
}

static void test_malformed(void **state)
{
    static const char *const wrong[] = {"NOVALUE", "=x", ""};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct buf b = BUF_INIT(4096);
        struct error err = ERROR_INIT;
        uint32_t count;
        char *const extra[] = {(char *)wrong[i], NULL};
        assert_int_equal(environment_append(&b, "h", NULL, NULL, extra, &count, &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
        buf_done(&b);
    }
}

static void test_too_large(void **state)
{
    struct buf b = BUF_INIT(100);
    struct error err = ERROR_INIT;
    uint32_t count;
    assert_int_equal(environment_append(&b, "h", NULL, NULL, NULL, &count, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),  cmocka_unit_test(test_home),      cmocka_unit_test(test_later_wins),
        cmocka_unit_test(test_malformed), cmocka_unit_test(test_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
