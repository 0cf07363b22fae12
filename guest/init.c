/* Init is the zygote's child gone on, never exec'd: no file to reopen through /proc/self/exe, and its memory
 * belongs to the host's user namespace, so that with dumpable 0 all of /proc/1 is closed to the computer's
 * root.
 *
 * Setting up: wait until the server has made what we need, and the zygote has mapped our ids; become root of
 * those ids; build the tree; give up privileges; say ready. Then one loop: requests from the channel, ended
 * children from the signalfd, records from reapers. When the server is gone, the channel's end or its pidfd
 * says so, init exits, and the kernel kills all that is left of the computer. Unless it was told to keep it:
 *
 *   served --the server has gone--> alone --the last process has ended--> init exits
 *      ^                              |
 *      +------ a server attaches -----+
 *
 * Alone, init listens. Who connects isn't a server before it has said so, and makes way for the next who
 * connects: nobody can keep others out by saying nothing.
 *
 * A command's record is written by init alone. Without reapers its process is our child; with
 * GUEST_SCOPE_REAPER our child is its reaper (reaper.c), which sends us the record first. */
#include "guest/init.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <linux/keyctl.h>

#include "base/fault.h"
#include "guest/exec.h"
#include "guest/file.h"
#include "guest/oom.h"
#include "guest/packet.h"
#include "guest/privileges.h"
#include "guest/reaper.h"
#include "guest/report.h"
#include "guest/request.h"
#include "guest/sys.h"
#include "guest/title.h"
#include "guest/tree.h"
#include "guest/users.h"
#include "guest/weak.h"

#define RUNNING_MAX 1024
#define BACKLOG 8

struct running {
    uint32_t id;
    pid_t pid;    /* of the command, or of its reaper */
    int status;   /* -1: already written, what is left is the reaper */
    int out, err; /* kept open as long, so that their end doesn't wake the server before the record does */
};

static struct {
    struct running running[RUNNING_MAX];
    unsigned count;
    unsigned nofile;
    bool is_weak; /* see weak.h */
    bool use_reapers;
    bool strays;  /* processes of a killed reaper may live */
    int reports;  /* init's end of FD_SYNC, with reapers; else -1 */
    int disk;     /* with a disk of its own, for the next server; else -1 */
    int listener; /* -1: the computer ends with its server */
    bool is_served;
    bool has_channel; /* FD_CHANNEL is open */
    uint32_t next_exec;
    struct packet packet;
} init; /* all zero, so that it takes no room in the file */

/* --- setting up --- */

/* The zygote's other descriptors go at once: its ends of other computers' sync pairs, what came with the
 * request. */
static int take_descriptors(const struct init_start *start, struct guest_error *err)
{
    if (dup3(start->sync, FD_SYNC, O_CLOEXEC) < 0 && errno != EINVAL)
        return report(err, "take sync");
    if (sys_close_range(FD_SYNC + 1, ~0U) < 0)
        return report(err, "close descriptors");
    if (start->root_flags & GUEST_PROC_HIDDEN && reaper_open_proc() < 0)
        return report(err, "keep proc");
    /* To be opened now: once we have changed ids it belongs to the host. */
    if (oom_open_score() < 0)
        return report(err, "open oom_score_adj");
    return 0;
}

/* Kernels without keyrings have none to leave. */
static int leave_keyring(struct guest_error *err)
{
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS &&
        !(init.is_weak && errno == EPERM)) /* an engine's filter keeps everybody from keyrings */
        return report(err, "join session keyring");
    return 0;
}

/* The first packet of the channel, with the v1 groups to join. The kernel asks who opened their files, so
 * that it may still be done when we aren't the host's root any more. Sets init.disk, -1 without one. */
