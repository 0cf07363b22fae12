/* The life of one computer: made (or brought back), recorded, killed, removed. How it is born is in birth.c,
 * how one is found that has outlived another server in remains.c. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/native/channel.h"
#include "backends/native/folder.h"
#include "backends/native/ids.h"
#include "backends/native/keep.h"
#include "backends/native/private.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"

#define DEATH_TIMEOUT_MS 5000
#define NAME_TIMEOUT_NS (2 * NSEC_PER_SEC)
#define BLANK_TIMEOUT_NS (20 * NSEC_PER_SEC)
#define LEAVE_TIMEOUT_NS (2 * NSEC_PER_SEC)
#define REMOVE_ATTEMPTS 5
#define OWN_TIMEOUT_NS (120 * NSEC_PER_SEC)

/* What all have, and what this one has of its own. */
static struct cgroup_values values_of(const struct native *n, const struct computer_options *o)
{
    struct cgroup_values v = n->limits;
    if (o && (o->given & COMPUTER_MEMORY))
        v.memory_bytes = o->memory_bytes;
    if (o && (o->given & COMPUTER_PIDS))
        v.pids = o->pids;
    if (o && (o->given & COMPUTER_CPUS))
        v.cpus = o->cpus;
    return v;
}

static bool has_own_disk(const struct computer_spec *spec)
{
    return spec->options && spec->options->given & COMPUTER_DISK;
}

/* As it is to be, before anything is made. */
static struct disk disk_of(const struct native *n, const struct computer_spec *spec)
{
    struct disks own;
    if (!has_own_disk(spec))
        return disk_planned(&n->disks);
    disks_foresee(&own, spec->options->disk_bytes);
    return disk_planned(&own);
}

struct native_instance *instance_new(struct native *n, struct zygote *zygote,
                                     const struct computer_spec *spec, uint32_t id_base)
{
    struct native_instance *i = xcalloc(1, sizeof(*i));
    i->base.ops = n->base.ops;
    i->native = n;
    i->zygote = zygote_ref(zygote);
    snprintf(i->id, sizeof(i->id), "%s", spec->id);
    snprintf(i->key, sizeof(i->key), "%s", spec->key);
    i->folder = xstrdup(spec->folder);
    i->values = values_of(n, spec->options);
    i->env = spec->options && spec->options->env ? strv_copy(spec->options->env) : NULL;
    i->id_base = id_base;
    i->pidfd = i->channel = i->oom = i->lock = -1;
    i->birth = (struct cgroup_birth)CGROUP_BIRTH_NONE;
    i->plain = n->plain;
    i->disks = &n->disks;
    i->disk = disk_of(n, spec);
    i->reaper = true;
    figures_init(&i->figures);
    return i;
}

void instance_forget_init(struct native_instance *i)
{
    deaths_forget(&i->native->deaths, &i->death, i->pidfd);
    i->pidfd = fd_close(i->pidfd);
}

struct native_instance *instance_free(struct native_instance *i)
{
    if (!i)
        return NULL;
    if (!i->reaper)
        scopes_done(&i->scopes);
    fd_close(i->channel);
    instance_forget_init(i);
    fd_close(i->oom);
    fd_close(i->lock);
    disk_close(&i->disk);
    cgroup_birth_done(&i->birth);
    figures_done(&i->figures);
    zygote_unref(i->zygote);
    json_decref(i->groups);
    json_decref(i->limits);
    strv_free(i->env);
    free(i->folder);
    free(i);
    return NULL;
}

uint32_t instance_owner(const struct native_instance *i)
{
    const enum rung rung = i->native->rung;
    return rung == RUNG_ROOT || (rung == RUNG_WEAK && geteuid() == 0) ? i->id_base : ID_OURS;
}

char *instance_home(const struct native_instance *i)
{
    return i->native->rung == RUNG_WEAK ? xasprintf("%s/native/upper", i->folder) : NULL;
}

/* Without a namespace of processes, who ends init first ends nobody else: it is told to. */
void instance_end_init(int pidfd, bool weak)
{
    pidfd_send_signal(pidfd, weak ? GUEST_END_SIGNAL : SIGKILL, NULL, 0);
    if (weak)
        pidfd_send_signal(pidfd, SIGCONT, NULL, 0);
}

