/* The zygote is small, has one thread and does one thing: on request it clones a process that becomes a
 * computer's init. Three namespaces the child inherits, network, IPC and UTS: they are dear to make, so there
 * are always fresh ones ahead (they belong to the host's user namespace, so nobody inside is root of them).
 * All others but mount and cgroup are made by clone3, in one call with the pidfd and the place in cgroup2.
 * Then, while the child waits: map its ids, attach the base with ids shifted into its user namespace; let it
 * go. The child copies the zygote's mounts and says so by closing its end of the sync pair; only then is the
 * attached base taken away again, when there is time. Meanwhile the zygote serves the next request: each
 * computer under way has a slot. One that was made before it had an id gets its host name later.
 *
 * It is the parent of all inits and reaps them; until then their numbers can't be reused, so it may kill by
 * number. If the server goes, it kills those that end with it, and stays until the others have ended, to
 * remove their groups. If it is killed itself, they live on: nothing ties an init to it. */
#include "guest/zygote.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <linux/capability.h>

#include "base/fault.h"
#include "guest/init.h"
#include "guest/owner.h"
#include "guest/packet.h"
#include "guest/proc.h"
#include "guest/reaper.h"
#include "guest/report.h"
#include "guest/request.h"
#include "guest/signals.h"
#include "guest/sys.h"
#include "guest/template.h"
#include "guest/users.h"
#include "guest/weak.h"

#define SLOTS 64
#define STALE_MAX 8
/* What can wait, waits until the computer just made is likely to be complete: it needs the CPUs. */
#define IDLE_MS 4
#define INITS_MAX 16384
#define SETTINGS_USES 32
#define GOODBYE_MS 2000 /* without a sign of progress */
#define GOODBYE_STEP_MS 100
#define GROUP_PARENTS_MAX (GUEST_FDS_MAX - 1)
#define GROUP_AGAIN_MS_MAX 4096 /* of a wait that doubles, until the kernel is done with who was in it */

struct child {
    pid_t pid;
    int names; /* its UTS namespace, while it has no host name; else -1 */
    int lock;  /* of one that outlives the server, until its groups are removed; else -1 */
    char group[GUEST_GROUP_MAX];
};

static struct {
    pid_t server;
    uint32_t root_flags;
    bool may_trace; /* has CAP_SYS_PTRACE */
    bool is_fresh;  /* nobody has had the three namespaces that we are in */
    bool has_idle_work;
    bool strays;     /* see end_strays() */
    int sync[SLOTS]; /* our end; -1: the slot is free */
    uint64_t stale;  /* free slots whose lower is still attached, a bit each */
    int settings;    /* see open_settings() */
    unsigned settings_uses;
    struct child inits[INITS_MAX];
    unsigned init_count;
    int parents[GROUP_PARENTS_MAX]; /* folders that groups are in */
    unsigned parent_count;
} zygote;

/* --- making one computer --- */

/* The base as it is, not shifted for each computer, is good enough where there are no ids to shift to. */
static bool has_lowers(void)
{
    return !(zygote.root_flags & (GUEST_ROOT_PLAIN | GUEST_ONE_ID | GUEST_WEAK));
}

static bool is_weak(void)
{
    return zygote.root_flags & GUEST_WEAK;
}

/* What the child can't do for itself; it waits meanwhile. */
static int prepare_child(pid_t pid, const struct guest_create *create, unsigned slot, struct guest_error *err)
{
    char path[24];
    if (is_weak())
        return 0;
    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    _cleanup_fd_ int process = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (process < 0)
        return report(err, "open process");
    if (users_map(process, create, err) < 0)
        return -1;
    FAULT_POINT("zygote.mapped");
    if (!has_lowers())
        return 0;
    _cleanup_fd_ int user_namespace = openat(process, "ns/user", O_RDONLY | O_CLOEXEC);
    if (user_namespace < 0)
        return report(err, "open user namespace");
    return template_attach_lower(slot, user_namespace, err);
}

/* What the kernel counts by user (inotify instances, pending signals, message queues) it counts for the owner
 * of the user namespace too, who is its maker. That is to be the computer's own id: one computer could leave
 * the host's root, and all other computers, with none. Meanwhile files are still opened as root. Where we may
 * not be another user, or look at what another user owns, all computers share our account. */
static pid_t clone_owned(struct clone_args *args, uid_t owner)
{
    if (!zygote.may_trace || syscall(SYS_setresuid, -1, owner, -1) < 0)
        return sys_clone3(args);
    syscall(SYS_setfsuid, 0);
    pid_t pid = sys_clone3(args);
    int sys = errno;
    if (pid != 0 && syscall(SYS_setresuid, -1, 0, -1) < 0)
        _exit(1); /* whatever we did next would be as somebody else */
    errno = sys;
    return pid;
}

