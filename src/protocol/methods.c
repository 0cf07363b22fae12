/* The methods that both eras have and that answer at once. */
#include <string.h>

#include "protocol/session.h"
#include "tools/dashboard.h"

#define CAPABILITIES                                                                                         \
    "{\"tools\":{\"listChanged\":false},\"resources\":{\"subscribe\":false,\"listChanged\":false},"          \
    "\"prompts\":{\"listChanged\":false}"

void write_capabilities(struct request *r)
{
    const struct protocol_options *o = &r->from.session->protocol->options;
    const char *text = o->extension   ? o->extension->capabilities
                       : o->dashboard ? CAPABILITIES ",\"extensions\":" DASHBOARD_EXTENSION "}"
                                      : CAPABILITIES "}";
    jw_key(&r->writer, "capabilities");
    jw_raw(&r->writer, text, strlen(text));
}

const char *require_param(const struct request *r, const char *name, struct rpc_error *error)
{
    const json_t *value = json_object_get(r->message->params, name);
    if (json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value))
        return json_string_value(value);
    rpc_error_set(error, RPC_INVALID_PARAMS, "Invalid params: %s needs params.%s, a string%s",
                  r->message->method, name, value ? " without NUL" : "");
    return NULL;
}

/* Every list is one page, so no cursor was ever given out; the empty string is the first page's. */
static bool is_first_page(const struct request *r, struct rpc_error *error)
{
    const json_t *cursor = json_object_get(r->message->params, "cursor");
    if (!cursor || json_is_null(cursor) || (json_is_string(cursor) && json_string_length(cursor) == 0))
        return true;
    rpc_error_set(error, RPC_INVALID_PARAMS,
                  "Invalid params: unknown cursor; %s has one page, ask without a cursor",
                  r->message->method);
    return false;
}

static enum answer serve_list(struct request *r, const char *member, const char *items, size_t n,
                              struct rpc_error *error)
{
    if (!is_first_page(r, error))
        return ANSWER_ERROR;
    jw_key(&r->writer, member);
    jw_raw(&r->writer, items, n);
    return ANSWER_RESULT;
}

enum answer serve_tools_list(struct request *r, struct rpc_error *error)
{
    size_t n;
    const char *tools = toolset_list(r->from.session->protocol->options.toolset, &n);
    return serve_list(r, "tools", tools, n, error);
}

enum answer serve_prompts_list(struct request *r, struct rpc_error *error)
{
    return serve_list(r, "prompts", "[]", 2, error);
}

enum answer serve_resources_list(struct request *r, struct rpc_error *error)
{
    if (!r->from.session->protocol->options.dashboard)
        return serve_list(r, "resources", "[]", 2, error);
    if (!is_first_page(r, error))
        return ANSWER_ERROR;
    jw_key(&r->writer, "resources");
    jw_begin_array(&r->writer);
    dashboard_write_entry(&r->writer);
    jw_end_array(&r->writer);
    return ANSWER_RESULT;
}

enum answer serve_resource_templates_list(struct request *r, struct rpc_error *error)
{
    return serve_list(r, "resourceTemplates", "[]", 2, error);
}

enum answer serve_prompts_get(struct request *r, struct rpc_error *error)
{
    const char *name = require_param(r, "name", error);
    if (name)
        rpc_error_set(error, RPC_INVALID_PARAMS, "Unknown prompt: %s", name);
    return ANSWER_ERROR;
}

enum answer serve_resources_read(struct request *r, struct rpc_error *error)
{
    const char *uri = require_param(r, "uri", error);
    if (!uri)
        return ANSWER_ERROR;
    if (r->from.session->protocol->options.dashboard && strcmp(uri, DASHBOARD_URI) == 0) {
        jw_key(&r->writer, "contents");
        jw_begin_array(&r->writer);
        dashboard_write_contents(&r->writer);
        jw_end_array(&r->writer);
        return ANSWER_RESULT;
    }
    int code = r->era == ERA_MODERN ? RPC_INVALID_PARAMS : RPC_RESOURCE_NOT_FOUND;
    rpc_error_set(error, code, "Resource not found: %s", uri);
    error->data = json_pack("{s:s}", "uri", uri);
    return ANSWER_ERROR;
}
