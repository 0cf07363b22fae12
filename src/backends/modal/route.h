/* The command router from within: where it is just now, and calls of it. */
#pragma once

#include <pthread.h>

#include "backends/modal/control.h"
#include "backends/modal/router.h"

#define MODAL_ROUTER "/modal.task_command_router.TaskCommandRouter/"

struct modal_router {
    struct modal_account *account;
    char id[MODAL_ID_SIZE], task[MODAL_ID_SIZE];
    struct pace *pace;
    pthread_mutex_t lock; /* of all that follows */
    struct grpc_channel *channel;
    char *authorization; /* "Bearer ..." */
    uint64_t generation; /* of these */
    struct attempt renewing;
};

/* What a call is made with; of that time, for modal_route_done(). */
struct modal_route {
    struct grpc_channel *channel;
    char *authorization;
    uint64_t generation;
};
void modal_route_of(struct modal_router *r, struct modal_route *ret);
void modal_route_done(struct modal_route *route);
/* The standard output of a command whose start was just sent: the router may know nothing of it yet, and
 * isn't read from before that is answered. NULL: it couldn't be opened. */
struct modal_output *modal_output_open_early(struct modal_router *r, const char *exec_id,
                                             const struct wait *wait);
/* The one with which a call was refused is replaced, unless that has happened already. */
int modal_route_renew(struct modal_router *r, const struct modal_route *refused, const struct wait *wait,
                      struct error *err);
