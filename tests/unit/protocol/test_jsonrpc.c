/* What a message is, and its id as it came. */
#include "harness.h"

#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "protocol/jsonrpc.h"

static const struct {
    const char *text;
    enum message_kind kind;
    const char *id;    /* NULL: none */
    int error;         /* 0: none */
    const char *token; /* of progress */
} table[] = {
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}", MESSAGE_REQUEST, "1"},
    {" { \"jsonrpc\" : \"2.0\" , \"method\" : \"m\" , \"id\" : -7 } ", MESSAGE_REQUEST, "-7"},
    {"{\"jsonrpc\":\"2.0\",\"id\":\"a\\u0062\\\"\\\\\",\"method\":\"m\"}", MESSAGE_REQUEST,
     "\"a\\u0062\\\"\\\\\""},
    {"{\"jsonrpc\":\"2.0\",\"\\u0069d\":\"x\",\"method\":\"m\"}", MESSAGE_REQUEST, "\"x\""},
    {"{\"jsonrpc\":\"2.0\",\"id\":123456789012345678901234567890,\"method\":\"m\"}", MESSAGE_REQUEST,
     "123456789012345678901234567890"},
    {"{\"params\":{\"id\":5,\"a\":[{\"id\":6},\"\\\"id\\\":7\"]},\"id\":8,\"jsonrpc\":\"2.0\",\"method\":"
     "\"m\"}",
     MESSAGE_REQUEST, "8"},
    {"{\"jsonrpc\":\"2.0\",\"id\":\"\",\"method\":\"m\",\"params\":{\"_meta\":{\"a\":{},\"progressToken\":"
     "\"t\\/\"}}}",
     MESSAGE_REQUEST, "\"\"", 0, "\"t\\/\""},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"_meta\":{\"progressToken\":"
     "99999999999999999999}}}",
     MESSAGE_REQUEST, "1", 0, "99999999999999999999"},
    {"{\"jsonrpc\":\"2.0\",\"method\":\"m\"}", MESSAGE_NOTIFICATION},
    {"{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":[1]}", MESSAGE_NOTIFICATION},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", MESSAGE_RESPONSE},
    {"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{}}", MESSAGE_RESPONSE},
    {"[]", MESSAGE_BATCH},

    {"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"m\"}", MESSAGE_REFUSED, NULL, RPC_INVALID_REQUEST},
    {"{\"jsonrpc\":\"2.0\",\"id\":1.0,\"method\":\"m\"}", MESSAGE_REFUSED, NULL, RPC_INVALID_REQUEST},
    {"{\"jsonrpc\":\"2.0\",\"id\":1e2,\"method\":\"m\"}", MESSAGE_REFUSED, NULL, RPC_INVALID_REQUEST},
    {"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"m\"}", MESSAGE_REFUSED, NULL, RPC_INVALID_REQUEST},
    {"{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"m\"}", MESSAGE_REFUSED, NULL, RPC_INVALID_REQUEST},
    {"{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"m\"}", MESSAGE_REFUSED, NULL, RPC_INVALID_REQUEST},
    {"{\"jsonrpc\":\"1.0\",\"id\":3,\"method\":\"m\"}", MESSAGE_REFUSED, "3", RPC_INVALID_REQUEST},
    {"{\"id\":3,\"method\":\"m\"}", MESSAGE_REFUSED, "3", RPC_INVALID_REQUEST},
    {"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":4}", MESSAGE_REFUSED, "3", RPC_INVALID_REQUEST},
    {"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\\u0000x\"}", MESSAGE_REFUSED, "3", RPC_INVALID_REQUEST},
    {"{\"jsonrpc\":\"2.0\",\"id\":3}", MESSAGE_REFUSED, "3", RPC_INVALID_REQUEST},
    {"{}", MESSAGE_REFUSED, NULL, RPC_INVALID_REQUEST},
    {"7", MESSAGE_REFUSED, NULL, RPC_INVALID_REQUEST},
    {"\"x\"", MESSAGE_REFUSED, NULL, RPC_INVALID_REQUEST},
    {"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"m\",\"params\":[]}", MESSAGE_REFUSED, "3",
     RPC_INVALID_PARAMS},
    {"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"m\",\"params\":null}", MESSAGE_REFUSED, "3",
     RPC_INVALID_PARAMS},
    {"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"m\",\"params\":{\"_meta\":{\"progressToken\":1.5}}}",
     MESSAGE_REFUSED, "3", RPC_INVALID_PARAMS},

    {"", MESSAGE_REFUSED, NULL, RPC_PARSE_ERROR},
    {"hello", MESSAGE_REFUSED, NULL, RPC_PARSE_ERROR},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":", MESSAGE_REFUSED, NULL, RPC_PARSE_ERROR},
    {"{\"id\":1} {\"id\":2}", MESSAGE_REFUSED, NULL, RPC_PARSE_ERROR},
    {"\xEF\xBB\xBF{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}", MESSAGE_REFUSED, NULL, RPC_PARSE_ERROR},
    /* Not JSON, but the client waits for an answer to its id. */
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xFF\"}", MESSAGE_REFUSED, "1", RPC_PARSE_ERROR},
    {"{\"jsonrpc\":\"2.0\",\"id\":\"k\",\"method\":\"\\ud800\"}", MESSAGE_REFUSED, "\"k\"", RPC_PARSE_ERROR},
    {"{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"method\":\"m\",\"id\":1}", MESSAGE_REFUSED, "1",
     RPC_PARSE_ERROR},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":1,\"method\":\"m\"}", MESSAGE_REFUSED, NULL, RPC_PARSE_ERROR},
    {"{\"jsonrpc\":\"2.0\",\"id\":\"\xFF\",\"method\":\"m\"}", MESSAGE_REFUSED, NULL, RPC_PARSE_ERROR},
    {"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"\xFF\"}", MESSAGE_REFUSED, NULL, RPC_PARSE_ERROR},
    {"{\"id\":1,\"x\":\"tru}", MESSAGE_REFUSED, NULL, RPC_PARSE_ERROR},
};