/* fds: as of the packet. */
static pid_t clone_init(const struct guest_create *create, const int *fds, unsigned slot, int child_sync,
                        int *ret_pidfd)
{
    struct clone_args args = {
        .flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_PIDFD,
        .pidfd = (uintptr_t)ret_pidfd,
        .exit_signal = SIGCHLD,
    };
    if (create->flags & GUEST_HAS_CGROUP2) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (unsigned)fds[1];
    }
    pid_t pid = is_weak() ? weak_clone(ret_pidfd) : clone_owned(&args, create->id_base);
    if (pid != 0)
        return pid;
    close(zygote.sync[slot]);
    init_run(&(struct init_start){
        .create = create,
        .root_flags = zygote.root_flags,
        .slot = slot,
        .channel = fds[0],
        .sync = child_sync,
    });
}

static void detach_stale(void)
{
    for (unsigned i = 0; i < SLOTS; i++)
        if (zygote.stale >> i & 1)
            template_detach_lower(i);
    zygote.stale = 0;
}

static void free_slot(unsigned slot)
{
    close(zygote.sync[slot]);
    zygote.sync[slot] = -1;
    if (has_lowers())
        zygote.stale |= UINT64_C(1) << slot;
    zygote.has_idle_work = true;
    if (__builtin_popcountll(zygote.stale) >= STALE_MAX)
        detach_stale();
}

/* What a /proc has looked up beneath sys/net it keeps for each network namespace as long as that lives, all
 * under the same names. Once a thousand computers live, finding ours among them would take longer than making
 * the namespace. So this is a /proc of our own, which a new one replaces now and then; who isn't root of the
 * machine gets none, and looks where all do. */
static int open_settings(void)
{
    if (zygote.settings >= 0 && zygote.settings_uses++ < SETTINGS_USES)
        return zygote.settings;
    sys_close_fd(&zygote.settings);
    _cleanup_fd_ int own = template_open_proc();
    _cleanup_fd_ int around = own < 0 ? open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    zygote.settings = fcntl(own < 0 ? around : own, F_DUPFD_CLOEXEC, FD_SYNC + 1); /* not kept by an init */
    zygote.settings_uses = 1;
    return zygote.settings;
}

/* Without capabilities in this namespace, low ports have to be open to all. */
static int open_ports(struct guest_error *err)
{
    _cleanup_fd_ int fd =
        openat(open_settings(), "sys/net/ipv4/ip_unprivileged_port_start", O_WRONLY | O_CLOEXEC);
    if (fd < 0 && errno == EROFS &&
        zygote.root_flags & GUEST_USERS) /* in a container: low ports stay closed */
        return 0;
    if (fd < 0 || write(fd, "0", 1) < 0)
        return report(err, "open ports");
    return 0;
}

static int refresh(struct guest_error *err)
{
    if (zygote.is_fresh || is_weak())
        return 0;
    if (unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
        return report(err, "unshare");
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    _cleanup_fd_ int socket_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket_fd < 0 || ioctl(socket_fd, SIOCSIFFLAGS, &request) < 0)
        return report(err, "raise loopback");
    if (open_ports(err) < 0)
        return -1;
    zygote.is_fresh = true;
    FAULT_POINT("zygote.refreshed");
    return 0;
}

static int open_names(void)
{
    return open("/proc/self/ns/uts", O_RDONLY | O_CLOEXEC);
}

static void add_child(const struct guest_create *create, struct packet *packet, pid_t pid, int names)
{
    struct child *child = &zygote.inits[zygote.init_count++];
    *child = (struct child){.pid = pid, .names = names, .lock = -1};
    memcpy(child->group, create->group, sizeof(child->group));
    if (create->flags & GUEST_KEPT)
        child->lock = packet_take_fd(packet, packet->fd_count - 1);
}

