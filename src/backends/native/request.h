/* From an exec_request to the packet that init gets: pipes, body, descriptors. */
#pragma once

#include <stdint.h>

#include "backends/native/private.h"

/* Our ends of one command's pipes, none of which ever blocks; -1 where there is none (any more). */
struct pipes {
    int in, out, err, status;
};
#define PIPES_NONE                                                                                           \
    (struct pipes)                                                                                           \
    {                                                                                                        \
        -1, -1, -1, -1                                                                                       \
    }
void pipes_close(struct pipes *p);

/* Has init start the command as `id`, in a scope (NULL: of its reaper). shell: what runs `command`.
 * ret_stdin_sent: how much of the input is written already; if it is all, the pipe is closed. */
int request_send(struct native_instance *i, const struct exec_request *request, const char *shell,
                 const struct scope *scope, uint32_t id, struct pipes *ret, size_t *ret_stdin_sent,
                 struct error *err);
