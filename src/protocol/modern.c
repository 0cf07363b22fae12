/* The revision 2026-07-28: no handshake and no session; each request says in params._meta which version it
 * speaks and what its client can do, and each result says that it is complete and who made it. */
#include <string.h>

#include "protocol/exchange.h"
#include "protocol/routing.h"

#define META "io.modelcontextprotocol/"
#define META_VERSION META "protocolVersion"
#define META_CAPABILITIES META "clientCapabilities"
#define META_CLIENT META "clientInfo"
#define META_LOG_LEVEL META "logLevel"
#define META_SERVER META "serverInfo"

/* Only those that are spoken this way: a client that picks from the list goes on in this era. */
static const char *const versions[] = {"2026-07-28"};
static const char *const log_levels[] = {"debug", "info",     "notice", "warning",
                                         "error", "critical", "alert",  "emergency"};

/* What the lists hold changes with the program only; the hint is short enough for an upgrade to be noticed.
 */
#define CACHE_TTL_MS 300000

static bool is_one_of(const char *const *words, size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(words[i], word) == 0)
            return true;
    return false;
}

bool modern_claims(const struct message *m)
{
    const json_t *meta = json_get_object(m->params, "_meta");
    return strcmp(m->method, "server/discover") == 0 || json_object_get(meta, META_VERSION) ||
           json_object_get(meta, META_CAPABILITIES) || json_object_get(meta, META_CLIENT);
}

const char *modern_version(const struct message *m)
{
    return json_get_string(json_get_object(m->params, "_meta"), META_VERSION);
}

static void refuse_version(const char *version, struct rpc_error *error)
{
    json_t *supported = json_array();
    for (size_t i = 0; i < ARRAY_LEN(versions); i++)
        json_array_append_new(supported, json_string(versions[i]));
    rpc_error_set(error, RPC_UNSUPPORTED_VERSION, "Unsupported protocol version: %s", version);
    error->data = json_pack("{s:o, s:s}", "supported", supported, "requested", version);
}

static bool check_meta(const struct message *m, struct rpc_error *error)
{
    const json_t *meta = json_get_object(m->params, "_meta");
    const char *version = modern_version(m);
    const json_t *level = json_object_get(meta, META_LOG_LEVEL);
    const char *wrong = NULL;
    if (version && !is_one_of(versions, ARRAY_LEN(versions), version)) {
        refuse_version(version, error);
        return false;
    }
    if (!version)
        wrong = "params._meta needs " META_VERSION ", a string";
    else if (!json_get_object(meta, META_CAPABILITIES))
        wrong = "params._meta needs " META_CAPABILITIES ", an object";
    else if (level && !is_one_of(log_levels, ARRAY_LEN(log_levels),
                                 json_is_string(level) ? json_string_value(level) : ""))
        wrong = META_LOG_LEVEL " is none of the log levels";
    if (!wrong)
        return true;
    rpc_error_set(error, RPC_INVALID_PARAMS, "Invalid params: %s", wrong);
    error->http_status = 400;
    return false;
}

/* Over HTTP the headers have to say the same as the body. */
static bool check_request(const struct request *r, struct rpc_error *error)
{
    const struct message *m = r->message;
    if (!r->from.exchange)
        return check_meta(m, error);
    const struct exchange_headers *h = exchange_headers_of(r->from.exchange);
    return routing_check_version(h, m, error) && check_meta(m, error) && routing_check_target(h, m, error);
}

static enum answer serve_discover(struct request *r, struct rpc_error *error)
{
    struct json_writer *w = &r->writer;
    jw_key(w, "supportedVersions");
    jw_begin_array(w);
    for (size_t i = 0; i < ARRAY_LEN(versions); i++)
        jw_string(w, versions[i]);
    jw_end_array(w);
    write_capabilities(r);
    return ANSWER_RESULT;
}

static const struct method methods[] = {
    {"server/discover", serve_discover, .cacheable = true, .greets = true},
    {"tools/list", serve_tools_list, .cacheable = true},
    {"tools/call", serve_tools_call},
    {"prompts/list", serve_prompts_list, .cacheable = true},
    {"prompts/get", serve_prompts_get},
    {"resources/list", serve_resources_list, .cacheable = true},
    {"resources/templates/list", serve_resource_templates_list, .cacheable = true},
    {"resources/read", serve_resources_read, .cacheable = true},
};

const struct method *modern_method(const struct request *r, struct rpc_error *error)
{
    if (!check_request(r, error))
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        if (strcmp(methods[i].name, r->message->method) == 0)
            return &methods[i];
    rpc_error_set(error, RPC_METHOD_NOT_FOUND, "Method not found: %s", r->message->method);
    return NULL;
}

void modern_open(struct request *r)
{
    const char *info = r->from.session->protocol->server_info;
    struct json_writer *w = &r->writer;
    jw_key(w, "_meta");
    jw_begin_object(w);
    jw_key(w, META_SERVER);
    jw_raw(w, info, strlen(info));
    jw_end_object(w);
}

void modern_close(struct request *r, bool complete)
{
    jw_key(&r->writer, "resultType");
    jw_string(&r->writer, complete ? "complete" : "input_required");
}

/* Not "public": what a computer server offers may come to depend on who asks. */
void modern_cache_hints(struct request *r)
{
    jw_key(&r->writer, "ttlMs");
    jw_integer(&r->writer, CACHE_TTL_MS);
    jw_key(&r->writer, "cacheScope");
    jw_string(&r->writer, "private");
}
