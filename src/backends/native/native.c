/* The backend's table, and what all of its computers share: groups, toolbox, zygote. These are made by
 * whoever needs them first (warm, probe or a create); others wait for that on a descriptor, not on a lock. */
#include "backends/native/native.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/native/describe.h"
#include "backends/native/folder.h"
#include "backends/native/ids.h"
#include "backends/native/private.h"
#include "backends/native/verdict.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

#define PREPARE_TIMEOUT_NS (15 * NSEC_PER_SEC)
#define PROC_HIDDEN                                                                                          \
    "/proc tells of no process, and /dev/stdin and /dev/fd lead nowhere, since parts of /proc are hidden "   \
    "here, as in containers: run the container with `--security-opt systempaths=unconfined`"

static const struct cgroup_values default_limits = {.memory_bytes = 512 * MIB, .pids = 512, .cpus = 1.0};

static const struct native_machine this_machine = {
    .host_root = "/",
    .ids_file = ID_RANGES_FILE,
    .proc = "/proc",
    .cgroup_files = {"/proc/self/cgroup", "/proc/self/mountinfo"},
};

/* --- what all computers share --- */

int native_check(const char *rootfs, bool allow_weak, struct error *err)
{
    struct stat st;
    if (!allow_weak && rung_check("/proc", geteuid() == 0, err) < 0)
        return -1;
    if (rootfs && stat(rootfs, &st) < 0)
        return error_errno(err, ERR_INVALID, errno, "--rootfs %s can't be used", rootfs);
    if (rootfs && !S_ISDIR(st.st_mode))
        return error_set(err, ERR_INVALID, "--rootfs %s is not a folder: unpack the image into one", rootfs);
    if (rootfs && geteuid() != 0 && st.st_uid != geteuid())
        return error_set(err, ERR_INVALID,
                         "--rootfs %s belongs to another user, so that computers could not change its files: "
                         "unpack the image as the user who runs the server",
                         rootfs);
    return 0;
}

/* What stays as it is for good. */
static int prepare_machine(struct native *n, struct error *err)
{
    if (native_check(n->rootfs, n->allow_weak, err) < 0)
        return -1;
    if (dir_make(n->state_dir, 0711, err) < 0)
        return error_recast(err, ERR_UNAVAILABLE, "the state directory can't be used");
    if (!n->rootfs && toolbox_open(n->state_dir, n->machine.host_root, &n->toolbox, err) < 0)
        return -1;
    if (cgroups_detect(&n->machine.cgroup_files, &n->cgroups, err) < 0) {
        toolbox_done(&n->toolbox);
        return -1;
    }
    cgroups_prepare(&n->cgroups);
    if (n->machine.no_cgroup2)
        cgroups_drop_unified(&n->cgroups);
    return 0;
}

static uint32_t range_size(void)
{
    return geteuid() == 0 ? ID_RANGE_SIZE : ID_SUBRANGE_SIZE;
}

/* Whether it is worth a try. Root of a container may be none of the machine, but has ids to give. Nothing but
 * root of the machine can shift the ids in a --rootfs. */
static bool may_hold(struct native *n, enum rung rung)
{
    if (rung == RUNG_ROOT)
        return geteuid() == 0 && rung_check(n->machine.proc, true, NULL) == 0;
    if (rung == RUNG_ONE_ID)
        return geteuid() != 0; /* root's own id is not for computers */
    if (rung == RUNG_WEAK)
        return n->allow_weak && !n->rootfs;
    free(TAKE_PTR(n->subids.file));
    return !n->rootfs && subids_find(n->machine.ids_file, &n->subids) && n->subids.count >= range_size();
}

static void take_rung(struct native *n, enum rung rung)
{
    n->rung = rung;
    if (rung == RUNG_ROOT || (rung == RUNG_WEAK && geteuid() == 0))
        n->ids = (struct id_ranges){n->machine.ids_file, ID_RANGE_FIRST, ID_RANGE_SIZE, ID_RANGE_COUNT};
    else if (rung == RUNG_RANGE)
        n->ids =
            (struct id_ranges){n->subids.file, n->subids.users, range_size(), n->subids.count / range_size()};
    else
        n->ids = (struct id_ranges){NULL, geteuid(), 1, 1};
    n->scope_by_move = rung == RUNG_RANGE; /* which doesn't let us give groups away */
}