static int await_begin(struct guest_begin *ret, struct guest_error *err)
{
    struct packet *packet = &init.packet;
    const struct guest_begin *begin = (const void *)packet->bytes;
    if (packet_receive(FD_CHANNEL, packet, 0) <= 0)
        return report_text(err, ECANCELED, "wait for server", "the server gave up");
    if (request_type(packet->bytes, packet->size) != GUEST_BEGIN || packet->cut)
        return report_text(err, EINVAL, "read request", "malformed begin");
    unsigned disks = begin->flags & GUEST_BEGIN_DISK ? 1 : 0;
    if (packet->fd_count < disks)
        return report_text(err, EINVAL, "read request", "begin without its disk");
    for (unsigned i = disks; i < packet->fd_count; i++)
        if (write(packet->fds[i], "0", 1) < 0)
            return report(err, "join group");
    init.disk = disks ? packet_take_fd(packet, 0) : -1;
    packet_close_fds(packet);
    *ret = *begin;
    FAULT_POINT("init.begun");
    return 0;
}

/* While we are still the host's root: it may search the folders above. */
static int open_folder(const char *folder, struct guest_error *err)
{
    _cleanup_fd_ int state = open(init.is_weak ? "." : "/state", O_PATH | O_DIRECTORY | O_CLOEXEC);
    const struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    int fd = sys_openat2(state, folder, &how);
    return fd < 0 ? report(err, "open folder") : fd;
}

/* The folder is to be entered before the namespace is left, the disk to be attached after. */
static int enter_folder(int folder, int disk, struct guest_error *err)
{
    if (disk < 0 && fchdir(folder) < 0) /* it is ours alone: 0700 */
        return report(err, "enter folder");
    if (unshare(CLONE_NEWNS) < 0)
        return report(err, "unshare");
    if (disk >= 0 && (sys_move_mount(disk, AT_FDCWD, "/mnt") < 0 || chdir("/mnt") < 0))
        return report(err, "attach disk");
    return 0;
}

static int become_root(uint32_t root_flags, struct guest_error *err)
{
    if (!(root_flags & GUEST_ONE_ID) && syscall(SYS_setgroups, 0, NULL) < 0)
        return report(err, "leave groups");
    if (syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
        return report(err, "become root");
    return 0;
}

/* The computer's own /dev/null, for commands without input and for ourselves. */
static int replace_standard_descriptors(struct guest_error *err)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        return report(err, "open /dev/null");
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    close(null);
    return 0;
}

/* Processes of each of the computer's users, memory of each process: weaker than what a control group counts.
 */
static int limit_resources(const struct guest_begin *begin, struct guest_error *err)
{
    const struct rlimit processes = {begin->nproc, begin->nproc};
    struct rlimit data;
    if (begin->nproc && setrlimit(RLIMIT_NPROC, &processes) < 0)
        return report(err, "limit processes");
    if (!begin->data_bytes || getrlimit(RLIMIT_DATA, &data) < 0)
        return 0;
    data.rlim_max = data.rlim_max < begin->data_bytes ? data.rlim_max : begin->data_bytes;
    data.rlim_cur = data.rlim_max;
    return setrlimit(RLIMIT_DATA, &data) < 0 ? report(err, "limit memory") : 0;
}

/* The computer's ids, its folder, its tree; and its groups, which are the root of those that it sees. */
static int move_in(const struct init_start *start, struct guest_begin *ret, struct guest_error *err)
{
    char go;
    const bool ahead = start->create->flags & GUEST_AHEAD;
    if (!ahead && await_begin(ret, err) < 0)
        return -1;
    const int disk = init.disk;
    _cleanup_fd_ int folder = disk < 0 ? open_folder(start->create->folder, err) : -1;
    if (disk < 0 && folder < 0)
        return -1;
    if (read(FD_SYNC, &go, 1) != 1)
        return report_text(err, ECANCELED, "wait for zygote", "the zygote gave up");
    if (init.is_weak) {
        close(FD_SYNC);
        return weak_enter(folder, start->create->id_base, err);
    }
    if (become_root(start->root_flags, err) < 0 || enter_folder(folder, disk, err) < 0)
        return -1;
    FAULT_POINT("init.in-folder");
    close(FD_SYNC);
    if (tree_make(start->root_flags, start->slot, start->create->shm_bytes, err) < 0)
        return -1;
    FAULT_POINT("init.tree-made");
    if (ahead) { /* from now on our folder may move */
        const struct guest_ready half = {.type = GUEST_READY};
        packet_send(FD_CHANNEL, &half, sizeof(half), -1, 0);
    }
    if (ahead && await_begin(ret, err) < 0)
        return -1;
    return unshare(CLONE_NEWCGROUP) < 0 ? report(err, "unshare groups") : 0;
}

