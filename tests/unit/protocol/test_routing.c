/* Headers of modern POSTs against their bodies. */
#include "protocol/routing.h"

#include <string.h>

#include "harness.h"

#define LONG_NAME "=?base64?w6R0aGVy?=" /* "äther" */

static void versions_have_an_era(void **state)
{
    static const struct {
        const char *version;
        bool modern;
    } cases[] = {
        {"2026-07-28", true},  {"2026-07-29", true},  {"2027-01-01", true},   {"9999-99-99", true},
        {"2026-07-27", false}, {"2025-11-25", false}, {"2024-11-05", false},  {"", false},
        {"2026-7-28", false},  {"v999.0.0", false},   {"2026-07-28 ", false}, {"2026/07/28", false},
        {NULL, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(endpoint_is_modern_version(cases[i].version), cases[i].modern);
}

static void names_are_decoded(void **state)
{
    static const struct {
        const char *value, *name; /* NULL: refused */
    } cases[] = {
        {"run", "run"},
        {"", ""},
        {"=?base64?cnVu?=", "run"},
        {"=?base64?"
         "?=",
         ""},
        {LONG_NAME, "\xC3\xA4ther"},
        {"=?base64?", "=?base64?"},   /* no wrapper: as it stands */
        {"=?base64?=", "=?base64?="}, /* its two halves may not overlap */
        {"=?BASE64?cnVu?=", "=?BASE64?cnVu?="},
        {"=?base64?cnVu", "=?base64?cnVu"},
        {"cnVu?=", "cnVu?="},
        {"x=?base64?cnVu?=", "x=?base64?cnVu?="},
        {"=?base64?cnVu=?=", NULL},
        {"=?base64?cnV?=", NULL},
        {"=?base64?cn Vu?=", NULL},
        {"=?base64?cn_-?=", NULL},
        {"=?base64?=?=", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf name = BUF_INIT(100);
        int r = routing_decode(cases[i].value, &name);
        assert_int_equal(r, cases[i].name ? 0 : -1);
        if (cases[i].name)
            assert_string_equal(buf_str(&name), cases[i].name);
        buf_done(&name);
    }
}

static void too_long_a_name_is_refused(void **state)
{
    struct buf name = BUF_INIT(2);
    assert_int_equal(routing_decode("run", &name), -1);
    assert_int_equal(routing_decode("=?base64?cnVu?=", &name), -1);
    buf_done(&name);
}

#define PARAMS(more) "{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}" more "}"
#define NOTIFICATION(method) "{\"jsonrpc\":\"2.0\",\"method\":\"" method "\",\"params\":" PARAMS("") "}"
#define RUN CALL_WITH("1", "tools/call", PARAMS(",\"name\":\"run\""))
#define V "2026-07-28"

static const struct {
    struct exchange_headers headers;
    const char *body;
    const char *wrong; /* the header that is named; NULL: none */
} CASES[] = {
    {{NULL, V, "tools/list", NULL}, CALL_WITH("1", "tools/list", PARAMS("")), NULL},
    {{NULL, V, "tools/list", "whatever"}, CALL_WITH("1", "tools/list", PARAMS("")), NULL},
    {{NULL, V, "tools/call", "run"}, RUN, NULL},
    {{NULL, V, "tools/call", "=?base64?cnVu?="}, RUN, NULL},
    {{NULL, V, "prompts/get", "p"}, CALL_WITH("1", "prompts/get", PARAMS(",\"name\":\"p\"")), NULL},
    {{NULL, V, "resources/read", "a://b"},
     CALL_WITH("1", "resources/read", PARAMS(",\"uri\":\"a://b\"")),
     NULL},
    {{NULL, V, "tools/call", LONG_NAME},
     CALL_WITH("1", "tools/call", PARAMS(",\"name\":\"\\u00e4ther\"")),
     NULL},
    /* what the body lacks is the method's business */
    {{NULL, V, "tools/call", NULL}, CALL_WITH("1", "tools/call", PARAMS("")), NULL},
    {{NULL, V, "tools/call", "run"}, CALL_WITH("1", "tools/call", PARAMS(",\"name\":7")), NULL},
    {{NULL, NULL, NULL, NULL}, NOTIFICATION("notifications/x"), NULL},
    {{NULL, V, "notifications/x", NULL}, NOTIFICATION("notifications/x"), NULL},

    {{NULL, NULL, "tools/list", NULL}, CALL_WITH("1", "tools/list", PARAMS("")), "MCP-Protocol-Version"},
    {{NULL, "2025-11-25", "tools/list", NULL},
     CALL_WITH("1", "tools/list", PARAMS("")),
     "MCP-Protocol-Version"},
    {{NULL, "2027-01-01", "tools/list", NULL},
     CALL_WITH("1", "tools/list", PARAMS("")),
     "MCP-Protocol-Version"},
    {{NULL, V, NULL, NULL}, CALL_WITH("1", "tools/list", PARAMS("")), "Mcp-Method"},
    {{NULL, V, "prompts/list", NULL}, CALL_WITH("1", "tools/list", PARAMS("")), "Mcp-Method"},
    {{NULL, V, "TOOLS/LIST", NULL}, CALL_WITH("1", "tools/list", PARAMS("")), "Mcp-Method"},
    {{NULL, V, "=?base64?dG9vbHMvbGlzdA==?=", NULL}, CALL_WITH("1", "tools/list", PARAMS("")), "Mcp-Method"},
    {{NULL, V, "notifications/y", NULL}, NOTIFICATION("notifications/x"), "Mcp-Method"},
    {{NULL, V, "tools/call", NULL}, RUN, "Mcp-Name"},
    {{NULL, V, "tools/call", "Run"}, RUN, "Mcp-Name"},
    {{NULL, V, "tools/call", "=?base64?UnVu?="}, RUN, "Mcp-Name"},
    {{NULL, V, "tools/call", "=?base64?cnV?="}, RUN, "Mcp-Name"},
    {{NULL, V, "tools/call", "run"},
     CALL_WITH("1", "tools/call", PARAMS(",\"name\":\"run\\u0000\"")),
     "Mcp-Name"},
    {{NULL, V, "tools/call", "=?base64?cnVuAA==?="}, RUN, "Mcp-Name"},
    {{NULL, V, "resources/read", "a://c"},
     CALL_WITH("1", "resources/read", PARAMS(",\"uri\":\"a://b\"")),
     "Mcp-Name"},
};

static void headers_say_what_the_body_says(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct rpc_error error = RPC_ERROR_INIT;
        struct message m;
        message_parse(&m, CASES[i].body, strlen(CASES[i].body));
        assert_int_not_equal(m.kind, MESSAGE_REFUSED);
        bool good = routing_check_version(&CASES[i].headers, &m, &error) &&
                    routing_check_target(&CASES[i].headers, &m, &error);
        if (good != !CASES[i].wrong)
            fail_msg("case %zu: %s", i, error.message);
        if (!good) {
            assert_int_equal(error.code, RPC_HEADER_MISMATCH);
            if (!strstr(error.message, CASES[i].wrong))
                fail_msg("case %zu: %s", i, error.message);
        }
        message_done(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_have_an_era),
        cmocka_unit_test(names_are_decoded),
        cmocka_unit_test(too_long_a_name_is_refused),
        cmocka_unit_test(headers_say_what_the_body_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