static uint32_t rung_flags(enum rung rung)
{
    static const uint32_t flags[RUNGS] = {
        [RUNG_RANGE] = GUEST_USERS,
        [RUNG_ONE_ID] = GUEST_USERS | GUEST_ONE_ID,
        [RUNG_WEAK] = GUEST_WEAK,
    };
    return flags[rung];
}

static struct zygote *start_zygote(struct native *n, const struct wait *wait, struct error *err)
{
    struct guest_setup setup = {.type = GUEST_SETUP, .version = GUEST_VERSION};
    const char *base = n->rootfs ? n->rootfs : n->toolbox.path;
    setup.flags =
        (n->rootfs ? 0 : GUEST_ROOT_TOOLBOX) | (n->plain ? GUEST_ROOT_PLAIN : 0) | rung_flags(n->rung);
    if (strlen(n->state_dir) >= sizeof(setup.state_dir) || strlen(base) >= sizeof(setup.base_dir)) {
        error_set(err, ERR_INVALID, "the path of --state-dir or --rootfs is longer than %d bytes",
                  GUEST_PATH_MAX - 1);
        return NULL;
    }
    strcpy(setup.state_dir, n->state_dir);
    strcpy(setup.base_dir, base);
    int parents[CGROUP_PARENTS_MAX] = {-1};
    size_t count = n->keeps ? cgroups_open_parents(&n->cgroups, parents) : 0;
    struct zygote *z = zygote_start(&setup, &n->subids, parents, count, wait, err);
    for (size_t i = 0; i < count; i++)
        fd_close(parents[i]);
    return z;
}

/* An image belongs to the machine's root. */
const char *native_why_no_image(const struct native *n)
{
    if (n->machine.no_images)
        return "images are not tried";
    return n->rung == RUNG_ROOT ? NULL : "only root of the machine can mount an image for each computer";
}

/* What a limit is replaced by where no group holds it. */
static void replace_limits(struct native *n)
{
    struct cgroup_place *places = n->cgroups.places;
    if (places[CGROUP_PIDS].version == 0)
        places[CGROUP_PIDS].weaker = rung_counts_processes(n->rung);
    if (places[CGROUP_MEMORY].version == 0)
        places[CGROUP_MEMORY].weaker = "each process, of data that it has asked for: four times that";
}

/* What is known of all computers once there is a zygote. */
static void settle(struct native *n, const struct zygote *z)
{
    if (n->rung == RUNG_WEAK)
        cgroups_drop_unified(&n->cgroups); /* it takes clone3, which filters of engines know nothing of */
    n->keeps &= n->rung != RUNG_WEAK;      /* nobody would be there to end what an init leaves behind */
    replace_limits(n);
    disks_prepare(&n->disks, n->state_dir, native_why_no_image(n));
    if (n->rung == RUNG_RANGE)
        disks_give_up(&n->disks, "its files are not this user's to look into");
    _cleanup_(cleanup_free) char *limits = describe_limits(&n->limits, &n->cgroups, &n->disks);
    const char *words = rung_words(n->rung), *proc = zygote_hides_proc(z) ? PROC_HIDDEN : NULL;
    if (words || proc)
        n->weaker = xasprintf("%s%s%s", words ? words : "", words && proc ? "; " : "", proc ? proc : "");
    n->limits_held = xasprintf("%s%s%s", limits, n->weaker ? "; " : "", n->weaker ? n->weaker : "");
    n->proc_hidden = proc != NULL;
    n->prepared = true;
}

