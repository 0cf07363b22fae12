/* The JSON writer: what it writes is what jansson reads back, plain and as a text inside a string. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/macros.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/utf8.h"
#include "tests/unit/base/check.h"

static void write_all_kinds(struct json_writer *w)
{
    jw_begin_object(w);
    jw_key(w, "empty");
    jw_begin_object(w);
    jw_end_object(w);
    jw_key(w, "list");
    jw_begin_array(w);
    jw_integer(w, 1);
    jw_begin_array(w);
    jw_end_array(w);
    jw_bool(w, true);
    jw_bool(w, false);
    jw_null(w);
    jw_string(w, "x");
    jw_base64(w, "foob", 4);
    jw_raw(w, "{ }", 3);
    jw_real(w, 0.5);
    jw_end_array(w);
    jw_key(w, "last");
    jw_integer(w, INT64_MIN);
    jw_end_object(w);
}

static void structure_gets_its_commas(void **state)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT(1000);
    struct json_writer w, counting;
    jw_init(&w, &b);
    write_all_kinds(&w);
    assert_false(w.failed);
    assert_string_equal(buf_str(&b),
                        "{\"empty\":{},\"list\":[1,[],true,false,null,\"x\",\"Zm9vYg==\",{ },0.5],"
                        "\"last\":-9223372036854775808}");
    jw_init(&counting, NULL);
    write_all_kinds(&counting);
    assert_int_equal(counting.counted, b.len);
}

static void text_inside_a_string_is_escaped_once_more(void **state)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT(1000);
    struct json_writer w;
    jw_init(&w, &b);
    jw_begin_object(&w);
    jw_key(&w, "text");
    jw_begin_text(&w);
    jw_begin_object(&w);
    jw_key(&w, "a");
    jw_string(&w, "q\"b\\n\n\x01");
    jw_key(&w, "raw");
    jw_raw(&w, "{\"x\":\n\"\\\\\"}", 11);
    jw_end_object(&w);
    jw_end_text(&w);
    jw_key(&w, "after");
    jw_string(&w, "\"");
    jw_end_object(&w);
    assert_false(w.failed);
    assert_string_equal(buf_str(&b),
                        "{\"text\":\"{\\\"a\\\":\\\"q\\\\\\\"b\\\\\\\\n\\\\n\\\\u0001\\\",\\\"raw\\\":"
                        "{\\\"x\\\":\\n\\\"\\\\\\\\\\\"}}\",\"after\":\"\\\"\"}");
}

static void escapes_are_the_short_ones(void **state)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT(1000);
    struct json_writer w;
    jw_init(&w, &b);
    jw_string_n(&w, "\b\t\n\f\r\"\\/\x00\x1F\x7F\xE2\x80\xA8\xC3\xA9\xFF", 17);
    assert_string_equal(buf_str(&b),
                        "\"\\b\\t\\n\\f\\r\\\"\\\\/\\u0000\\u001f\x7F\xE2\x80\xA8\xC3\xA9\xEF\xBF\xBD\"");
}

static void write_string(struct json_writer *w, const void *bytes, size_t n, bool inside)
{
    if (inside)
        jw_begin_text(w);
    jw_string_n(w, bytes, n);
    if (inside)
        jw_end_text(w);
}

/* Writes the bytes as a string, plain or as a text within a text, and gives what a parser reads back. */
static json_t *round_trip(const void *bytes, size_t n, bool inside)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT(64 * MIB);
    struct json_writer w, counting;
    struct error err = ERROR_INIT;
    jw_init(&w, &b);
    write_string(&w, bytes, n, inside);
    assert_false(w.failed);
    jw_init(&counting, NULL);
    write_string(&counting, bytes, n, inside);
    assert_int_equal(counting.counted, b.len);
    json_t *value = json_parse(b.data, b.len, &err);
    if (!value)
        fail_msg("%s", err.msg);
    if (!inside)
        return value;
    json_t *inner = json_parse(json_string_value(value), json_string_length(value), &err);
    if (!inner)
        fail_msg("inner: %s", err.msg);
    json_decref(value);
    return inner;
}

static void check_round_trip(const void *bytes, size_t n)
{
    _cleanup_(buf_done) struct buf wanted = BUF_INIT(64 * MIB);
    assert_int_equal(utf8_append_lossy(&wanted, bytes, n), 0);
    for (int inside = 0; inside < 2; inside++) {
        _cleanup_(cleanup_json_decref) json_t *value = round_trip(bytes, n, inside);
        assert_int_equal(json_string_length(value), wanted.len);
        assert_memory_equal(json_string_value(value), buf_str(&wanted), wanted.len);
    }
}

static void any_bytes_read_back_as_their_lossy_text(void **state)
{
    unsigned char bytes[2000];
    for (size_t c = 0; c < 256; c++) {
        const unsigned char around[] = {'a', (unsigned char)c, 'b', (unsigned char)c};
        check_round_trip(around, sizeof(around));
        for (size_t at = 0; at < 9; at++) { /* plain bytes are looked at by eights */
            memcpy(bytes, "abcdefghijklmnopq", 17);
            bytes[at] = (unsigned char)c;
            check_round_trip(bytes, 17);
        }
    }
    for (int i = 0; i < 200; i++) {
        random_bytes(bytes, sizeof(bytes));
        /* some runs from few letters, so that characters, escapes and fragments meet */
        for (size_t j = 0; i % 2 && j < sizeof(bytes); j++)
            bytes[j] = (unsigned char)"ab\"\\\n\x01\xF0\x9F\x98\x80\xC3\xA9\xE2\x82"[bytes[j] % 14];
        check_round_trip(bytes, random_below(sizeof(bytes)));
    }
}

