/* The life of one computer: made (or brought back), recorded, killed, removed; and what is left of one whose
 * server died. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/native/channel.h"
#include "backends/native/folder.h"
#include "backends/native/ids.h"
#include "backends/native/private.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"

#define READY_TIMEOUT_NS (20 * NSEC_PER_SEC)
#define DEATH_TIMEOUT_MS 5000
#define NAME_TIMEOUT_NS (2 * NSEC_PER_SEC)
#define NOFILE 4096
#define REMOVE_ATTEMPTS 5
#define OWN_TIMEOUT_NS (120 * NSEC_PER_SEC)
#define SHM_BYTES (64 * MIB)

static struct native_instance *instance_new(struct native *n, struct zygote *zygote,
                                            const struct computer_spec *spec, uint32_t id_base)
{
    struct native_instance *i = xcalloc(1, sizeof(*i));
    i->base.ops = n->base.ops;
    i->native = n;
    i->zygote = zygote_ref(zygote);
    snprintf(i->id, sizeof(i->id), "%s", spec->id);
    snprintf(i->key, sizeof(i->key), "%s", spec->key);
    i->folder = xstrdup(spec->folder);
    i->id_base = id_base;
    i->pidfd = i->channel = i->oom = -1;
    i->plain = n->plain;
    i->disk = disk_planned(&n->disks);
    i->reaper = true;
    return i;
}

static struct native_instance *instance_free(struct native_instance *i)
{
    if (!i)
        return NULL;
    if (!i->reaper)
        scopes_done(&i->scopes);
    fd_close(i->channel);
    fd_close(i->pidfd);
    fd_close(i->oom);
    disk_close(&i->disk);
    zygote_unref(i->zygote);
    free(i->folder);
    free(i);
    return NULL;
}

/* How the zygote numbers an id of the host. */
static uint32_t guest_id(const struct native *n, uint32_t id)
{
    return n->rung == RUNG_ROOT ? id : n->rung == RUNG_ONE_ID ? 0 : id - n->ids.first + 1;
}

/* As whose we make what is the computer's. */
static uint32_t owner_on_disk(const struct native_instance *i)
{
    return i->native->rung == RUNG_ROOT ? i->id_base : ID_OURS;
}

/* FOLDER as the zygote names it: beneath the state directory. NULL: it isn't. */
static const char *folder_in_state(const struct native *n, const char *folder, struct error *err)
{
    size_t length = strlen(n->state_dir);
    if (strncmp(folder, n->state_dir, length) == 0 && folder[length] == '/')
        return folder + length + 1;
    error_set(err, ERR_INVALID, "the computer's folder %s is not beneath %s", folder, n->state_dir);
    return NULL;
}

static int fill_request(const struct native_instance *i, struct guest_create *r, struct error *err)
{
    const char *folder = folder_in_state(i->native, i->folder, err);
    if (!folder)
        return -1;
    int length = snprintf(r->folder, sizeof(r->folder), "%s/native", folder);
    if (length >= (int)sizeof(r->folder))
        return error_set(err, ERR_INVALID, "the computer's folder has too long a path: %s", i->folder);
    snprintf(r->hostname, sizeof(r->hostname), "%s", i->id);
    r->id_base = guest_id(i->native, i->id_base);
    r->id_count = i->native->ids.size;
    if (i->native->cgroups.places[CGROUP_PIDS].per_user)
        r->nproc = (uint32_t)i->native->limits.pids;
    r->nofile = NOFILE;
    r->shm_bytes = SHM_BYTES;
    r->file_bytes = i->disk.way == DISK_WATCHED ? (uint64_t)i->disk.limit.bytes : 0;
    return 0;
}

static int await_ready(struct native_instance *i, const struct wait *wait, struct error *err)
{
    int64_t latest = clock_now() + READY_TIMEOUT_NS;
    struct wait bounded = wait_at_most(wait, latest);
    if (wait_fd(i->channel, POLLIN, &bounded, NULL, err) < 0) {
        if (err && err->code == ERR_TIMEOUT && bounded.deadline == latest)
            err->code = ERR_UNAVAILABLE; /* the caller has time left: this limit is ours */
        return error_prefix(err, "make the computer");
    }
    struct guest_ready ready;
    int extra = -1;
    ssize_t n = channel_receive(i->channel, &ready, sizeof(ready), &extra);
    fd_close(extra);
    if (n != sizeof(ready) || ready.type != GUEST_READY)
        return error_set(err, ERR_UNAVAILABLE,
                         "make the computer: its first process ended before it was ready");
    return ready.error.stage[0] ? channel_failed(&ready.error, err) : 0;
}

