/* The set of tools: which there are, what tools/list says of them, and who answers a call. */
#include "tools/toolset.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "tools/bind.h"
#include "tools/describe.h"

#define LIST_MAX (1 * MIB)

/* Made at build from schemas/NAME.json. */
extern const unsigned char schema_terminal_execute[], schema_sandbox_exec[];
extern const size_t schema_terminal_execute_size, schema_sandbox_exec_size;

static const struct tool TOOLS[] = {
    {"terminal_execute", 1U << PERSONALITY_COMPUTER, schema_terminal_execute, &schema_terminal_execute_size,
     tool_exec},
    {"sandbox_exec", 1U << PERSONALITY_KILNTAINERS, schema_sandbox_exec, &schema_sandbox_exec_size,
     tool_exec},
};

static const struct tool *find_tool(const struct toolset *t, const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(TOOLS); i++)
        if ((TOOLS[i].personalities & 1U << t->personality) && strcmp(TOOLS[i].name, name) == 0)
            return &TOOLS[i];
    return NULL;
}

static int list_tool(struct json_writer *w, const struct tool *tool, const struct toolset_options *options,
                     struct error *err)
{
    _cleanup_(cleanup_json_decref) json_t *schema =
        json_parse((const char *)tool->schema, *tool->schema_size, err);
    if (!schema)
        return error_prefix(err, "schema of %s", tool->name);
    _cleanup_(cleanup_free) char *description =
        describe_tool(json_get_string(schema, "description"), options);
    /* It keeps its place among the members. */
    json_object_set_new(schema, "description", json_string(description));
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
    t->list = (struct buf)BUF_INIT(LIST_MAX);
    jw_init(&w, &t->list);
    jw_begin_array(&w);
    for (size_t i = 0; i < ARRAY_LEN(TOOLS); i++)
        if (find_tool(t, TOOLS[i].name) && list_tool(&w, &TOOLS[i], options, err) < 0)
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
