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
    assert_int_equal(environment_append(&b, "steady-otter", NULL, &count, NULL), 0);
    assert_int_equal(count, 4);
    assert_string_equal(lines(&b), "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
                                   "HOME=/root\nLANG=C.UTF-8\nHOSTNAME=steady-otter\n");
    buf_done(&b);
}

static void test_later_wins(void **state)
{
    struct buf b = BUF_INIT(4096);
    uint32_t count;
    char *const extra[] = {(char *)"A=1",       (char *)"LANG=de_DE",     (char *)"AB=x=y", (char *)"A=2",
                           (char *)"PATH=/bin", (char *)"HOSTNAME=other", (char *)"EMPTY=", NULL};
    assert_int_equal(environment_append(&b, "h", extra, &count, NULL), 0);
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
        assert_int_equal(environment_append(&b, "h", extra, &count, &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
        buf_done(&b);
    }
}

static void test_too_large(void **state)
{
    struct buf b = BUF_INIT(100);
    struct error err = ERROR_INIT;
    uint32_t count;
    assert_int_equal(environment_append(&b, "h", NULL, &count, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_later_wins),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
