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
    /* A command that was to be killed doesn't answer. -1: it can't at the moment, for the reason in err, and
     * will be killed when it can; 0: the stream is closed, which ends it. NULL: 0. Called without a lock. */
    int (*on_silence)(void *ctx, struct error *err);
    void *ctx;
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
/* Counted references; the last one frees it. */
struct link *link_ref(struct link *l);
struct link *link_unref(struct link *l); /* accepts NULL, returns NULL */
DEFINE_CLEANUP(struct link *, link_unref)

/* As backend_ops.exec, except that what came of the command is left to verdict(): ret has everything but
 * that. shell: for request->command. ERR_GONE: the stream ended meanwhile, the message says how. A deadline
 * or token that is over kills the command over there first and waits for that: then the error is ERR_TIMEOUT
 * or the token's, and ret has the output so far; or it is that of on_silence. In every case ret is the
 * caller's to free. */
int link_exec(struct link *l, const struct exec_request *request, const char *shell, struct exec_result *ret,
              struct guest_exit *ret_exit, struct error *err);
