/* The stateless era: _meta, discovery, errors. */
#include "harness.h"

#include <string.h>

#include "base/mem.h"

#define V "io.modelcontextprotocol/protocolVersion"
#define C "io.modelcontextprotocol/clientCapabilities"
#define META "\"_meta\":{\"" V "\":\"2026-07-28\",\"" C "\":{}}"
#define MODERN(id, method) CALL_WITH(id, method, "{" META "}")
#define MODERN_RESULT(id, members)                                                                           \
    RESULT(id, "\"_meta\":{\"io.modelcontextprotocol/serverInfo\":" SERVER_INFO "}" members                  \
               ",\"resultType\":\"complete\"")
#define HINTS ",\"ttlMs\":300000,\"cacheScope\":\"private\""
#define DISCOVERED(id)                                                                                       \
    MODERN_RESULT(id, ",\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":" CAPABILITIES HINTS)

static void every_method_answers_without_a_handshake(void **state)
{
    static const struct turn script[] = {
        {MODERN("1", "server/discover"), DISCOVERED("1")},
        {MODERN("2", "tools/list"), MODERN_RESULT("2", ",\"tools\":[{\"name\":\"answer\"}]" HINTS)},
        {MODERN("3", "prompts/list"), MODERN_RESULT("3", ",\"prompts\":[]" HINTS)},
        {MODERN("4", "resources/list"), MODERN_RESULT("4", ",\"resources\":[]" HINTS)},
        {MODERN("5", "resources/templates/list"), MODERN_RESULT("5", ",\"resourceTemplates\":[]" HINTS)},
        {CALL_WITH("6", "resources/read", "{\"uri\":\"test://x\"," META "}"),
         "{\"jsonrpc\":\"2.0\",\"id\":6,\"error\":{\"code\":-32602,\"message\":\"Resource not found: "
         "test://x\","
         "\"data\":{\"uri\":\"test://x\"}}}"},
        {CALL_WITH("7", "tools/call", "{\"name\":\"answer\"," META "}"),
         MODERN_RESULT("7", ",\"content\":[],\"isError\":false")},
        {CALL_WITH("8", "tools/call", "{\"name\":\"nothing\"," META "}"),
         ERROR("8", "-32602", "Unknown tool: nothing")},
    };
    harness_play(script, ARRAY_LEN(script));
}

static void what_the_revision_dropped_is_not_found(void **state)
{
    static const char *const methods[] = {"initialize",
                                          "ping",
                                          "logging/setLevel",
                                          "resources/subscribe",
                                          "resources/unsubscribe",
                                          "subscriptions/listen",
                                          "completion/complete"};
    struct harness *h = harness_new(NULL);
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        char *request =
            xasprintf("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{" META "}}", methods[i]);
        char *reply = xasprintf(ERROR("1", "-32601", "Method not found: %s"), methods[i]);
        harness_ask(h, request, reply);
        free(request);
        free(reply);
    }
    harness_free(h);
}

static void the_meta_of_a_request_is_checked(void **state)
{
    static const struct turn script[] = {
        {CALL("1", "server/discover"),
         ERROR("1", "-32602", "Invalid params: params._meta needs " V ", a string")},
        {CALL_WITH("2", "tools/list", "{\"_meta\":{\"" C "\":{}}}"),
         ERROR("2", "-32602", "Invalid params: params._meta needs " V ", a string")},
        {CALL_WITH("3", "tools/list", "{\"_meta\":{\"" V "\":\"2026-07-28\"}}"),
         ERROR("3", "-32602", "Invalid params: params._meta needs " C ", an object")},
        {CALL_WITH("4", "tools/list", "{\"_meta\":{\"" V "\":\"2026-07-28\",\"" C "\":[]}}"),
         ERROR("4", "-32602", "Invalid params: params._meta needs " C ", an object")},
        {CALL_WITH("5", "tools/list", "{\"_meta\":{\"" V "\":7,\"" C "\":{}}}"),
         ERROR("5", "-32602", "Invalid params: params._meta needs " V ", a string")},
        {CALL_WITH("6", "tools/list",
                   "{\"_meta\":{\"" V "\":\"2026-07-28\",\"" C
                   "\":{},\"io.modelcontextprotocol/logLevel\":\"loud\"}}"),
         ERROR("6", "-32602", "Invalid params: io.modelcontextprotocol/logLevel is none of the log levels")},
        {CALL_WITH("7", "no/such", "{\"_meta\":{\"" V "\":\"v999.0.0\",\"" C "\":{}}}"),
         "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32022,\"message\":\"Unsupported protocol "
         "version: "
         "v999.0.0\",\"data\":{\"supported\":[\"2026-07-28\"],\"requested\":\"v999.0.0\"}}}"},
        {CALL_WITH("8", "tools/list", "{\"_meta\":{\"" V "\":\"2025-11-25\"}}"),
         "{\"jsonrpc\":\"2.0\",\"id\":8,\"error\":{\"code\":-32022,\"message\":\"Unsupported protocol "
         "version: "
         "2025-11-25\",\"data\":{\"supported\":[\"2026-07-28\"],\"requested\":\"2025-11-25\"}}}"},
    };
    harness_play(script, ARRAY_LEN(script));
}

static void both_eras_share_a_session(void **state)
{
    struct harness *h = harness_new(NULL);
    harness_ask(h, MODERN("1", "server/discover"), DISCOVERED("1"));
    assert_int_equal(h->first_replies, 1);
    harness_initialize(h, "2025-11-25");
    harness_ask(h, CALL("2", "prompts/list"), RESULT("2", "\"prompts\":[]"));
    harness_ask(h, MODERN("3", "prompts/list"), MODERN_RESULT("3", ",\"prompts\":[]" HINTS));
    harness_ask(h, CALL("4", "ping"), RESULT("4", ""));
    assert_int_equal(h->first_replies, 1);
    harness_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method_answers_without_a_handshake),
        cmocka_unit_test(what_the_revision_dropped_is_not_found),
        cmocka_unit_test(the_meta_of_a_request_is_checked),
        cmocka_unit_test(both_eras_share_a_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
