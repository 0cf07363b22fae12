/* A small MCP client over stdio, for programs that drive the real server: the demo, the bench, the escape
 * suite. One thread, one server, legacy protocol era. What arrives while something else is awaited is kept;
 * the server's stderr is read on the side, so that the server never waits for this client. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

#define MCP_PROTOCOL "2025-11-25"

struct mcp;

/* argv[0] is the server's path. */
struct mcp *mcp_start(const char *const *argv, char *const *env, struct error *err);
/* Kills the server if it still runs; NULL is fine; returns NULL. */
struct mcp *mcp_free(struct mcp *m);
DEFINE_CLEANUP(struct mcp *, mcp_free)
pid_t mcp_pid(const struct mcp *m);
/* What the server wrote to stderr, its last 64 KiB. */
const char *mcp_log(struct mcp *m);

/* One message; the id is the client's, unique. params (may be NULL) is taken over. */
int mcp_request(struct mcp *m, const char *method, json_t *params, int64_t *ret_id, struct error *err);
int mcp_notify(struct mcp *m, const char *method, json_t *params, struct error *err);
/* Bytes as they are, e.g. several lines, or something malformed. */
int mcp_send(struct mcp *m, const char *bytes, size_t n, struct error *err);
/* The whole reply to a request: its `result` or `error` is the caller's business. deadline: clock_now()
 * scale. */
json_t *mcp_wait(struct mcp *m, int64_t id, int64_t deadline, struct error *err);
/* Notifications so far, oldest first. Borrowed. */
const json_t *mcp_notifications(const struct mcp *m);

/* Request and wait: the `result`. A JSON-RPC error is ERR_INVALID with its message. */
json_t *mcp_call(struct mcp *m, const char *method, json_t *params, double seconds, struct error *err);
/* The handshake; result as mcp_call. */
json_t *mcp_initialize(struct mcp *m, double seconds, struct error *err);

/* A tool's result, taken apart. Strings are borrowed from `result`, never NULL, and cut at a NUL. */
struct mcp_tool_result {
    json_t *result;
    const json_t *data; /* structuredContent; NULL if there is none */
    bool is_error;
    const char *text; /* first text block */
    const char *out, *err;
    int exit_code;   /* -1: none told */
    int64_t took_ns; /* from the request's first byte to the reply's last */
};
int mcp_tool(struct mcp *m, const char *tool, json_t *arguments, double seconds, struct mcp_tool_result *ret,
             struct error *err);
void mcp_tool_result_done(struct mcp_tool_result *r);

/* For measuring: sends a ready-made line (or several, only one of them a request) and reads until a whole
 * line is there, with nothing parsed or allocated inside the measured time. Nothing else may be in flight.
 * *reply holds the line. */
int mcp_round_trip(struct mcp *m, const char *line, size_t n, double seconds, struct buf *reply,
                   int64_t *ret_ns, struct error *err);

/* Closes the server's stdin, reads on, and waits for its end. ret_status is of waitpid's form. ERR_TIMEOUT
 * leaves it running. */
int mcp_end(struct mcp *m, double seconds, int *ret_status, struct error *err);