/* On the first rung that holds. */
static struct zygote *climb(struct native *n, const struct wait *wait, struct error *err)
{
    struct zygote *z = NULL;
    struct error refusal = {.code = ERR_DENIED};
    for (enum rung rung = RUNG_ROOT; !z && refusal.code == ERR_DENIED && rung < RUNGS; rung++) {
        if (!may_hold(n, rung))
            continue;
        take_rung(n, rung);
        z = start_zygote(n, wait, &refusal);
    }
    if (!z && refusal.code == ERR_DENIED)
        rung_refused(n->machine.proc, &refusal);
    if (!z) {
        *err = refusal;
        return NULL;
    }
    settle(n, z);
    return z;
}

/* So that the next attempt begins anew. */
static void unprepare(struct native *n)
{
    toolbox_done(&n->toolbox);
    cgroups_done(&n->cgroups);
    free(TAKE_PTR(n->subids.file));
}

static struct zygote *prepare(struct native *n, struct error *err)
{
    /* Not the caller's limits: others wait for the same. */
    struct wait wait = {.deadline = clock_now() + PREPARE_TIMEOUT_NS};
    if (n->prepared)
        return start_zygote(n, &wait, err);
    if (prepare_machine(n, err) < 0)
        return NULL;
    struct zygote *z = climb(n, &wait, err);
    if (!z)
        unprepare(n);
    return z;
}

/* Under the lock, which is left meanwhile. */
static int prepare_for_all_locked(struct native *n, struct error *err)
{
    struct zygote *dead = TAKE_PTR(n->zygote);
    struct error why = ERROR_INIT;
    pthread_mutex_unlock(&n->lock);
    zygote_unref(dead);
    struct zygote *z = prepare(n, &why);
    pthread_mutex_lock(&n->lock);
    if (why.code == ERR_NOT_FOUND || why.code == ERR_GONE)
        why.code = ERR_UNAVAILABLE; /* what isn't found, or has ended, is no computer */
    n->zygote = z;
    attempt_end(&n->preparing, z ? NULL : &why);
    return z ? 0 : error_set(err, why.code, "%s", why.msg);
}

struct zygote *native_ready(struct native *n, const struct wait *wait, struct error *err)
{
    struct zygote *z = NULL;
    int failed = 0;
    pthread_mutex_lock(&n->lock);
    while (failed == 0 && !z) {
        if (n->zygote && zygote_alive(n->zygote)) {
            z = zygote_ref(n->zygote);
            continue;
        }
        int joined = attempt_join(&n->preparing, &n->lock, wait, err);
        failed = joined == 0 ? prepare_for_all_locked(n, err) : joined < 0 ? -1 : 0;
    }
    pthread_mutex_unlock(&n->lock);
    return z;
}

int native_go_plain(struct native *n, const char *reason, struct error *err)
{
    if (n->rootfs)
        return error_set(
            err, ERR_UNAVAILABLE,
            "a writable layer can't be laid over --rootfs %s here (%s): use a --state-dir and a --rootfs on "
            "an ordinary file system such as ext4, or leave --rootfs out",
            n->rootfs, reason);
    pthread_mutex_lock(&n->lock);
    struct zygote *old = n->plain ? NULL : TAKE_PTR(n->zygote);
    n->plain = true;
    pthread_mutex_unlock(&n->lock);
    zygote_unref(old);
    return 0;
}

/* --- the table --- */

static int native_probe(struct backend *b, const struct wait *wait, struct error *err)
{
    struct zygote *z = native_ready(native_of(b), wait, err);
    zygote_unref(z);
    return z ? 0 : -1;
}

static unsigned native_capabilities(const struct backend *b)
{
    const struct native *n = native_of(b);
    unsigned capabilities = BACKEND_PERSISTENT | BACKEND_NETWORK_OFF | BACKEND_GUEST;
    if (n->keeps)
        capabilities |= BACKEND_OUTLIVES;
    bool all = n->prepared;
    for (int i = 0; i < CGROUP_LIMITS && all; i++)
        all = n->cgroups.places[i].version != 0;
    if (all && n->disks.way != DISK_WATCHED)
        capabilities |= BACKEND_LIMITS;
    if (n->prepared && n->disks.way == DISK_IMAGE)
        capabilities |= BACKEND_DISK_LIMIT;
    return capabilities;
}

