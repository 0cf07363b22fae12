/* Base64: the vectors of RFC 4648 section 10, strictness, and the buffer's maximum. */
#include "base/base64.h"

#include <string.h>

#include "base/macros.h"
#include "base/random.h"
#include "tests/unit/base/check.h"

static const struct {
    const char *plain, *encoded;
} vectors[] = {
    {"", ""},
    {"f", "Zg=="},
    {"fo", "Zm8="},
    {"foo", "Zm9v"},
    {"foob", "Zm9vYg=="},
    {"fooba", "Zm9vYmE="},
    {"foobar", "Zm9vYmFy"},
    {"\xFB\xFF\xBF", "+/+/"},
};

static void known_vectors_go_both_ways(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        _cleanup_(buf_done) struct buf encoded = BUF_INIT(64), plain = BUF_INIT(64);
        struct error err = ERROR_INIT;
        assert_int_equal(base64_append(&encoded, vectors[i].plain, strlen(vectors[i].plain)), 0);
        assert_string_equal(buf_str(&encoded), vectors[i].encoded);
        assert_int_equal(base64_decode(vectors[i].encoded, strlen(vectors[i].encoded), &plain, &err), 0);
        assert_string_equal(buf_str(&plain), vectors[i].plain);
    }
}

static void random_bytes_come_back(void **state)
{
    unsigned char bytes[300];
    random_bytes(bytes, sizeof(bytes));
    for (size_t n = 0; n <= sizeof(bytes); n++) {
        _cleanup_(buf_done) struct buf encoded = BUF_INIT(1024), plain = BUF_INIT(sizeof(bytes));
        assert_int_equal(base64_append(&encoded, bytes, n), 0);
        assert_int_equal(base64_decode(buf_str(&encoded), encoded.len, &plain, NULL), 0);
        assert_int_equal(plain.len, n);
        assert_memory_equal(buf_str(&plain), bytes, n);
    }
}

static void malformed_text_is_refused_with_the_place(void **state)
{
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"Zm9v!mFy", "offset 4"}, {"Zm9v\nZm9v", "offset 4"}, {" Zm9", "offset 0"}, {"Zm9-", "offset 3"},
        {"Zm9_", "offset 3"},     {"Zg==Zg==", "offset 4"},   {"=", "offset 0"},    {"Z===", "offset 1"},
        {"Zg=", "offset 3"},      {"Zg", "offset 2"},         {"Zm8", "offset 3"},  {"Zm9vY", "offset 5"},
        {"Zm9v=", "offset 4"},    {"Zm9v====", "offset 4"},   {"Zg=v", "offset 3"}, {"Zh==", "offset 1"},
        {"Zm9=", "offset 2"},     {"Zm9v\xC3\xA9==", "0xc3"},
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        _cleanup_(buf_done) struct buf out = BUF_INIT(64);
        struct error err = ERROR_INIT;
        assert_int_equal(buf_append_str(&out, "before"), 0);
        assert_int_equal(base64_decode(wrong[i].text, strlen(wrong[i].text), &out, &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
        assert_non_null(strstr(err.msg, wrong[i].says));
        assert_string_equal(buf_str(&out), "before");
    }
}

static void maximum_of_the_buffer_holds(void **state)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT(4), encoded = BUF_INIT(7);
    struct error err = ERROR_INIT;
    assert_int_equal(base64_decode("Zm9vYmE=", 8, &out, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_int_equal(base64_decode("Zm9vYg==", 8, &out, &err), 0);
    assert_string_equal(buf_str(&out), "foob");
    assert_int_equal(base64_append(&encoded, "foob", 4), -1);
    assert_int_equal(encoded.len, 0);
}

static void loose_text_lacks_padding_and_has_the_letters_of_urls(void **state)
{
    static const char *const same[] = {"+/+/", "-_-_", "-_-_==", "+_+/"};
    for (size_t i = 0; i < ARRAY_LEN(same); i++) {
        _cleanup_(buf_done) struct buf plain = BUF_INIT(8);
        assert_int_equal(base64_decode_loosely(same[i], strlen(same[i]), &plain, NULL), 0);
        assert_string_equal(buf_str(&plain), "\xFB\xFF\xBF");
    }
    _cleanup_(buf_done) struct buf plain = BUF_INIT(8);
    assert_int_equal(base64_decode_loosely("Zm9vYg", 6, &plain, NULL), 0);
    assert_string_equal(buf_str(&plain), "foob");
    assert_int_equal(base64_decode_loosely("Zm9vY", 5, &plain, NULL), -1);
    assert_int_equal(base64_decode_loosely("Zm 9v", 5, &plain, NULL), -1);
    assert_int_equal(base64_decode_loosely("", 0, &plain, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_vectors_go_both_ways),
        cmocka_unit_test(random_bytes_come_back),
        cmocka_unit_test(malformed_text_is_refused_with_the_place),
        cmocka_unit_test(maximum_of_the_buffer_holds),
        cmocka_unit_test(loose_text_lacks_padding_and_has_the_letters_of_urls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