/* Asks the zygote for the first process; what it needs but a group to be born in may come later. */
static int conceive(struct native_instance *i, int group, const struct wait *wait, struct zygote_asker *asker,
                    struct error *err)
{
    struct guest_create request = {.flags = i->reaper ? GUEST_SCOPE_REAPER : GUEST_HAS_CGROUP2};
    int pair[2];
    if (fill_request(i, &request, err) < 0)
        return -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, ERR_LIMIT, errno, "make a socket pair");
    i->channel = pair[0];
    _cleanup_fd_ int far = pair[1]; /* not kept, so that init's end is the end of the channel */
    const int fds[] = {far, group};
    return zygote_ask(i->zygote, &request, fds, i->reaper ? 1 : 2, wait, asker, err);
}

/* What we can't do ourselves: the files of a new computer become its own. */
static int give_files(struct native_instance *i, const struct wait *wait, struct error *err)
{
    const char *folder = i->native->rung == RUNG_RANGE ? folder_in_state(i->native, i->folder, err) : NULL;
    if (i->native->rung != RUNG_RANGE)
        return 0;
    if (!folder)
        return -1;
    _cleanup_(cleanup_free) char *files = path_join(folder, "native");
    return zygote_own(i->zygote, files, guest_id(i->native, i->id_base), wait, err);
}

static int make_files(struct native_instance *i, bool is_new, const struct wait *wait, struct error *err)
{
    const struct native *n = i->native;
    const char *plain_from = i->plain ? n->toolbox.path : NULL;
    if (i->disk.way != DISK_IMAGE)
        return is_new ? folder_make(i->folder, owner_on_disk(i), plain_from, err) : 0;
    if (is_new)
        return folder_make_image(i->folder, owner_on_disk(i), plain_from, &n->disks, wait, &i->disk, err);
    return folder_open_image(i->folder, wait, &i->disk, err);
}

static int send_begin(struct native_instance *i, const struct cgroup_birth *birth, const struct wait *wait,
                      struct error *err)
{
    struct guest_begin begin = {.type = GUEST_BEGIN};
    int fds[1 + CGROUP_LIMITS];
    size_t count = 0;
    if (i->disk.fd >= 0) {
        begin.flags = GUEST_BEGIN_DISK;
        fds[count++] = i->disk.fd;
    }
    for (unsigned v1 = 0; v1 < birth->v1_count; v1++)
        fds[count++] = birth->v1_tasks[v1];
    struct error unsent = ERROR_INIT;
    if (channel_send(i->channel, &begin, sizeof(begin), NULL, 0, fds, count, wait, &unsent) < 0 &&
        unsent.code != ERR_GONE) /* why init isn't there any more, the zygote or its last words tell */
        return error_set(err, unsent.code, "make the computer: %s", unsent.msg);
    return 0;
}

/* What the kernel leaves us time for while it makes namespaces. */
static int furnish(struct native_instance *i, bool is_new, struct cgroup_birth *birth,
                   const struct wait *wait, struct error *err)
{
    struct native *n = i->native;
    if (make_files(i, is_new, wait, err) < 0 || (is_new && give_files(i, wait, err) < 0))
        return -1;
    if (cgroup_limit(&n->cgroups, i->key, &n->limits, birth, err) < 0)
        return -1;
    if (send_begin(i, birth, wait, err) < 0)
        return -1;
    if (!i->reaper)
        scopes_warm(&i->scopes);
    return cgroup_check(&n->cgroups, i->key, &n->limits, err);
}

static int give_birth(struct native_instance *i, bool is_new, struct cgroup_birth *birth,
                      const struct wait *wait, struct error *err)
{
    struct zygote_asker asker;
    if (conceive(i, birth->unified, wait, &asker, err) < 0)
        return -1;
    if (furnish(i, is_new, birth, wait, err) < 0) {
        i->channel = fd_close(i->channel); /* tells init to give up */
        zygote_forget(i->zygote, &asker);
        return -1;
    }
    if (zygote_await(i->zygote, &asker, wait, &i->pid, &i->pidfd, err) < 0)
        return -1;
    i->start = clock_process_start(i->pid);
    return await_ready(i, wait, err);
}

static int start(struct native_instance *i, bool is_new, const struct wait *wait, struct error *err)
{
    struct cgroup_birth birth = CGROUP_BIRTH_NONE;
    int failed = cgroup_begin(&i->native->cgroups, i->key, owner_on_disk(i), &birth, err);
    if (birth.unified >= 0) {
        _cleanup_(cleanup_free) char *group = cgroup_unified(&i->native->cgroups, i->key);
        scopes_init(&i->scopes, group, owner_on_disk(i));
        i->reaper = false;
    }
    if (failed == 0)
        failed = give_birth(i, is_new, &birth, wait, err);
    i->oom = birth.oom;
    cgroup_birth_done(&birth);
    return failed;
}

