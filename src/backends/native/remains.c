/* What a server that is gone has left of a computer. A permanent one may run on: its init listens on the
 * socket of its folder (keep.h), and whoever owns the folder goes on with it. Else processes and groups are
 * ended.
 *
 * A record may be old, and its number of a process another's by now: it is believed only together with the
 * boot, the serial number of the process and the time it started. Older kernels have no serial numbers, and
 * /proc may hide the start from ordinary users (hidepid). To go on with a computer, that very process has to
 * listen, under the user that the computer has; then it is certain without. Else one that may be the
 * computer's is waited for: without a server init ends by itself. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/native/channel.h"
#include "backends/native/keep.h"
#include "backends/native/private.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"

#define ATTACH_TIMEOUT_NS (3 * NSEC_PER_SEC) /* init has nothing else to do */

/* A process that a record names. */
struct recorded {
    pid_t pid;
    uint64_t start;
    int pidfd;       /* -1: it has ended, or is another one */
    bool is_certain; /* else it is that one or another */
};

enum identity { SAME, ANOTHER, HIDDEN };

/* One of two may be unknown, being 0: in the record, or of the process. */
static enum identity compare(uint64_t recorded, uint64_t found)
{
    return !recorded || !found ? HIDDEN : recorded == found ? SAME : ANOTHER;
}

/* All that is known has to agree. */
static enum identity identify(const json_t *data, pid_t pid, int pidfd)
{
    const uint64_t serial = (uint64_t)json_integer_value(json_object_get(data, "serial"));
    const uint64_t start = (uint64_t)json_integer_value(json_object_get(data, "start"));
    enum identity by_serial = compare(serial, clock_process_serial(pidfd));
    enum identity by_start = compare(start, clock_process_start(pid));
    if (by_serial == ANOTHER || by_start == ANOTHER)
        return ANOTHER;
    return by_serial == SAME || by_start == SAME ? SAME : HIDDEN;
}

static struct recorded open_recorded(const json_t *data)
{
    const char *boot_id = json_get_string(data, "boot_id");
    struct recorded r = {
        .pid = (pid_t)json_integer_value(json_object_get(data, "pid")),
        .start = (uint64_t)json_integer_value(json_object_get(data, "start")),
        .pidfd = -1,
    };
    if (r.pid <= 1 || !boot_id || strcmp(boot_id, clock_boot_id()) != 0)
        return r;
    struct pollfd p = {.fd = pidfd_open(r.pid, 0), .events = POLLIN};
    if (p.fd < 0)
        return r;
    enum identity identity = identify(data, r.pid, p.fd);
    r.is_certain = identity == SAME;
    r.pidfd = identity == ANOTHER || poll(&p, 1, 0) != 0 ? fd_close(p.fd) : p.fd;
    return r;
}

/* Whether the record lies where it was written: a copy of a state directory has the records of computers that
 * run in the original. Records of old don't say; theirs don't outlive their server. */
static bool is_at_home(const char *folder, const json_t *data)
{
    const json_t *device = json_object_get(data, "folder_device"),
                 *inode = json_object_get(data, "folder_inode");
    struct stat st;
    if (!device || !inode)
        return true;
    return folder && stat(folder, &st) == 0 && (json_int_t)st.st_dev == json_integer_value(device) &&
           (json_int_t)st.st_ino == json_integer_value(inode);
}

/* Neither to be entered nor to be ended, by whoever has a copy of its files. */
static int check_home(const struct computer_spec *spec, const json_t *data, struct error *err)
{
    if (is_at_home(spec->folder, data))
        return 0;
    const struct recorded r = open_recorded(data);
    fd_close(r.pidfd);
    if (r.pidfd < 0)
        return 0;
    return error_set(
        err, ERR_BUSY,
        "the computer's folder is a copy, and the computer runs in the original: end that one first");
}

/* --- going on with it --- */

static int greet(struct native_instance *i, const struct wait *wait, struct guest_ready *ret, int *ret_disk,
                 struct error *err)
{
    const struct guest_attach attach = {
        .type = GUEST_ATTACH,
        .version = GUEST_VERSION,
        .flags = i->native->keeps ? GUEST_ATTACH_KEEP : 0,
    };
    const struct wait bounded = wait_at_most(wait, clock_now() + ATTACH_TIMEOUT_NS);
    _cleanup_fd_ int self = pidfd_open(getpid(), 0);
    pid_t pid;
    uid_t uid;
    if (self < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "open a pidfd");
    if (keep_connect(i->folder, &i->channel, &pid, &uid, err) < 0)
        return -1;
    /* Who listens lives, so if ours has that number and lives too, it is the same. */
    if (pid != i->pid || uid != i->id_base || !instance_alive(&i->base))
        return error_set(err, ERR_UNAVAILABLE, "another process listens for it");
    if (channel_send(i->channel, &attach, sizeof(attach), NULL, 0, &self, 1, &bounded, err) < 0)
        return -1;
    return instance_await_ready(i, &bounded, ret, ret_disk, err);
}

