/* What a command's last packets come to, whoever has written them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <signal.h>
#include <string.h>
#include <cmocka.h>

#include "backends/wasm/verdict.h"
#include "base/utf8.h"

static const struct wasm backend = {.fuel = 77};

static int judge(uint32_t end, uint32_t code, const char *text, struct exec_result *ret, struct error *err)
{
    struct wasm_verdict v = {.tag = WASM_VERDICT, .end = end, .code = code};
    const struct wasm_over over = {.tag = WASM_OVER, .cpu_us = 5, .peak_bytes = 6};
    memcpy(v.text, text, strnlen(text, sizeof(v.text))); /* perhaps without a NUL */
    return wasm_verdict(&backend, &v, &over, ret, err);
}

static void exits(void **state)
{
    static const uint32_t CODES[][2] = {{0, 0}, {7, 7}, {255, 255}, {256, 0}, {0xffffffff, 255}};
    for (size_t i = 0; i < ARRAY_LEN(CODES); i++) {
        struct exec_result r = {0};
        assert_int_equal(judge(WASM_EXITED, CODES[i][0], "ignored", &r, NULL), 0);
        assert_int_equal(r.exit_code, CODES[i][1]);
        assert_int_equal(r.usage.cpu_us, 5);
        assert_int_equal(r.usage.peak_bytes, 6);
        assert_null(r.note);
        exec_result_done(&r);
    }
}

static void traps_and_fuel(void **state)
{
    struct exec_result r = {0};
    assert_int_equal(judge(WASM_TRAPPED, 9, "wasm trap: out of bounds", &r, NULL), 0);
    assert_int_equal(r.exit_code, 1);
    assert_string_equal(r.note, "wasm trap: out of bounds");
    exec_result_done(&r);
    r = (struct exec_result){0};
    assert_int_equal(judge(WASM_OUT_OF_FUEL, 0, "", &r, NULL), 0);
    assert_int_equal(r.exit_code, 124);
    assert_false(r.timed_out);
    assert_non_null(strstr(r.note, "77"));
    exec_result_done(&r);
}

static void refusals(void **state)
{
    static const struct {
        uint32_t end;
        enum error_code code;
    } ROWS[] = {{WASM_REFUSED, ERR_INVALID},
                {WASM_NO_ROOM, ERR_LIMIT},
                {1000, ERR_INVALID},
                {UINT32_MAX, ERR_INVALID}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct exec_result r = {0};
        struct error err = ERROR_INIT;
        assert_int_equal(judge(ROWS[i].end, 0, "the reason", &r, &err), -1);
        assert_int_equal(err.code, ROWS[i].code);
        assert_non_null(strstr(err.msg, "the reason"));
        exec_result_done(&r);
    }
}

static void a_text_of_any_bytes(void **state)
{
    struct exec_result r = {0};
    char text[sizeof(((struct wasm_verdict *)0)->text) + 1];
    memset(text, 0xff, sizeof(text));
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(judge(WASM_TRAPPED, 1, text, &r, NULL), 0);
    assert_true(utf8_valid(r.note, strlen(r.note)));
    exec_result_done(&r);
    r = (struct exec_result){0};
    assert_int_equal(judge(WASM_TRAPPED, 1, "", &r, NULL), 0);
    assert_true(strlen(r.note) > 0);
    exec_result_done(&r);
}

static void ends_without_a_word(void **state)
{
    static const uint32_t SIGNALS[][2] = {
        {SIGKILL, SIGKILL}, {SIGSYS, SIGSYS}, {64, 64}, {65, SIGKILL}, {UINT32_MAX, SIGKILL}};
    for (size_t i = 0; i < ARRAY_LEN(SIGNALS); i++) {
        struct exec_result r = {0};
        const struct wasm_over over = {.tag = WASM_OVER, .signal = SIGNALS[i][0]};
        assert_int_equal(wasm_verdict(&backend, NULL, &over, &r, NULL), 0);
        assert_int_equal(r.signal, SIGNALS[i][1]);
        assert_int_equal(r.exit_code, 128 + (int)SIGNALS[i][1]);
        exec_result_done(&r);
    }
    struct exec_result r = {0};
    struct error err = ERROR_INIT;
    const struct wasm_over over = {.tag = WASM_OVER, .code = 0};
    assert_int_equal(wasm_verdict(&backend, NULL, &over, &r, &err), -1);
    assert_int_equal(err.code, ERR_INTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exits),
        cmocka_unit_test(traps_and_fuel),
        cmocka_unit_test(refusals),
        cmocka_unit_test(a_text_of_any_bytes),
        cmocka_unit_test(ends_without_a_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
