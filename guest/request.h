/* What the server asks, checked: pure functions of bytes, without input or output, so that a fuzzer can drive
 * them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "guest/serve_wire.h"
#include "guest/wire.h"

#define REQUEST_ARGC_MAX 8192
#define REQUEST_ENVC_MAX 2048

/* One exec. The strings stay where the body is. */
struct request_exec {
    const char *cwd;
    char **argv; /* NULL-ended; argv[-1] is free for an interpreter's name */
    char **envp; /* NULL-ended */
};

/* One RUN of serve_wire.h. Strings and bytes stay where the frame is. */
struct request_run {
    struct request_exec exec;
    const char *input, *script; /* NULL: none */
    size_t input_size, script_size;
    uint32_t output_limit, spool_limit;
};

/* Where each descriptor of an exec is among those of the packet; -1: not given. */
struct request_fds {
    int in, out, err, status, scope, body, script;
    unsigned count;
};

/* The type of a packet that is as long as its type demands and in order within itself, else 0. */
uint32_t request_type(const void *bytes, size_t size);
bool request_setup_ok(const struct guest_setup *setup, unsigned fd_count);
bool request_create_ok(const struct guest_create *create, unsigned fd_count);
bool request_name_ok(const struct guest_name *name, unsigned fd_count);
bool request_own_ok(const struct guest_own *own, unsigned fd_count);
/* False: the flags contradict each other; the places up to `status` hold all the same. */
bool request_exec_fds(uint32_t flags, struct request_fds *ret);
/* False: malformed. The result lives until the next call. */
bool request_exec_parse(const struct guest_exec *exec, char *body, size_t body_size,
                        struct request_exec *ret);
/* In place: from the letters of SERVE_EARLY to its bytes, and how many. -1: malformed. */
ssize_t request_early(char *text, size_t letters);
/* The same where it is known how many bytes they are, four letters for each three, or what is left. */
bool request_decode(char *text, size_t size);
/* A frame that the server may send, of a size that its type can have. */
bool request_frame_ok(const struct serve_frame *frame);
bool request_config_ok(const struct serve_config *config);
/* False: malformed. Results live until the next call of this or request_exec_parse(). */
bool request_run_parse(void *body, size_t size, struct request_run *ret);
