/* What the files of this folder know of the backend and of one computer. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "backends/backend.h"
#include "backends/native/watch.h"
#include "backends/wasm/wasm.h"
#include "backends/wasm/zygote.h"
#include "base/attempt.h"

struct wasm {
    struct backend base;
    char *state_dir, *module, *shell; /* module NULL: to be looked for */
    char *stem;                       /* what it is called by itself */
    int64_t memory_bytes, fuel;
    struct usage disk; /* bytes 0: no cap */
    bool network_wanted;

    struct cancel *end;         /* of preparing; constant */
    pthread_mutex_t lock;       /* of the next two */
    struct wasm_zygote *zygote; /* NULL: to be started when somebody needs it */
    struct attempt preparing;   /* just that, on a thread of its own: it outlasts who waits for it */

    char *environment, *usage, *limits; /* for describe */
};

struct wasm_instance {
    struct instance base;
    struct wasm *wasm;
    char id[LIMIT_COMPUTER_ID_BYTES + 1];
    char key[17];
    char *folder; /* of the computer; its files are in FOLDER/wasm */
    int root;     /* that */
    int64_t memory_bytes;
    char **env; /* of each command; NULL: nothing but the defaults */
    struct watch watch;
    atomic_int running;   /* commands */
    pthread_mutex_t lock; /* of `end` */
    struct cancel *end;   /* fired when it is killed; a restart makes a new one */
};

static inline struct wasm *wasm_of(const struct backend *b)
{
    return (struct wasm *)b; /* its first member */
}
static inline struct wasm_instance *wasm_instance_of(const struct instance *i)
{
    return (struct wasm_instance *)i;
}

/* ready.c: a zygote that lives, with all that comes before it. A new reference; NULL on error, or when the
 * wait is over: it goes on then, for whoever asks next. */
struct wasm_zygote *wasm_ready(struct wasm *w, const struct wait *wait, struct error *err);
/* Whatever is being prepared is given up. Nobody waits for it any more. */
void wasm_ready_end(struct wasm *w);

/* describe.c: fills in the words, and frees them. */
void wasm_describe_init(struct wasm *w);
void wasm_describe_done(struct wasm *w);
void wasm_describe(const struct backend *b, struct backend_description *ret);
/* What runs a `command`: ERR_SHELL_NOT_FOUND without --shell. A shell of ours would come in here. */
int wasm_shell(const struct wasm *w, const char **ret, struct error *err);

/* instance.c: the functions of the same names in backend.h */
int wasm_create(struct backend *b, const struct computer_spec *spec, const struct wait *wait,
                struct instance **ret, struct error *err);
int wasm_attach(struct backend *b, const struct computer_spec *spec, const json_t *data,
                const struct wait *wait, struct instance **ret, struct error *err);
int wasm_take_over(struct instance *i, const struct computer_spec *spec,
                   int (*move)(void *ctx, struct error *err), void *ctx, struct error *err);
int wasm_make_way(struct instance *i, const char *folder, struct error *err);
int wasm_restart(struct instance *i, const struct wait *wait, struct error *err);
int wasm_stat(struct instance *i, bool usage, const struct wait *wait, struct instance_stat *ret,
              struct error *err);
json_t *wasm_plan(const struct backend *b, const struct computer_spec *spec);
json_t *wasm_record(const struct instance *i);
bool wasm_alive(const struct instance *i);
void wasm_kill(struct instance *i);
int wasm_detach(struct instance *i, struct error *err);
int wasm_remove(struct instance *i, struct error *err);
int wasm_reap(struct backend *b, const struct computer_spec *spec, const json_t *data, struct error *err);
int wasm_settle(struct backend *b, const struct computer_spec *spec, const json_t *data, struct error *err);
/* A reference to what is fired when the computer is killed. */
struct cancel *wasm_end_of(struct wasm_instance *i);
/* exec.c */
int wasm_exec(struct instance *i, const struct exec_request *request, struct exec_result *ret,
              struct error *err);
