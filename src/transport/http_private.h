/* What the three files of the HTTP server share: a connection, a request on it, and who does what. */
#pragma once

#include "base/list.h"
#include "transport/http_server.h"
#include "transport/mhd.h"

/* What a connection is waited for, each for its own time (struct http_server_limits). */
enum http_phase {
    HTTP_PHASE_NONE,   /* for us: no deadline */
    HTTP_PHASE_HEAD,   /* a request's headers, all of them */
    HTTP_PHASE_BODY,   /* more of its body */
    HTTP_PHASE_IDLE,   /* its next request */
    HTTP_PHASE_WRITE,  /* that it takes more of the answer */
    HTTP_PHASE_LINGER, /* that it hears it was refused */
    HTTP_PHASE_LAST,   /* instead of the first three: what it sent before it closed its side */
    HTTP_PHASE_OVER,   /* the same, and there is nothing more: for what is being done with the last of it */
    HTTP_PHASE_ENDED,  /* of a socket that was taken: for the loop, to tell so and to close it */
    HTTP_PHASE_COUNT
};

struct http_peer;

struct http_connection {
    struct http_server *server;
    struct MHD_Connection *mhd;
    int fd; /* libmicrohttpd closes it, unless it was taken from it */
    uid_t uid;
    struct http_peer *peer;       /* NULL: a unix socket */
    struct http_request *request; /* NULL: between two */
    struct list due;              /* in the server's list of its phase, the oldest first */
    int64_t deadline;
    enum http_phase phase;
    bool suspended; /* by us, and not resumed since */
    bool is_taken;  /* a stream's: the socket is ours, libmicrohttpd has another descriptor of it, or none any
                       more */
    bool hung_up;   /* it did: it sends nothing any more, and is not waited for */
    bool lost;      /* cut off: nothing is sent any more */
    bool is_loopback;
    char address[];
};

enum http_state {
    HTTP_HEAD,    /* the request line is there */
    HTTP_BODY,    /* on_head was called */
    HTTP_WAITING, /* on_request was called, or need not be: for the answer */
    HTTP_SENDING, /* the answer is libmicrohttpd's, or it is a stream on a socket that was taken */
    HTTP_REFUSED, /* the answer went out on its own; what still comes is read away */
};

struct http_request {
    struct http_connection *connection;
    enum http_state state;
    bool is_malformed; /* its target */
    bool is_told;      /* on_head was called, so on_gone must be */
    bool is_head;      /* HEAD: an answer without its content */
    bool is_old;       /* of HTTP/1.0 */
    void *slot;
    const char *method;
    char *own_method; /* a copy, since the socket was taken */
    struct buf body;
    size_t arrived; /* of the body, in all */
    size_t counted; /* of that, towards the next renewal of the deadline */

    struct MHD_Response *answer; /* NULL: none yet, or a stream */
    unsigned status;             /* 0: none was given yet */
    int64_t began;
    size_t answered;    /* bytes of the answer's content, so far */
    struct buf content; /* of a long answer; held */

    bool is_stream, is_ended; /* ended: there will be no more bytes */
    bool is_flushed;          /* all of an ended stream is the kernel's */
    struct list pieces;       /* of a stream, in http_stream.c: what waits */
    size_t queued;            /* bytes of those */

    const char *raw_target; /* where it lies in libmicrohttpd's buffer */
    size_t target_len;
    const char *authority, *path;
    char *query;   /* each NULL: none */
    char target[]; /* what these three are in */
};

/* -- http_server.c: connections, their deadlines, and libmicrohttpd. */

const struct http_server_options *http_options(const struct http_server *s);
struct http_server_counts *http_counts(struct http_server *s);
bool http_is_stopping(const struct http_server *s);
void http_set_phase(struct http_connection *c, enum http_phase phase);
/* Only within one of libmicrohttpd's calls for this connection. False: the peer has gone, there is nothing to
 * wait for. */
bool http_suspend(struct http_connection *c);
void http_resume(struct http_connection *c); /* harmless if it isn't suspended */
/* Within one of libmicrohttpd's calls for this connection, which is to be told MHD_NO then: it closes its
 * descriptor and forgets the connection. False: it was not possible. */
bool http_take_socket(struct http_connection *c);
/* Of a socket that was taken: http_stream_flush() is called when the kernel takes bytes again, or at once if
 * it does now. */
void http_await_room(struct http_connection *c);
/* No more bytes either way; its request is gone soon. Any time. */
void http_cut(struct http_connection *c);
/* Counts n bytes that are held for a reader, until http_release(). False: all connections together hold too
 * much for them. `waiting`: what this one would then hold; a little always passes. */
bool http_hold(struct http_connection *c, size_t n, size_t waiting);
void http_release(struct http_connection *c, size_t n);
/* Something has happened on a connection: the loop may go on at full speed. */
void http_note(struct http_server *s);

/* -- http_request.c: what libmicrohttpd calls for a request. */

void *http_on_line(void *server, const char *target, struct MHD_Connection *mhd);
enum MHD_Result http_on_part(void *server, struct MHD_Connection *mhd, const char *url, const char *method,
                             const char *version, const char *bytes, size_t *n, void **request);
void http_on_completed(void *server, struct MHD_Connection *mhd, void **request,
                       enum MHD_RequestTerminationCode why);
/* For a socket that was taken. */
void http_end_request(struct http_request *r);
/* Sends a small answer past libmicrohttpd, and ends our side of the connection. */
void http_answer_directly(struct http_connection *c, unsigned status);

/* -- http_stream.c */

void http_stream_flush(struct http_request *r); /* sends what waits */
void http_stream_clear(struct http_request *r);
