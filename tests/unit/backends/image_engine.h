/* An engine that knows two calls: looking at an image, and pulling it, as a script says. It listens on a Unix
 * socket; each connection has a thread. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "backends/engine/api.h"

enum pull_step_kind {
    PULL_END,   /* the answer is complete */
    PULL_SEND,  /* text, as a piece of the answer */
    PULL_AWAIT, /* until somebody was told a text that contains this one */
    PULL_GO,    /* until image_engine_go() */
    PULL_PAUSE, /* for some ms: silence, which is what is tested */
    PULL_HOLD,  /* until the client closes the connection */
    PULL_CUT,   /* the connection is closed, amid the answer */
};

struct pull_step {
    enum pull_step_kind kind;
    const char *text;
    int ms;
};

struct image_engine {
    /* The script. */
    const char *before, *after; /* the image as it is described before and after a pull; NULL: 404 */
    int inspect_status;         /* of every description, if it isn't 0 */
    int pull_status;            /* 0 is 200; others come with `pull_body` */
    const char *pull_body;
    const struct pull_step *steps;

    /* What happened. */
    int pulls, pulls_closed; /* begun; and given up by the client */
    char head[8192];         /* of the last request to pull */
    char told[256];          /* the last text that a listener was told */

    struct engine engine; /* for the functions under test */
    struct progress progress;
    char dir[32], path[64];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    int listener;
    int connections; /* open */
    int tells;
    bool pulled, go, ends;
};

void image_engine_start(struct image_engine *f);
void image_engine_stop(struct image_engine *f);
void image_engine_go(struct image_engine *f);
/* Until as many were told something, or as many pulls were given up. */
void image_engine_await_tells(struct image_engine *f, int count);
void image_engine_await_closed(struct image_engine *f, int count);