static int await_death(int pidfd, struct error *err)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    int n;
    do {
        n = poll(&p, 1, DEATH_TIMEOUT_MS);
    } while (n < 0 && errno == EINTR);
    if (n > 0)
        return 0;
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
        result = await_death(i->pidfd, err);
    }
    disk_close(&i->disk); /* now it is unmounted */
    if (cgroup_remove(&i->native->cgroups, i->key, NULL, result < 0 ? NULL : err) < 0)
        result = -1;
    return result;
}

/* And ours again, to be removed. */
static int take_files(struct native *n, const char *folder, struct error *err)
{
    const struct wait wait = {.deadline = clock_now() + OWN_TIMEOUT_NS};
    if (n->rung != RUNG_RANGE || access(folder, F_OK) < 0)
        return 0;
    const char *in_state = folder_in_state(n, folder, err);
    _cleanup_(cleanup_zygote_unref) struct zygote *zygote = in_state ? native_ready(n, &wait, err) : NULL;
    return zygote ? zygote_own(zygote, in_state, 0, &wait, err) : -1;
}

static int remove_files(struct native *n, const char *folder, uint32_t id_base, struct error *err)
{
    /* Again: an init that nobody waited for may still be making something. */
    int result = -1;
    for (int attempt = 0; result < 0 && attempt < (n->rung == RUNG_RANGE ? REMOVE_ATTEMPTS : 1); attempt++)
        result = take_files(n, folder, err) < 0 || folder_remove(folder, err) < 0 ? -1 : 0;
    if (id_base && ids_give_back(&n->ids, folder, id_base, result < 0 ? NULL : err) < 0)
        result = -1;
    return result;
}

/* One attempt, as overlay or plain. Nothing is left of one that fails. */
static int create_once(struct native *n, const struct computer_spec *spec, const struct wait *wait,
                       struct native_instance **ret, struct error *err)
{
    uint32_t id_base;
    _cleanup_(cleanup_zygote_unref) struct zygote *zygote = native_ready(n, wait, err);
    if (!zygote || ids_take(&n->ids, spec->folder, &id_base, err) < 0)
        return -1;
    struct native_instance *i = instance_new(n, zygote, spec, id_base);
    if (start(i, true, wait, err) < 0) {
        stop(i, NULL);
        remove_files(n, spec->folder, id_base, NULL);
        instance_free(i);
        return -1;
    }
    *ret = i;
    return 0;
}

int instance_create(struct backend *b, const struct computer_spec *spec, const struct wait *wait,
                    struct instance **ret, struct error *err)
{
    struct native *n = native_of(b);
    struct native_instance *i;
    struct error e = ERROR_INIT;
    int failed = create_once(n, spec, wait, &i, &e);
    if (failed < 0 && e.code == ERR_UNSUPPORTED) {
        if (native_go_plain(n, e.msg, err) < 0)
            return -1;
        failed = create_once(n, spec, wait, &i, &e);
    }
    if (failed < 0) {
        if (err)
            *err = e;
        return -1;
    }
    *ret = &i->base;
    return 0;
}

int instance_give_id(struct instance *instance, const struct computer_spec *spec,
                     int (*move)(void *ctx, struct error *err), void *ctx, struct error *err)
{
    struct native_instance *i = instance_of(instance);
    const struct wait wait = {.deadline = clock_now() + NAME_TIMEOUT_NS};
    if (ids_move(&i->native->ids, i->id_base, spec->folder, move, ctx, err) < 0)
        return -1;
    free(i->folder);
    i->folder = xstrdup(spec->folder);
    snprintf(i->id, sizeof(i->id), "%s", spec->id);
    return zygote_name(i->zygote, i->pid, spec->id, &wait, err);
}

/* Kills the process that the record names, if it is still that one. */
static int kill_recorded(const json_t *data, struct error *err)
{
    const char *boot_id = json_get_string(data, "boot_id");
    pid_t pid = (pid_t)json_integer_value(json_object_get(data, "pid"));
    uint64_t start_time = (uint64_t)json_integer_value(json_object_get(data, "start"));
    if (pid <= 1 || !start_time || !boot_id || strcmp(boot_id, clock_boot_id()) != 0)
        return 0;
    _cleanup_fd_ int pidfd = pidfd_open(pid, 0);
    if (pidfd < 0 || clock_process_start(pid) != start_time)
        return 0;
    pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
    return await_death(pidfd, err);
}

/* Ends what a dead server has left of a computer: the record's process and groups, and the groups that this
 * server would have made, since the record may be older than the last start. */
