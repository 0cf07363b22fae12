/* What the files of this folder know of the backend and of one computer. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "backends/engine/api.h"
#include "backends/engine/image.h"
#include "backends/engine/link.h"
#include "base/attempt.h"
#include "base/list.h"

#define CONTAINER_ID_SIZE 80

struct engine_backend {
    struct backend base;
    struct engine_options options; /* its strings are ours */
    struct reference image;
    struct images *images;
    atomic_bool warned;                /* of what the user's run flags mean */
    atomic_bool told_of_no_wall;       /* that what should be closed to computers isn't */
    char *environment, *wanted_limits; /* for describe */
    struct keeper *keeper;             /* of the links of all computers */

    struct cancel *end;        /* of connecting; constant */
    pthread_mutex_t lock;      /* of all that follows */
    struct engine *engine;     /* NULL: it is connected to when somebody needs it; then for good */
    struct attempt connecting; /* just that, on a thread of its own: it outlasts who waits for it */
    char *limits;              /* for describe, once the engine is known */
};

/* How commands get into a computer. */
enum engine_way {
    WAY_LINK, /* our program runs inside */
    WAY_EXEC, /* it can't: one exec of the engine per command */
};

struct engine_instance {
    struct instance base;
    struct engine_backend *backend;
    struct engine *engine;
    char id[LIMIT_COMPUTER_ID_BYTES + 1];
    char container[CONTAINER_ID_SIZE]; /* its id */
    char image[REFERENCE_MAX];
    bool temporary;
    bool foreign; /* made by another program: nothing of ours is in it but what runs */
    enum engine_way way;
    char way_why[160]; /* WAY_EXEC: why; "" otherwise */
    char shell[128];   /* in use */
    atomic_bool has_bash, has_sh;
    bool firewall_wanted;
    char firewall[200];         /* "" while it holds or isn't wanted; else why it is not there */
    int64_t memory_bytes, pids; /* limits; 0: none */
    double cpus;
    bool has_network;

    pthread_mutex_t lock;     /* of all that follows */
    struct link *link;        /* that is in use now; WAY_LINK only */
    struct list plains;       /* commands under way; WAY_EXEC only */
    bool ended;               /* killed, or seen to be dead */
    bool absent;              /* its container was removed */
    struct attempt relinking; /* a new one is made */
};

static inline struct engine_backend *engine_of(const struct backend *b)
{
    return (struct engine_backend *)b; /* its first member */
}
static inline struct engine_instance *engine_instance_of(const struct instance *i)
{
    return (struct engine_instance *)i;
}

/* exec.c: what the engine says of a computer that doesn't answer. -1: it is dead (ERR_GONE), paused, or it
 * can't be known (ERR_UNAVAILABLE); 0: it lives. It is asked also when the call is over, and may then have a
 * moment more. */
int engine_instance_ask(struct engine_instance *i, const struct wait *call, struct error *err);
/* exec.c: ends all that runs in it, and leaves it running: WAY_LINK. */
int engine_instance_clear(struct engine_instance *i, const struct wait *wait, struct error *err);
/* plain.c: WAY_EXEC. As link_exec(), but a command for which no way to end it is found may run on: then
 * ret->note says so. ERR_GONE: the computer is dead. */
int plain_exec(struct engine_instance *i, const struct exec_request *request, const char *shell,
               struct exec_result *ret, struct guest_exit *ret_exit, struct error *err);
/* The streams of all such commands end, under the lock. */
void plain_cut_locked(struct engine_instance *i);
/* instance.c: whether our program may be started in it while commands run: it would have every capability
 * that the container was made with, within their reach. */
bool engine_instance_may_enter(const struct engine_instance *i);
/* instance.c: puts our program into a container that runs, and makes the link. Without the lock. */
int engine_instance_enter(struct engine_instance *i, const struct wait *wait, struct link **ret,
                          struct error *err);

/* instance.c: what a paused one can't do; -1. */
int engine_instance_paused(const struct engine_instance *i, struct error *err);
/* instance.c: starts what has stopped, and makes the way in. */
struct container_look;
int engine_instance_resume(struct engine_instance *i, const struct container_look *look,
                           const struct wait *wait, struct error *err);
/* instance.c: of what the engine tells of a container; NULL: it hasn't that label. */
const char *container_label(const json_t *inspect, const char *label);

/* options.c */
void engine_options_copy(const struct engine_options *from, struct engine_options *ret);
void engine_options_done(struct engine_options *o);

/* engine.c: limits of a new computer */
int64_t engine_memory(const struct engine_backend *b, const struct engine *e);
int64_t engine_pids(const struct engine_backend *b);

