/* What the files of this folder know of the backend and of one computer. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "backends/keeper.h"
#include "backends/labels.h"
#include "backends/modal/modal.h"
#include "backends/modal/router.h"
#include "backends/shells.h"
#include "base/attempt.h"
#include "base/list.h"

/* Beside those of labels.h, in the tags of a sandbox. */
#define MODAL_LABEL_NETWORK "kilntainers.network"
/* Of this sandbox: a computer has several, one after the other. */
#define MODAL_LABEL_SANDBOX "kilntainers.sandbox"
#define MODAL_TAGS_MAX 16

#define MODAL_SPENT_MAX 8 /* images of one computer */

struct modal_backend {
    struct backend base;
    struct modal_account *account;
    char *image, *shell, *gpu, *region; /* shell, gpu, region: NULL as of modal.h */
    double cpus;
    int64_t memory_mib;
    uint32_t lifetime_s;
    bool network;
    char *environment, *limits; /* for describe */
    char guest[MODAL_GUEST_PATH_SIZE];
    struct keepers keepers; /* of all computers */
};

/* Where the files of a computer are. Any may be "". Kept in a file of the computer's folder as well, since
 * it changes without the domain's doing. */
struct modal_state {
    char sandbox[MODAL_ID_SIZE];       /* that runs */
    char own[MODAL_ID_SIZE];           /* the image that it was made of, if that is this computer's alone */
    char image[MODAL_ID_SIZE];         /* the last snapshot */
    char guest[MODAL_GUEST_PATH_SIZE]; /* our program in that */
    char asked[MODAL_UUID_SIZE];       /* the key of a snapshot of which nobody knows what came */
    char spent[MODAL_SPENT_MAX][MODAL_ID_SIZE]; /* images of its own that nothing needs any more */
};

struct modal_instance {
    struct instance base;
    struct modal_backend *backend;
    char id[LIMIT_COMPUTER_ID_BYTES + 1];
    bool temporary, network;
    char *image; /* as it was asked for */
    double cpus;
    int64_t memory_mib;
    char **env;   /* of its own: NAME=VALUE; or NULL */
    json_t *tags; /* of each of its sandboxes */
    struct shells shells;
    struct keeper *keeper; /* the backend's */
    struct tended tended;  /* of keep.c */

    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t quiet; /* no command runs any more */
    char *folder;
    struct modal_state state;
    struct modal_router *router; /* of the sandbox; NULL: there is none */
    struct attempt moving;       /* to another sandbox: commands wait for it */
    struct list calls;           /* commands under way */
    int64_t made_at, retry_at;   /* of the sandbox; of the next move after one that failed */
    int64_t ran_at;              /* when the last command ended */
    int64_t dirty_since;         /* when the first began of which the last snapshot knows nothing; 0: none */
    int64_t save_at;             /* not before that, after a snapshot that failed */
    int64_t asked_due;           /* for when the keeper was asked last */
    bool used;                   /* something ran in the sandbox, and may have left what still writes */
    bool ended, to_end;
};

static inline struct modal_backend *modal_of(const struct backend *b)
{
    return (struct modal_backend *)b; /* its first member */
}
static inline struct modal_instance *modal_instance_of(const struct instance *i)
{
    return (struct modal_instance *)i;
}

/* --- state.c --- */

/* What the folder says, else what the record does. */
void modal_state_read(const char *folder, const json_t *data, struct modal_state *ret);
int modal_state_write(const char *folder, const struct modal_state *s, struct error *err);
void modal_state_remove(const char *folder);
/* As the record has it. A new reference. */
json_t *modal_state_pack(const struct modal_state *s);
/* An image that was its own, unless it is still in use. "" is fine. */
void modal_state_spend(struct modal_state *s, const char *image);

/* --- snapshot.c --- */

struct modal_state modal_state_of(struct modal_instance *i);
/* Its files as they are now become the last snapshot, if something has run since the one before, or may have.
 * 1: there is no sandbox, so that what there was holds. Not while anything else changes where it is. */
