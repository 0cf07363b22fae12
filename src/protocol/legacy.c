/* The revisions 2024-11-05 to 2025-11-25: a session begins with initialize, which agrees on one of them. */
#include <string.h>

#include "base/log.h"
#include "protocol/session.h"

/* Newest last: the answer to a client that asks for one we don't know. */
static const char *const versions[] = {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"};

static const char *find_version(const char *wanted)
{
    for (size_t i = 0; i < ARRAY_LEN(versions); i++)
        if (strcmp(wanted, versions[i]) == 0)
            return versions[i];
    return NULL;
}

bool legacy_knows(const char *version)
{
    return find_version(version) != NULL;
}

static const char *negotiate(const char *wanted)
{
    const char *known = find_version(wanted);
    return known ? known : versions[ARRAY_LEN(versions) - 1];
}

/* A second one is answered like the first: clients do that after a reconnect of their own. */
static enum answer serve_initialize(struct request *r, struct rpc_error *error)
{
    const char *wanted = require_param(r, "protocolVersion", error);
    if (!wanted)
        return ANSWER_ERROR;
    struct json_writer *w = &r->writer;
    const char *info = r->from.session->protocol->server_info;
    r->from.session->version = negotiate(wanted);
    log_debug("initialize: asked for %s, got %s", wanted, r->from.session->version);
    jw_key(w, "protocolVersion");
    jw_string(w, r->from.session->version);
    write_capabilities(r);
    jw_key(w, "serverInfo");
    jw_raw(w, info, strlen(info));
    return ANSWER_RESULT;
}

static enum answer serve_ping(struct request *r, struct rpc_error *error)
{
    return ANSWER_RESULT;
}

static const struct method methods[] = {
    {"initialize", serve_initialize, .greets = true},
    {"ping", serve_ping},
    {"tools/list", serve_tools_list},
    {"tools/call", serve_tools_call},
    {"prompts/list", serve_prompts_list},
    {"prompts/get", serve_prompts_get},
    {"resources/list", serve_resources_list},
    {"resources/templates/list", serve_resource_templates_list},
    {"resources/read", serve_resources_read},
};

static bool needs_session(const struct method *m)
{
    return m->serve != serve_initialize && m->serve != serve_ping;
}

const struct method *legacy_method(const struct request *r, struct rpc_error *error)
{
    const char *name = r->message->method;
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        if (strcmp(methods[i].name, name) != 0)
            continue;
        if (r->from.session->version || !needs_session(&methods[i]))
            return &methods[i];
        rpc_error_set(error, RPC_INVALID_REQUEST,
                      "Invalid request: %s before initialize; send initialize first, or the params._meta of "
                      "protocol version 2026-07-28",
                      name);
        return NULL;
    }
    rpc_error_set(error, RPC_METHOD_NOT_FOUND, "Method not found: %s", name);
    return NULL;
}
