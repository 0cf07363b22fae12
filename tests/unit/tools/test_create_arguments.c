/* Arguments of computer_create: what the flags take is taken, anything else is refused in words that are true
 * of it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>

#include "base/json.h"
#include "base/macros.h"
#include "tools/create_arguments.h"

static const struct toolset TOOLS = {
    .backend = "fake",
    .options = COMPUTER_CPUS | COMPUTER_MEMORY | COMPUTER_PIDS | COMPUTER_DISK | COMPUTER_ENV,
};

static int read_text(const char *text, struct create_arguments *ret, struct error *err)
{
    struct error why = ERROR_INIT;
    json_t *arguments = json_parse(text, strlen(text), &why);
    if (!arguments)
        fail_msg("the test's own JSON: %s: %s", text, why.msg);
    int r = create_arguments_read(&TOOLS, arguments, ret, err);
    json_decref(arguments);
    return r;
}

static void refused(void **state)
{
    static const struct {
        const char *text, *words;
    } ROWS[] = {
        {"{\"pids\":1}", "'pids' is 1, and must be from 4 to 4194304"},
        {"{\"pids\":3}", "'pids' is 3, and must be from 4 to 4194304"},
        {"{\"pids\":1099511627776}", "'pids' is 1099511627776, and"},
        {"{\"cpu\":0.001}", "'cpu' is 0.001, and must be from 0.01 to 1024 CPUs"},
        {"{\"memory\":1}", "'memory' is 1, and must be from 4m (4194304) to 64t"},
        {"{\"memory\":4194304.5}", "'memory' is 4194304.5, and must be from 4m (4194304) to 64t: give whole"},
        {"{\"memory\":\"4194304.5\"}", "give whole bytes"},
        {"{\"memory\":9223372036854775808}", "'memory' is 9223372036854775808, and must be from"},
        {"{\"memory\":\"99999999g\"}", "'memory' is 99999999g, and must be from 4m (4194304) to 64t"},
        {"{\"memory\":\"lots\"}", "'memory' is lots, and must be"},
        {"{\"memory\":true}", "'memory' must be a string, and is a boolean"},
        {"{\"disk\":\"99999g\"}", "'disk' is 99999g, and must be from 16m (16777216) to 1t"},
        {"{\"disk\":\"15m\"}", "'disk' is 15m, and must be from 16m (16777216) to 1t"},
        {"{\"ttl\":1e18}", "'ttl' is 1000000000000000000, and must be from 1 to 31536000 seconds"},
        {"{\"env\":{\"A\\n\":\"x\"}}", "a name with a control character"},
        {"{\"env\":{\"A\\u007f\":\"x\"}}", "a name with a control character"},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct create_arguments a;
        struct error err = ERROR_INIT;
        assert_int_equal(read_text(ROWS[i].text, &a, &err), -1);
        create_arguments_done(&a);
        assert_int_equal(err.code, ERR_INVALID);
        if (!strstr(err.msg, ROWS[i].words))
            fail_msg("%s: %s", ROWS[i].text, err.msg);
    }
}

/* What the computer's record couldn't hold is told before anything is made. */
static void an_environment_that_is_too_long_to_keep(void **state)
{
    static const struct {
        const char *unit; /* of the JSON text of one variable's value */
        size_t count;
        bool fits;
    } ROWS[] = {
        {"x", LIMIT_KEPT_ENV_BYTES - 8, true},
        {"x", LIMIT_KEPT_ENV_BYTES - 7, false},
        {"x", 100 * KIB, false},
        {"\\u0001", LIMIT_KEPT_ENV_BYTES / 6, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        _cleanup_(buf_done) struct buf text = BUF_INIT(1 * MIB);
        struct create_arguments a;
        struct error err = ERROR_INIT;
        assert_int_equal(buf_append_str(&text, "{\"env\":{\"A\":\""), 0);
        for (size_t n = 0; n < ROWS[i].count; n++)
            assert_int_equal(buf_append_str(&text, ROWS[i].unit), 0);
        assert_int_equal(buf_append_str(&text, "\"}}"), 0);
        assert_int_equal(read_text(text.data, &a, &err), ROWS[i].fits ? 0 : -1);
        create_arguments_done(&a);
        if (!ROWS[i].fits)
            assert_non_null(strstr(err.msg, "49152 are the maximum of what a computer keeps"));
    }
}

static void taken(void **state)
{
    static const struct {
        const char *text;
        struct computer_options options;
    } ROWS[] = {
        {"{\"pids\":4}", {.pids = 4}},
        {"{\"pids\":4194304}", {.pids = 4194304}},
        {"{\"memory\":4194304}", {.memory_bytes = 4194304}},
        {"{\"memory\":4194304.0}", {.memory_bytes = 4194304}},
        {"{\"memory\":\"64t\"}", {.memory_bytes = 64LL << 40}},
        {"{\"memory\":\"1.5g\"}", {.memory_bytes = 3LL << 29}},
        {"{\"disk\":\"1t\"}", {.disk_bytes = 1LL << 40}},
        {"{\"disk\":16777216}", {.disk_bytes = 16777216}},
        {"{\"env\":{\"A B\":\"x\\n\"}}", {0}},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct create_arguments a;
        struct error err = ERROR_INIT;
        if (read_text(ROWS[i].text, &a, &err) < 0)
            fail_msg("%s: %s", ROWS[i].text, err.msg);
        assert_int_equal(a.options.pids, ROWS[i].options.pids);
        assert_int_equal(a.options.memory_bytes, ROWS[i].options.memory_bytes);
        assert_int_equal(a.options.disk_bytes, ROWS[i].options.disk_bytes);
        create_arguments_done(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused),
        cmocka_unit_test(an_environment_that_is_too_long_to_keep),
        cmocka_unit_test(taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
