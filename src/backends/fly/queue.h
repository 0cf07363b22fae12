/* What Fly takes of each kind of call for each machine (or app): so many at once, and then so many a second.
 * Beyond that it says 429. So each kind and machine has a pace of its own, for as long as it matters. Any
 * thread. */
#pragma once

#include "backends/pace.h"

enum fly_action {
    FLY_CREATE, /* for the app */
    FLY_LIST,   /* for the app */
    FLY_GET,
    FLY_UPDATE,
    FLY_START,
    FLY_STOP,
    FLY_DESTROY,
    FLY_WAIT,
    FLY_EXEC,
};

struct fly_queues;
/* calls_each_s: of the kind that Fly takes once a second; 0: that. */
struct fly_queues *fly_queues_new(double calls_each_s);
struct fly_queues *fly_queues_free(struct fly_queues *q); /* nobody is in one; accepts NULL, returns NULL */

struct fly_queue;
/* NULL: there are too many. */
struct fly_queue *fly_queue_enter(struct fly_queues *q, enum fly_action action, const char *identifier);
struct pace *fly_queue_pace(struct fly_queue *q);
void fly_queue_leave(struct fly_queues *all, struct fly_queue *q);
