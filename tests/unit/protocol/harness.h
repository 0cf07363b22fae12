/* A protocol on a real loop and pool, with one session whose messages a test reads. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/loop.h"
#include "base/macros.h"
#include "base/pool.h"
#include "doubles.h"
#include "protocol/endpoint.h"
#include "protocol/protocol.h"

#define CAPABILITIES                                                                                         \
    "{\"tools\":{\"listChanged\":false},\"resources\":{\"subscribe\":false,\"listChanged\":false},"          \
    "\"prompts\":{\"listChanged\":false}}"
#define SERVER_INFO "{\"name\":\"test\",\"title\":\"Test\",\"version\":\"1\"}"
#define CALL(id, method) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"" method "\"}"
#define CALL_WITH(id, method, params)                                                                        \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"" method "\",\"params\":" params "}"
#define RESULT(id, members) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"result\":{" members "}}"
#define ERROR(id, code, message)                                                                             \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"error\":{\"code\":" code ",\"message\":\"" message "\"}}"
#define INITIALIZE(id, version) CALL_WITH(id, "initialize", "{\"protocolVersion\":\"" version "\"}")

struct harness {
    struct loop *loop;
    struct pool *pool;
    struct toolset *toolset;
    struct computers *computers;
    struct computers_double computers_record;
    struct protocol *protocol;
    struct session *session;
    struct loop_timer *watchdog;

    struct buf *received; /* messages, oldest first */
    size_t received_count;
    int first_replies;         /* how often the owner was told */
    struct call_report report; /* the last one, tool and principal in these: */
    char report_tool[32], report_principal[32];
    int reports;
    bool closed, resumed;
    char *left_behind;

    struct endpoint *endpoint; /* NULL: none */
    bool endpoint_closed;
    int sessions_ended;
    void *last_slot; /* of the last session that ended */
};

struct harness_options {
    int max_running, max_queued;  /* 0: 8, 64 */
    int64_t progress_interval_ms; /* 0: the protocol's own */
    bool tools_later;             /* they come by harness_open() */
};
struct harness *harness_new(const struct harness_options *options); /* NULL: defaults */
void harness_open(struct harness *h);
/* Closes the session, if the test hasn't, and all else. */
void harness_free(struct harness *h);

void harness_tell(struct harness *h, const char *message); /* waits until the session accepts it */
/* Runs the loop until the session has sent something; the oldest message, the caller's to free. */
char *harness_read(struct harness *h);
void harness_expect(struct harness *h, const char *message);
/* tell, then expect; NULL: no reply, which a ping that comes right after proves. */
void harness_ask(struct harness *h, const char *request, const char *reply);
void harness_initialize(struct harness *h, const char *version);
/* Runs the loop until *flag. */
void harness_run_until(struct harness *h, const bool *flag);
void harness_close(struct harness *h, int64_t deadline);

struct turn {
    const char *request, *reply; /* as for harness_ask */
};
void harness_play(const struct turn *script, size_t n); /* on a new session */

/* -- Over HTTP: an endpoint on the same protocol. */

struct http_options {
    double session_timeout_s;                     /* 0: an hour */
    int max_sessions, max_sessions_per_principal; /* 0: 100 */
};
void harness_listen(struct harness *h, const struct http_options *options); /* NULL: defaults */
void harness_close_endpoint(struct harness *h, int64_t deadline);

/* One POST and what came back. Stays where it is until it has ended or was abandoned. */
struct post {
    struct harness *harness;
    struct exchange *exchange;
    char *notified; /* the last notification */
    int notified_count;
    bool ended;
    int status;
    char *session_id, *reply; /* NULL: none */
};
void post_send(struct harness *h, struct post *p, const char *principal,
               const struct exchange_headers *headers, const char *body);
void post_await(struct post *p);
int post_error_code(const struct post *p); /* of its reply; 0: a result */
void post_done(struct post *p);
/* Sends, waits, and checks: status, and the code of the error in the reply (0: a result; NO_REPLY: none). */
#define NO_REPLY 1
void post_expect(struct harness *h, const char *principal, const struct exchange_headers *headers,
                 const char *body, int status, int code);
/* The id of a new session, the caller's to free. */
char *post_initialize(struct harness *h, const char *principal, const char *version);
