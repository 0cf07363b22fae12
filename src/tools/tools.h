/* The MCP tools of this server: their list, and a call of one. Backend-neutral, era-neutral: protocol/ wraps
 * the results. Schemas, titles and annotations are JSON files (schemas/), the single source, embedded at
 * build. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "base/error.h"
#include "computers/computers.h"

enum personality { PERSONALITY_COMPUTER, PERSONALITY_KILNTAINERS };

struct toolset_options {
    enum personality personality;
    const char *description_override; /* or NULL; replaces the exec tool's description whole */
    const char *description_extra;    /* or NULL; appended after an empty line */
    double default_timeout_s;
    size_t output_limit;
    const struct backend *backend; /* for its description only */
};

struct toolset;
struct toolset *toolset_new(const struct toolset_options *options, struct error *err);
struct toolset *toolset_free(struct toolset *t);

/* The JSON array of tools/list, valid as long as the toolset, the same bytes each time. Any thread, never
 * blocks. */
const char *toolset_list(const struct toolset *t, size_t *ret_len);
bool toolset_has(const struct toolset *t, const char *name);

/* One call, on a worker. Progress and results go back by the caller's means. */
struct tool_call {
    const char *name;
    const json_t *arguments;          /* borrowed; NULL: none. Must be an object */
    struct computer_session *session; /* NULL: the caller has none, and so no computers */
    struct cancel *cancel;            /* borrowed */
    const struct progress *progress;  /* borrowed; told on any thread until the call returns. NULL: nobody */
};
/* 0: ret holds the members of the result object, without braces:
 * "content":[...],"structuredContent":{...},"isError":false. -1 is for the protocol (unknown tool, arguments
 * not an object: ERR_INVALID; cancelled: ERR_CANCELLED, nothing is to be sent). Everything else that goes
 * wrong is a result with isError true. */
int toolset_call(struct toolset *t, const struct tool_call *call, struct buf *ret, struct error *err);
/* The deadline by which a call waits in the queue for a thread: from its own timeout argument, else the
 * default. Never fails. */
int64_t toolset_deadline(const struct toolset *t, const struct tool_call *call);
