/* Results: exact bytes, the two forms of one object, cut output, and worst cases. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "tools/result.h"

static void put(struct buf *b, const void *bytes, size_t n)
{
    *b = (struct buf)BUF_INIT(16 * MIB);
    assert_int_equal(buf_append(b, bytes, n), 0);
}

static struct exec_stream whole(const char *text)
{
    struct exec_stream s = {.total = strlen(text)};
    put(&s.head, text, strlen(text));
    return s;
}

static struct exec_stream cut(const char *head, uint64_t omitted, const char *tail, const char *path,
                              bool complete)
{
    struct exec_stream s = {
        .total = strlen(head) + omitted + strlen(tail), .omitted = omitted, .path = xstrdup(path)};
    s.path_bytes = complete ? s.total : 67108864;
    put(&s.head, head, strlen(head));
    put(&s.tail, tail, strlen(tail));
    return s;
}

/* The reply's structured content, after both forms were found to be the same. A new reference. */
static json_t *check(const struct buf *reply, bool is_error)
{
    _cleanup_(buf_done) struct buf object = BUF_INIT(LIMIT_RESULT_BYTES + 2);
    struct error err = ERROR_INIT;
    assert_int_equal(buf_printf(&object, "{%s}", buf_str(reply)), 0);
    assert_int_equal(object.len, reply->len + 2); /* no NUL byte in it */
    assert_true(utf8_valid(object.data, object.len));
    _cleanup_(cleanup_json_decref) json_t *result = json_parse(object.data, object.len, &err);
    if (!result)
        fail_msg("%s", err.msg);
    assert_int_equal(json_is_true(json_object_get(result, "isError")), is_error);
    const json_t *block = json_array_get(json_object_get(result, "content"), 0);
    assert_string_equal(json_get_string(block, "type"), "text");
    const json_t *text = json_object_get(block, "text");
    _cleanup_(cleanup_json_decref) json_t *same =
        json_parse(json_string_value(text), json_string_length(text), &err);
    json_t *structured = json_object_get(result, "structuredContent");
    assert_true(json_equal(same, structured));
    return json_incref(structured);
}

static json_t *write_and_check(const struct exec_reply *reply)
{
    _cleanup_(buf_done) struct buf ret = BUF_INIT(LIMIT_RESULT_BYTES);
    struct error err = ERROR_INIT;
    if (result_write_exec(reply, &ret, &err) < 0)
        fail_msg("%s", err.msg);
    return check(&ret, false);
}

static void plain(void **state)
{
    _cleanup_(buf_done) struct buf ret = BUF_INIT(LIMIT_RESULT_BYTES);
    _cleanup_(exec_result_done) struct exec_result r = {
        .exit_code = 3, .duration_ns = 111400000, .out = whole("out\n"), .err = whole("é\"\n")};
    const struct exec_reply reply = {.result = &r, .computer_id = "calm-tiger-2c33", .temporary = true};
    assert_int_equal(result_write_exec(&reply, &ret, NULL), 0);
    assert_string_equal(
        buf_str(&ret),
        "\"content\":[{\"type\":\"text\",\"text\":\"{\\\"computer_id\\\":\\\"calm-tiger-2c33\\\","
        "\\\"temporary\\\":true,"
        "\\\"stdout\\\":\\\"out\\\\n\\\",\\\"stderr\\\":\\\"é\\\\\\\"\\\\n\\\",\\\"exit_code\\\":3,\\\"exec_"
        "duration_ms\\\":111}\"}],"
        "\"structuredContent\":{\"computer_id\":\"calm-tiger-2c33\",\"temporary\":true,\"stdout\":\"out\\n\","
        "\"stderr\":\"é\\\"\\n\",\"exit_code\":3,\"exec_duration_ms\":111},\"isError\":false");
    json_decref(check(&ret, false));
}

static void kilntainers_form(void **state)
{
    _cleanup_(exec_result_done) struct exec_result r = {.out = whole("a"), .err = whole("b")};
    const struct exec_reply reply = {.result = &r};
    _cleanup_(cleanup_json_decref) json_t *o = write_and_check(&reply);
    _cleanup_(cleanup_free) char *text = json_dumps(o, JSON_COMPACT);
    assert_string_equal(text, "{\"stdout\":\"a\",\"stderr\":\"b\",\"exit_code\":0,\"exec_duration_ms\":0}");
}