static int make_computer(struct packet *packet, unsigned slot, int *ret_pidfd, pid_t *ret_pid,
                         struct guest_error *err)
{
    const struct guest_create *create = (const void *)packet->bytes;
    int pair[2];
    if (zygote.init_count == INITS_MAX)
        return report_text(err, EAGAIN, "count computers", "too many");
    if (refresh(err) < 0)
        return -1;
    if (!is_weak() && sethostname(create->hostname, strlen(create->hostname)) < 0)
        return report(err, "set hostname");
    _cleanup_fd_ int names = -1; /* without namespaces: a descriptor like others, that nobody enters */
    if (!create->hostname[0] && (names = open_names()) < 0)
        return report(err, "open names");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return report(err, "make sync pair");
    zygote.sync[slot] = pair[0];
    _cleanup_fd_ int child_sync = pair[1];
    pid_t pid = clone_init(create, packet->fds, slot, child_sync, ret_pidfd);
    if (pid < 0) {
        report(err, "clone");
        free_slot(slot);
        return -1;
    }
    zygote.is_fresh = false;
    zygote.has_idle_work = true;
    add_child(create, packet, pid, names);
    names = -1;
    FAULT_POINT("zygote.cloned");
    if (prepare_child(pid, create, slot, err) < 0 || send(pair[0], "g", 1, MSG_NOSIGNAL) != 1) {
        if (!err->stage[0])
            report(err, "start init");
        kill(pid, SIGKILL);
        close(*ret_pidfd);
        free_slot(slot);
        return -1;
    }
    *ret_pid = pid;
    FAULT_POINT("zygote.started");
    return 0;
}

/* At most STALE_MAX of the free ones are stale. */
static bool find_slot(unsigned *ret)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        *ret = i;
        if (zygote.sync[i] < 0 && !(zygote.stale >> i & 1))
            return true;
    }
    return false;
}

static void handle_create(struct packet *packet)
{
    const struct guest_create *create = (const void *)packet->bytes;
    struct guest_reply reply = {.type = GUEST_REPLY, .request = create->request};
    int pidfd = -1;
    unsigned slot;
    const bool one_id = zygote.root_flags & GUEST_ONE_ID; /* else 0 is the root that we are */
    if (packet->cut || !request_create_ok(create, packet->fd_count) || (create->id_base == 0) != one_id ||
        !find_slot(&slot)) {
        report_text(&reply.error, EINVAL, "read request", "malformed create");
    } else if (make_computer(packet, slot, &pidfd, &reply.pid, &reply.error) < 0) {
        pidfd = -1;
    }
    packet_send(GUEST_FD_CONTROL, &reply, sizeof(reply), pidfd, 0);
    FAULT_POINT("zygote.answered");
    if (pidfd >= 0)
        close(pidfd);
}

/* --- naming one --- */

static struct child *find_nameless(pid_t pid)
{
    for (unsigned i = 0; i < zygote.init_count; i++)
        if (zygote.inits[i].pid == pid && zygote.inits[i].names >= 0)
            return &zygote.inits[i];
    return NULL;
}

/* Once. Its UTS namespace belongs to ours, so that nobody inside can do this. */
static int set_name(struct child *child, const char *hostname, struct guest_error *err)
{
    _cleanup_fd_ int own = open_names(), theirs = child->names;
    child->names = -1;
    if (is_weak())
        return 0;
    if (own < 0 || setns(theirs, CLONE_NEWUTS) < 0)
        return report(err, "enter names");
    int failed = sethostname(hostname, strlen(hostname));
    int sys = errno;
    FAULT_POINT("zygote.named");
    if (setns(own, CLONE_NEWUTS) < 0)
        _exit(1); /* the next computer would be born with another's name */
    errno = sys;
    return failed < 0 ? report(err, "set hostname") : 0;
}

static void handle_name(struct packet *packet)
{
    const struct guest_name *name = (const void *)packet->bytes;
    struct guest_reply reply = {.type = GUEST_REPLY, .request = name->request, .pid = name->pid};
    struct child *child;
    if (packet->cut || !request_name_ok(name, packet->fd_count))
        report_text(&reply.error, EINVAL, "read request", "malformed name");
    else if (!(child = find_nameless(name->pid)))
        report_text(&reply.error, ESRCH, "name a computer", "it has ended, or has a name");
    else if (set_name(child, name->hostname, &reply.error) == 0)
        child->lock = packet_take_fd(packet, 0);
    packet_send(GUEST_FD_CONTROL, &reply, sizeof(reply), -1, 0);
}

/* --- changing owners --- */

/* It may take long, so a process of its own does it and answers. */
static void handle_own(const struct packet *packet)
{
    const struct guest_own *own = (const void *)packet->bytes;
    struct guest_reply reply = {.type = GUEST_REPLY, .request = own->request};
    pid_t pid = -1;
    if (packet->cut || !request_own_ok(own, packet->fd_count))
        report_text(&reply.error, EINVAL, "read request", "malformed own");
    else if ((pid = fork()) < 0)
        report(&reply.error, "fork");
    else if (pid == 0)
        owner_change(own, &reply.error);
    if (pid <= 0)
        packet_send(GUEST_FD_CONTROL, &reply, sizeof(reply), -1, 0);
    if (pid == 0)
        _exit(0);
}

