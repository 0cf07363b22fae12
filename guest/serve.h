/* The program in a container: commands over a stream. */
#pragma once

/* Standard input and output are the stream of serve_wire.h. Returns the exit code, or doesn't. */
int serve_run(void);