static void optional_members(void **state)
{
    _cleanup_(exec_result_done) struct exec_result r = {.exit_code = 137,
                                                        .signal = SIGKILL,
                                                        .oom_killed = true,
                                                        .disk_full = true,
                                                        .background = {7, 9},
                                                        .background_count = 2,
                                                        .background_more = true,
                                                        .note = xstrdup("a note"),
                                                        .out = whole(""),
                                                        .err = whole("")};
    _cleanup_(cleanup_json_decref) json_t *ignored = json_pack("[s]", "why");
    const struct exec_reply reply = {
        .result = &r, .computer_id = "a", .created = true, .limits = "512 MiB of memory", .ignored = ignored};
    _cleanup_(cleanup_json_decref) json_t *o = write_and_check(&reply);
    _cleanup_(cleanup_free) char *text = json_dumps(o, JSON_COMPACT);
    assert_string_equal(
        text,
        "{\"computer_id\":\"a\",\"temporary\":false,\"stdout\":\"\",\"stderr\":\"\",\"exit_code\":137,"
        "\"exec_duration_ms\":0,\"created\":true,\"signal\":\"SIGKILL\",\"oom_killed\":true,\"disk_full\":"
        "true,\"background\":["
        "7,9],"
        "\"background_more\":true,\"ignored_arguments\":[\"why\"],\"note\":\"a note; the memory limit of the "
        "computer ended a process (it has 512 MiB of memory)\"}");
}

static void timed_out(void **state)
{
    static const struct {
        const char *err, *expected;
        double timeout;
    } ROWS[] = {{"", "[kilntainers: command timed out after 30s]", 30},
                {"so far\n", "so far\n[kilntainers: command timed out after 0.5s]", 0.5},
                {"no end", "no end\n[kilntainers: command timed out after 1s]", 1}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        _cleanup_(exec_result_done) struct exec_result r = {.exit_code = 124,
                                                            .signal = SIGKILL,
                                                            .timed_out = true,
                                                            .out = whole("partial"),
                                                            .err = whole(ROWS[i].err)};
        struct exec_reply reply = {.result = &r, .timeout_s = ROWS[i].timeout};
        _cleanup_(cleanup_json_decref) json_t *o = write_and_check(&reply);
        assert_string_equal(json_get_string(o, "stdout"), "partial");
        assert_string_equal(json_get_string(o, "stderr"), ROWS[i].expected);
        assert_true(json_is_true(json_object_get(o, "timed_out")));
        assert_null(json_object_get(o, "signal")); /* ours, not the command's */
        reply.base64 = true;                       /* exact bytes: nothing is added */
        _cleanup_(cleanup_json_decref) json_t *exact = write_and_check(&reply);
        assert_int_equal(strlen(json_get_string(exact, "stderr")), (strlen(ROWS[i].err) + 2) / 3 * 4);
    }
}

static void cut_output(void **state)
{
    _cleanup_(exec_result_done) struct exec_result r = {.out =
                                                            cut("head", 12345678, "tail", "/var/tmp/x", true),
                                                        .err = cut("h", 70000000, "t", "/var/tmp/y", false)};
    const struct exec_reply reply = {.result = &r};
    _cleanup_(cleanup_json_decref) json_t *o = write_and_check(&reply);
    assert_string_equal(json_get_string(o, "stdout"),
                        "head\n[... 12345678 bytes omitted; the full output is in /var/tmp/x ...]\ntail");
    assert_string_equal(json_get_string(o, "stderr"),
                        "h\n[... 70000000 bytes omitted; more of it is in /var/tmp/y ...]\nt");
    _cleanup_(cleanup_free) char *truncated = json_dumps(json_object_get(o, "truncated"), JSON_COMPACT);
    assert_string_equal(
        truncated,
        "{\"stdout_bytes\":12345686,\"stdout_head_bytes\":4,\"stdout_omitted_bytes\":12345678,"
        "\"stdout_path\":\"/var/tmp/x\",\"stderr_bytes\":70000002,\"stderr_head_bytes\":1,"
        "\"stderr_omitted_bytes\":70000000,\"stderr_path\":\"/var/tmp/y\",\"stderr_path_bytes\":67108864}");
}

