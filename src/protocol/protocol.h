/* MCP itself: from a JSON-RPC message to a reply, in both protocol eras at once. Loop thread only.
 *
 *   legacy  2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25: initialize, then a session's state
 *   modern  2026-07-28: every request carries its version and capabilities in params._meta
 *
 * The era is decided per message (reference: MCP specification, basic/versioning and basic/transports). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/pool.h"
#include "computers/computers.h"
#include "tools/tools.h"

/* One tools/call that is over. */
struct call_report {
    const char *tool, *principal;
    enum error_code outcome; /* ERR_NONE: a result; else what the error, or the result with isError, said */
    int64_t duration_ns;     /* with its time in the queue */
    size_t reply_bytes;      /* 0: it got none */
};

struct json_writer;
struct rpc_error;

enum extension_answer {
    EXTENSION_NOT_MINE,
    EXTENSION_RESULT,         /* the members of the result are written */
    EXTENSION_INPUT_REQUIRED, /* likewise; modern: the client is to come again with answers */
    EXTENSION_ERROR,          /* *error says why */
};

/* Methods besides those that this server has, or instead of them: for a server that is to show all of the
 * protocol (tests/fixtures). Loop thread. */
struct protocol_extension {
    const char *capabilities; /* JSON object: what initialize and server/discover tell, instead of ours */
    enum extension_answer (*serve)(const char *method, const json_t *params, bool modern,
                                   struct json_writer *w, struct rpc_error *error);
};

struct protocol_options {
    struct loop *loop;
    struct pool *pool;
    struct toolset *toolset; /* NULL: they come later, by protocol_open() */
    struct computers *computers;
    const char *server_name, *server_title, *server_version;
    bool dashboard;               /* there is an app to look at computers with (tools/dashboard.h) */
    int64_t progress_interval_ms; /* 0: PROGRESS_INTERVAL_MS */
    /* Once, after the first initialize or discover reply was written: time to warm up. */
    void (*on_first_reply)(void *ctx);
    void (*on_call)(void *ctx, const struct call_report *report); /* may be NULL */
    void *ctx;
    const struct protocol_extension *extension; /* NULL: none. Its tools may ask the client, too */
};
struct protocol;
struct protocol *protocol_new(const struct protocol_options *options);
/* The tools are there now, and the computers. Until then greetings, pings and all else that isn't about them
 * are answered; the first message that is makes its session accept nothing more, and is served now. */
void protocol_open(struct protocol *p, struct toolset *toolset, struct computers *computers);
/* Every session was closed and has said so; the pool is closed too. What a passed deadline had left is freed.
 * Returns NULL. */
struct protocol *protocol_free(struct protocol *p);

/* Where a session's messages go: set by the transport. */
struct session_sink {
    /* Takes the content of *message (one JSON text, no newline). on_written (may be NULL) is called on the
     * loop when its last byte was handed to the kernel. */
    void (*send)(void *ctx, struct buf *message, void (*on_written)(void *arg), void *arg);
    /* Whether a result of so many bytes may still wait behind those that nobody has read. May be NULL: any
     * may. */
    bool (*takes)(void *ctx, size_t bytes);
    /* Called by session_close: forget the session, nothing is sent any more. May be NULL. */
    void (*closed)(void *ctx);
    void *ctx;
};

struct session;
struct session *session_new(struct protocol *p, const char *principal, const struct session_sink *sink);
/* One message as it came, without its line end; only while session_accepts(). The bytes are the caller's
 * again on return. Replies may be sent before it returns. Order: what comes later never overtakes in being
 * understood, though replies come as they are ready. */
void session_receive(struct session *s, const char *bytes, size_t n);
/* The transport couldn't take a message (too long): the reply is a JSON-RPC error with id null. */
void session_refuse(struct session *s, const struct error *why);
/* False while a long message is being understood (on a worker), or one waits for protocol_open(): the
 * transport keeps what it has until on_resume is called. */
bool session_accepts(const struct session *s);
/* No call runs and no message is being understood. */
bool session_is_idle(const struct session *s);
void session_on_resume(struct session *s, void (*fn)(void *arg), void *arg);
/* Nothing is sent any more; all calls are cancelled and the session's computers killed; on_done is called on
 * the loop when all of it is gone, or soon after `deadline`: left_behind then says what the reaper has to do,
 * else it is NULL. The session is the protocol's from here on. */
void session_close(struct session *s, int64_t deadline, void (*on_done)(void *arg, const char *left_behind),
                   void *arg);