static int shut_in(uint32_t root_flags, struct guest_error *err)
{
    if (init.is_weak)
        return weak_shut_in(err);
    if (root_flags & GUEST_ONE_ID && users_fake(err) < 0)
        return -1;
    return privileges_drop(err);
}

static int set_up(const struct init_start *start, struct guest_error *err)
{
    struct guest_begin begin;
    init.is_weak = start->root_flags & GUEST_WEAK;
    if (leave_keyring(err) < 0 || take_descriptors(start, err) < 0)
        return -1;
    FAULT_POINT("init.born");
    if (move_in(start, &begin, err) < 0)
        return -1;
    if (replace_standard_descriptors(err) < 0)
        return -1;
    init.use_reapers = start->create->flags & GUEST_SCOPE_REAPER;
    if (init.use_reapers && (init.reports = reaper_make_reports(FD_SYNC)) < 0)
        return report(err, "make report socket");
    if (privileges_limit(start->create->nofile, start->create->file_bytes, &init.nofile, err) < 0 ||
        limit_resources(&begin, err) < 0)
        return -1;
    return shut_in(start->root_flags, err);
}

/* --- commands --- */

static void answer(int status, const struct guest_exit *record)
{
    /* An empty pipe takes it whole; a server that passed something else loses its record, and doesn't hold us
     * up. */
    fcntl(status, F_SETFL, O_NONBLOCK);
    if (write(status, record, sizeof(*record)) < 0)
        return;
}

/* record NULL: there is nobody to tell. */
static void let_go(struct running *running, const struct guest_exit *record)
{
    if (record)
        answer(running->status, record);
    running->status = sys_close(running->status);
    running->out = sys_close(running->out);
    running->err = sys_close(running->err);
}

static void answer_failure(int status, uint32_t id, uint32_t stage, int32_t sys)
{
    const struct guest_exit record = {.id = id, .stage = stage, .sys = sys};
    answer(status, &record);
}

/* Init is to be the last that is ended for want of memory. */
static pid_t start_command(const struct launch *launch, uint32_t id, uint32_t *ret_stage, int32_t *ret_errno)
{
    oom_raise_score();
    pid_t pid =
        init.use_reapers ? reaper_start(FD_SYNC, launch, id) : exec_launch(launch, ret_stage, ret_errno);
    if (pid < 0 && init.use_reapers) {
        *ret_stage = GUEST_STAGE_FORK;
        *ret_errno = errno;
    }
    oom_restore_score();
    return pid;
}

static int fd_at(const struct packet *packet, int index)
{
    return index < 0 ? -1 : packet->fds[index];
}

static void run_command(struct packet *packet, const struct guest_exec *exec, const struct request_fds *fds,
                        char *body, size_t body_size)
{
    struct request_exec request;
    uint32_t stage = GUEST_STAGE_REQUEST;
    int32_t sys = EINVAL;
    pid_t pid = -1;
    if (init.count == RUNNING_MAX) {
        sys = EAGAIN;
    } else if (request_exec_parse(exec, body, body_size, &request)) {
        const struct launch launch = {
            .request = &request,
            .in = fd_at(packet, fds->in),
            .out = fd_at(packet, fds->out),
            .err = fd_at(packet, fds->err),
            .scope = fd_at(packet, fds->scope),
            .script = fd_at(packet, fds->script),
            .scope_is_folder = exec->flags & GUEST_EXEC_SCOPE_DIR,
            .files = {init.nofile, init.nofile},
        };
        pid = start_command(&launch, exec->id, &stage, &sys);
    }
    if (exec->id >= init.next_exec)
        init.next_exec = exec->id + 1;
    if (pid < 0) {
        answer_failure(fd_at(packet, fds->status), exec->id, stage, sys);
        return;
    }
    FAULT_POINT("init.command-started");
    init.running[init.count++] = (struct running){
        .id = exec->id,
        .pid = pid,
        .status = packet_take_fd(packet, (unsigned)fds->status),
        .out = packet_take_fd(packet, (unsigned)fds->out),
        .err = packet_take_fd(packet, (unsigned)fds->err),
    };
}