/* --- serving --- */

static void remove_inner_groups(int group)
{
    DIR *dir = fdopendir(group);
    if (!dir)
        return;
    for (const struct dirent *e; (e = readdir(dir));)
        if (e->d_type == DT_DIR && e->d_name[0] != '.')
            unlinkat(group, e->d_name, AT_REMOVEDIR);
    closedir(dir);
}

static void remove_group(int parent, const char *name)
{
    for (int ms = 1; ms <= GROUP_AGAIN_MS_MAX; ms *= 2) {
        int group = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (group < 0)
            return;
        remove_inner_groups(group);
        if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno != EBUSY)
            return;
        poll(NULL, 0, ms);
    }
}

/* A process that is being ended closes what it has, from which its inits know, before its number is given up:
 * the flag tells between those. */
static bool is_ending(pid_t pid)
{
    char process[32];
    struct proc_stat stat;
    snprintf(process, sizeof(process), "/proc/%d", (int)pid);
    return proc_read_stat(AT_FDCWD, process, &stat) && stat.flags & PROC_FLAG_EXITING;
}

/* Asked anew: it may have ended while the end of an init was being seen to. */
static bool is_alone(void)
{
    return is_ending(zygote.server) || getppid() != zygote.server;
}

/* A server looks after its own. Of a computer that has outlived it, nothing would be left but its groups,
 * until the next server comes. The lock keeps such a one from making them anew meanwhile. */
static void clean_up(struct child *child)
{
    if (child->lock >= 0 && is_alone())
        for (unsigned i = 0; i < zygote.parent_count; i++)
            remove_group(zygote.parents[i], child->group);
    sys_close_fd(&child->names);
    sys_close_fd(&child->lock);
}

static void forget(pid_t pid)
{
    for (unsigned i = 0; i < zygote.init_count; i++)
        if (zygote.inits[i].pid == pid) {
            clean_up(&zygote.inits[i]);
            zygote.inits[i] = zygote.inits[--zygote.init_count];
            return;
        }
}

/* Without namespaces, what an init didn't end before it was ended itself has fallen to us. The end of each of
 * them brings us here again. */
static void end_strays(void)
{
    static pid_t inits[INITS_MAX];
    for (unsigned i = 0; i < zygote.init_count; i++)
        inits[i] = zygote.inits[i].pid;
    zygote.strays = is_weak() && reaper_kill_beneath(getpid(), inits, zygote.init_count);
}

/* Whom an init shuts in may be its equal there, and have stopped it. */
static void wake(pid_t pid)
{
    for (unsigned i = 0; i < zygote.init_count; i++)
        if (zygote.inits[i].pid == pid)
            kill(pid, SIGCONT);
}

static void reap(void)
{
    struct signalfd_siginfo drained[8];
    while (read(FD_SIGNALS, drained, sizeof(drained)) > 0)
        continue;
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG | (is_weak() ? WUNTRACED : 0))) > 0;) {
        if (WIFSTOPPED(status))
            wake(pid);
        else
            forget(pid);
    }
    end_strays();
}

static unsigned count_kept(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < zygote.init_count; i++)
        count += zygote.inits[i].lock >= 0;
    return count;
}

/* The server is gone, and its computers with it, but those that outlive it: not to wait for ever for one that
 * can't die, but as long as it takes for those. */
static int say_goodbye(void)
{
    struct pollfd signals = {.fd = FD_SIGNALS, .events = POLLIN};
    FAULT_POINT("zygote.alone");
    close(GUEST_FD_CONTROL);
    zygote.server = -1; /* what may still run of it has let go */
    for (unsigned i = 0; i < zygote.init_count; i++)
        if (zygote.inits[i].lock < 0)
            kill(zygote.inits[i].pid, SIGKILL);
    for (int left = GOODBYE_MS; (zygote.init_count > count_kept() || zygote.strays) && left > 0; reap())
        if (poll(&signals, 1, GOODBYE_STEP_MS) == 0)
            left -= GOODBYE_STEP_MS;
    for (; count_kept() > 0; reap())
        poll(&signals, 1, -1);
    return 0;
}

static void do_idle_work(void)
{
    zygote.has_idle_work = false;
    refresh(&(struct guest_error){}); /* if it fails, the create that needs it will tell */
    detach_stale();
}

static void free_slots(const struct pollfd *polled, const unsigned *slots, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (polled[i].revents)
            free_slot(slots[i]);
}

static void handle_request(struct packet *packet)
{
    uint32_t type = request_type(packet->bytes, packet->size);
    if (type == GUEST_CREATE)
        handle_create(packet);
    else if (type == GUEST_NAME)
        handle_name(packet);
    else if (type == GUEST_OWN)
        handle_own(packet);
}

