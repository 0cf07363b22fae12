/* A stream to the guest program in a container, and commands over it: many at once, on threads of their
 * callers; one of those that wait reads for all. */
#pragma once

#include "backends/backend.h"
#include "backends/keeper.h"
#include "guest/serve_wire.h"
#include "net/http.h"

struct link;

struct link_options {
    struct http_stream *stream; /* taken over, also on failure */
    struct serve_config config; /* its lease is renewed as long as the link lives */
    /* A command that was to be killed doesn't answer. -1: it can't at the moment, for the reason in err, and
     * will when it can; 0: nothing is known, so the stream is closed unless something comes. NULL: 0. Called
     * by whoever ran the command, without a lock; it is to be quick. */
    int (*on_silence)(void *ctx, struct error *err);
    void *ctx;
    struct keeper *keeper; /* looks after the link when nobody waits; outlives it */
};

/* Waits for HELLO, sends CONFIG, waits for READY. NULL: ERR_UNAVAILABLE with what came instead (standard
 * error of the container included), ERR_TIMEOUT, the token's codes. */
struct link *link_open(const struct link_options *o, const struct wait *wait, struct serve_ready *ret_ready,
                       struct error *err);
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
 * or token that is over kills the command over there first and waits for that, though not for long: then the
 * error is ERR_TIMEOUT or the token's, and ret has the output so far, and a note if it isn't known that the
 * command has ended. In every case ret is the caller's to free. */
int link_exec(struct link *l, const struct exec_request *request, const char *shell, struct exec_result *ret,
              struct guest_exit *ret_exit, struct error *err);
/* Ends all that runs in the computer but the guest, which has to be its first process (else ERR_UNSUPPORTED).
 * While no link_exec() runs. A limit that is met meanwhile leaves open how far it got. */
int link_clear(struct link *l, const struct wait *wait, struct error *err);