bool instance_awaits_death(int pidfd)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    int n;
    do {
        n = poll(&p, 1, DEATH_TIMEOUT_MS);
    } while (n < 0 && errno == EINTR);
    return n > 0;
}

int instance_await_death(int pidfd, bool weak, struct error *err)
{
    if (instance_awaits_death(pidfd))
        return 0;
    if (weak) { /* what it leaves then is the zygote's to end */
        instance_end_init(pidfd, false);
        if (instance_awaits_death(pidfd))
            return 0;
    }
    return error_set(err, ERR_BUSY,
                     "the computer's processes are not gone %d ms after they were killed; "
                     "they are stuck in the kernel",
                     DEATH_TIMEOUT_MS);
}

/* Ends the processes and the groups. All is tried, whatever fails; the first error is kept. Without a pidfd
 * there may still be an init on its way, if we gave up waiting for it: the end of its channel ends it. */
static int stop(struct native_instance *i, struct error *err)
{
    int result = 0;
    i->channel = fd_close(i->channel);
    if (i->pidfd >= 0) {
        instance_kill(&i->base);
        result = instance_await_death(i->pidfd, i->native->rung == RUNG_WEAK, err);
    }
    FAULT_POINT("end.processes-ended");
    disk_close(&i->disk); /* now it is unmounted */
    if (cgroup_remove(&i->native->cgroups, i->key, i->groups, result < 0 ? NULL : err) < 0)
        result = -1;
    FAULT_POINT("end.groups-removed");
    return result;
}

/* And ours again, to be removed. */
static int take_files(struct native *n, const char *folder, struct error *err)
{
    const struct wait wait = {.deadline = clock_now() + OWN_TIMEOUT_NS};
    if (n->rung != RUNG_RANGE || access(folder, F_OK) < 0)
        return 0;
    const char *in_state = birth_folder(n, folder, err);
    _cleanup_(cleanup_zygote_unref) struct zygote *zygote = in_state ? native_ready(n, &wait, err) : NULL;
    return zygote ? zygote_own(zygote, in_state, 0, &wait, err) : -1;
}

int instance_remove_files(struct native *n, const char *folder, uint32_t id_base, struct error *err)
{
    /* Again: an init that nobody waited for may still be making something. */
    int result = -1;
    for (int attempt = 0;
         result < 0 && attempt < (n->rung == RUNG_ROOT || n->rung == RUNG_ONE_ID ? 1 : REMOVE_ATTEMPTS);
         attempt++)
        result = take_files(n, folder, err) < 0 || folder_remove(folder, err) < 0 ? -1 : 0;
    keep_remove(folder);
    FAULT_POINT("end.files-removed");
    if (id_base && ids_give_back(&n->ids, folder, id_base, result < 0 ? NULL : err) < 0)
        result = -1;
    FAULT_POINT("end.ids-given-back");
    return result;
}

static int lock(struct native_instance *i, const struct computer_spec *spec, const struct wait *wait,
                struct error *err)
{
    if (spec->temporary || keep_lock(spec->folder, wait, &i->lock, err) == 0)
        return 0;
    backend_tell_full(err);
    return -1;
}

/* What the image of one with a size of its own is made from: a cap that isn't enforced would be none. */
static int make_own_disks(const struct native *n, const struct computer_spec *spec, struct disks *ret,
                          struct error *err)
{
    struct disks own;
    if (!has_own_disk(spec))
        return 0;
    disks_foresee(&own, spec->options->disk_bytes);
    disks_prepare(&own, n->state_dir, native_why_no_image(n));
    if (own.way != DISK_IMAGE)
        return error_set(
            err, ERR_UNSUPPORTED,
            "a computer can't have a 'disk' of its own here (%s): leave it out, and it is as the "
            "server has it for all",
            own.why);
    *ret = own;
    return 0;
}

