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
    double lease_s;      /* over HTTP: for how long computers are held that no session has; else 0 */
    bool lifecycle;      /* offer the computer_* tools; never with PERSONALITY_KILNTAINERS */
    const char *version; /* of this server */
    const struct backend *backend; /* for its description, and what its computers can have of their own */
};

struct toolset;
struct toolset *toolset_new(const struct toolset_options *options, struct error *err);
struct toolset *toolset_free(struct toolset *t);

/* The JSON array of tools/list, valid as long as the toolset, the same bytes each time. Any thread, never
 * blocks. */
const char *toolset_list(const struct toolset *t, size_t *ret_len);
bool toolset_has(const struct toolset *t, const char *name);

/* What a tool may want of the client while it runs, on its worker. No tool of this server does; see struct
 * protocol_extension. Params are JSON objects. */
struct tool_client {
    void (*notify)(const struct tool_client *c, const char *method, const char *params);
    /* A request, in the legacy era only; ret becomes the JSON text of its result. -1: ERR_UNAVAILABLE, it
     * answered with an error; ERR_TIMEOUT, ERR_CANCELLED. */
    int (*ask)(const struct tool_client *c, const char *method, const char *params, struct buf *ret,
               struct error *err);
    /* Ends the event stream that the reply will come on, as if the connection had broken. */
    void (*pause)(const struct tool_client *c);
};

/* One call, on a worker. Progress and results go back by the caller's means. */
struct tool_call {
    const char *name;
    const json_t *arguments;          /* borrowed; NULL: none. Must be an object */
    const json_t *meta;               /* borrowed: the request's _meta; NULL: none */
    struct computer_session *session; /* NULL: the caller has none, and so no computers */
    struct cancel *cancel;            /* borrowed */
    const struct tool_client *client; /* borrowed; NULL: there is nothing to be had of it */
    const struct progress *progress;  /* borrowed; told on any thread until the call returns. NULL: nobody */
};
/* 0: ret holds the members of the result object, without braces:
 * "content":[...],"structuredContent":{...},"isError":false. -1 is for the protocol (unknown tool, arguments
 * not an object: ERR_INVALID; cancelled: ERR_CANCELLED, nothing is to be sent). Everything else that goes
 * wrong is a result with isError true, and *err says the same. */
int toolset_call(struct toolset *t, const struct tool_call *call, struct buf *ret, struct error *err);
/* The deadline by which a call waits in the queue for a thread: from its own timeout argument, else the
 * default. Never fails. */
int64_t toolset_deadline(const struct toolset *t, const struct tool_call *call);
