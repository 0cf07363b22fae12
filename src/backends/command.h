/* A command as the guest program takes it (the body of guest/wire.h's struct guest_exec). */
#pragma once

#include "backends/backend.h"

/* The command's text is too long for an argument: the shell reads it as a file, GUEST_SCRIPT_FD. */
bool command_needs_script(const struct exec_request *r);
/* Appends one string with its NUL. ERR_INVALID: it has a NUL inside; ERR_LIMIT: the body is full. */
int command_append_text(struct buf *body, const void *text, size_t n, struct error *err);
/* Appends the working directory, then the arguments: argv, or those that make `shell` run the command.
 * no_proc: descriptors have no names in the computer. */
int command_append(struct buf *body, const char *cwd, const struct exec_request *r, const char *shell,
                   bool no_proc, uint32_t *ret_argc, struct error *err);
