/* What the guest program's record of a command means for who asked for it, on every backend that has it. */
#pragma once

#include "backends/backend.h"
#include "guest/wire.h"

/* What the words need to know of the computer. */
struct verdict_about {
    const char *shell;        /* in use for `command` */
    bool shell_was_there;     /* when the computer began */
    const char *other_shells; /* "/bin/sh, /bin/dash"; "" if there are none */
    int64_t pids;             /* its limit; 0: none that is known */
};

/* A result (0), or the error that it comes to (-1). The record is from a stranger: any values. */
int verdict(const struct verdict_about *about, const struct exec_request *request,
            const struct guest_exit *record, struct exec_result *ret, struct error *err);
/* A command that was stopped: by the clock it is a result, with the output so far; by a token it is the
 * token's error. */
int verdict_stopped(const struct error *why, struct exec_result *ret, struct error *err);
/* The record's numbers, which may be any. */
struct exec_usage verdict_usage(const struct guest_exit *record);
/* The error for a computer that ended under a command. memory_bytes: its limit, if that was it; else 0. */
int verdict_gone(int64_t memory_bytes, struct error *err);