/* One attempt, as overlay or plain. Nothing is left of one that fails. */
static int create_once(struct native *n, const struct computer_spec *spec, const struct disks *disks,
                       const struct wait *wait, struct native_instance **ret, struct error *err)
{
    uint32_t id_base;
    _cleanup_(cleanup_zygote_unref) struct zygote *zygote = native_ready(n, wait, err);
    const int taken = zygote ? ids_take(&n->ids, spec->folder, &id_base, err) : -1;
    if (taken < 0) {
        if (zygote)
            backend_tell_full(err);
        if (spec->prepared)
            cgroup_remove(&n->cgroups, spec->key, NULL, NULL);
        return -1;
    }
    struct native_instance *i = instance_new(n, zygote, spec, id_base);
    i->disks = disks;
    if (lock(i, spec, wait, err) < 0 || birth_make(i, true, spec->prepared, wait, err) < 0) {
        stop(i, NULL);
        instance_remove_files(n, spec->folder, id_base, NULL);
        instance_free(i);
        return -1;
    }
    i->disks = &n->disks;
    *ret = i;
    return 0;
}

int instance_create(struct backend *b, const struct computer_spec *spec, const struct wait *wait,
                    struct instance **ret, struct error *err)
{
    struct native *n = native_of(b);
    struct native_instance *i;
    struct error e = ERROR_INIT;
    _cleanup_(disks_done) struct disks own = DISKS_NONE;
    if (make_own_disks(n, spec, &own, err) < 0)
        return -1;
    const struct disks *disks = has_own_disk(spec) ? &own : &n->disks;
    int failed = create_once(n, spec, disks, wait, &i, &e);
    if (failed < 0 && e.code == ERR_UNSUPPORTED) {
        if (native_go_plain(n, e.msg, err) < 0)
            return -1;
        failed = create_once(n, spec, disks, wait, &i, &e);
    }
    if (failed < 0) {
        if (err)
            *err = e;
        return -1;
    }
    *ret = &i->base;
    return 0;
}

/* Without namespaces all of a computer is made of its folder, which is yet to move; an image isn't mounted
 * for nobody; and who isn't root of the machine may put a process into v1 groups only before it has other
 * ids. */
static bool may_be_blank(const struct native *n)
{
    bool joins = false;
    for (int limit = 0; limit < CGROUP_LIMITS; limit++)
        joins |= n->cgroups.places[limit].version == 1;
    return n->rung != RUNG_WEAK && n->disks.way != DISK_IMAGE && !(n->rung == RUNG_RANGE && joins);
}

static int prepare_blank(struct native *n, const struct computer_spec *spec, struct native_instance **ret,
                         struct error *err)
{
    const struct wait wait = {.deadline = clock_now() + BLANK_TIMEOUT_NS};
    uint32_t id_base;
    _cleanup_(cleanup_zygote_unref) struct zygote *zygote = native_ready(n, &wait, err);
    if (!zygote || ids_take(&n->ids, spec->folder, &id_base, err) < 0)
        return -1;
    struct native_instance *i = instance_new(n, zygote, spec, id_base);
    i->stage = STAGE_BLANK;
    if (birth_make(i, true, false, &wait, err) < 0) {
        instance_remove(&i->base, NULL);
        return -1;
    }
    *ret = i;
    return 0;
}

int instance_prepare(struct backend *b, const struct computer_spec *spec, struct instance **ret,
                     struct error *err)
{
    struct native *n = native_of(b);
    struct native_instance *blank = NULL;
    int failed = 0;
    if (n->plain || !n->prepared)
        return 0;
    if (may_be_blank(n))
        failed = prepare_blank(n, spec, &blank, err);
    else if (folder_prepare(spec->folder, &n->disks, err) < 0 ||
             cgroup_prepare(&n->cgroups, spec->key, &n->limits, err) < 0)
        failed = -1;
    *ret = blank ? &blank->base : NULL;
    return failed;
}

int instance_begin(struct instance *instance, const struct computer_options *options, struct error *err)
{
    struct native_instance *i = instance_of(instance);
    const struct wait wait = {.deadline = clock_now() + NAME_TIMEOUT_NS};
    const struct cgroup_values values = values_of(i->native, options);
    if (birth_change_limits(i, &values, err) < 0)
        return -1;
    i->env = options && options->env ? strv_copy(options->env) : NULL;
    return i->stage == STAGE_BLANK ? birth_begin(i, &wait, err) : 0;
}

