/* What the files of this folder know of the backend and of one computer. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "backends/fly/account.h"
#include "backends/fly/call.h"
#include "backends/fly/fly.h"
#include "backends/fly/queue.h"
#include "backends/keeper.h"
#include "backends/labels.h"
#include "backends/shells.h"
#include "base/attempt.h"
#include "base/clock.h"
#include "base/list.h"
#include "guest/wire.h"

#define FLY_ID_SIZE 40
#define FLY_IMAGE_SIZE 256
#define FLY_STATE_SIZE 24

/* Our program in a machine, which is its main process as well. */
#define FLY_GUEST "/.sandbox/guest"
#define FLY_EXEC_MOST_S 60 /* of one exec, as the API has it */

/* Beside those of labels.h, in the metadata of a machine: the Python program's names, and which program of
 * ours is in it. */
#define FLY_LABEL_ID "kilntainers-computer-id"
#define FLY_LABEL_TEMPORARY "kilntainers-temporary"
#define FLY_LABEL_IMAGE "kilntainers-image"
#define FLY_LABEL_GUEST "kilntainers.guest"

/* What a machine is made of. */
struct fly_shape {
    char image[FLY_IMAGE_SIZE];
    int64_t cpus, memory_mb, rootfs_gb; /* the latter 0: Fly's choice */
};

/* listing.c's: the list that those share who would have to wait for one of their own. */
struct fly_listing {
    pthread_mutex_t lock; /* of all that follows */
    struct attempt attempt;
    uint64_t begun, done; /* lists, by number */
    json_t *machines;     /* of the last; NULL: nobody waits for it any more */
    size_t count;         /* how many they were */
    int waiting;
};

struct fly_backend {
    struct backend base;
    struct fly_account *account;
    char *region, *shell; /* NULL: as of fly.h */
    struct fly_shape shape;
    bool performance;
    int64_t lease_s;
    char *environment, *limits; /* for describe */
    char guest_name[20];        /* which program of ours it is that goes into machines */
    struct fly_queues *queues;
    struct fly_listing listing;
    struct keepers keepers; /* of all computers */
};

/* A machine, as the API tells of it. */
struct fly_machine {
    char id[FLY_ID_SIZE];
    char version[FLY_ID_SIZE]; /* instance_id */
    char state[FLY_STATE_SIZE];
    json_t *config; /* NULL: it was not told; a reference of its owner's */
};

struct fly_instance {
    struct instance base;
    struct fly_backend *backend;
    char id[LIMIT_COMPUTER_ID_BYTES + 1]; /* of the computer */
    char machine[FLY_ID_SIZE];            /* never changes */
    bool temporary;
    struct fly_shape shape;
    char hostname[sizeof("HOSTNAME=") + LIMIT_COMPUTER_ID_BYTES]; /* of the environment */
    char **env;                                                   /* of its own: NAME=VALUE; or NULL */
    struct shells shells;
    _Atomic int64_t touched_at; /* when its lease was last renewed, by whatever was run in it */
    struct keeper *keeper;      /* the backend's */
    struct tended tended;       /* keep.c's */

    pthread_mutex_t lock; /* of all that follows */
    struct fly_calls calls;
    bool ended, to_end; /* the latter: by the keeper */
};

static inline struct fly_backend *fly_of(const struct backend *b)
{
    return (struct fly_backend *)b; /* its first member */
}
static inline struct fly_instance *fly_instance_of(const struct instance *i)
{
    return (struct fly_instance *)i;
}
/* An exec of our program has just worked: the lease begins anew. */
static inline void fly_touched(struct fly_instance *i)
{
    atomic_store(&i->touched_at, clock_now());
}

/* --- machine.c: machines as JSON --- */

bool fly_is_id(const char *id);
/* What a machine is called that was made by this key. Malloced. */
char *fly_machine_name(const char *key);
/* What the API is to be told to make. */
json_t *fly_machine_creation(const struct fly_backend *b, const struct computer_spec *spec,
                             const struct fly_shape *shape);
/* ERR_UNAVAILABLE: it makes no sense. */
int fly_machine_read(const json_t *told, struct fly_machine *ret, struct error *err);
void fly_machine_done(struct fly_machine *m);
/* What its configuration says of it. */
void fly_machine_shape(const json_t *config, struct fly_shape *ret);
/* Its configuration with this server's program of ours in it; NULL: it has that. */
json_t *fly_machine_renewed(const struct fly_backend *b, const struct fly_machine *m);

/* --- listing.c: the same, for many at once --- */

typedef int fly_listing_fn(void *ctx, const json_t *machine, struct error *err);
void fly_listing_init(struct fly_listing *l);
void fly_listing_done(struct fly_listing *l);
/* Of all whose metadata have this pair, as fly_api_list(). */
int fly_listing_find(struct fly_backend *b, const char *name, const char *value, const struct wait *wait,
                     fly_listing_fn *fn, void *ctx, struct error *err);
/* Of all that are ours. */
int fly_listing_all(struct fly_backend *b, const struct wait *wait, fly_listing_fn *fn, void *ctx,
                    struct error *err);

/* --- api.c: the Machines API. Each call waits for its turn: see queue.h --- */

