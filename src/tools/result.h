/* What a tool call gives back: the members of an MCP result object, as text and as structured content, each
 * of which suffices alone. Written straight into the reply, since output may be many MiB. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "backends/backend.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"

struct exec_reply {
    const struct exec_result *result;
    const char *computer_id; /* NULL: the tool doesn't tell */
    bool temporary;
    bool created;
    double expires_in_s; /* without further use; 0: not told, or never */
    bool nameless;       /* it was made for a call without an id, and will be used again only by its own */
    bool base64;         /* stdout and stderr as exact bytes */
    double timeout_s;
    const char *limits;    /* of the computer, for the note after its memory limit struck */
    const json_t *ignored; /* names of arguments; NULL: none */
};
/* ERR_LIMIT if it doesn't fit, however much of the output is left out. On failure ret is as before. */
int result_write_exec(const struct exec_reply *reply, struct buf *ret, struct error *err);
/* Among the members of an object: in how many seconds the computer ends, to a tenth. False: it doesn't. */
bool result_write_expiry(struct json_writer *w, double expires_in_s);
/* Likewise: the names of arguments that were unknown. NULL: none. */
void result_write_ignored(struct json_writer *w, const json_t *ignored);
/* Any other result: `write` writes the object, and is asked for it twice. */
int result_write(void (*write)(struct json_writer *w, const void *object), const void *object,
                 struct buf *ret, struct error *err);
/* {"error":..., "code":...} with isError true. On success *err is *why. */
int result_write_error(const struct error *why, struct buf *ret, struct error *err);