static int take_up(struct native_instance *i, const json_t *data, const struct guest_ready *ready, int disk,
                   struct error *err)
{
    const char *root = json_get_string(data, "root");
    json_t *groups = json_object_get(data, "groups");
    uint64_t device = (uint64_t)json_integer_value(json_object_get(data, "disk_device"));
    if (i->disk.way != DISK_IMAGE)
        fd_close(disk);
    else if (disk_resume(disk, device, &i->disk, err) < 0)
        return -1;
    _cleanup_(cleanup_free) char *unified = cgroup_listed_unified(groups, i->key);
    if (unified) {
        scopes_init(&i->scopes, unified, instance_owner(i));
        scopes_resume(&i->scopes);
        i->reaper = false;
    }
    i->oom = cgroup_listed_oom(groups, i->key);
    i->plain = root && strcmp(root, "plain") == 0;
    i->groups = json_incref(groups);
    i->limits = json_incref(json_object_get(data, "limits"));
    i->kept = i->native->keeps;
    atomic_store(&i->next_exec, ready->next_exec);
    return 0;
}

static void forget(struct native_instance *i)
{
    i->channel = fd_close(i->channel);
    instance_forget_init(i);
}

int instance_resume(struct native_instance *i, const json_t *data, const struct wait *wait, struct error *err)
{
    struct guest_ready ready;
    struct error why = ERROR_INIT;
    int disk = -1;
    if (!is_at_home(i->folder, data))
        return 0;
    const struct recorded r = open_recorded(data);
    i->pid = r.pid;
    i->start = r.start;
    i->pidfd = r.pidfd;
    if (i->pidfd < 0)
        return 0;
    if (greet(i, wait, &ready, &disk, &why) == 0 && take_up(i, data, &ready, disk, &why) == 0) {
        FAULT_POINT("attach.resumed");
        return 1;
    }
    forget(i);
    if (wait_check(wait, err) < 0)
        return -1;
    if (why.code != ERR_GONE)
        log_warning("computer %s: its processes are ended, since it can't be gone on with: %s", i->id,
                    why.msg);
    return 0;
}

bool instance_lives(struct backend *b, const struct computer_spec *spec, const json_t *data)
{
    if (!native_of(b)->keeps || !keep_has_socket(spec->folder) || !is_at_home(spec->folder, data))
        return false;
    const struct recorded r = open_recorded(data);
    fd_close(r.pidfd);
    return r.pidfd >= 0;
}

/* --- ending it --- */

static int kill_open(int pidfd, bool weak, struct error *err)
{
    instance_end_init(pidfd, weak);
    return instance_await_death(pidfd, weak, err);
}

static int kill_recorded(const struct recorded *r, const json_t *data, struct error *err)
{
    const char *rung = json_get_string(data, "rung");
    if (r->pidfd < 0 || !r->is_certain)
        return 0;
    return kill_open(r->pidfd, rung && strcmp(rung, rung_name(RUNG_WEAK)) == 0, err);
}

/* Of one that may be another process. It isn't the computer's if the kernel wouldn't let us end it. */
static int await_uncertain(const struct recorded *r, struct error *err)
{
    if (r->pidfd < 0 || r->is_certain || pidfd_send_signal(r->pidfd, 0, NULL, 0) < 0 ||
        instance_awaits_death(r->pidfd))
        return 0;
    return error_set(
        err, ERR_BUSY,
        "process %d may be the computer's, and /proc hides from this user whether it is (hidepid): "
        "end it, if it is called sandbox-init",
        (int)r->pid);
}

/* Kills who listens in the folder, whatever the record says. It has not ended while we are connected, so its
 * number is its own. */
static int kill_listener(const char *folder, struct error *err)
{
    _cleanup_fd_ int channel = -1;
    pid_t pid;
    uid_t uid;
    if (!folder || keep_connect(folder, &channel, &pid, &uid, NULL) < 0 || pid <= 1)
        return 0;
    _cleanup_fd_ int pidfd = pidfd_open(pid, 0);
    struct pollfd p = {.fd = channel, .events = POLLIN};
    if (pidfd < 0 || poll(&p, 1, 0) != 0)
        return 0;
    return kill_open(pidfd, false, err);
}

/* Who listens, the record's process and groups, and the groups that this server would have made, since the
 * record may be older than the last start. */
int instance_end_remains(struct native *n, const struct computer_spec *spec, const json_t *data,
                         struct error *err)
{
    if (check_home(spec, data, err) < 0)
        return -1;
    int result = kill_listener(spec->folder, err);
    const struct recorded r = open_recorded(data);
    if (kill_recorded(&r, data, result < 0 ? NULL : err) < 0)
        result = -1;
    FAULT_POINT("remains.killed");
    const json_t *groups = json_object_get(data, "groups");
    if (groups && cgroup_remove(&n->cgroups, spec->key, groups, result < 0 ? NULL : err) < 0)
        result = -1;
    if (n->prepared && cgroup_remove(&n->cgroups, spec->key, NULL, result < 0 ? NULL : err) < 0)
        result = -1;
    if (await_uncertain(&r, result < 0 ? NULL : err) < 0)
        result = -1;
    fd_close(r.pidfd);
    FAULT_POINT("remains.ended");
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
    return instance_end_remains(n, spec, data, err);
}

/* As long as something of it may run, its ids and files are its own; the next server tries again. */
int instance_reap(struct backend *b, const struct computer_spec *spec, const json_t *data, struct error *err)
{
    struct native *n = native_of(b);
    know_groups(n);
    if (instance_end_remains(n, spec, data, err) < 0)
        return -1;
    int64_t id_base = json_integer_value(json_object_get(data, "id_base"));
    bool known = id_base > 0 && id_base <= UINT32_MAX;
    return instance_remove_files(n, spec->folder, known ? (uint32_t)id_base : 0, err);
}