static int end_remains(struct native *n, const char *key, const json_t *data, struct error *err)
{
    int result = kill_recorded(data, err);
    const json_t *groups = json_object_get(data, "groups");
    if (groups && cgroup_remove(&n->cgroups, key, groups, result < 0 ? NULL : err) < 0)
        result = -1;
    if (n->prepared && cgroup_remove(&n->cgroups, key, NULL, result < 0 ? NULL : err) < 0)
        result = -1;
    return result;
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
        ids_hold(&n->ids, spec->folder, (uint32_t)id_base, err) < 0 ||
        end_remains(n, spec->key, data, err) < 0)
        return -1;
    struct native_instance *i = instance_new(n, zygote, spec, (uint32_t)id_base);
    if (has_image)
        i->disk.way = DISK_IMAGE;
    else if (i->disk.way == DISK_IMAGE)
        i->disk.way = DISK_WATCHED; /* it was made without */
    if (start(i, false, wait, err) < 0) {
        if (err && err->code == ERR_UNSUPPORTED)
            err->code = ERR_UNAVAILABLE;
        stop(i, NULL);
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
    if (place->per_user)
        json_object_set_new(o, "weaker", json_string("each user of the computer has this limit"));
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

json_t *instance_plan(const struct backend *b, const struct computer_spec *spec)
{
    const struct native *n = (const struct native *)b;
    json_t *limits = json_object();
    json_object_set_new(limits, "memory",
                        limit_record(n, CGROUP_MEMORY, "bytes", json_integer(n->limits.memory_bytes)));
    json_object_set_new(limits, "pids", limit_record(n, CGROUP_PIDS, "count", json_integer(n->limits.pids)));
    json_object_set_new(limits, "cpu", limit_record(n, CGROUP_CPU, "cpus", json_real(n->limits.cpus)));
    const struct disk planned = disk_planned(&n->disks);
    json_object_set_new(limits, "disk", disk_record(n, &planned));

    json_t *o = json_object();
    json_object_set_new(o, "groups", cgroup_list(&n->cgroups, spec->key));
    json_object_set_new(o, "limits", limits);
    json_object_set_new(o, "network", json_string("none"));
    json_object_set_new(o, "rung", json_string(rung_name(n->rung)));
    return o;
}

json_t *instance_record(const struct instance *instance)
{
    const struct native_instance *i = instance_of(instance);
    json_t *o = instance_plan(&i->native->base, &(struct computer_spec){.key = i->key});
    json_object_set_new(json_object_get(o, "limits"), "disk", disk_record(i->native, &i->disk));
    json_object_set_new(o, "id_base", json_integer(i->id_base));
    json_object_set_new(o, "root", json_string(i->plain ? "plain" : "overlay"));
    json_object_set_new(o, "pid", json_integer(i->pid));
    json_object_set_new(o, "start", json_integer((json_int_t)i->start));
    json_object_set_new(o, "boot_id", json_string(clock_boot_id()));
    return o;
}

bool instance_alive(const struct instance *instance)
{
    struct pollfd p = {.fd = instance_of(instance)->pidfd, .events = POLLIN};
    return poll(&p, 1, 0) == 0;
}

/* The end of pid 1 is the end of its pid namespace, and so of all that the computer runs. */
void instance_kill(struct instance *instance)
{
    pidfd_send_signal(instance_of(instance)->pidfd, SIGKILL, NULL, 0);
}

int instance_detach(struct instance *instance, struct error *err)
{
    struct native_instance *i = instance_of(instance);
    int result = stop(i, err);
    instance_free(i);
    return result;
}

int instance_remove(struct instance *instance, struct error *err)
{
    struct native_instance *i = instance_of(instance);
    disk_throw_away(&i->disk);
    int result = stop(i, err);
    if (remove_files(i->native, i->folder, i->id_base, result < 0 ? NULL : err) < 0)
        result = -1;
    instance_free(i);
    return result;
}

/* Where groups would be is known only after this; without it there are none to end but the recorded ones. */
static void know_groups(struct native *n)
{
    struct error ignored = ERROR_INIT;
    struct wait wait = {.deadline = DEADLINE_NONE};
    zygote_unref(native_ready(n, &wait, &ignored));
}

int instance_settle(struct backend *b, const struct computer_spec *spec, const json_t *data,
                    struct error *err)
{
    struct native *n = native_of(b);
    know_groups(n);
    return end_remains(n, spec->key, data, err);
}

int instance_reap(struct backend *b, const struct computer_spec *spec, const json_t *data, struct error *err)
{
    struct native *n = native_of(b);
    know_groups(n);
    int result = end_remains(n, spec->key, data, err);
    int64_t id_base = json_integer_value(json_object_get(data, "id_base"));
    bool known = id_base > 0 && id_base <= UINT32_MAX;
    if (remove_files(n, spec->folder, known ? (uint32_t)id_base : 0, result < 0 ? NULL : err) < 0)
        result = -1;
    return result;
}
