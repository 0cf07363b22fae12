/* Starting this same program as one of the processes of wire.h. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "base/error.h"

struct process {
    const char *kind, *library;
    bool fuel;
    int in, out;       /* its fds 0 and 1; -1: /dev/null */
    int control, code; /* its fds 3 and 4, if kind is the zygote's */
};
/* ret_said: the end of its fd 2 that is ours, where it says what goes wrong. */
int process_start(const struct process *p, int *ret_pidfd, int *ret_said, struct error *err);
/* Reads what it says until it has ended. 0 if that was with exit code 0; else -1 with ERR_INVALID and what it
 * said, or if it didn't come so far ERR_UNAVAILABLE or the wait's codes. It is killed when the wait is over.
 */
int process_end(int pidfd, int said, const struct wait *wait, struct buf *ret_text, struct error *err);
