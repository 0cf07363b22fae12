/* See routing.h. */
#include "protocol/routing.h"

#include <string.h>

#include "base/base64.h"
#include "base/limits.h"
#include "base/str.h"
#include "protocol/session.h"

#define BASE64_BEGIN "=?base64?"
#define BASE64_END "?="

/* Which member of params Mcp-Name repeats. */
static const struct {
    const char *method, *member;
} NAMED[] = {
    {"tools/call", "name"},
    {"prompts/get", "name"},
    {"resources/read", "uri"},
};

/* A date, 2026-07-28 or later. */
bool endpoint_is_modern_version(const char *version)
{
    static const char pattern[] = "dddd-dd-dd";
    if (!version || strlen(version) != strlen(pattern))
        return false;
    for (size_t i = 0; pattern[i]; i++)
        if (pattern[i] == 'd' ? version[i] < '0' || version[i] > '9' : version[i] != pattern[i])
            return false;
    return strcmp(version, "2026-07-28") >= 0;
}

int routing_decode(const char *value, struct buf *ret)
{
    const size_t begin = strlen(BASE64_BEGIN), end = strlen(BASE64_END);
    size_t n = strlen(value);
    if (n < begin + end || !str_has_prefix(value, BASE64_BEGIN) || !str_has_suffix(value, BASE64_END))
        return buf_append(ret, value, n);
    return base64_decode(value + begin, n - begin - end, ret, NULL);
}

static bool mismatch(struct rpc_error *error, const char *header, const char *why)
{
    rpc_error_set(error, RPC_HEADER_MISMATCH, "Header mismatch: %s %s", header, why);
    return false;
}

bool routing_check_version(const struct exchange_headers *h, const struct message *m, struct rpc_error *error)
{
    const char *version = modern_version(m);
    if (!h->protocol_version || !version || strcmp(h->protocol_version, version) == 0)
        return true;
    return mismatch(error, "MCP-Protocol-Version", "and params._meta name different versions");
}

static bool check_name(const struct exchange_headers *h, const json_t *value, struct rpc_error *error)
{
    if (!json_is_string(value))
        return true; /* the method itself has something to say about that */
    if (!h->name)
        return mismatch(error, "Mcp-Name", "is missing");
    _cleanup_(buf_done) struct buf name = BUF_INIT(LIMIT_HTTP_HEADERS_BYTES);
    if (routing_decode(h->name, &name) < 0)
        return mismatch(error, "Mcp-Name", "is not valid base64 inside =?base64?...?=");
    if (name.len == json_string_length(value) &&
        memcmp(buf_str(&name), json_string_value(value), name.len) == 0)
        return true;
    return mismatch(error, "Mcp-Name", "and the body name different things");
}

bool routing_check_target(const struct exchange_headers *h, const struct message *m, struct rpc_error *error)
{
    if (h->method && strcmp(h->method, m->method) != 0)
        return mismatch(error, "Mcp-Method", "and the body name different methods");
    if (m->kind != MESSAGE_REQUEST)
        return true;
    if (!h->protocol_version)
        return mismatch(error, "MCP-Protocol-Version", "is missing");
    if (!h->method)
        return mismatch(error, "Mcp-Method", "is missing");
    for (size_t i = 0; i < ARRAY_LEN(NAMED); i++)
        if (strcmp(NAMED[i].method, m->method) == 0)
            return check_name(h, json_object_get(m->params, NAMED[i].member), error);
    return true;
}
