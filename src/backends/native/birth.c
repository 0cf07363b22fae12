/* From a folder to a computer that is ready for commands: its groups, its files, its first process.
 *
 * A blank one stops half way: it has all that takes time, but its process is in no group yet that limits it,
 * isn't shut in, and has neither name nor server. birth_begin() makes a computer of it. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "backends/native/channel.h"
#include "backends/native/folder.h"
#include "backends/native/keep.h"
#include "backends/native/private.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

#define READY_TIMEOUT_NS (20 * NSEC_PER_SEC)
#define NOFILE 4096
#define SHM_BYTES (64 * MIB)
/* Programs ask for more than they use: node has 560 MiB of data when it has 50 in memory. */
#define DATA_PER_MEMORY 4

/* How the zygote numbers an id of the host. */
static uint32_t guest_id(const struct native *n, uint32_t id)
{
    return n->rung == RUNG_ONE_ID ? 0 : n->rung == RUNG_RANGE ? id - n->ids.first + 1 : id;
}

const char *birth_folder(const struct native *n, const char *folder, struct error *err)
{
    size_t length = strlen(n->state_dir);
    if (strncmp(folder, n->state_dir, length) == 0 && folder[length] == '/')
        return folder + length + 1;
    error_set(err, ERR_INVALID, "the computer's folder %s is not beneath %s", folder, n->state_dir);
    return NULL;
}

/* Where no group holds them. */
static void fill_limits(const struct native_instance *i, struct guest_begin *r)
{
    const struct native *n = i->native;
    const struct cgroup_place *places = n->cgroups.places;
    if (places[CGROUP_PIDS].weaker)
        r->nproc = (uint32_t)i->values.pids + rung_processes_before(n->rung, n->machine.proc);
    if (places[CGROUP_MEMORY].weaker)
        r->data_bytes = (uint64_t)i->values.memory_bytes * DATA_PER_MEMORY;
}

static int fill_request(const struct native_instance *i, struct guest_create *r, struct error *err)
{
    const char *folder = birth_folder(i->native, i->folder, err);
    if (!folder)
        return -1;
    int length = snprintf(r->folder, sizeof(r->folder), "%s/native", folder);
    if (length >= (int)sizeof(r->folder))
        return error_set(err, ERR_INVALID, "the computer's folder has too long a path: %s", i->folder);
    snprintf(r->hostname, sizeof(r->hostname), "%s", i->id);
    cgroup_name(i->key, r->group, sizeof(r->group));
    r->id_base = guest_id(i->native, i->id_base);
    r->id_count = i->native->ids.size;
    r->nofile = NOFILE;
    r->shm_bytes = SHM_BYTES;
    r->file_bytes = i->disk.way == DISK_WATCHED ? (uint64_t)i->disk.limit.bytes : 0;
    return 0;
}

int instance_await_ready(struct native_instance *i, const struct wait *wait, struct guest_ready *ret,
                         int *ret_fd, struct error *err)
{
    int64_t latest = clock_now() + READY_TIMEOUT_NS;
    struct wait bounded = wait_at_most(wait, latest);
    if (wait_fd(i->channel, POLLIN, &bounded, NULL, err) < 0) {
        if (err && err->code == ERR_TIMEOUT && bounded.deadline == latest)
            err->code = ERR_UNAVAILABLE; /* the caller has time left: this limit is ours */
        return error_prefix(err, "make the computer");
    }
    _cleanup_fd_ int fd = -1;
    ssize_t n = channel_receive(i->channel, ret, sizeof(*ret), &fd);
    if (n != sizeof(*ret) || ret->type != GUEST_READY)
        return error_set(err, ERR_UNAVAILABLE,
                         "make the computer: its first process ended before it was ready");
    if (ret->error.stage[0])
        return channel_failed(&ret->error, err);
    *ret_fd = TAKE_FD(fd);
    return 0;
}

bool birth_is_kept(const struct native_instance *i)
{
    return i->native->keeps && i->lock >= 0;
}