static void assert_span(struct span got, const char *want)
{
    if (!want) {
        assert_null(got.at);
        return;
    }
    assert_non_null(got.at);
    assert_int_equal(got.len, strlen(want));
    assert_memory_equal(got.at, want, got.len);
}

static void messages_are_classified(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        print_message("%s\n", table[i].text);
        struct message m;
        message_parse(&m, table[i].text, strlen(table[i].text));
        assert_int_equal(m.kind, table[i].kind);
        assert_span(m.id, table[i].id);
        assert_int_equal(m.error.code, table[i].error);
        assert_span(m.progress_token, table[i].token);
        message_done(&m);
    }
}

static void nesting_beyond_the_limit_is_refused_with_the_id(void **state)
{
    struct buf b = BUF_INIT(MIB);
    assert_int_equal(buf_append_str(&b, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":"), 0);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(buf_append_byte(&b, '['), 0);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(buf_append_byte(&b, ']'), 0);
    assert_int_equal(buf_append_byte(&b, '}'), 0);
    struct message m;
    message_parse(&m, b.data, b.len);
    assert_int_equal(m.error.code, RPC_PARSE_ERROR);
    assert_non_null(strstr(m.error.message, "nested deeper"));
    assert_span(m.id, "1");
    message_done(&m);
    buf_done(&b);
}

