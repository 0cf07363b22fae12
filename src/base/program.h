/* Programs that are asked one thing, and end. What they started ends with them. */
#pragma once

#include "base/buf.h"
#include "base/cancel.h"
#include "base/error.h"

/* argv[0] is the program's path; its environment is ours, its errors are seen by nobody. It has ended when
 * these return, by SIGKILL if it wasn't done within the wait (ERR_TIMEOUT, or the token's code).
 * ret_code: its exit code, -1 if a signal ended it; set only where 0 is returned. */

/* `input` is what it reads (NULL: nothing), a few bytes; what it prints is appended to `answer`, which gets
 * all its room at once and may therefore hold a secret. ERR_LIMIT: it prints more. */
int program_ask(const char *const *argv, const char *input, const struct wait *wait, struct buf *answer,
                int *ret_code, struct error *err);
/* Reads the one file and writes the other. */
int program_filter(const char *const *argv, int in, int out, const struct wait *wait, int *ret_code,
                   struct error *err);
