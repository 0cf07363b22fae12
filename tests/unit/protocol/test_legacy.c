/* The eras with a handshake: versions, methods, errors. */
#include "harness.h"

#define INITIALIZED(id, version)                                                                             \
    RESULT(id, "\"protocolVersion\":\"" version "\",\"capabilities\":" CAPABILITIES                          \
               ",\"serverInfo\":" SERVER_INFO)

static void known_versions_are_echoed(void **state)
{
    static const struct turn script[] = {
        {INITIALIZE("1", "2024-11-05"), INITIALIZED("1", "2024-11-05")},
        {INITIALIZE("2", "2025-03-26"), INITIALIZED("2", "2025-03-26")},
        {INITIALIZE("3", "2025-06-18"), INITIALIZED("3", "2025-06-18")},
        {INITIALIZE("4", "2025-11-25"), INITIALIZED("4", "2025-11-25")},
    };
    harness_play(script, ARRAY_LEN(script));
}

static void other_versions_get_the_newest_legacy_one(void **state)
{
    static const struct turn script[] = {
        {INITIALIZE("1", "2026-07-28"), INITIALIZED("1", "2025-11-25")},
        {INITIALIZE("2", "1999-01-01"), INITIALIZED("2", "2025-11-25")},
        {INITIALIZE("3", ""), INITIALIZED("3", "2025-11-25")},
        {CALL("4", "initialize"),
         ERROR("4", "-32602", "Invalid params: initialize needs params.protocolVersion, a string")},
    };
    harness_play(script, ARRAY_LEN(script));
}

static void only_ping_is_served_before_initialize(void **state)
{
    static const struct turn script[] = {
        {CALL("1", "ping"), RESULT("1", "")},
        {CALL("2", "tools/list"),
         ERROR("2", "-32600",
               "Invalid request: tools/list before initialize; send initialize first, or the params._meta of "
               "protocol version 2026-07-28")},
        {INITIALIZE("3", "2025-11-25"), INITIALIZED("3", "2025-11-25")},
        {CALL("4", "tools/list"), RESULT("4", "\"tools\":[{\"name\":\"answer\"}]")},
        {"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}", NULL},
        {CALL("5", "tools/list"), RESULT("5", "\"tools\":[{\"name\":\"answer\"}]")},
    };
    harness_play(script, ARRAY_LEN(script));
}

static void every_method_answers(void **state)
{
    static const struct turn script[] = {
        {INITIALIZE("0", "2025-11-25"), INITIALIZED("0", "2025-11-25")},
        {CALL("1", "prompts/list"), RESULT("1", "\"prompts\":[]")},
        {CALL("2", "resources/list"), RESULT("2", "\"resources\":[]")},
        {CALL("3", "resources/templates/list"), RESULT("3", "\"resourceTemplates\":[]")},
        {CALL_WITH("4", "tools/list", "{\"cursor\":\"\"}"), RESULT("4", "\"tools\":[{\"name\":\"answer\"}]")},
        {CALL_WITH("5", "tools/list", "{\"cursor\":\"x\"}"),
         ERROR("5", "-32602",
               "Invalid params: unknown cursor; tools/list has one page, ask without a cursor")},
        {CALL_WITH("6", "prompts/list", "{\"cursor\":7}"),
         ERROR("6", "-32602",
               "Invalid params: unknown cursor; prompts/list has one page, ask without a cursor")},
        {CALL_WITH("7", "prompts/get", "{\"name\":\"p\"}"), ERROR("7", "-32602", "Unknown prompt: p")},
        {CALL("8", "prompts/get"),
         ERROR("8", "-32602", "Invalid params: prompts/get needs params.name, a string")},
        {CALL_WITH("9", "resources/read", "{\"uri\":\"a://b\"}"),
         "{\"jsonrpc\":\"2.0\",\"id\":9,\"error\":{\"code\":-32002,\"message\":\"Resource not found: a://b\","
         "\"data\":{\"uri\":\"a://b\"}}}"},
        {CALL("10", "resources/read"),
         ERROR("10", "-32602", "Invalid params: resources/read needs params.uri, a string")},
        {CALL_WITH("11", "logging/setLevel", "{\"level\":\"info\"}"),
         ERROR("11", "-32601", "Method not found: logging/setLevel")},
        {CALL("12", "completion/complete"), ERROR("12", "-32601", "Method not found: completion/complete")},
        {CALL("13", "subscriptions/listen"), ERROR("13", "-32601", "Method not found: subscriptions/listen")},
        {CALL("14", "rpc.\\\"x"), ERROR("14", "-32601", "Method not found: rpc.\\\"x")},
        {CALL_WITH("15", "tools/list", "[]"),
         ERROR("15", "-32602", "Invalid params: params must be an object")},
        {"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/never/heard\",\"params\":3}", NULL},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", NULL},
    };
    harness_play(script, ARRAY_LEN(script));
}

static void ids_are_echoed_byte_for_byte(void **state)
{
    static const struct turn script[] = {
        {CALL("123456789012345678901234567890", "ping"), RESULT("123456789012345678901234567890", "")},
        {CALL("-0", "ping"), RESULT("-0", "")},
        {CALL("\"\\u0061\\/\\n\"", "ping"), RESULT("\"\\u0061\\/\\n\"", "")},
        {CALL("\"\xE2\x82\xAC\"", "ping"), RESULT("\"\xE2\x82\xAC\"", "")},
        {CALL("\"\\u0000\"", "no"), ERROR("\"\\u0000\"", "-32601", "Method not found: no")},
    };
    harness_play(script, ARRAY_LEN(script));
}

static void the_owner_is_told_of_the_first_reply_once(void **state)
{
    struct harness *h = harness_new(NULL);
    harness_ask(h, CALL("1", "ping"), RESULT("1", ""));
    assert_int_equal(h->first_replies, 0);
    harness_initialize(h, "2025-11-25");
    assert_int_equal(h->first_replies, 1);
    harness_initialize(h, "2025-11-25");
    assert_int_equal(h->first_replies, 1);
    harness_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_versions_are_echoed),
        cmocka_unit_test(other_versions_get_the_newest_legacy_one),
        cmocka_unit_test(only_ping_is_served_before_initialize),
        cmocka_unit_test(every_method_answers),
        cmocka_unit_test(ids_are_echoed_byte_for_byte),
        cmocka_unit_test(the_owner_is_told_of_the_first_reply_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