/* Sealed, or reading it could be the end of us. */
static void *map_body(int memfd, size_t size)
{
    struct stat st;
    const int needed = F_SEAL_SHRINK | F_SEAL_WRITE;
    int seals = fcntl(memfd, F_GET_SEALS);
    if (seals < 0 || (seals & needed) != needed || fstat(memfd, &st) < 0)
        return NULL;
    if (size == 0 || size > GUEST_BODY_MAX || st.st_size != (off_t)size)
        return NULL;
    void *body = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, memfd, 0);
    return body == MAP_FAILED ? NULL : body;
}

static void handle_exec(struct packet *packet)
{
    const struct guest_exec *exec = (const void *)packet->bytes;
    struct request_fds fds;
    FAULT_POINT("init.command-asked");
    if (!request_exec_fds(exec->flags, &fds) || packet->fd_count != fds.count || packet->cut) {
        /* The status pipe is where the flags say, if anywhere. */
        if ((unsigned)fds.status < packet->fd_count)
            answer_failure(packet->fds[fds.status], exec->id, GUEST_STAGE_REQUEST, EINVAL);
        return;
    }
    if (fds.body < 0) {
        run_command(packet, exec, &fds, packet->bytes + sizeof(*exec), packet->size - sizeof(*exec));
        return;
    }
    char *body = map_body(packet->fds[fds.body], exec->body_bytes);
    if (!body) {
        answer_failure(packet->fds[fds.status], exec->id, GUEST_STAGE_REQUEST, EINVAL);
        return;
    }
    run_command(packet, exec, &fds, body, exec->body_bytes);
    munmap(body, exec->body_bytes);
}

static void handle_kill(const struct guest_kill *request)
{
    for (unsigned i = 0; init.use_reapers && i < init.count; i++)
        if (init.running[i].id == request->id)
            kill(init.running[i].pid, REAPER_KILL_SIGNAL);
}

/* --- files --- */

static void handle_open(struct packet *packet)
{
    struct guest_open *request = (void *)packet->bytes;
    struct guest_opened opened = {};
    if (packet->fd_count != 1)
        return;
    _cleanup_fd_ int fd = file_make(request->path, &opened.error);
    FAULT_POINT("init.file-made");
    packet_send(packet->fds[0], &opened, sizeof(opened), fd, MSG_DONTWAIT);
}

/* --- servers that come and go --- */

