/* Plays the server towards `sandbox-guest serve`, over two pipes. Any failure of its own, and any frame that
 * is out of order, ends the test program, with words. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "guest/serve_wire.h"

#define STREAM_COMMANDS 512 /* of one stream, ever */

struct stream_options {
    const char *const *prefix; /* what runs the guest: "setpriv", ...; NULL: nothing */
    const char *const *env;    /* of the guest; NULL: none */
    uint32_t flags, nofile, lease_s;
    const char *spool_dir; /* NULL: nowhere */
    bool unconfigured;     /* only HELLO is awaited */
    bool first;            /* with SERVE_FIRST: `env` may have SERVE_EARLY, with a command of id 1 */
};

/* One command, as it is seen from here. */
struct heard {
    bool ended;
    struct serve_end end;
    uint32_t limit;
    struct {
        char *bytes;
        size_t size;
    } parts[2][2]; /* [stream][head, tail]; ended by a NUL that isn't counted */
};

struct stream {
    pid_t pid;   /* of what was started: the guest, or the prefix */
    int in, out; /* -1: closed */
    bool ended;  /* no more comes */
    struct serve_hello hello;
    struct serve_ready ready;
    unsigned pongs;
    uint32_t last_id;
    struct heard *heard; /* by id */
    char *pending;       /* of a frame that isn't whole */
    size_t pending_size;
};

struct run {
    const char *const *argv; /* NULL: /bin/sh -c shell */
    const char *shell;
    const char *const *env; /* NULL: none */
    const char *cwd;        /* NULL: "" */
    const void *in;         /* NULL: none, unless in_size */
    size_t in_size;
    bool empty_in;
    const char *script; /* NULL: none */
    uint32_t limit, spool;
};

struct stream stream_open(const struct stream_options *options);
/* Closes both pipes, waits for the process; its wait status. */
int stream_close(struct stream *s);
/* Ends our side only. */
void stream_hang_up(struct stream *s);
void stream_free(struct stream *s);

void stream_send(struct stream *s, uint32_t type, uint32_t id, const void *body, size_t size);
void stream_send_raw(struct stream *s, const void *bytes, size_t size);
/* Takes in what comes, once, waiting for something. */
void stream_listen(struct stream *s);
void stream_await_end(struct stream *s);

uint32_t stream_run(struct stream *s, const struct run *run);
/* As it is now: moves with every new command. */
struct heard *stream_heard(struct stream *s, uint32_t id);
/* Until END. */
struct heard *stream_wait(struct stream *s, uint32_t id);
struct heard *stream_shell(struct stream *s, const char *text);
/* Until the standard output's head holds this. */
void stream_await(struct stream *s, uint32_t id, const char *text);
const char *heard_out(const struct heard *h); /* standard output's head */
