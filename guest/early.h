/* What comes before the stream (serve_wire.h, SERVE_EARLY). */
#pragma once

#include <stddef.h>

/* Takes it out of our environment, so that no command has it, and wipes it there, so that nobody reads it
 * there. *ret: memory.h's, NULL: there is none. -1: what there is makes no sense. */
int early_take(void **ret, size_t *ret_size);
