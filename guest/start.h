/* The start of a command over a stream: pipes, environment, script, reaper. */
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include "guest/request.h"

/* Our ends; they never block. -1: closed. */
struct pipes {
    int in, out[2];
    const char *input; /* what of the input is still to be written to `in` */
    size_t input_left;
};
#define PIPES_NONE                                                                                           \
    (struct pipes)                                                                                           \
    {                                                                                                        \
        .in = -1, .out = { -1, -1 }                                                                          \
    }

/* The reaper, or -1 with errno: no process, descriptor or memory to be had. `mapped` is what holds the run;
 * tied: it ends with us, however we end.
 */
pid_t start_command(uint32_t id, struct request_run *run, void *mapped, size_t mapped_size,
                    const struct rlimit *files, bool tied, struct pipes *ret);
/* As much as goes; closes the pipe when there is no more, or nobody to read it. */
void pipes_write_input(struct pipes *pipes);
void pipes_close(struct pipes *pipes);