/* Never twice, whatever becomes of the answers: the machine's name is the key of its creation. On failure
 * there is none. */
int fly_api_create(struct fly_backend *b, const struct computer_spec *spec, const struct fly_shape *shape,
                   const struct wait *wait, struct fly_machine *ret, struct error *err);
/* ERR_NOT_FOUND: it is gone. */
int fly_api_look(struct fly_backend *b, const char *id, const struct wait *wait, struct fly_machine *ret,
                 struct error *err);
/* The same, of all whose metadata have this pair. fn: -1 ends it. */
int fly_api_list(struct fly_backend *b, const char *name, const char *value, const struct wait *wait,
                 fly_listing_fn *fn, void *ctx, struct error *err);
/* Of those that were made by the key, of whom only id, version and state are told. */
int fly_api_list_made(struct fly_backend *b, const char *key, const struct wait *wait, fly_listing_fn *fn,
                      void *ctx, struct error *err);
/* Whether such a call would have its turn at once. */
bool fly_api_list_is_free(struct fly_backend *b);
/* Until it is in that state, "started" or "stopped". version: as of the struct; NULL: any. ERR_GONE: it never
 * will be. */
int fly_api_await(struct fly_backend *b, const char *id, const char *state, const char *version,
                  const struct wait *wait, struct error *err);
int fly_api_start(struct fly_backend *b, const char *id, const struct wait *wait, struct error *err);
/* Ends its processes at once, and soon it is stopped. One that doesn't run is fine. */
int fly_api_stop(struct fly_backend *b, const char *id, const struct wait *wait, struct error *err);
/* Whatever it is at. Absent is fine. */
int fly_api_destroy(struct fly_backend *b, const char *id, const struct wait *wait, struct error *err);
/* With another configuration; one that runs begins anew by that, one that doesn't begins. */
int fly_api_update(struct fly_backend *b, const char *id, const json_t *config, const struct wait *wait,
                   struct fly_machine *ret, struct error *err);

struct fly_exec_answer {
    int exit_code;   /* -1: a signal ended it */
    char *out, *err; /* texts, malloced, never NULL; what is in them is the machine's */
};
void fly_exec_answer_done(struct fly_exec_answer *a);
/* One program of the machine, of at most so many seconds (FLY_EXEC_MOST_S), text in and text out. It may be
 * started again where an answer was lost, so twice must be as good as once. stdin_text may be NULL. -1: as of
 * provider_call(), and ret_status (not NULL) is the answer's; 0: there was none. 404, 412: the machine
 * doesn't run; 408: it took too long, and may go on. */
int fly_api_exec(struct fly_backend *b, const char *machine, const char *const *argv, const char *stdin_text,
                 int seconds, const struct wait *wait, struct fly_exec_answer *ret, int *ret_status,
                 struct error *err);

/* --- keep.c: leases are renewed, and what was killed is ended --- */

/* From now on; its lease has just begun. */
void fly_keep_add(struct fly_instance *i);
/* Never again when this returns. */
void fly_keep_remove(struct fly_instance *i);
/* Soon ends what runs in it. Never blocks. */
void fly_keep_end(struct fly_instance *i);

/* --- instance.c, exec.c, found.c: the functions of the same names in backend.h --- */

/* What became of a machine that doesn't answer. -1: ERR_GONE, and it has ended; or it can't be known; 0: it
 * runs. `call` is the wait of who asks; it may be over. */
int fly_instance_ask(struct fly_instance *i, const struct wait *call, struct error *err);

int fly_instance_create(struct backend *b, const struct computer_spec *spec, const struct wait *wait,
                        struct instance **ret, struct error *err);
int fly_instance_attach(struct backend *b, const struct computer_spec *spec, const json_t *data,
                        const struct wait *wait, struct instance **ret, struct error *err);
json_t *fly_instance_plan(const struct backend *b, const struct computer_spec *spec);
json_t *fly_instance_record(const struct instance *i);
int fly_instance_restart(struct instance *i, const struct wait *wait, struct error *err);
int fly_instance_take_over(struct instance *i, const struct computer_spec *spec,
                           int (*move)(void *ctx, struct error *err), void *ctx, struct error *err);
int fly_instance_stat(struct instance *i, bool usage, const struct wait *wait, struct instance_stat *ret,
                      struct error *err);
bool fly_instance_alive(const struct instance *i);
void fly_instance_kill(struct instance *i);
int fly_instance_detach(struct instance *i, struct error *err);
int fly_instance_remove(struct instance *i, struct error *err);
int fly_instance_exec(struct instance *i, const struct exec_request *request, struct exec_result *ret,
                      struct error *err);
int fly_find(struct backend *b, const struct computer_spec *spec, const struct wait *wait,
             backend_found_fn *fn, void *ctx, struct error *err);
int fly_list(struct backend *b, const struct wait *wait, backend_found_fn *fn, void *ctx, struct error *err);
/* Whether a record is of the app that this server uses. */
int fly_check_app(struct fly_backend *b, const json_t *data, const struct wait *wait, struct error *err);
int fly_reap(struct backend *b, const struct computer_spec *spec, const json_t *data, struct error *err);
int fly_settle(struct backend *b, const struct computer_spec *spec, const json_t *data, struct error *err);