/* Asks the zygote for the first process; what it needs but a group to be born in may come later. */
static int conceive(struct native_instance *i, const struct wait *wait, struct zygote_asker *asker,
                    struct error *err)
{
    struct guest_create request = {.flags = (i->reaper ? GUEST_SCOPE_REAPER : GUEST_HAS_CGROUP2) |
                                            (i->stage == STAGE_BLANK ? GUEST_AHEAD : 0)};
    int pair[2], fds[3];
    size_t count = 0;
    if (fill_request(i, &request, err) < 0)
        return -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, ERR_LIMIT, errno, "make a socket pair");
    i->channel = pair[0];
    _cleanup_fd_ int far = pair[1]; /* not kept, so that init's end is the end of the channel */
    fds[count++] = far;
    if (!i->reaper)
        fds[count++] = i->birth.unified;
    if (birth_is_kept(i)) {
        request.flags |= GUEST_KEPT;
        fds[count++] = i->lock;
    }
    return zygote_ask(i->zygote, &request, fds, count, wait, asker, err);
}

/* What we can't do ourselves: the files of a new computer become its own. */
static int give_files(struct native_instance *i, const struct wait *wait, struct error *err)
{
    const char *folder = i->native->rung == RUNG_RANGE ? birth_folder(i->native, i->folder, err) : NULL;
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
        return is_new ? folder_make(i->folder, instance_owner(i), plain_from, err) : 0;
    if (is_new)
        return folder_make_image(i->folder, instance_owner(i), plain_from, i->disks, wait, &i->disk, err);
    return folder_open_image(i->folder, wait, &i->disk, err);
}

static int send_begin(struct native_instance *i, const struct wait *wait, struct error *err)
{
    const struct cgroup_birth *birth = &i->birth;
    struct guest_begin begin = {.type = GUEST_BEGIN};
    int fds[1 + CGROUP_LIMITS];
    size_t count = 0;
    if (i->disk.fd >= 0) {
        begin.flags = GUEST_BEGIN_DISK;
        fds[count++] = i->disk.fd;
    }
    for (unsigned v1 = 0; v1 < birth->v1_count; v1++)
        fds[count++] = birth->v1_tasks[v1];
    fill_limits(i, &begin);
    struct error unsent = ERROR_INIT;
    if (channel_send(i->channel, &begin, sizeof(begin), NULL, 0, fds, count, wait, &unsent) < 0 &&
        unsent.code != ERR_GONE) /* why init isn't there any more, the zygote or its last words tell */
        return error_set(err, unsent.code, "make the computer: %s", unsent.msg);
    return 0;
}

static int furnish(struct native_instance *i, bool is_new, const struct wait *wait, struct error *err)
{
    if (make_files(i, is_new, wait, err) < 0 || (is_new && give_files(i, wait, err) < 0))
        return -1;
    FAULT_POINT("create.files-made");
    if (cgroup_limit(&i->native->cgroups, i->key, &i->values, &i->birth, err) < 0)
        return -1;
    FAULT_POINT("create.limits-made");
    return 0;
}

static int check_limits(struct native_instance *i, struct error *err)
{
    if (cgroup_check(&i->native->cgroups, i->key, &i->values, &i->birth, err) < 0)
        return -1;
    i->birth.is_unchecked = false;
    return 0;
}

/* Such limits are given to init when it begins, and can't be changed any more. */
static bool is_past_its_limits(const struct native_instance *i, const struct cgroup_values *values)
{
    const struct cgroup_place *places = i->native->cgroups.places;
    return i->stage != STAGE_BLANK &&
           ((places[CGROUP_PIDS].weaker && values->pids != i->values.pids) ||
            (places[CGROUP_MEMORY].weaker && values->memory_bytes != i->values.memory_bytes));
}

int birth_change_limits(struct native_instance *i, const struct cgroup_values *values, struct error *err)
{
    const struct cgroups *groups = &i->native->cgroups;
    if (is_past_its_limits(i, values))
        return error_set(err, ERR_UNSUPPORTED, "the limits of a computer that runs can't be changed here");
    if (cgroup_change(groups, i->key, &i->values, values, &i->birth, err) < 0)
        return -1;
    i->values = *values;
    FAULT_POINT("begin.limits-set");
    return i->stage == STAGE_BLANK ? 0 : check_limits(i, err); /* else while init is at its work */
}

