/* What the files of this folder know of the backend and of one computer. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "backends/backend.h"
#include "backends/native/cgroups.h"
#include "backends/native/deaths.h"
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
    bool network_wanted, allow_weak;
    bool keeps;           /* permanent computers outlive us */
    bool may_have_images; /* a computer may have a disk of its own, as far as it can be seen */
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
    struct deaths deaths; /* of inits */

    atomic_bool scope_by_move; /* commands can't be born in their group here: they move there */
    bool proc_hidden;          /* see GUEST_REPLY_PROC_HIDDEN; final as the rung is */
    char *environment, *weak_environment, *weaker, *limits_wanted, *limits_held; /* for describe */
    const char *first_shell;
};

/* Files of a computer's groups that are asked again and again, open from the first time on: -1 otherwise. */
enum figure { FIGURE_CPU, FIGURE_MEMORY, FIGURE_PIDS, FIGURES };
struct figures {
    pthread_mutex_t lock;
    int files[FIGURES];
    uint64_t cpu; /* as it was read before `pids` was; 0: none is known */
    int pids;
    unsigned commands; /* that had begun at the last look */
    bool rests;        /* no time is used until the next command */
};

/* How far one is. Blank and begun are those that are made ahead only: see birth.c. */
enum stage {
    STAGE_WHOLE, /* or made in one go */
    STAGE_BLANK, /* to be one, or it is one */
    STAGE_BEGUN, /* it was blank, and its init is to be waited for */
};

struct native_instance {
    struct instance base;
    struct native *native;
    struct zygote *zygote; /* that made it, or one that lives if another server did */
    char id[LIMIT_COMPUTER_ID_BYTES + 1];
    char key[32];
    char *folder;                /* of the computer; ours is FOLDER/native */
    struct cgroup_values values; /* its limits */
    char **env;                  /* of each command; NULL: nothing but the defaults */
    uint32_t id_base;            /* as the host numbers them */
    pid_t pid;                   /* of init, and when it started, for its record */
    uint64_t start;
    int pidfd, channel, oom; /* oom: see cgroup_oom_kills() */
    struct death death;      /* of init */
    struct cgroup_birth birth;
    enum stage stage;
    int lock;                /* see keep.h; -1: a temporary one */
    bool kept;               /* init listens for the server after us */
    json_t *groups, *limits; /* of one that another server made, from its record; else NULL */
    bool plain;
    const struct disks *disks; /* that its image is made from */
    struct disk disk;
    struct watch watch; /* of a disk that is watched */
    bool reaper;        /* commands are ended by a reaper of their own; scopes is unused */
    struct scopes scopes;
    struct figures figures;
    atomic_uint next_exec;
    atomic_uint commands_begun, commands_ended;
    atomic_bool bash_is_missing;
    atomic_bool is_given_up; /* killed by us, as something in it wouldn't end: see instance_give_up() */
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

/* Why no file can be mounted for a computer; NULL: it may be tried. After native_ready(). */
const char *native_why_no_image(const struct native *n);

/* Inside of instance.c and remains.c. */
struct native_instance *instance_new(struct native *n, struct zygote *zygote,
                                     const struct computer_spec *spec, uint32_t id_base);
struct native_instance *instance_free(struct native_instance *i);
/* What was to end in it doesn't, so all of it is killed. From then on it isn't alive, however long its
 * processes take to go: nothing can be run in it any more. */
void instance_give_up(struct native_instance *i);
/* Of init we want to know nothing any more. */
void instance_forget_init(struct native_instance *i);
/* As whose we make what is the computer's. */
uint32_t instance_owner(const struct native_instance *i);

/* birth.c */
/* FOLDER as the zygote names it: beneath the state directory. NULL: it isn't. */
const char *birth_folder(const struct native *n, const char *folder, struct error *err);
/* From nothing, or if it isn't new from its files, to a computer that is ready; to one that is blank, if it
 * is to be. prepared: its groups are there, with
 * the limits of all. What was made before a failure is left to instance_remove(). */
int birth_make(struct native_instance *i, bool is_new, bool prepared, const struct wait *wait,
               struct error *err);
/* A blank one's init gets what it waits for; then, when there is nothing else to do, it is waited for, if it
 * wasn't yet. */
int birth_begin(struct native_instance *i, const struct wait *wait, struct error *err);
int birth_await(struct native_instance *i, const struct wait *wait, struct error *err);
/* Before anything of its own runs in it. ERR_UNSUPPORTED; after any failure it is to be removed. */
int birth_change_limits(struct native_instance *i, const struct cgroup_values *values, struct error *err);
bool birth_is_kept(const struct native_instance *i);
/* From now on it outlives us, if it is to. Nothing has run in it that could: without a process init doesn't.
 */
int birth_keep(struct native_instance *i, const struct wait *wait, struct error *err);
/* Init's first word. ret_fd: what came with it, or -1. */
int instance_await_ready(struct native_instance *i, const struct wait *wait, struct guest_ready *ret,
                         int *ret_fd, struct error *err);
/* weak: of that rung, where init ends the others first. */
void instance_end_init(int pidfd, bool weak);
bool instance_awaits_death(int pidfd); /* for some seconds; false: it lives */
int instance_await_death(int pidfd, bool weak, struct error *err);
int instance_remove_files(struct native *n, const char *folder, uint32_t id_base, struct error *err);
/* remains.c: takes up a computer that has outlived its server. 1: it did; 0: there is none, or none that
 * would have us; -1: the wait is over. */
int instance_resume(struct native_instance *i, const json_t *data, const struct wait *wait,
                    struct error *err);
/* Ends what is left of one. */
int instance_end_remains(struct native *n, const struct computer_spec *spec, const json_t *data,
                         struct error *err);

/* instance.c: the functions of the same names in backend.h */
int instance_create(struct backend *b, const struct computer_spec *spec, const struct wait *wait,
                    struct instance **ret, struct error *err);
int instance_prepare(struct backend *b, const struct computer_spec *spec, struct instance **ret,
                     struct error *err);
int instance_begin(struct instance *i, const struct computer_options *options, struct error *err);
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
int instance_restart(struct instance *i, const struct wait *wait, struct error *err);
int instance_make_way(struct instance *i, const char *folder, struct error *err);
int instance_take_over(struct instance *i, const struct computer_spec *spec,
                       int (*move)(void *ctx, struct error *err), void *ctx, struct error *err);
/* stat.c */
void figures_init(struct figures *f);
void figures_done(struct figures *f);
void figures_forget(struct figures *f); /* other processes are in the groups */
int instance_stat(struct instance *i, bool usage, const struct wait *wait, struct instance_stat *ret,
                  struct error *err);
/* remains.c */
int instance_reap(struct backend *b, const struct computer_spec *spec, const json_t *data, struct error *err);
int instance_settle(struct backend *b, const struct computer_spec *spec, const json_t *data,
                    struct error *err);
bool instance_lives(struct backend *b, const struct computer_spec *spec, const json_t *data);
/* run.c */
int instance_exec(struct instance *i, const struct exec_request *request, struct exec_result *ret,
                  struct error *err);

/* What is the computer's own to write to, as its commands name it; NULL: all of its tree. malloced. */
char *instance_home(const struct native_instance *i);
/* What --shell or the default comes to in this computer. */
const char *instance_shell(const struct native_instance *i);