static void native_describe(const struct backend *b, struct backend_description *ret)
{
    const struct native *n = native_of(b);
    const bool weak = n->prepared && n->rung == RUNG_WEAK;
    *ret = (struct backend_description){
        .environment = weak ? n->weak_environment : n->environment,
        .place = weak ? "as an ordinary user of this machine and from a folder of its own ($HOME)" : NULL,
        .shell = n->shell ? n->shell : n->first_shell,
        .network = n->network_wanted
                       ? "no network (loopback only): this version of the native backend has none"
                       : "no network (loopback only)",
        .limits = n->prepared ? n->limits_held : n->limits_wanted,
        .weaker = n->prepared ? n->weaker : NULL,
    };
}

static unsigned native_options_of(const struct backend *b)
{
    const struct native *n = native_of(b);
    const bool disk = n->may_have_images && (!n->prepared || !native_why_no_image(n));
    return b->ops->late_options | (disk ? COMPUTER_DISK : 0);
}

static struct backend *native_free(struct backend *b)
{
    if (!b)
        return NULL;
    struct native *n = native_of(b);
    zygote_unref(n->zygote);
    cgroups_done(&n->cgroups);
    toolbox_done(&n->toolbox);
    disks_done(&n->disks);
    deaths_done(&n->deaths);
    pthread_mutex_destroy(&n->lock);
    free(n->state_dir);
    free(n->rootfs);
    free(n->shell);
    free(n->environment);
    free(n->weak_environment);
    free(n->weaker);
    free(n->limits_wanted);
    free(n->limits_held);
    free(n->subids.file);
    free(n);
    return NULL;
}

static const struct backend_ops ops = {
    .name = "native",
    .late_options = COMPUTER_CPUS | COMPUTER_MEMORY | COMPUTER_PIDS | COMPUTER_ENV,
    .probe = native_probe,
    .capabilities = native_capabilities,
    .describe = native_describe,
    .prepare = instance_prepare,
    .create = instance_create,
    .begin = instance_begin,
    .give_id = instance_give_id,
    .options = native_options_of,
    .restart = instance_restart,
    .make_way = instance_make_way,
    .take_over = instance_take_over,
    .stat = instance_stat,
    .attach = instance_attach,
    .plan = instance_plan,
    .record = instance_record,
    .exec = instance_exec,
    .alive = instance_alive,
    .kill = instance_kill,
    .detach = instance_detach,
    .remove = instance_remove,
    .reap = instance_reap,
    .settle = instance_settle,
    .lives = instance_lives,
    .free = native_free,
};

struct backend *native_new_on(const struct native_options *options, const struct native_machine *machine)
{
    struct native *n = xcalloc(1, sizeof(*n));
    n->base.ops = &ops;
    n->state_dir = xstrdup(options->state_dir);
    n->rootfs = xstrdup(options->rootfs);
    n->shell = xstrdup(options->shell);
    n->limits = (struct cgroup_values){
        .memory_bytes = options->memory_bytes ? options->memory_bytes : default_limits.memory_bytes,
        .pids = options->pids ? options->pids : default_limits.pids,
        .cpus = options->cpus > 0 ? options->cpus : default_limits.cpus,
    };
    disks_foresee(&n->disks, options->disk_bytes);
    n->may_have_images = !machine->no_images && disks_may_be_images();
    n->allow_weak = options->allow_weak;
    n->network_wanted = options->network_wanted;
    n->keeps = options->keep_running;
    n->machine = *machine;
    n->plain = machine->no_overlay;
    n->toolbox.lock_fd = -1;
    pthread_mutex_init(&n->lock, NULL);
    deaths_init(&n->deaths);
    n->environment = describe_environment(n->rootfs);
    n->weak_environment = n->allow_weak ? describe_weak_environment() : NULL;
    n->limits_wanted = describe_limits(&n->limits, NULL, &n->disks);
    n->first_shell = verdict_base_has(n, "/bin/bash") ? "/bin/bash" : "/bin/sh";
    return &n->base;
}

struct backend *native_new(const struct native_options *options)
{
    return native_new_on(options, &this_machine);
}