static void megabytes_of_the_worst_are_fine(void **state)
{
    size_t n = 2 * MIB;
    _cleanup_(cleanup_free) char *bytes = xmalloc(n);
    memset(bytes, 0x01, n);
    check_round_trip(bytes, n);
    memset(bytes, 'a', n);
    check_round_trip(bytes, n);
    memset(bytes, '\\', n);
    check_round_trip(bytes, n);
}

static void reals_are_short_and_exact(void **state)
{
    static const struct {
        double value;
        const char *text;
    } known[] = {
        {0.1, "0.1"}, {1.0, "1"}, {-2.5, "-2.5"}, {1e21, "1e+21"}, {0.1 + 0.2, "0.30000000000000004"},
        {NAN, "null"}};
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        _cleanup_(buf_done) struct buf b = BUF_INIT(100);
        struct json_writer w;
        jw_init(&w, &b);
        jw_real(&w, known[i].value);
        assert_string_equal(buf_str(&b), known[i].text);
    }
    static const double values[] = {DBL_MAX, DBL_MIN, DBL_EPSILON, 1.0 / 3, 5e-324, 123456789.123456789};
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        _cleanup_(buf_done) struct buf b = BUF_INIT(100);
        struct json_writer w;
        jw_init(&w, &b);
        jw_real(&w, values[i]);
        double back = strtod(buf_str(&b), NULL);
        assert_memory_equal(&back, &values[i], sizeof(back));
    }
}

static void failure_stays_and_nothing_follows(void **state)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT(10);
    struct json_writer w;
    jw_init(&w, &b);
    jw_begin_array(&w);
    jw_string(&w, "0123456789");
    assert_true(w.failed);
    size_t len = b.len;
    jw_integer(&w, 1);
    jw_base64(&w, "x", 1);
    jw_end_array(&w);
    assert_int_equal(b.len, len);
    assert_true(b.len <= 10);
}

static void nesting_is_limited(void **state)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT(10000);
    struct json_writer w;
    jw_init(&w, &b);
    for (int i = 0; i < JSON_WRITER_DEPTH - 1; i++)
        jw_begin_array(&w);
    assert_false(w.failed);
    jw_begin_array(&w);
    assert_true(w.failed);
    for (int i = 0; i < 2 * JSON_WRITER_DEPTH; i++)
        jw_end_array(&w);
}

static void parsed_values_are_written_at_any_allowed_depth(void **state)
{
    char text[2 * LIMIT_JSON_DEPTH + 1];
    memset(text, '[', LIMIT_JSON_DEPTH);
    memset(text + LIMIT_JSON_DEPTH, ']', LIMIT_JSON_DEPTH);
    text[2 * LIMIT_JSON_DEPTH] = '\0';
    _cleanup_(cleanup_json_decref) json_t *value = json_parse(text, strlen(text), NULL);
    _cleanup_(buf_done) struct buf b = BUF_INIT(1000);
    struct json_writer w;
    jw_init(&w, &b);
    jw_begin_object(&w);
    jw_key(&w, "v");
    jw_value(&w, value);
    jw_key(&w, "w");
    jw_begin_text(&w);
    jw_value(&w, value);
    jw_end_text(&w);
    jw_end_object(&w);
    assert_false(w.failed);
    _cleanup_(cleanup_json_decref) json_t *back = json_loadb(b.data, b.len, 0, NULL);
    assert_true(json_equal(json_object_get(back, "v"), value));
    assert_string_equal(json_get_string(back, "w"), text);
}

/* Escapes and what stands between them are gathered, up to a certain length. */
static void runs_of_every_length_read_back(void **state)
{
    enum { LENGTH = 3000 };
    for (size_t run = 0; run < 600; run++) {
        _cleanup_(buf_done) struct buf b = BUF_INIT(100000);
        char text[LENGTH + 1];
        struct json_writer w;
        for (size_t i = 0; i < LENGTH; i++)
            text[i] = (i % (run + 2) == run) ? '"' : (i % (run + 2) > run) ? '\x01' : 'x';
        text[LENGTH] = '\0';
        jw_init(&w, &b);
        jw_begin_array(&w);
        jw_string(&w, text);
        jw_begin_text(&w);
        jw_begin_array(&w);
        jw_string(&w, text);
        jw_end_array(&w);
        jw_end_text(&w);
        jw_end_array(&w);
        assert_false(w.failed);
        _cleanup_(cleanup_json_decref) json_t *back = json_loadb(b.data, b.len, 0, NULL);
        assert_string_equal(json_string_value(json_array_get(back, 0)), text);
        _cleanup_(cleanup_json_decref) json_t *inner =
            json_loads(json_string_value(json_array_get(back, 1)), 0, NULL);
        assert_string_equal(json_string_value(json_array_get(inner, 0)), text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structure_gets_its_commas),
        cmocka_unit_test(text_inside_a_string_is_escaped_once_more),
        cmocka_unit_test(escapes_are_the_short_ones),
        cmocka_unit_test(any_bytes_read_back_as_their_lossy_text),
        cmocka_unit_test(runs_of_every_length_read_back),
        cmocka_unit_test(megabytes_of_the_worst_are_fine),
        cmocka_unit_test(reals_are_short_and_exact),
        cmocka_unit_test(failure_stays_and_nothing_follows),
        cmocka_unit_test(nesting_is_limited),
        cmocka_unit_test(parsed_values_are_written_at_any_allowed_depth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
