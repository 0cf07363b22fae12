/* A stream to the guest program in a container, and commands over it: many at once, on threads of their
 * callers; one of those that wait reads for all. */
#pragma once

#include "backends/backend.h"
#include "guest/serve_wire.h"
#include "net/http.h"

struct link;

struct link_options {
    struct http_stream *stream; /* taken over, also on failure */
    bool multiplexed;           /* the engine puts a header of 8 bytes before each piece (no terminal) */
    struct serve_config config;
};

/* Waits for HELLO, sends CONFIG, waits for READY. NULL: ERR_UNAVAILABLE with what came instead (standard
 * error of the container included), ERR_TIMEOUT, the token's codes. */
struct link *link_open(const struct link_options *o, const struct wait *wait, struct serve_ready *ret_ready,
                       int32_t *ret_pid, struct error *err);
/* False once the stream has ended. Never blocks. */
bool link_alive(struct link *l);
/* Ends all commands under way (ERR_GONE) and closes the stream: the guest sees the end of its input. Any
 * thread; again is harmless. */
void link_close(struct link *l);
struct link *link_free(struct link *l);

/* As backend_ops.exec, except that the caller has decided on the shell: the exit record comes back raw, and
 * ret has everything else. ERR_GONE: the stream ended meanwhile. Cancel and deadline kill the command over
 * there first, and wait for that. */
int link_exec(struct link *l, const struct exec_request *request, char *const *argv, const char *script,
              size_t script_len, struct exec_result *ret, struct guest_exit *ret_exit, struct error *err);
