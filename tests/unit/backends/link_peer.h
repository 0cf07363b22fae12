/* The other end of a link: an HTTP peer that agrees to leave HTTP, and a guest behind it, which is either a
 * function on a thread or the real program. What goes wrong on that thread ends the test program, with
 * words. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "backends/engine/link.h"

struct link_peer;
typedef void guest_fn(struct link_peer *p);

struct link_peer {
    guest_fn *guest; /* NULL: the real one */
    int near, far;   /* -1: taken, or closed */
    pthread_t thread;
    pid_t pid; /* of the real one */
    int inner; /* to it; the engine is between */
    struct http_client *client;
    /* For guests: the last frame that was heard. */
    struct serve_frame frame;
    char *body;
};

/* The stream, as link_open() takes it. */
struct http_stream *peer_begin(struct link_peer *p, guest_fn *guest);
/* Waits for the guest's end, which the end of the link is. */
void peer_end(struct link_peer *p);

/* The same, and opens a link over it; it must open. */
struct link *peer_link(struct link_peer *p, guest_fn *guest);
struct link *peer_link_as(struct link_peer *p, guest_fn *guest, const struct link_options *options);
/* Looks after the links of all tests. */
struct keeper *peer_keeper(void);

/* For guests. False: there are no more. */
bool hear(struct link_peer *p);
/* Hears one that has to be of this type. */
void expect(struct link_peer *p, enum serve_type type);
void say(struct link_peer *p, enum serve_type type, uint32_t id, const void *body, size_t n);
void say_bytes(struct link_peer *p, const void *bytes, size_t n); /* in the engine's pieces */
void say_raw(struct link_peer *p, const void *bytes, size_t n);
void say_output(struct link_peer *p, uint32_t id, uint32_t stream, uint32_t part, const char *text);
void say_end(struct link_peer *p, uint32_t id, const struct serve_end *end); /* NULL: exit code 0 */
void say_hello(struct link_peer *p);
/* HELLO, CONFIG, READY. */
void greet(struct link_peer *p);
_Noreturn void give_up(const char *what);
