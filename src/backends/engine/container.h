/* The container that a computer is: its name, its labels, and the body of the Engine API's ContainerCreate,
 * with safe defaults and what --docker-run-flag makes of them. Talks to no engine. Source: Engine API v1.41.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "backends/backend.h"
#include "backends/labels.h"
#include "base/error.h"

/* Labels that never change. The first four are those of the Python programs, whose containers have no other.
 */
#define LABEL_IMAGE "kilntainers.image" /* as it was asked for */
#define LABEL_MODE "kilntainers.mode"   /* "serve": our guest is the first process; "exec": it isn't */

#define CONTAINER_SHELL "/bin/sh" /* keeps a container up that has no guest */

/* Strings and lists (NULL-ended, or NULL) are borrowed for the call. */
struct container_options {
    const char *image; /* as the engine is asked for it */
    const char *id, *principal;
    const char *key;
    bool temporary;
    bool replacing;                     /* beside one of the same id, so under another name */
    char *const *env;                   /* of the computer's own; NULL: none */
    const struct computer_owner *owner; /* NULL: nobody that is known */
    const char *guest;                  /* path of our program in the container; NULL: it can't run there */
    char *const *image_env;             /* what the image sets, as far as it is known */
    const char *image_user;             /* the image's; NULL or "": root, as far as it is known */
    bool network;
    bool outlives;              /* it runs on without us, and our program is started in it anew */
    int64_t memory_bytes, pids; /* 0: no limit */
    double cpus;                /* 0: no limit */
    char *const *run_flags;
};

enum container_network {
    CONTAINER_NETWORK_NONE,   /* loopback only */
    CONTAINER_NETWORK_OWN,    /* a namespace of its own */
    CONTAINER_NETWORK_SHARED, /* the engine's machine's, another container's, or one from elsewhere */
};

struct container {
    char *name;
    json_t *body;
    enum container_network network;
    bool firewall;           /* ask the guest for it: NET_ADMIN is among the capabilities for that alone */
    const char *no_firewall; /* why not, where there is a network; else NULL */
    json_t *warnings;        /* strings: what the user asked for and should know about */
};

/* ERR_INVALID: a run flag. */
int container_plan(const struct container_options *options, struct container *ret, struct error *err);
void container_done(struct container *c);

/* "kilntainer-ID"; of other principals "kilntainer-PRINCIPAL.ID". Malloced. */
char *container_name(const char *principal, const char *id);
/* What one has until it takes over, or after another has: the same and "_KEY", which no id can have. */
char *container_other_name(const char *principal, const char *id, const char *key);

/* Of HostConfig in a body, and in what the engine tells of a container. */
enum container_network container_network(const json_t *host_config);