int modal_save(struct modal_instance *i, const struct wait *wait, struct error *err);
/* Before its sandbox ends for good: a snapshot whose answer was lost becomes one that is spent. */
void modal_claim(struct modal_instance *i, const struct wait *wait);
/* Deletes what is spent, as far as that can be done now: the next call does the rest. */
void modal_tidy(struct modal_instance *i, const struct wait *wait);
/* Deletes all images that are a computer's alone; nothing runs of it. */
int modal_images_delete(struct modal_account *a, const struct modal_state *s, const struct wait *wait,
                        struct error *err);

/* --- call.c --- */

/* As of shells_run_fn. */
int modal_call(void *computer, const struct exec_request *request, const char *shell, struct exec_result *ret,
               struct guest_exit *ret_exit, struct error *err);
/* The outputs of all commands end, under the instance's lock. moved: since the computer moves. */
void modal_calls_cut_locked(struct modal_instance *i, bool moved);

/* --- instance.c --- */

/* Into a new sandbox, with its files. Nobody else does that, and no command runs. On failure it is where it
 * was. ERR_GONE: it isn't anywhere. */
int modal_move(struct modal_instance *i, const struct wait *wait, struct error *err);
/* Ends the sandbox; keep: not before its files are an image; else its images are deleted, too. */
int modal_put_down(struct modal_instance *i, bool keep, const struct wait *wait, struct error *err);
/* What became of a sandbox that doesn't answer. -1: ERR_GONE, or it can't be known; 0: it lives. */
int modal_ask(struct modal_instance *i, const struct wait *call, struct error *err);

/* --- keep.c: takes snapshots, moves computers before the lifetimes of their sandboxes end, and ends what was
 * killed --- */

/* From now on; its sandbox is new. */
void modal_keep_add(struct modal_instance *i);
void modal_keep_remove(struct modal_instance *i);
/* A command has begun or ended; it was killed. Never block. */
void modal_keep_used(struct modal_instance *i);
void modal_keep_end(struct modal_instance *i);

/* --- instance.c, found.c: the functions of the same names in backend.h --- */

int modal_instance_create(struct backend *b, const struct computer_spec *spec, const struct wait *wait,
                          struct instance **ret, struct error *err);
int modal_instance_attach(struct backend *b, const struct computer_spec *spec, const json_t *data,
                          const struct wait *wait, struct instance **ret, struct error *err);
json_t *modal_instance_plan(const struct backend *b, const struct computer_spec *spec);
json_t *modal_instance_record(const struct instance *i);
int modal_instance_restart(struct instance *i, const struct wait *wait, struct error *err);
int modal_instance_make_way(struct instance *i, const char *folder, struct error *err);
int modal_instance_take_over(struct instance *i, const struct computer_spec *spec,
                             int (*move)(void *ctx, struct error *err), void *ctx, struct error *err);
int modal_instance_stat(struct instance *i, bool usage, const struct wait *wait, struct instance_stat *ret,
                        struct error *err);
int modal_instance_exec(struct instance *i, const struct exec_request *request, struct exec_result *ret,
                        struct error *err);
bool modal_instance_alive(const struct instance *i);
bool modal_instance_lost(const struct instance *i);
void modal_instance_kill(struct instance *i);
int modal_instance_detach(struct instance *i, struct error *err);
int modal_instance_remove(struct instance *i, struct error *err);
int modal_find(struct backend *b, const struct computer_spec *spec, const struct wait *wait,
               backend_found_fn *fn, void *ctx, struct error *err);
/* All sandboxes of the computer but `but` ("": all) end, by the key of its creation, "" if it has none. */
int modal_end_all(struct modal_backend *b, const char *key, const char *but, const struct wait *wait,
                  struct error *err);
int modal_list(struct backend *b, const struct wait *wait, backend_found_fn *fn, void *ctx,
               struct error *err);
int modal_reap(struct backend *b, const struct computer_spec *spec, const json_t *data, struct error *err);
int modal_settle(struct backend *b, const struct computer_spec *spec, const json_t *data, struct error *err);
