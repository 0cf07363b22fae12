/* What a tool call gives back: the members of an MCP result object, as text and as structured content, each
 * of which suffices alone. Written straight into the reply, since output may be many MiB. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "backends/backend.h"
#include "base/buf.h"
#include "base/error.h"

struct exec_reply {
    const struct exec_result *result;
    const char *computer_id; /* NULL: the tool doesn't tell */
    bool temporary;
    bool created;
    bool base64; /* stdout and stderr as exact bytes */
    double timeout_s;
    const char *limits;    /* of the computer, for the note after its memory limit struck */
    const json_t *ignored; /* names of arguments; NULL: none */
};
/* ERR_LIMIT if it doesn't fit, however much of the output is left out. On failure ret is as before. */
int result_write_exec(const struct exec_reply *reply, struct buf *ret, struct error *err);
/* {"error":..., "code":...} with isError true. */
int result_write_error(const struct error *why, struct buf *ret, struct error *err);
