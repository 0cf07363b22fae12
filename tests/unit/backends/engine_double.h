/* An engine of few words, on a Unix socket: what it answers to which request is a table. Each connection has
 * a thread. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "backends/engine/api.h"

#define DOUBLE_ANSWERS 16

struct engine_answer {
    const char *request; /* how the request line begins: "POST /v1.41/containers/" */
    int status;          /* 101: `body` comes raw behind the head, then the end */
    const char *headers; /* more of them, each ended by "\r\n"; NULL: none */
    const char *body;    /* NULL: "" */
    size_t body_size;    /* 0: of the string */
    bool holds;          /* 101: the end comes when the client hangs up */
    int uses;            /* after so many requests the next row of the same request is it; 0: all */
    const char
        *after; /* the next row is it until something was asked that holds this; NULL: from the beginning */
};

struct engine_double {
    const struct engine_answer *answers; /* ended by one without a request; of the first ones that fit */
    char dir[32], path[64];
    int listener;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int connections;
    bool ends;
    int used[DOUBLE_ANSWERS];
    struct buf seen;      /* all requests: "METHOD PATH BODY\n" each */
    struct engine engine; /* connected to it */
};
void engine_double_start(struct engine_double *d, const struct engine_answer *answers);
void engine_double_stop(struct engine_double *d);
/* What was asked; until it is stopped. */
const char *engine_double_seen(struct engine_double *d);