int instance_give_id(struct instance *instance, const struct computer_spec *spec,
                     int (*move)(void *ctx, struct error *err), void *ctx, struct error *err)
{
    struct native_instance *i = instance_of(instance);
    const struct wait wait = {.deadline = clock_now() + NAME_TIMEOUT_NS};
    struct zygote_asker asker;
    if (!spec->temporary && keep_lock(i->folder, &wait, &i->lock, err) < 0)
        return -1;
    if (zygote_ask_name(i->zygote, i->pid, spec->id, birth_is_kept(i) ? i->lock : -1, &wait, &asker, err) < 0)
        return -1;
    if (ids_move(&i->native->ids, i->id_base, spec->folder, move, ctx, err) < 0) {
        zygote_forget(i->zygote, &asker); /* a name that nobody will see */
        return -1;
    }
    FAULT_POINT("give-id.moved");
    free(i->folder);
    i->folder = xstrdup(spec->folder);
    snprintf(i->id, sizeof(i->id), "%s", spec->id);
    if (zygote_await_name(i->zygote, &asker, &wait, err) < 0 || birth_await(i, &wait, err) < 0)
        return -1;
    return birth_keep(i, &wait, err);
}

static int stay(void *ctx, struct error *err)
{
    (void)ctx;
    (void)err;
    return 0;
}

int instance_make_way(struct instance *instance, const char *folder, struct error *err)
{
    struct native_instance *i = instance_of(instance);
    if (ids_move(&i->native->ids, i->id_base, folder, stay, NULL, err) < 0)
        return -1;
    free(i->folder);
    i->folder = xstrdup(folder);
    return 0;
}

int instance_take_over(struct instance *instance, const struct computer_spec *spec,
                       int (*move)(void *ctx, struct error *err), void *ctx, struct error *err)
{
    struct native_instance *i = instance_of(instance); /* its name inside it has from birth */
    if (ids_move(&i->native->ids, i->id_base, spec->folder, move, ctx, err) < 0)
        return -1;
    free(i->folder);
    i->folder = xstrdup(spec->folder);
    return 0;
}

/* What a computer was made as, it stays. */
static int check_kind(struct native *n, const json_t *data, struct error *err)
{
    const char *root = json_get_string(data, "root");
    bool plain = root && strcmp(root, "plain") == 0;
    if (plain && native_go_plain(n, "the computer was made without overlayfs", err) < 0)
        return -1;
    if (!plain && n->plain)
        return error_set(err, ERR_UNAVAILABLE,
                         "the computer's files are a layer of overlayfs, which can't be used "
                         "here: move the state directory back to where it worked");
    return 0;
}

/* Its files have ids that only the same rung can give. Records of old have none: they are root's. */
static int check_rung(const struct native *n, const json_t *data, struct error *err)
{
    const char *made_on = json_get_string(data, "rung");
    if (!made_on)
        made_on = rung_name(RUNG_ROOT);
    if (strcmp(made_on, rung_name(n->rung)) == 0)
        return 0;
    return error_set(
        err, ERR_UNAVAILABLE,
        "the computer was made on the rung '%s' (see SECURITY.md), and this server makes them on '%s': "
        "run it as it was run then",
        made_on, rung_name(n->rung));
}

/* Nothing of it lives any more, or is to. */
static int start_again(struct native_instance *i, const struct computer_spec *spec, const json_t *data,
                       const struct wait *wait, struct error *err)
{
    if (instance_end_remains(i->native, spec, data, err) < 0 || lock(i, spec, wait, err) < 0)
        return -1;
    if (birth_make(i, false, false, wait, err) == 0)
        return 0;
    if (err && err->code == ERR_UNSUPPORTED)
        err->code = ERR_UNAVAILABLE;
    stop(i, NULL);
    return -1;
}

