/* Keeps one command's output within a limit: everything while stdout and stderr together fit, else head and
 * tail of each. The limit is shared: a command that writes to one stream only gets all of it. Half of the
 * limit goes to heads, first come first served, half to tails, taken from the longer one. Not thread-safe. */
#pragma once

#include "backends/backend.h"

enum output_stream { OUTPUT_STDOUT, OUTPUT_STDERR, OUTPUT_STREAMS };

struct output; /* collector */

/* Where the full output goes once not all of it can be kept; NULL: nowhere. Called when a stream is about to
 * lose bytes for the first time, with all that was kept of it so far, in order and in one or more pieces, of
 * which the very first has `first` set; then with every further piece that comes. */
typedef void output_spool_fn(void *ctx, enum output_stream stream, const void *bytes, size_t n, bool first);

struct output *output_new(size_t limit, output_spool_fn *spool, void *ctx);
/* Memory is allocated as output comes; when none is to be had the bytes are counted as omitted. */
void output_add(struct output *o, enum output_stream stream, const void *bytes, size_t n);
/* Moves what was kept into the result's two streams (path is left alone). */
void output_finish(struct output *o, struct exec_result *ret);
struct output *output_free(struct output *o);
DEFINE_CLEANUP(struct output *, output_free)
