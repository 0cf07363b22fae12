/* Calls of gRPC over HTTP/2, by libcurl: of one answer, and of a stream of messages from the peer.
 * Straight-line code for workers: every call blocks within its `struct wait`. Whatever a peer answers is
 * hostile input: heads, messages and the status have limits. Messages aren't compressed, and none that are is
 * taken.
 *
 * A connection serves one call at a time: several calls at once have several, which are kept for the next. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/limits.h"
#include "net/http.h"

#define GRPC_MESSAGE_MAX (4 * MIB)
#define GRPC_WORDS_MAX 512
#define GRPC_DETAILS_MAX (8 * KIB)

enum grpc_code {
    GRPC_OK = 0,
    GRPC_CANCELLED,
    GRPC_UNKNOWN,
    GRPC_INVALID_ARGUMENT,
    GRPC_DEADLINE_EXCEEDED,
    GRPC_NOT_FOUND,
    GRPC_ALREADY_EXISTS,
    GRPC_PERMISSION_DENIED,
    GRPC_RESOURCE_EXHAUSTED,
    GRPC_FAILED_PRECONDITION,
    GRPC_ABORTED,
    GRPC_OUT_OF_RANGE,
    GRPC_UNIMPLEMENTED,
    GRPC_INTERNAL,
    GRPC_UNAVAILABLE,
    GRPC_DATA_LOSS,
    GRPC_UNAUTHENTICATED,
    GRPC_CODE_COUNT
};

/* How a call ended. */
struct grpc_status {
    enum grpc_code code;          /* GRPC_UNAVAILABLE: also where the peer couldn't say anything */
    char message[GRPC_WORDS_MAX]; /* the peer's, as it came: control characters, any bytes */
    struct buf details;           /* grpc-status-details-bin, decoded */
};
#define GRPC_STATUS_INIT                                                                                     \
    {                                                                                                        \
        .details = BUF_INIT(GRPC_DETAILS_MAX)                                                                \
    }
void grpc_status_done(struct grpc_status *s);
const char *grpc_code_name(enum grpc_code code); /* "NOT_FOUND" */
/* It may pass: the same call, sent once more, may work. It doesn't tell whether the first took effect. */
bool grpc_code_is_passing(enum grpc_code code);

struct grpc_channel; /* to one peer; any thread */
/* Connects to nothing yet. url: "https://host[:port]", or "http://..." for HTTP/2 in the clear, to a peer
 * that is known to speak it. ca_file: whose certificates are trusted, alone; NULL: the system's. NULL:
 * ERR_INVALID, the address makes no sense; ERR_UNAVAILABLE: libcurl can't be loaded, or has no HTTP/2. */
struct grpc_channel *grpc_channel_new(const char *url, const char *ca_file, struct error *err);
struct grpc_channel *grpc_channel_ref(struct grpc_channel *c);
struct grpc_channel *grpc_channel_unref(struct grpc_channel *c); /* accepts NULL, returns NULL */
DEFINE_CLEANUP(struct grpc_channel *, grpc_channel_unref)

/* Strings are borrowed for the call. */
struct grpc_request {
    const char *path; /* "/package.Service/Method" */
    const struct http_header *headers;
    size_t header_count;
    const void *message;
    size_t size;
    int64_t timeout_ns; /* that the peer is told; 0: none */
};

/* 0: *ret has the answer's message, in the place of what was there. -1: ERR_INVALID, ERR_NOT_FOUND,
 * ERR_EXISTS, ERR_DENIED, ERR_LIMIT, ERR_UNSUPPORTED as the peer's status says, ERR_UNAVAILABLE for all
 * others and where it has none; ERR_TIMEOUT and the token's codes. ret_status may be NULL, else it is set for
 * all but the last two kinds, then its code is GRPC_OK. */
int grpc_call(struct grpc_channel *c, const struct grpc_request *request, const struct wait *wait,
              struct buf *ret, struct grpc_status *ret_status, struct error *err);

struct grpc_stream;
/* Connects, if need be, and sends the request; awaits nothing of the answer. One thread at a time. */
struct grpc_stream *grpc_open(struct grpc_channel *c, const struct grpc_request *request,
                              const struct wait *wait, struct error *err);
/* 1: the next message is in *ret; 0: the end, as it should be; -1 as of grpc_call(). After ERR_TIMEOUT and a
 * token's code it can be asked again. */
int grpc_next(struct grpc_stream *s, const struct wait *wait, struct buf *ret, struct grpc_status *ret_status,
              struct error *err);
/* Of a call of one answer: as grpc_call() goes on once the request is sent. */
int grpc_finish(struct grpc_stream *s, const struct wait *wait, struct buf *ret,
                struct grpc_status *ret_status, struct error *err);
/* Any thread: grpc_next() sees ERR_UNAVAILABLE soon. */
void grpc_cut(struct grpc_stream *s);
struct grpc_stream *grpc_close(struct grpc_stream *s); /* accepts NULL, returns NULL */
/* The same, of a stream whose peer has said all that is wanted and is about to end it: its connection serves
 * a later call, which waits for that end, a second at most; what comes is thrown away. */
struct grpc_stream *grpc_leave(struct grpc_stream *s);