int instance_attach(struct backend *b, const struct computer_spec *spec, const json_t *data,
                    const struct wait *wait, struct instance **ret, struct error *err)
{
    struct native *n = native_of(b);
    int64_t id_base = json_integer_value(json_object_get(data, "id_base"));
    if (id_base <= 0 || id_base > UINT32_MAX)
        return error_set(err, ERR_GONE, "the record of computer %s doesn't say which user ids it has",
                         spec->id);
    int has_image = geteuid() == 0 ? folder_has_image(spec->folder, err) : 0; /* only root mounts them */
    if (has_image < 0 || check_kind(n, data, err) < 0 ||
        (!has_image && folder_check(spec->folder, n->plain, err) < 0))
        return -1;
    _cleanup_(cleanup_zygote_unref) struct zygote *zygote = native_ready(n, wait, err);
    if (!zygote || check_rung(n, data, err) < 0 ||
        ids_hold(&n->ids, spec->folder, (uint32_t)id_base, err) < 0)
        return -1;
    struct native_instance *i = instance_new(n, zygote, spec, (uint32_t)id_base);
    if (has_image)
        i->disk.way = DISK_IMAGE;
    else if (i->disk.way == DISK_IMAGE)
        i->disk.way = DISK_WATCHED; /* it was made without */
    int resumed = instance_resume(i, data, wait, err);
    if (resumed < 0 || (resumed == 0 && start_again(i, spec, data, wait, err) < 0)) {
        instance_free(i);
        return -1;
    }
    *ret = &i->base;
    return 0;
}

static json_t *limit_record(const struct native *n, enum cgroup_limit limit, const char *unit, json_t *value)
{
    const struct cgroup_place *place = &n->cgroups.places[limit];
    json_t *o = json_object();
    json_object_set_new(o, unit, value);
    json_object_set_new(o, "enforced", json_boolean(place->version != 0));
    if (place->version == 0 && place->why)
        json_object_set_new(o, "why", json_string(place->why));
    if (place->weaker)
        json_object_set_new(o, "weaker", json_string(place->weaker));
    return o;
}

/* See disk.h. */
static json_t *disk_record(const struct native *n, const struct disk *d)
{
    static const char *const how[] = {
        [DISK_NONE] = "none", [DISK_WATCHED] = "watched", [DISK_IMAGE] = "image"};
    json_t *o = json_object();
    if (d->way != DISK_NONE) {
        json_object_set_new(o, "bytes", json_integer(d->limit.bytes));
        json_object_set_new(o, "files", json_integer(d->limit.files));
    }
    json_object_set_new(o, "enforced",
                        d->way == DISK_WATCHED ? json_string("watched") : json_boolean(d->way == DISK_IMAGE));
    json_object_set_new(o, "how", json_string(how[d->way]));
    if (d->way != DISK_IMAGE && n->disks.why[0])
        json_object_set_new(o, "why", json_string(n->disks.why));
    return o;
}

static json_t *plan(const struct native *n, const char *key, const struct cgroup_values *values,
                    const struct disk *disk)
{
    json_t *limits = json_object();
    json_object_set_new(limits, "memory",
                        limit_record(n, CGROUP_MEMORY, "bytes", json_integer(values->memory_bytes)));
    json_object_set_new(limits, "pids", limit_record(n, CGROUP_PIDS, "count", json_integer(values->pids)));
    json_object_set_new(limits, "cpu", limit_record(n, CGROUP_CPU, "cpus", json_real(values->cpus)));
    json_object_set_new(limits, "disk", disk_record(n, disk));

    json_t *o = json_object();
    json_object_set_new(o, "groups", cgroup_list(&n->cgroups, key));
    json_object_set_new(o, "limits", limits);
    json_object_set_new(o, "network", json_string("none"));
    json_object_set_new(o, "rung", json_string(rung_name(n->rung)));
    if (n->weaker)
        json_object_set_new(o, "weaker", json_string(n->weaker));
    return o;
}

json_t *instance_plan(const struct backend *b, const struct computer_spec *spec)
{
    const struct native *n = (const struct native *)b;
    const struct cgroup_values values = values_of(n, spec->options);
    const struct disk disk = disk_of(n, spec);
    return plan(n, spec->key, &values, &disk);
}

static const char *root_kind(const struct native_instance *i)
{
    return i->native->rung == RUNG_WEAK ? "machine" : i->plain ? "plain" : "overlay";
}