/* engine.c: the one that is connected to. NULL on error, or when the wait is over: it goes on then, for
 * whoever asks next. */
struct engine *engine_ready(struct engine_backend *b, const struct wait *wait, struct error *err);

/* instance.c, exec.c, found.c: the functions of the same names in backend.h */
int engine_instance_create(struct backend *b, const struct computer_spec *spec, const struct wait *wait,
                           struct instance **ret, struct error *err);
int engine_instance_attach(struct backend *b, const struct computer_spec *spec, const json_t *data,
                           const struct wait *wait, struct instance **ret, struct error *err);
json_t *engine_instance_plan(const struct backend *b, const struct computer_spec *spec);
json_t *engine_instance_record(const struct instance *i);
bool engine_instance_alive(const struct instance *i);
bool engine_instance_lost(const struct instance *i);
void engine_instance_kill(struct instance *i);
int engine_instance_detach(struct instance *i, struct error *err);
int engine_instance_remove(struct instance *i, struct error *err);
int engine_instance_exec(struct instance *i, const struct exec_request *request, struct exec_result *ret,
                         struct error *err);
int engine_find(struct backend *b, const struct computer_spec *spec, const struct wait *wait,
                backend_found_fn *fn, void *ctx, struct error *err);
int engine_list(struct backend *b, const struct wait *wait, backend_found_fn *fn, void *ctx,
                struct error *err);
/* manage.c: gives one its name whose server died before it had taken over, if that can be done. */
void engine_instance_settle_name(struct engine *e, const struct computer_spec *spec, const json_t *inspect,
                                 const struct wait *wait);
/* manage.c: likewise */
int engine_instance_restart(struct instance *i, const struct wait *wait, struct error *err);
int engine_instance_take_over(struct instance *i, const struct computer_spec *spec,
                              int (*move)(void *ctx, struct error *err), void *ctx, struct error *err);
bool engine_instance_is_paused(struct instance *i, const struct wait *wait);
int engine_instance_stat(struct instance *i, bool usage, const struct wait *wait, struct instance_stat *ret,
                         struct error *err);
int engine_reap(struct backend *b, const struct computer_spec *spec, const json_t *data, struct error *err);
int engine_settle(struct backend *b, const struct computer_spec *spec, const json_t *data, struct error *err);

/* container_ops.c: what the API does with one container. */

enum container_state { CONTAINER_ABSENT, CONTAINER_STOPPED, CONTAINER_RUNNING, CONTAINER_PAUSED };
#define CONTAINER_GUEST_PATH "/.sandbox-guest"
/* Whether an engine's id of a container or an exec is one: hexadecimal, so it goes into a path as it is. NULL
 * is none. */
bool container_is_id(const char *id);
struct container_look {
    enum container_state state;
    bool oom_killed;
    int exit_code;
    json_t *inspect; /* all of it; NULL when absent. Owned */
};
/* name: id or name. */
int container_look(struct engine *e, const char *name, const struct wait *wait, struct container_look *ret,
                   struct error *err);
#define PUT_WORDS "put our program into it"
/* Puts our program into it; errors begin with PUT_WORDS. ERR_DENIED or ERR_UNSUPPORTED: it takes no files. */
int container_upload(struct engine *e, const char *container, const struct wait *wait, struct error *err);
/* Whether a path leads to something in it, started or not. -1, ERR_NOT_FOUND: it doesn't. */
int container_has_file(struct engine *e, const char *container, const char *path, const struct wait *wait,
                       struct error *err);
int container_start(struct engine *e, const char *container, const struct wait *wait, struct error *err);
/* Until the engine is done with stopping it: then it can be started. */
int container_await_stop(struct engine *e, const char *container, const struct wait *wait, struct error *err);
/* Absent is success for these. */
int container_stop(struct engine *e, const char *container, const struct wait *wait, struct error *err);
int container_remove(struct engine *e, const char *container, const struct wait *wait, struct error *err);
/* Until it runs no more. */
int container_await_end(struct engine *e, const char *container, const struct wait *wait, struct error *err);
/* A stream to its first process, which may not have started yet; or to our program, started in it. */
int container_attach(struct engine *e, const char *container, const struct wait *wait,
                     struct http_stream **ret, struct error *err);
/* One exec of the engine: its id, then its stream. body: of the API's ContainerExec. */
int container_make_exec(struct engine *e, const char *container, const json_t *body, const struct wait *wait,
                        char ret[CONTAINER_ID_SIZE], struct error *err);
int container_start_exec(struct engine *e, const char *exec, const struct wait *wait,
                         struct http_stream **ret, struct error *err);
int container_exec_guest(struct engine *e, const char *container, const struct wait *wait,
                         struct http_stream **ret, struct error *err);