int birth_begin(struct native_instance *i, const struct wait *wait, struct error *err)
{
    if (i->stage == STAGE_BLANK)
        i->stage = STAGE_BEGUN;
    if (send_begin(i, wait, err) < 0)
        return -1;
    FAULT_POINT("create.begun");
    if (!i->reaper)
        scopes_warm(&i->scopes);
    return check_limits(i, err);
}

static int await_word(struct native_instance *i, const struct wait *wait, struct error *err)
{
    struct guest_ready ready;
    _cleanup_fd_ int none = -1;
    return instance_await_ready(i, wait, &ready, &none, err);
}

int birth_await(struct native_instance *i, const struct wait *wait, struct error *err)
{
    if (i->stage != STAGE_BEGUN)
        return 0;
    i->stage = STAGE_WHOLE;
    int failed = await_word(i, wait, err);
    cgroup_birth_done(&i->birth);
    return failed;
}

int birth_keep(struct native_instance *i, const struct wait *wait, struct error *err)
{
    const struct guest_keep request = {.type = GUEST_KEEP};
    _cleanup_fd_ int socket = -1;
    if (!birth_is_kept(i))
        return 0;
    if (keep_bind(i->folder, &socket, err) < 0) {
        backend_tell_full(err);
        return -1;
    }
    const int fds[] = {socket, i->lock};
    struct error why = ERROR_INIT;
    /* Init may have ended already, which says nothing of the computer's files. */
    if (channel_send(i->channel, &request, sizeof(request), NULL, 0, fds, ARRAY_LEN(fds), wait, &why) < 0)
        return error_set(err, why.code == ERR_GONE ? ERR_UNAVAILABLE : why.code, "make the computer: %s",
                         why.msg);
    i->kept = true;
    FAULT_POINT("keep.told");
    return 0;
}

static int make_group(struct native_instance *i, bool prepared, struct error *err)
{
    i->birth = (struct cgroup_birth)CGROUP_BIRTH_NONE;
    i->birth.prepared = prepared ? &i->native->limits : NULL;
    int failed = cgroup_begin(&i->native->cgroups, i->key, instance_owner(i), &i->birth, err);
    if (i->birth.unified >= 0) {
        _cleanup_(cleanup_free) char *group = cgroup_unified(&i->native->cgroups, i->key);
        scopes_init(&i->scopes, group, instance_owner(i));
        i->reaper = false;
    }
    FAULT_POINT("create.group-made");
    return failed;
}

/* The rest is made while the kernel makes namespaces, unless it has to be there before. */
static int bear(struct native_instance *i, bool is_new, const struct wait *wait, struct error *err)
{
    const bool blank = i->stage == STAGE_BLANK;
    struct zygote_asker asker;
    if ((blank && furnish(i, is_new, wait, err) < 0) || conceive(i, wait, &asker, err) < 0)
        return -1;
    FAULT_POINT("create.zygote-asked");
    if ((blank ? check_limits(i, err) : furnish(i, is_new, wait, err)) < 0 ||
        (!blank && birth_begin(i, wait, err) < 0)) {
        i->channel = fd_close(i->channel); /* tells init to give up */
        zygote_forget(i->zygote, &asker);
        return -1;
    }
    if (zygote_await(i->zygote, &asker, wait, &i->pid, &i->pidfd, err) < 0)
        return -1;
    i->start = clock_process_start(i->pid);
    FAULT_POINT("create.born");
    return 0;
}

int birth_make(struct native_instance *i, bool is_new, bool prepared, const struct wait *wait,
               struct error *err)
{
    const bool blank = i->stage == STAGE_BLANK;
    int failed = make_group(i, prepared, err);
    if (failed == 0)
        failed = bear(i, is_new, wait, err);
    if (failed == 0)
        failed = await_word(i, wait, err);
    if (failed == 0 && !blank)
        failed = birth_keep(i, wait, err);
    FAULT_POINT("create.ready");
    i->oom = i->birth.oom;
    if (failed < 0 || !blank)
        cgroup_birth_done(&i->birth);
    return failed;
}