json_t *instance_record(const struct instance *instance)
{
    const struct native_instance *i = instance_of(instance);
    struct stat st;
    json_t *o = plan(i->native, i->key, &i->values, &i->disk);
    if (i->groups)
        json_object_set(o, "groups", i->groups);
    if (i->limits)
        json_object_set(o, "limits", i->limits);
    if (i->disk.fd >= 0)
        json_object_set_new(o, "disk_device", json_integer((json_int_t)disk_device(&i->disk)));
    json_object_set_new(o, "id_base", json_integer(i->id_base));
    json_object_set_new(o, "root", json_string(root_kind(i)));
    if (stat(i->folder, &st) == 0) { /* no copy of it is the computer's folder */
        json_object_set_new(o, "folder_device", json_integer((json_int_t)st.st_dev));
        json_object_set_new(o, "folder_inode", json_integer((json_int_t)st.st_ino));
    }
    json_object_set_new(o, "pid", json_integer(i->pid));
    json_object_set_new(o, "start", json_integer((json_int_t)i->start));
    json_object_set_new(o, "serial", json_integer((json_int_t)clock_process_serial(i->pidfd)));
    json_object_set_new(o, "boot_id", json_string(clock_boot_id()));
    return o;
}

bool instance_alive(const struct instance *instance)
{
    struct native_instance *i = instance_of(instance);
    return i->pidfd >= 0 && !i->is_given_up &&
           !deaths_tell(&i->native->deaths, &i->death, i->pidfd); /* -1: see restart */
}

/* The end of pid 1 is the end of its pid namespace, and so of all that the computer runs. */
void instance_kill(struct instance *instance)
{
    const struct native_instance *i = instance_of(instance);
    instance_end_init(i->pidfd, i->native->rung == RUNG_WEAK);
}

void instance_give_up(struct native_instance *i)
{
    i->is_given_up = true;
    instance_kill(&i->base);
}

/* True if it goes on without us. */
static bool leave(struct native_instance *i)
{
    const struct guest_leave request = {.type = GUEST_LEAVE};
    const struct wait wait = {.deadline = clock_now() + LEAVE_TIMEOUT_NS};
    struct guest_ready ready;
    _cleanup_fd_ int none = -1;
    if (!i->kept || channel_send(i->channel, &request, sizeof(request), NULL, 0, NULL, 0, &wait, NULL) < 0 ||
        instance_await_ready(i, &wait, &ready, &none, NULL) < 0)
        return false;
    zygote_outlives(i->zygote);
    return true;
}

int instance_detach(struct instance *instance, struct error *err)
{
    struct native_instance *i = instance_of(instance);
    int result = leave(i) ? 1 : stop(i, err);
    instance_free(i);
    return result;
}

/* All that was started is ended, and the files are those that there are. */
int instance_restart(struct instance *instance, const struct wait *wait, struct error *err)
{
    struct native_instance *i = instance_of(instance);
    bool was_image = i->disk.way == DISK_IMAGE;
    if (stop(i, err) < 0) { /* it has no channel any more */
        instance_give_up(i);
        return -1;
    }
    FAULT_POINT("restart.stopped");
    if (!i->reaper)
        scopes_done(&i->scopes);
    i->reaper = true;
    i->kept = false;
    instance_forget_init(i);
    i->oom = fd_close(i->oom);
    json_decref(TAKE_PTR(i->groups));
    json_decref(TAKE_PTR(i->limits));
    if (was_image)
        i->disk.way = DISK_IMAGE;
    struct zygote *zygote = native_ready(i->native, wait, err);
    if (!zygote)
        return -1;
    zygote_unref(i->zygote);
    i->zygote = zygote;
    if (birth_make(i, false, false, wait, err) < 0) {
        stop(i, NULL);
        return -1;
    }
    figures_forget(&i->figures);
    return 0;
}

int instance_remove(struct instance *instance, struct error *err)
{
    struct native_instance *i = instance_of(instance);
    disk_throw_away(&i->disk);
    int result = stop(i, err);
    if (instance_remove_files(i->native, i->folder, i->id_base, result < 0 ? NULL : err) < 0)
        result = -1;
    instance_free(i);
    return result;
}
