/* What the files of this folder know of the backend and of one computer. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "backends/backend.h"
#include "backends/native/cgroups.h"
#include "backends/native/disk.h"
#include "backends/native/native.h"
#include "backends/native/rung.h"
#include "backends/native/scope.h"
#include "backends/native/toolbox.h"
#include "backends/native/watch.h"
#include "backends/native/zygote.h"
#include "base/attempt.h"

/* Where things of the machine are, and what to do without; tests have others. */
struct native_machine {
    const char *host_root; /* "/" */
    const char *ids_file;  /* of root */
    const char *proc;      /* "/proc" */
    struct cgroup_files cgroup_files;
    bool no_cgroup2; /* as if there were none to kill by */
    bool no_overlay; /* as if file systems couldn't be stacked */
    bool no_images;  /* as if a file couldn't be mounted */
};

struct native {
    struct backend base;
    char *state_dir, *rootfs, *shell;
    struct cgroup_values limits;
    bool network_wanted;
    struct native_machine machine;

    pthread_mutex_t lock;     /* of the next two, and of `plain` going from false to true */
    struct zygote *zygote;    /* NULL: to be started by whoever needs it */
    struct attempt preparing; /* just that */
    atomic_bool prepared;     /* cgroups, toolbox and disks hold, and don't change any more */
    atomic_bool plain;        /* no overlay: each computer has a copy of the skeleton */
    enum rung rung;           /* final once a zygote has been started on it, like the ids */
    struct id_ranges ids;
    struct subids subids;
    struct cgroups cgroups;
    struct toolbox toolbox;
    struct disks disks;

    atomic_bool scope_by_move; /* commands can't be born in their group here: they move there */
    char *environment, *limits_wanted, *limits_held; /* for describe */
    const char *first_shell;
};

struct native_instance {
    struct instance base;
    struct native *native;
    struct zygote *zygote; /* that made it: init ends with it */
    char id[LIMIT_COMPUTER_ID_BYTES + 1];
    char key[32];
    char *folder;     /* of the computer; ours is FOLDER/native */
    uint32_t id_base; /* as the host numbers them */
    pid_t pid;        /* of init, and when it started, for its record */
    uint64_t start;
    int pidfd, channel, oom; /* oom: see cgroup_oom_kills() */
    bool plain;
    struct disk disk;
    struct watch watch; /* of a disk that is watched */
    bool reaper;        /* commands are ended by a reaper of their own; scopes is unused */
    struct scopes scopes;
    atomic_uint next_exec;
    atomic_bool bash_is_missing;
};

static inline struct native *native_of(const struct backend *b)
{
    return (struct native *)b; /* its first member */
}
static inline struct native_instance *instance_of(const struct instance *i)
{
    return (struct native_instance *)i;
}

struct backend *native_new_on(const struct native_options *options, const struct native_machine *machine);

/* A zygote that lives, with all that comes before it; the first caller starts it, others wait. A new
 * reference; NULL on error. */
struct zygote *native_ready(struct native *n, const struct wait *wait, struct error *err);
/* From now on computers are made without overlay. ERR_UNAVAILABLE, with the reason that was given, if that
 * can't be. */
int native_go_plain(struct native *n, const char *reason, struct error *err);

/* instance.c: the functions of the same names in backend.h */
int instance_create(struct backend *b, const struct computer_spec *spec, const struct wait *wait,
                    struct instance **ret, struct error *err);
int instance_give_id(struct instance *i, const struct computer_spec *spec,
                     int (*move)(void *ctx, struct error *err), void *ctx, struct error *err);
int instance_attach(struct backend *b, const struct computer_spec *spec, const json_t *data,
                    const struct wait *wait, struct instance **ret, struct error *err);
json_t *instance_plan(const struct backend *b, const struct computer_spec *spec);
json_t *instance_record(const struct instance *i);
bool instance_alive(const struct instance *i);
void instance_kill(struct instance *i);
int instance_detach(struct instance *i, struct error *err);
int instance_remove(struct instance *i, struct error *err);
int instance_reap(struct backend *b, const struct computer_spec *spec, const json_t *data, struct error *err);
int instance_settle(struct backend *b, const struct computer_spec *spec, const json_t *data,
                    struct error *err);
/* run.c */
int instance_exec(struct instance *i, const struct exec_request *request, struct exec_result *ret,
                  struct error *err);

/* What --shell or the default comes to in this computer. */
const char *instance_shell(const struct native_instance *i);