static bool has_children(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

static unsigned list_running(pid_t ret[RUNNING_MAX])
{
    for (unsigned i = 0; i < init.count; i++)
        ret[i] = init.running[i].pid;
    return init.count;
}

/* A reaper that has nobody left is about to end. */
static bool has_processes(void)
{
    pid_t reapers[RUNNING_MAX];
    return has_children() &&
           (!init.use_reapers || reaper_finds_beneath(getpid(), reapers, list_running(reapers)));
}

/* Those that somebody waited for, with their descendants. */
static void end_commands(void)
{
    for (unsigned i = 0; i < init.count; i++) {
        struct running *running = &init.running[i];
        if (running->status < 0)
            continue;
        let_go(running, NULL);
        if (init.use_reapers) {
            kill(running->pid, REAPER_KILL_SIGNAL);
            continue;
        }
        kill(running->pid, SIGSTOP);
        reaper_kill_beneath(running->pid, NULL, 0);
        kill(running->pid, SIGKILL);
    }
}

static void drop_channel(void)
{
    close(FD_CHANNEL);
    init.has_channel = false;
}

/* The end of the computer. Without namespaces the kernel ends nobody with us. */
static _Noreturn void leave(void)
{
    while (init.is_weak && reaper_kill_beneath(getpid(), NULL, 0))
        waitpid(-1, NULL, 0);
    _exit(0);
}

static void lose_server(void)
{
    if (init.listener < 0)
        leave();
    drop_channel();
    if (!init.is_served)
        return;
    FAULT_POINT("init.left");
    close(FD_SERVER);
    init.is_served = false;
    end_commands();
}

/* Again is fine: for a computer that was kept, and is to be after all. */
static void handle_keep(struct packet *packet)
{
    if (packet->fd_count != 2 || init.listener >= 0)
        return;
    /* By ourselves: so the kernel tells whoever connects our pid and user, not those of the socket's maker.
     */
    if (listen(packet->fds[0], BACKLOG) < 0)
        return;
    init.listener = packet_take_fd(packet, 0);
    packet_take_fd(packet, 1); /* stays open */
}

static void send_ready(int fd)
{
    const struct guest_ready ready = {.type = GUEST_READY, .next_exec = init.next_exec};
    packet_send(FD_CHANNEL, &ready, sizeof(ready), fd, MSG_DONTWAIT);
}

static void accept_server(void)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    int fd = accept4(init.listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    /* Who has a number here is of the computer itself. */
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.pid != 0) {
        close(fd);
        return;
    }
    init.has_channel = sys_move_fd(fd, FD_CHANNEL) >= 0;
}

static void handle_attach(struct packet *packet)
{
    const struct guest_attach *attach = (const void *)packet->bytes;
    struct guest_ready refusal = {.type = GUEST_READY};
    if (packet->fd_count != 1)
        return;
    if (attach->version != GUEST_VERSION) {
        report_text(&refusal.error, EINVAL, "attach", "the computer was started by another version");
        packet_send(FD_CHANNEL, &refusal, sizeof(refusal), -1, MSG_DONTWAIT);
        return;
    }
    if (sys_move_fd(packet_take_fd(packet, 0), FD_SERVER) < 0)
        return;
    if (!(attach->flags & GUEST_ATTACH_KEEP))
        init.listener = sys_close(init.listener);
    init.is_served = true;
    send_ready(init.disk);
    FAULT_POINT("init.attached");
}

static void handle_leave(void)
{
    if (init.listener < 0 || !has_processes())
        leave();
    send_ready(-1);
    lose_server();
}

/* --- loop --- */

static void handle_packet(struct packet *packet)
{
    const uint32_t type = request_type(packet->bytes, packet->size);
    if ((type == GUEST_ATTACH) == init.is_served) /* nothing but that from whom we don't serve yet */
        return;
    switch (type) {
    case GUEST_EXEC:
        handle_exec(packet);
        break;
    case GUEST_KILL:
        handle_kill((const void *)packet->bytes);
        break;
    case GUEST_OPEN:
        handle_open(packet);
        break;
    case GUEST_KEEP:
        handle_keep(packet);
        break;
    case GUEST_ATTACH:
        handle_attach(packet);
        break;
    case GUEST_LEAVE:
        handle_leave();
        break;
    default: /* nothing that we know, and nobody to tell */
        break;
    }
}

static void handle_request(void)
{
    struct packet *packet = &init.packet;
    int received = packet_receive(FD_CHANNEL, packet, MSG_DONTWAIT);
    if (received == 0)
        lose_server();
    if (received <= 0)
        return;
    handle_packet(packet);
    packet_close_fds(packet);
}

static void finish(struct running *running, const struct guest_exit *record)
{
    if (running->status >= 0)
        let_go(running, record);
}

