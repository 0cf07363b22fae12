/* The set of tools: which there are, what tools/list says of them, and who answers a call. */
#include "tools/toolset.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "tools/bind.h"
#include "tools/create_arguments.h"
#include "tools/describe.h"

#define LIST_MAX (1 * MIB)

/* Made at build from schemas/NAME.json. */
#define SCHEMA(name)                                                                                         \
    extern const unsigned char schema_##name[];                                                              \
    extern const size_t schema_##name##_size;
SCHEMA(terminal_execute)
SCHEMA(sandbox_exec)
SCHEMA(computer_dashboard)
SCHEMA(computer_list)
SCHEMA(computer_create)
SCHEMA(computer_restart)
SCHEMA(computer_factory_reset)
SCHEMA(computer_delete)
SCHEMA(computer_status)
SCHEMA(computer_cancel)

#define OF_COMPUTERS (1U << PERSONALITY_COMPUTER)
#define OF_KILNTAINERS (1U << PERSONALITY_KILNTAINERS)
#define TOOL(id, who, of_lifecycle, function)                                                                \
    {                                                                                                        \
        .name = #id, .personalities = (who), .lifecycle = (of_lifecycle), .schema = schema_##id,             \
        .schema_size = &schema_##id##_size, .call = (function)                                               \
    }

/* In the order of tools/list, which clients may cache. */
static const struct tool TOOLS[] = {
    TOOL(terminal_execute, OF_COMPUTERS, false, tool_exec),
    TOOL(sandbox_exec, OF_KILNTAINERS, false, tool_exec),
    TOOL(computer_dashboard, OF_COMPUTERS, true, tool_list),
    TOOL(computer_list, OF_COMPUTERS, true, tool_list),
    TOOL(computer_create, OF_COMPUTERS, true, tool_create),
    TOOL(computer_restart, OF_COMPUTERS, true, tool_restart),
    TOOL(computer_factory_reset, OF_COMPUTERS, true, tool_reset),
    TOOL(computer_delete, OF_COMPUTERS, true, tool_delete),
    TOOL(computer_status, OF_COMPUTERS, true, tool_list),
    TOOL(computer_cancel, OF_COMPUTERS, true, tool_cancel),
};

static const struct tool *find_tool(const struct toolset *t, const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(TOOLS); i++)
        if ((TOOLS[i].personalities & 1U << t->personality) && (t->lifecycle || !TOOLS[i].lifecycle) &&
            strcmp(TOOLS[i].name, name) == 0)
            return &TOOLS[i];
    return NULL;
}

/* What no computer can have here is no argument. */
static void drop_options(json_t *schema, unsigned options)
{
    json_t *properties = json_object_get(json_object_get(schema, "inputSchema"), "properties");
    for (unsigned option = 1; option <= COMPUTER_ENV; option <<= 1)
        if (!(options & option))
            json_object_del(properties, create_option_name(option));
}

static int list_tool(struct json_writer *w, const struct tool *tool, const struct toolset *t,
                     const struct toolset_options *options, struct error *err)
{
    _cleanup_(cleanup_json_decref) json_t *schema =
        json_parse((const char *)tool->schema, *tool->schema_size, err);
    if (!schema)
        return error_prefix(err, "schema of %s", tool->name);
    _cleanup_(cleanup_free) char *description =
        describe_tool(json_get_string(schema, "description"), options);
    /* It keeps its place among the members. */
    json_object_set_new(schema, "description", json_string(description));
    if (tool->call == tool_create)
        drop_options(schema, t->options);
    jw_value(w, schema);
    return 0;
}

struct toolset *toolset_new(const struct toolset_options *options, struct error *err)
{
    struct toolset *t = xcalloc(1, sizeof(*t));
    struct backend_description description = {0};
    struct json_writer w;
    options->backend->ops->describe(options->backend, &description);
    t->personality = options->personality;
    t->default_timeout_s = options->default_timeout_s;
    t->output_limit = options->output_limit;
    t->limits = xstrdup(description.limits);
    t->lifecycle = options->lifecycle;
    t->options = options->backend->ops->options ? options->backend->ops->options(options->backend) : 0;
    t->has_network = options->backend->ops->capabilities(options->backend) & BACKEND_NETWORK;
    t->own_program = options->backend->ops->capabilities(options->backend) & BACKEND_OWN_PROGRAM;
    t->backend = options->backend->ops->name;
    t->version = xstrdup(options->version ? options->version : "");
    t->list = (struct buf)BUF_INIT(LIST_MAX);
    jw_init(&w, &t->list);
    jw_begin_array(&w);
    for (size_t i = 0; i < ARRAY_LEN(TOOLS); i++)
        if (find_tool(t, TOOLS[i].name) && list_tool(&w, &TOOLS[i], t, options, err) < 0)
            return toolset_free(t);
    jw_end_array(&w);
    if (w.failed) {
        error_set(err, ERR_LIMIT, "the tool descriptions have more than %lu bytes: shorten the given one",
                  LIST_MAX);
        return toolset_free(t);
    }
    return t;
}

struct toolset *toolset_free(struct toolset *t)
{
    if (!t)
        return NULL;
    buf_done(&t->list);
    free(t->limits);
    free(t->version);
    free(t);
    return NULL;
}

const char *toolset_list(const struct toolset *t, size_t *ret_len)
{
    *ret_len = t->list.len;
    return t->list.data;
}

bool toolset_has(const struct toolset *t, const char *name)
{
    return find_tool(t, name) != NULL;
}

int toolset_call(struct toolset *t, const struct tool_call *call, struct buf *ret, struct error *err)
{
    const struct tool *tool = find_tool(t, call->name);
    if (!tool)
        return error_set(err, ERR_INVALID, "Unknown tool: %.100s", call->name);
    if (call->arguments && !json_is_object(call->arguments))
        return error_set(err, ERR_INVALID, "arguments of %s must be an object", tool->name);
    return tool->call(t, call, ret, err);
}

int64_t toolset_deadline(const struct toolset *t, const struct tool_call *call)
{
    double seconds;
    const json_t *timeout = json_object_get(call->arguments, "timeout");
    bool usable =
        bind_number(timeout, &seconds) && seconds >= LIMIT_TIMEOUT_MIN_S && seconds <= LIMIT_TIMEOUT_MAX_S;
    return clock_deadline_after(usable ? seconds : t->default_timeout_s);
}
