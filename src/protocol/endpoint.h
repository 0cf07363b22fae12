/* The protocol over Streamable HTTP: messages come one by one, each in a POST of its own, from whoever sent
 * it. Which session a message belongs to, and whether to any, is decided here, by the rules of the revisions
 * (MCP specification, basic/transports). Loop thread only.
 *
 *   legacy  initialize makes a session, whose id comes back in a header and has to come with all that
 *           follows. Its temporary computers are its own. It ends by DELETE, or when nobody has used it for
 *           --session-timeout; a call that runs, and an open stream, is use.
 *   modern  nothing but the request itself counts. Its computers belong to the principal, each held by a
 * lease of --session-timeout that use renews.
 *
 * One exchange is: a message in; notifications out, as they come; then its end, with at most one reply. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "protocol/protocol.h"

struct endpoint_options {
    struct protocol *protocol;
    double session_timeout_s;
    int max_sessions, max_sessions_per_principal;
    /* A session has ended, whatever ended it; what the transport keeps for it (http_session_slot) goes. */
    void (*on_session_end)(void *ctx, void *slot);
    void *ctx;
};
struct endpoint;
struct endpoint *endpoint_new(const struct endpoint_options *options);
/* Ends everything, as session_close() does for one: exchanges end with 503. on_done once, when all is gone or
 * soon after `deadline`. No exchange may begin any more. */
void endpoint_close(struct endpoint *e, int64_t deadline, void (*on_done)(void *arg, const char *left_behind),
                    void *arg);
/* Calls that run, of all sessions and principals: what a graceful stop waits for. */
int endpoint_running(const struct endpoint *e);
int endpoint_sessions(const struct endpoint *e);    /* legacy ones that haven't ended */
struct endpoint *endpoint_free(struct endpoint *e); /* after on_done; returns NULL */

/* -- One POST. */

/* As they came; NULL: absent. Only what is one line of visible text gets here. */
struct exchange_headers {
    const char *session_id;       /* Mcp-Session-Id */
    const char *protocol_version; /* MCP-Protocol-Version */
    const char *method, *name;    /* Mcp-Method, Mcp-Name; name as on the wire, perhaps in =?base64?...?= */
};

/* Whether it names a revision without sessions: then a GET or DELETE has no meaning. */
bool endpoint_is_modern_version(const char *version);

struct exchange_end {
    int status;             /* of HTTP, as long as no header was sent: 200, 202, 400, 404, 503 ... */
    const char *session_id; /* for the response's header: a session was made. Else NULL */
    struct buf *reply; /* one JSON text, the content may be taken; NULL: none (202, or a cancelled call) */
};
struct exchange_sink {
    /* Before the end. The content is taken. */
    void (*notify)(void *ctx, struct buf *message);
    /* The response is to end, though the exchange goes on: the client comes back for the rest. May be NULL.
     */
    void (*pause)(void *ctx);
    /* Once, and the last: the exchange is freed on return. May come from within exchange_begin(). */
    void (*end)(void *ctx, const struct exchange_end *end);
    void *ctx;
};

struct exchange;
/* bytes: the body, the caller's again on return. Returns NULL if it has ended already. */
struct exchange *exchange_begin(struct endpoint *e, const char *principal,
                                const struct exchange_headers *headers, const char *bytes, size_t n,
                                const struct exchange_sink *sink);
/* The legacy session that it belongs to, once that is known (with the first notify at the latest); modern
 * ones have none: NULL. */
struct http_session *exchange_session(const struct exchange *x);
/* Nobody listens any more. In the modern era that cancels the call; in the legacy era it doesn't. The sink is
 * called no more in the first case (exchange is freed), and goes on being called in the second. True: freed.
 */
bool exchange_abandon(struct exchange *x);

/* -- A legacy session, for the transport's part of it: streams. */

struct http_session;
/* NULL: there is none of this id for this principal. Counts as use. */
struct http_session *http_session_find(struct endpoint *e, const char *principal, const char *id);
const char *http_session_version(const struct http_session *s); /* the revision agreed on */
void **http_session_slot(struct http_session *s);               /* the transport's own, NULL at first */
void http_session_hold(struct http_session *s);    /* an open stream: the session doesn't time out */
void http_session_release(struct http_session *s); /* the same stream's end */
/* DELETE: cancels its calls, removes its temporary computers. */
void http_session_end(struct http_session *s);