static void handle_reports(void)
{
    struct guest_exit record;
    while (init.reports >= 0 &&
           recv(init.reports, &record, sizeof(record), MSG_DONTWAIT) == (ssize_t)sizeof(record))
        for (unsigned i = 0; i < init.count; i++)
            if (init.running[i].id == record.id)
                finish(&init.running[i], &record);
}

/* Hostile code may stop a reaper, but not for long. */
static void wake_reaper(pid_t pid)
{
    for (unsigned i = 0; i < init.count; i++)
        if (init.running[i].pid == pid)
            kill(pid, SIGCONT);
}

/* Orphans that we adopted match nothing and are dropped. A reaper that didn't exit was killed by the
 * computer's own code: its command counts as killed, and what it watched over has fallen to us. */
static void handle_end(pid_t pid, int wait_status, const struct rusage *usage)
{
    for (unsigned i = 0; i < init.count; i++) {
        struct running *running = &init.running[i];
        if (running->pid != pid)
            continue;
        init.strays |= init.use_reapers && !WIFEXITED(wait_status);
        FAULT_POINT("init.command-ended");
        if (running->status >= 0) {
            struct guest_exit record = {.id = running->id, .wait_status = wait_status};
            if (!init.use_reapers)
                exec_tell_usage(usage, &record);
            finish(running, &record);
            FAULT_POINT("init.command-told");
        }
        *running = init.running[--init.count];
        break;
    }
}

static void end_strays(void)
{
    pid_t reapers[RUNNING_MAX];
    init.strays = reaper_kill_beneath(getpid(), reapers, list_running(reapers));
}

static void handle_children(void)
{
    struct signalfd_siginfo drained[8];
    for (ssize_t size; (size = read(FD_SIGNALS, drained, sizeof(drained))) > 0;)
        for (unsigned i = 0; init.is_weak && i < (size_t)size / sizeof(drained[0]); i++)
            if (drained[i].ssi_signo == GUEST_END_SIGNAL)
                leave();
    const int options = WNOHANG | (init.use_reapers ? WUNTRACED : 0);
    int wait_status;
    struct rusage usage;
    for (pid_t pid; (pid = wait4(-1, &wait_status, options, &usage)) > 0;) {
        if (WIFSTOPPED(wait_status)) {
            wake_reaper(pid);
            continue;
        }
        handle_reports();
        handle_end(pid, wait_status, &usage);
    }
    if (init.strays)
        end_strays();
}

static _Noreturn void loop(void)
{
    for (;;) {
        struct pollfd polled[] = {
            {.fd = init.has_channel ? FD_CHANNEL : -1, .events = POLLIN},
            {.fd = init.is_served ? FD_SERVER : -1, .events = POLLIN},
            {.fd = FD_SIGNALS, .events = POLLIN},
            {.fd = init.reports, .events = POLLIN},
            {.fd = init.is_served ? -1 : init.listener, .events = POLLIN},
        };
        if (!init.is_served && !has_children())
            _exit(0);
        if (poll(polled, ARRAY_LEN(polled), -1) < 0)
            continue;
        if (polled[1].revents)
            lose_server();
        if (polled[3].revents)
            handle_reports();
        if (polled[2].revents)
            handle_children();
        if (polled[4].revents)
            accept_server();
        else if (polled[0].revents && init.has_channel)
            handle_request();
    }
}

void init_run(const struct init_start *start)
{
    struct guest_ready ready = {.type = GUEST_READY};
    init.reports = init.disk = init.listener = -1;
    init.is_served = init.has_channel = true;
    title_set("sandbox-init");
    if (dup3(start->channel, FD_CHANNEL, O_CLOEXEC) < 0)
        _exit(1); /* nobody to tell: what is there is the zygote's socket */
    int failed = set_up(start, &ready.error);
    FAULT_POINT("init.shut-in");
    packet_send(FD_CHANNEL, &ready, sizeof(ready), -1, 0);
    FAULT_POINT("init.ready");
    if (failed)
        _exit(1);
    loop();
}