static void a_long_id_is_refused(void **state)
{
    char id[LIMIT_REQUEST_ID_BYTES + 1];
    memset(id, '1', sizeof(id));
    char *text =
        xasprintf("{\"jsonrpc\":\"2.0\",\"id\":\"%.*s\",\"method\":\"m\"}", LIMIT_REQUEST_ID_BYTES - 2, id);
    struct message m;
    message_parse(&m, text, strlen(text));
    assert_int_equal(m.kind, MESSAGE_REQUEST);
    message_done(&m);
    free(text);

    text =
        xasprintf("{\"jsonrpc\":\"2.0\",\"id\":\"%.*s\",\"method\":\"m\"}", LIMIT_REQUEST_ID_BYTES - 1, id);
    message_parse(&m, text, strlen(text));
    assert_int_equal(m.error.code, RPC_INVALID_REQUEST);
    assert_null(m.id.at);
    message_done(&m);
    free(text);
}

static char *key_of(const char *id)
{
    char *text = xasprintf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"m\"}", id);
    struct buf key = BUF_INIT(KIB);
    struct message m;
    message_parse(&m, text, strlen(text));
    assert_int_equal(m.kind, MESSAGE_REQUEST);
    assert_int_equal(id_key(json_object_get(m.root, "id"), m.id, &key), 0);
    message_done(&m);
    free(text);
    return buf_steal(&key);
}

static void keys_compare_ids_by_value(void **state)
{
    static const struct {
        const char *a, *b;
        bool same;
    } pairs[] = {
        {"1", "1", true},
        {"1", "\"1\"", false},
        {"0", "-0", true},
        {"\"a\"", "\"\\u0061\"", true},
        {"\"/\"", "\"\\/\"", true},
        {"\"\\u00e9\"", "\"\xC3\xA9\"", true},
        {"\"\\u0000a\"", "\"\\u0000b\"", false},
        {"18446744073709551616", "18446744073709551617", false},
        {"\"a\"", "\"A\"", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        char *a = key_of(pairs[i].a), *b = key_of(pairs[i].b);
        print_message("%s %s\n", pairs[i].a, pairs[i].b);
        assert_int_equal(strcmp(a, b) == 0, pairs[i].same);
        free(a);
        free(b);
    }
}

static void a_batch_splits_into_messages(void **state)
{
    static const char text[] = " [ {\"jsonrpc\":\"2.0\",\"id\":\"]\",\"method\":\"m\"} , 5,[[]] ,"
                               "{\"jsonrpc\":\"2.0\",\"method\":\"n\"}]";
    struct message batch, parts[4];
    message_parse(&batch, text, strlen(text));
    assert_int_equal(json_array_size(batch.root), 4);
    message_split(&batch, parts, 4);
    assert_int_equal(parts[0].kind, MESSAGE_REQUEST);
    assert_span(parts[0].id, "\"]\"");
    assert_int_equal(parts[1].error.code, RPC_INVALID_REQUEST);
    assert_int_equal(parts[2].error.code, RPC_INVALID_REQUEST);
    assert_int_equal(parts[3].kind, MESSAGE_NOTIFICATION);
    for (size_t i = 0; i < 4; i++)
        message_done(&parts[i]);
    message_done(&batch);
}

static void an_error_carries_its_data(void **state)
{
    struct buf out = BUF_INIT(KIB);
    struct rpc_error e = RPC_ERROR_INIT;
    rpc_error_set(&e, -32022, "no \"such\"");
    e.data = json_pack("{s:i}", "a", 1);
    assert_int_equal(envelope_error(&out, (struct span){"7", 1}, &e), 0);
    assert_string_equal(buf_str(&out), "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32022,\"message\":"
                                       "\"no \\\"such\\\"\",\"data\":{\"a\":1}}}");
    rpc_error_done(&e);
    rpc_error_set(&e, -32700, "x");
    assert_int_equal(envelope_error(&out, (struct span){NULL, 0}, &e), 0);
    assert_string_equal(buf_str(&out),
                        "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"x\"}}");
    buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_classified),
        cmocka_unit_test(nesting_beyond_the_limit_is_refused_with_the_id),
        cmocka_unit_test(a_long_id_is_refused),
        cmocka_unit_test(keys_compare_ids_by_value),
        cmocka_unit_test(a_batch_splits_into_messages),
        cmocka_unit_test(an_error_carries_its_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
