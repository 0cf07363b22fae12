/* The shell for command texts, where a computer tells which it has whenever our program there begins to
 * serve; and so, from one command to what it comes to. */
#pragma once

#include <stdatomic.h>

#include "backends/backend.h"
#include "guest/serve_wire.h"

struct shells {
    const char *chosen; /* by an option, borrowed; NULL: bash if there is one, else sh */
    atomic_bool has_bash, has_sh;
};
void shells_init(struct shells *s, const char *chosen); /* both are there, as far as we know */
/* What the computer says of itself. Any thread. */
void shells_tell(struct shells *s, const struct serve_ready *ready);

/* Runs it, with this shell for request->command. As `exec` of struct backend_ops, but what it comes to is
 * left to verdict(), and a wait that is over is an error. */
typedef int shells_run_fn(void *computer, const struct exec_request *request, const char *shell,
                          struct exec_result *ret, struct guest_exit *ret_exit, struct error *err);
/* As `exec` of struct backend_ops. */
int shells_exec(struct shells *s, shells_run_fn *run, void *computer, const struct exec_request *request,
                struct exec_result *ret, struct error *err);
