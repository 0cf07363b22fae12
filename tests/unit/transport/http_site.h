/* An HTTP server in a thread of its own, with a handler that tells the test what it hears, and clients that
 * are plain blocking sockets. Nothing waits for time: a wait ends with what it waits for, or fails after
 * WATCHDOG_MS. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/loop.h"
#include "transport/http_server.h"
#include "transport/listen.h"

#define WATCHDOG_MS 60000
#define BIG_BYTES (20 * MIB)

struct site_counts {
    int heads, requests, gone, sent; /* sent: of those that are gone */
    int held;                        /* requests that wait for site_answer() */
    bool overflowed;                 /* http_reply_write() was false */
};

struct site {
    pthread_t thread;
    struct loop *loop;
    struct http_server *server;
    struct listening listening;
    struct http_server_limits limits;
    int port; /* of 127.0.0.1 */
    char dir[32], path[64];

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct site_counts counts;
    struct http_request *held[64];
    int held_count;
    bool started;
};

extern const struct http_server_limits generous; /* nothing of it is reached by what isn't about it */

/* What the handler does, by path:
 *   /early      answers 401 at the head
 *   /held       answers when it is told: site_answer(), or site_write() and site_end() for /held/stream
 *   /stream     begins an event stream at the head, with one event
 *   /big        BIG_BYTES of 'x'
 *   /flood      as a stream, as much as is taken
 *   all others  method, path, query, peer, the header X-Test, and the body */
void site_start(struct site *s, const struct http_server_limits *limits);
void site_stop(struct site *s);

void site_stop_accepting(struct site *s);
void site_answer(struct site *s);                  /* all held ones: 200 "late" */
void site_write(struct site *s, const char *text); /* to all held ones, as streams; "" begins only */
void site_end(struct site *s);                     /* all held streams */
struct site_counts site_counts(struct site *s);
struct http_server_counts site_server_counts(struct site *s);
/* Until is(counts, n). */
void site_wait(struct site *s, bool (*is)(const struct site_counts *c, int n), int n);
bool gone_is(const struct site_counts *c, int n);
bool held_is(const struct site_counts *c, int n);
bool heads_is(const struct site_counts *c, int n);

/* -- Clients. A read that takes WATCHDOG_MS fails the test. */

int dial(const struct site *s);
int dial_unix(const struct site *s);
/* As much as the server takes: it may have closed the connection. */
void say(int fd, const char *bytes, size_t n);
void say_text(int fd, const char *text);
/* One whole answer, as text: status line, headers, content without its chunks' frames. "" at the end of the
 * connection. What it returns is freed by the caller. */
char *hear(int fd);
char *hear_head(int fd);
char *hear_to_end(int fd); /* everything, raw; also what came before a reset */
bool is_closed(int fd);    /* waits: nothing more comes */
/* The whole of one exchange on a connection of its own. */
char *ask(const struct site *s, const char *request);
int status_of(const char *answer); /* 0: none */
const char *content_of(const char *answer);
