/* What the files of this folder know of the backend and of one computer. */
#pragma once

#include <pthread.h>

#include "backends/connect.h"
#include "backends/e2b/e2b.h"
#include "backends/keeper.h"
#include "backends/labels.h"
#include "backends/shells.h"
#include "base/attempt.h"
#include "base/list.h"
#include "guest/wire.h"

#define E2B_ID_SIZE 80
#define E2B_TOKEN_SIZE 512
#define E2B_HOST_SIZE 256
#define E2B_HOME_SIZE 256
#define E2B_GUEST_SIZE 64

/* Beside them, in the metadata of a sandbox. */
#define LABEL_NETWORK "kilntainers.network"

struct e2b_backend {
    struct backend base;
    char *api_key, *domain, *template, *shell, *ca_file;
    char *api_base, *sandbox_base; /* sandbox_base NULL: each sandbox has a host of its own */
    char **metadata, **env;
    int64_t lifetime_s;
    bool network;
    char guest[E2B_GUEST_SIZE];    /* our program's name beneath the home folder */
    char *environment;             /* for describe */
    struct pace *pace, *beginning; /* the latter of what makes sandboxes run, which has limits of its own */
    struct http_client *api_client, *sandbox_client; /* the latter for all sandboxes; or NULL */
    struct provider api;
    struct keepers keepers; /* of all computers */

    pthread_mutex_t lock; /* of all that follows */
    bool probed;
    struct attempt probing;
};

/* A sandbox as the control API tells of one that runs. */
struct e2b_sandbox {
    char id[E2B_ID_SIZE];
    char token[E2B_TOKEN_SIZE]; /* of its envd; "": it wants none */
    char domain[E2B_HOST_SIZE]; /* "": the backend's */
};

struct e2b_instance {
    struct instance base;
    struct e2b_backend *backend;
    char id[LIMIT_COMPUTER_ID_BYTES + 1];
    bool temporary, network;
    char **env; /* of its own: NAME=VALUE */
    char home[E2B_HOME_SIZE];
    struct shells shells;
    struct pace *pace;     /* of its envd, which somebody in there may have taken the place of */
    struct keeper *keeper; /* the backend's */
    struct tended tended;  /* keep.c's */

    pthread_mutex_t lock; /* of all that follows */
    struct e2b_sandbox sandbox;
    struct http_client *own_client; /* NULL: all share one */
    struct list calls;              /* commands under way */
    bool ended, to_end;             /* the latter: by the keeper */
};

static inline struct e2b_backend *e2b_of(const struct backend *b)
{
    return (struct e2b_backend *)b; /* its first member */
}
static inline struct e2b_instance *e2b_instance_of(const struct instance *i)
{
    return (struct e2b_instance *)i;
}

/* --- api.c: the control API --- */

bool e2b_is_id(const char *id);
/* Whether it answers, and takes the key. */
int e2b_api_check(struct e2b_backend *b, const struct wait *wait, struct error *err);
int e2b_api_create(struct e2b_backend *b, const struct computer_spec *spec, bool network,
                   const struct wait *wait, struct e2b_sandbox *ret, struct error *err);
/* Also one that is paused. ret_ran: it wasn't. ERR_NOT_FOUND: it is gone. */
int e2b_api_connect(struct e2b_backend *b, const char *id, const struct wait *wait, struct e2b_sandbox *ret,
                    bool *ret_ran, struct error *err);
/* Ends its processes, keeps its disk. One that is paused already is fine; ERR_NOT_FOUND as above. */
int e2b_api_pause(struct e2b_backend *b, const char *id, const struct wait *wait, struct error *err);
/* Absent is fine. */
int e2b_api_kill(struct e2b_backend *b, const char *id, const struct wait *wait, struct error *err);
/* It lives for the backend's lifetime from now on. */
int e2b_api_renew(struct e2b_backend *b, const char *id, const struct wait *wait, struct error *err);
int e2b_api_look(struct e2b_backend *b, const char *id, const struct wait *wait, json_t **ret,
                 struct error *err);
/* Of all those whose metadata have these pairs, one after the other, running and paused. fn: -1 ends it. */
int e2b_api_list(struct e2b_backend *b, const char *const pairs[][2], size_t count, const struct wait *wait,
                 int (*fn)(void *ctx, const json_t *sandbox, struct error *err), void *ctx,
                 struct error *err);

/* --- call.c: envd of one sandbox --- */

/* As whom it is spoken to; the provider points into the struct. */
struct e2b_envd {
    struct provider provider;
    struct e2b_sandbox sandbox;
};
/* The name tells which program it is: sandboxes outlive servers. */
void e2b_guest_name(char ret[E2B_GUEST_SIZE]);
void e2b_envd_of(struct e2b_instance *i, struct e2b_envd *ret);
/* Puts our program into it; from its answer comes where the home folder is. */
int e2b_envd_upload(struct e2b_instance *i, const struct wait *wait, struct error *err);
/* What became of a sandbox that doesn't answer. -1: ERR_GONE, or it can't be known; 0: it lives. */
int e2b_envd_ask(struct e2b_instance *i, const struct wait *call, struct error *err);
/* A command by a process of our program. As of shells_run_fn. */
int e2b_call(void *computer, const struct exec_request *request, const char *shell, struct exec_result *ret,
             struct guest_exit *ret_exit, struct error *err);
/* The streams of all commands end, under the instance's lock. */
void e2b_calls_cut_locked(struct e2b_instance *i);

/* --- keep.c: lifetimes are renewed, and what was killed is ended --- */

/* From now on; its lifetime has just begun. */
void e2b_keep_add(struct e2b_instance *i);
/* Never again when this returns. */
void e2b_keep_remove(struct e2b_instance *i);
/* Soon ends what runs in it. Never blocks. */
void e2b_keep_end(struct e2b_instance *i);

/* --- instance.c, exec.c, found.c: the functions of the same names in backend.h --- */

int e2b_instance_create(struct backend *b, const struct computer_spec *spec, const struct wait *wait,
                        struct instance **ret, struct error *err);
int e2b_instance_attach(struct backend *b, const struct computer_spec *spec, const json_t *data,
                        const struct wait *wait, struct instance **ret, struct error *err);
json_t *e2b_instance_plan(const struct backend *b, const struct computer_spec *spec);
json_t *e2b_instance_record(const struct instance *i);
int e2b_instance_restart(struct instance *i, const struct wait *wait, struct error *err);
int e2b_instance_take_over(struct instance *i, const struct computer_spec *spec,
                           int (*move)(void *ctx, struct error *err), void *ctx, struct error *err);
int e2b_instance_stat(struct instance *i, bool usage, const struct wait *wait, struct instance_stat *ret,
                      struct error *err);
bool e2b_instance_alive(const struct instance *i);
void e2b_instance_kill(struct instance *i);
int e2b_instance_detach(struct instance *i, struct error *err);
int e2b_instance_remove(struct instance *i, struct error *err);
int e2b_instance_exec(struct instance *i, const struct exec_request *request, struct exec_result *ret,
                      struct error *err);
int e2b_find(struct backend *b, const struct computer_spec *spec, const struct wait *wait,
             backend_found_fn *fn, void *ctx, struct error *err);
int e2b_list(struct backend *b, const struct wait *wait, backend_found_fn *fn, void *ctx, struct error *err);
int e2b_reap(struct backend *b, const struct computer_spec *spec, const json_t *data, struct error *err);
int e2b_settle(struct backend *b, const struct computer_spec *spec, const json_t *data, struct error *err);
