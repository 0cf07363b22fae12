/* The program in a container: commands over a stream. */
#pragma once

#include <stdbool.h>

/* Standard input and output are the stream of serve_wire.h. Input goes on, behind the end of the first, with
 * standard error, if there is more. Returns the exit code, or doesn't. */
int serve_run(bool more);