static int serve(struct packet *packet)
{
    for (;;) {
        unsigned slot, count = 0, slots[SLOTS];
        struct pollfd polled[3 + SLOTS] = {
            {.fd = FD_SERVER, .events = POLLIN},
            {.fd = FD_SIGNALS, .events = POLLIN},
            {.fd = GUEST_FD_CONTROL, .events = find_slot(&slot) ? POLLIN : 0},
        };
        /* Only those in use: poll(2) refuses more entries than a process may have descriptors. */
        for (unsigned i = 0; i < SLOTS; i++)
            if (zygote.sync[i] >= 0) {
                polled[3 + count].fd = zygote.sync[i];
                slots[count++] = i;
            }
        int ready = poll(polled, 3 + count, zygote.has_idle_work ? IDLE_MS : -1);
        if (ready < 0 && errno != EINTR)
            return say_goodbye();
        if (ready == 0)
            do_idle_work();
        if (ready <= 0)
            continue;
        if (polled[0].revents)
            return say_goodbye();
        if (polled[1].revents)
            reap();
        free_slots(polled + 3, slots, count);
        if (!polled[2].revents)
            continue;
        int received = packet_receive(GUEST_FD_CONTROL, packet, MSG_DONTWAIT);
        if (received == 0)
            return say_goodbye();
        if (received < 0)
            continue;
        handle_request(packet);
        packet_close_fds(packet);
    }
}

/* --- starting --- */

static bool has_capability(unsigned capability)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    return syscall(SYS_capget, &header, data) == 0 &&
           data[capability / 32].effective >> (capability % 32) & 1;
}

/* To numbers that nothing else is to have. */
static int take_parents(struct packet *packet, struct guest_error *err)
{
    for (unsigned i = 1; i < packet->fd_count; i++) {
        _cleanup_fd_ int fd = packet_take_fd(packet, i);
        int parent = fcntl(fd, F_DUPFD_CLOEXEC, FD_SYNC + 1);
        if (parent < 0)
            return report(err, "take groups");
        zygote.parents[zygote.parent_count++] = parent;
    }
    return 0;
}

static int set_up(struct packet *packet, int *ret_base, struct guest_error *err)
{
    static struct packet reply;
    const struct guest_setup *setup = (const void *)packet->bytes;
    if (request_type(packet->bytes, packet->size) != GUEST_SETUP || packet->cut ||
        !request_setup_ok(setup, packet->fd_count))
        return report_text(err, EINVAL, "read request", "malformed setup");
    if (setup->version != GUEST_VERSION)
        return report_text(err, EINVAL, "check version", "server and guest are of different builds");
    if (take_parents(packet, err) < 0)
        return -1;
    if (sys_move_fd(packet_take_fd(packet, 0), FD_SERVER) < 0)
        return report(err, "take server");
    if (signals_take(NULL) < 0)
        return report(err, "make signalfd");
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    zygote.server = getppid();
    zygote.root_flags = setup->flags & ~GUEST_PROC_HIDDEN;
    zygote.settings = -1;
    zygote.may_trace = !(setup->flags & GUEST_USERS) && has_capability(CAP_SYS_PTRACE);
    for (unsigned i = 0; i < SLOTS; i++)
        zygote.sync[i] = -1;
    if (is_weak())
        return weak_prepare(setup->state_dir, err);
    if (users_enter(setup->flags, &reply, err) < 0)
        return -1;
    if (unshare(CLONE_NEWNS) < 0)
        return report(err, "make mount namespace");
    FAULT_POINT("zygote.apart");
    if (template_make(setup, ret_base, err) < 0)
        return -1;
    if (setup->flags & GUEST_USERS && !template_shows_proc())
        zygote.root_flags |= GUEST_PROC_HIDDEN;
    return 0;
}

int zygote_run(void)
{
    static struct packet packet;
    struct guest_reply reply = {.type = GUEST_REPLY, .pid = getpid()};
    if (packet_receive(GUEST_FD_CONTROL, &packet, 0) <= 0)
        return 1;
    int base = -1;
    int failed = set_up(&packet, &base, &reply.error);
    packet_close_fds(&packet);
    reply.flags = zygote.root_flags & GUEST_PROC_HIDDEN ? GUEST_REPLY_PROC_HIDDEN : 0;
    packet_send(GUEST_FD_CONTROL, &reply, sizeof(reply), base, 0);
    if (failed)
        return 1;
    if (base >= 0)
        close(base);
    do_idle_work(); /* the first create is on its way, but not here yet */
    return serve(&packet);
}
