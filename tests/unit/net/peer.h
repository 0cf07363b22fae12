/* A scripted HTTP server on a thread: what it reads, what it answers byte by byte, how it cuts. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "net/http.h"
#include "tests/unit/base/check.h"

enum step_kind {
    END,    /* of the script: the connection is closed */
    ACCEPT, /* the next connection; the one before is closed */
    HEAD,   /* reads up to an empty line */
    READ,   /* reads until what came since the last HEAD or READ ends with text */
    SEND,   /* text, n times (0 is once) */
    BYTES,  /* n bytes, which text points to */
    FIRE,   /* the cancel token */
    HOLD,   /* nothing, until the client has closed the connection */
    DRAIN,  /* reads and drops, until the client sends no more */
};

struct step {
    enum step_kind kind;
    const char *text;
    size_t n;
};

struct peer {
    char dir[32], path[64]; /* of its Unix socket; path is "" for TCP */
    char url[64];
    int listener, connection;
    const struct step *script;
    struct cancel *cancel; /* for FIRE */
    struct buf got;        /* all that was read by HEAD and READ */
    int accepted;
    bool gave_up; /* the client closed where the script expected bytes */
    pthread_t thread;
};

/* Make the listening socket; the script begins with peer_run(). */
void peer_listen_unix(struct peer *p);
void peer_listen_tcp(struct peer *p);
void peer_run(struct peer *p, const struct step *script);
/* Waits for the script's end; it waits for no connection any more. What was read stays. */
void peer_stop(struct peer *p);
/* The same, and takes all away. */
void peer_join(struct peer *p);

/* How many descriptors this process has open. */
int open_descriptors(void);
