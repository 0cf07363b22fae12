/* The program in a container: commands over a stream. */
#pragma once

#include <stdbool.h>

/* Standard input and output are the stream of serve_wire.h. more: input goes on, behind the end of the first,
 * with standard error; first: it begins with SERVE_EARLY, if that is there. Returns the exit code, or
 * doesn't.
 */
int serve_run(bool more, bool first);