static void one_stream_is_cut(void **state)
{
    _cleanup_(exec_result_done) struct exec_result r = {.out = cut("a", 5, "b", NULL, false),
                                                        .err = whole("whole")};
    const struct exec_reply reply = {.result = &r};
    _cleanup_(cleanup_json_decref) json_t *o = write_and_check(&reply);
    assert_string_equal(json_get_string(o, "stdout"), "a\n[... 5 bytes omitted ...]\nb");
    assert_string_equal(json_get_string(o, "stderr"), "whole");
    assert_null(json_object_get(json_object_get(o, "truncated"), "stderr_bytes"));
}

/* The gap falls into a character on both sides: its pieces go, nothing is replaced. */
static void a_cut_splits_no_character(void **state)
{
    _cleanup_(exec_result_done) struct exec_result r = {.out = cut("é\xe2\x82", 10, "\xacü", NULL, false),
                                                        .err = whole("")};
    const struct exec_reply reply = {.result = &r};
    _cleanup_(cleanup_json_decref) json_t *o = write_and_check(&reply);
    assert_string_equal(json_get_string(o, "stdout"), "é\n[... 13 bytes omitted ...]\nü");
    assert_null(json_object_get(o, "invalid_utf8"));
    const json_t *truncated = json_object_get(o, "truncated");
    assert_int_equal(json_integer_value(json_object_get(truncated, "stdout_head_bytes")), 2);
    assert_int_equal(json_integer_value(json_object_get(truncated, "stdout_omitted_bytes")), 13);
}

static void b8_bytes_that_are_no_text(void **state)
{
    struct exec_result r = {.out = {.total = 5}, .err = whole("ok")};
    put(&r.out.head, "\xb0\xa1\xff\0x", 5);
    struct exec_reply reply = {.result = &r};
    _cleanup_(cleanup_json_decref) json_t *text = write_and_check(&reply);
    const json_t *out = json_object_get(text, "stdout");
    assert_int_equal(json_string_length(out), 3 * 3 + 2);
    assert_memory_equal(json_string_value(out), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\0x", 11);
    assert_int_equal(json_array_size(json_object_get(text, "invalid_utf8")), 1);
    assert_string_equal(json_string_value(json_array_get(json_object_get(text, "invalid_utf8"), 0)),
                        "stdout");

    reply.base64 = true;
    _cleanup_(cleanup_json_decref) json_t *exact = write_and_check(&reply);
    assert_string_equal(json_get_string(exact, "stdout"), "sKH/AHg=");
    assert_string_equal(json_get_string(exact, "stderr"), "b2s=");
    assert_string_equal(json_get_string(exact, "output_encoding"), "base64");
    assert_null(json_object_get(exact, "invalid_utf8"));
    exec_result_done(&r);
}

/* The gap is where it is said to be, in what is returned. */
static void a_cut_behind_bytes_that_are_no_text(void **state)
{
    _cleanup_(exec_result_done) struct exec_result r = {.out = cut("a\xff\xfe"
                                                                   "b",
                                                                   9, "\xff", NULL, false),
                                                        .err = whole("")};
    const struct exec_reply reply = {.result = &r};
    _cleanup_(cleanup_json_decref) json_t *o = write_and_check(&reply);
    const json_t *truncated = json_object_get(o, "truncated");
    const json_int_t head = json_integer_value(json_object_get(truncated, "stdout_head_bytes"));
    assert_string_equal(json_get_string(o, "stdout") + head, "\n[... 9 bytes omitted ...]\n\uFFFD");
    assert_int_equal(head, 8);
}

static void cut_base64_is_head_and_tail(void **state)
{
    _cleanup_(exec_result_done) struct exec_result r = {.out = cut("\xe2\x82", 100, "\xac", "/x", true),
                                                        .err = whole("")};
    const struct exec_reply reply = {.result = &r, .base64 = true};
    _cleanup_(cleanup_json_decref) json_t *o = write_and_check(&reply);
    assert_string_equal(json_get_string(o, "stdout"), "4oKs");
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(o, "truncated"), "stdout_head_bytes")), 2);
}

static void fill(struct exec_stream *s, const char *unit, size_t n)
{
    size_t len = strlen(unit) ? strlen(unit) : 1;
    s->head = (struct buf)BUF_INIT(16 * MIB);
    assert_int_equal(buf_reserve(&s->head, n), 0);
    for (size_t i = 0; i < n; i++)
        s->head.data[i] = unit[i % len];
    s->head.len = n;
    s->head.data[n] = '\0';
    s->total = n;
}

/* Control characters are the worst: thirteen bytes for one. What doesn't fit is cut until it does. */
static void worst_cases(void **state)
{
    static const struct {
        const char *unit; /* "": NUL */
        bool is_cut;
    } ROWS[] = {{"\x01", true}, {"", true}, {"\xff", false}, {"\"\\", false}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        const size_t size = 64 * KIB;
        _cleanup_(buf_done) struct buf ret = BUF_INIT(8 * size);
        _cleanup_(exec_result_done) struct exec_result r = {.err = whole("")};
        fill(&r.out, ROWS[i].unit, size);
        const struct exec_reply reply = {.result = &r};
        assert_int_equal(result_write_exec(&reply, &ret, NULL), 0);
        _cleanup_(cleanup_json_decref) json_t *o = check(&ret, false);
        const json_t *truncated = json_object_get(o, "truncated");
        assert_int_equal(truncated != NULL, ROWS[i].is_cut);
        if (ROWS[i].is_cut) {
            assert_int_equal(json_integer_value(json_object_get(truncated, "stdout_bytes")), size);
            assert_int_equal(json_integer_value(json_object_get(truncated, "stdout_omitted_bytes")),
                             size / 2);
        }
    }
}

static void the_default_limit_fits_whatever_the_bytes(void **state)
{
    _cleanup_(buf_done) struct buf ret = BUF_INIT(LIMIT_RESULT_BYTES);
    _cleanup_(exec_result_done) struct exec_result r = {.err = whole("")};
    fill(&r.out, "\x01", 2 * MIB);
    const struct exec_reply reply = {.result = &r};
    assert_int_equal(result_write_exec(&reply, &ret, NULL), 0);
    assert_true(ret.len > 13 * 2 * MIB); /* nothing was cut */
}

static void a_reply_that_fits_nowhere(void **state)
{
    _cleanup_(buf_done) struct buf ret = BUF_INIT(100);
    _cleanup_(exec_result_done) struct exec_result r = {.out = whole("out"), .err = whole("err")};
    const struct exec_reply reply = {.result = &r};
    struct error err = ERROR_INIT;
    assert_int_equal(buf_append_str(&ret, "before"), 0);
    assert_int_equal(result_write_exec(&reply, &ret, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_int_equal(ret.len, 6);
}

static void errors(void **state)
{
    _cleanup_(buf_done) struct buf ret = BUF_INIT(LIMIT_RESULT_BYTES);
    const struct error why = {.code = ERR_CWD_NOT_FOUND, .msg = "there is no \"/nope\""};
    assert_int_equal(result_write_error(&why, &ret, NULL), 0);
    _cleanup_(cleanup_json_decref) json_t *o = check(&ret, true);
    assert_string_equal(json_get_string(o, "error"), "there is no \"/nope\"");
    assert_string_equal(json_get_string(o, "code"), "cwd_not_found");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain),
        cmocka_unit_test(kilntainers_form),
        cmocka_unit_test(optional_members),
        cmocka_unit_test(timed_out),
        cmocka_unit_test(cut_output),
        cmocka_unit_test(one_stream_is_cut),
        cmocka_unit_test(a_cut_splits_no_character),
        cmocka_unit_test(b8_bytes_that_are_no_text),
        cmocka_unit_test(a_cut_behind_bytes_that_are_no_text),
        cmocka_unit_test(cut_base64_is_head_and_tail),
        cmocka_unit_test(worst_cases),
        cmocka_unit_test(the_default_limit_fits_whatever_the_bytes),
        cmocka_unit_test(a_reply_that_fits_nowhere),
        cmocka_unit_test(errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
