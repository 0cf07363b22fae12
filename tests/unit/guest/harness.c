/* Plays the server to the guest program: see harness.h. */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/native/image.h"
#include "base/macros.h"

#define PATH_ENTRY "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define WAIT_MS 60000 /* for what must come; only a defect makes a test wait so long */

void harness_die(const char *what)
{
    fprintf(stderr, "harness: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int check(int result, const char *what)
{
    if (result < 0)
        harness_die(what);
    return result;
}

static void join(char *ret, size_t size, const char *parent, const char *name)
{
    if (snprintf(ret, size, "%s/%s", parent, name) >= (int)size)
        harness_die("path is too long");
}

static void wait_readable(int fd, const char *what)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    if (poll(&polled, 1, WAIT_MS) != 1) {
        errno = ETIMEDOUT;
        harness_die(what);
    }
}

int sealed_memfd(const char *name, const void *bytes, size_t size, int seals)
{
    int fd = check(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), "memfd_create");
    if (write(fd, bytes, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) < 0 ||
        fcntl(fd, F_ADD_SEALS, seals) < 0)
        harness_die("fill memfd");
    return fd;
}

/* --- packets --- */

void send_packet(int socket, const void *bytes, size_t size, const int *fds, unsigned fd_count)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * 16)];
    } control = {0};
    struct iovec data = {(void *)bytes, size};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    if (fd_count > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
        memcpy(CMSG_DATA(header), fds, sizeof(int) * fd_count);
    }
    check((int)sendmsg(socket, &message, MSG_NOSIGNAL), "send packet");
}

bool receive_packet(int socket, void *bytes, size_t size, int *ret_fd)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec data = {bytes, size};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    wait_readable(socket, "wait for packet");
    ssize_t received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (ret_fd)
        *ret_fd = -1;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (received > 0 && header && ret_fd)
        memcpy(ret_fd, CMSG_DATA(header), sizeof(int));
    return received == (ssize_t)size;
}

/* --- cgroups --- */

static const char *cgroup2_root(void)
{
    static const char *const roots[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};
    for (size_t i = 0; i < ARRAY_LEN(roots); i++) {
        char path[64];
        join(path, sizeof(path), roots[i], "cgroup.procs");
        if (access(path, W_OK) == 0 && access(roots[i], W_OK) == 0)
            return roots[i];
    }
    return NULL;
}

bool have_cgroup2(void)
{
    return cgroup2_root() != NULL;
}

static void make_group(const char *path)
{
    char procs[192];
    check(mkdir(path, 0755), path);
    join(procs, sizeof(procs), path, "cgroup.procs");
    check(chown(procs, ID_BASE, (gid_t)-1), procs);
}

void scope_make(const struct computer *computer, const char *name, char *ret, size_t size)
{
    join(ret, size, computer->group, name);
    make_group(ret);
}

void group_write(const char *group, const char *file, const char *text)
{
    char path[192];
    join(path, sizeof(path), group, file);
    int fd = check(open(path, O_WRONLY | O_CLOEXEC), path);
    check((int)write(fd, text, strlen(text)), path);
    close(fd);
}

bool group_empty(const char *group)
{
    char path[192], text[16384];
    join(path, sizeof(path), group, "cgroup.procs");
    int fd = check(open(path, O_RDONLY | O_CLOEXEC), path);
    ssize_t size = read(fd, text, sizeof(text));
    close(fd);
    return size == 0;
}

/* Killed processes leave their group a moment later; cgroup.events tells when. */
void group_remove(const char *group)
{
    char path[192], text[128];
    join(path, sizeof(path), group, "cgroup.events");
    int fd = check(open(path, O_RDONLY | O_CLOEXEC), path);
    for (int round = 0; rmdir(group) < 0; round++) {
        if (errno != EBUSY || round > 1000)
            harness_die(group);
        struct pollfd polled = {.fd = fd, .events = POLLPRI};
        poll(&polled, 1, 20);
        if (pread(fd, text, sizeof(text), 0) < 0)
            break;
    }
    close(fd);
}

/* --- folders --- */

static void make_folder(const char *parent, const char *name, mode_t mode)
{
    char path[256];
    join(path, sizeof(path), parent, name);
    check(mkdir(path, mode), path);
    check(chmod(path, mode), path);
}

static void write_file(const char *parent, const char *name, const char *text)
{
    char path[256];
    join(path, sizeof(path), parent, name);
    FILE *file = fopen(path, "w");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        harness_die(path);
}

/* As the server's skeleton: nothing of the host but what its /usr needs. */
static void make_base(const char *base)
{
    static const char *const folders[] = {"etc", "proc", "sys", "dev", "root", "home",   "var",
                                          "run", "opt",  "mnt", "srv", "usr",  "var/tmp"};
    static const char *const merged[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};
    for (size_t i = 0; i < ARRAY_LEN(folders); i++)
        make_folder(base, folders[i], 0755);
    make_folder(base, "tmp", 01777);
    for (size_t i = 0; i < ARRAY_LEN(merged); i++) {
        char from[32], to[256], target[64];
        snprintf(from, sizeof(from), "/%s", merged[i]);
        join(to, sizeof(to), base, merged[i]);
        ssize_t length = readlink(from, target, sizeof(target) - 1);
        if (length < 0)
            continue;
        target[length] = 0;
        check(symlink(target, to), to);
    }
    write_file(base, "etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n");
    write_file(base, "etc/group", "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n");
    write_file(base, "etc/hosts", "127.0.0.1 localhost\n");
    char copy[512];
    snprintf(copy, sizeof(copy), "cp -a /etc/ld.so.cache /etc/alternatives %s/etc/", base);
    check(system(copy) == 0 ? 0 : -1, copy);
    if (!getenv("GUEST_PROBE"))
        return;
    snprintf(copy, sizeof(copy), "cp '%s' %s/probe", getenv("GUEST_PROBE"), base);
    check(system(copy) == 0 ? 0 : -1, copy);
}

static int remove_entry(const char *path, _unused_ const struct stat *st, _unused_ int type,
                        _unused_ struct FTW *ftw)
{
    return remove(path);
}

static void own(const char *parent, const char *name)
{
    char path[256];
    join(path, sizeof(path), parent, name);
    check(chown(path, ID_BASE, ID_BASE), path);
}

static void make_computer_folder(const struct zygote *zygote, const char *name)
{
    static const char *const inner[] = {"upper", "work"};
    char state[96], folder[256];
    join(state, sizeof(state), zygote->folder, "state");
    join(folder, sizeof(folder), state, name);
    if (access(folder, F_OK) == 0) /* another life of the same computer */
        return;
    make_folder(state, name, 0700);
    own(state, name);
    for (size_t i = 0; i < ARRAY_LEN(inner) && !(zygote->root_flags & GUEST_ROOT_PLAIN); i++) {
        make_folder(folder, inner[i], 0755);
        own(folder, inner[i]);
    }
    if (!(zygote->root_flags & GUEST_ROOT_PLAIN))
        return;
    make_folder(folder, "root", 0755);
    char path[300];
    join(path, sizeof(path), folder, "root");
    make_base(path);
    own(folder, "root");
}

/* --- zygote --- */

const char *harness_obstacle(void)
{
    return geteuid() == 0 ? NULL : "not root";
}

static pid_t spawn_zygote(int control)
{
    char path[32];
    char *const argv[] = {(char *)"sandbox-zygote", NULL}, *const env[] = {NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int image = sealed_memfd("guest", guest_image, guest_image_size,
                             F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    int far = check(fcntl(image, F_DUPFD_CLOEXEC, 100), "move image");
    int socket = check(fcntl(control, F_DUPFD_CLOEXEC, 100), "move control");
    snprintf(path, sizeof(path), "/proc/self/fd/%d", far);
    posix_spawn_file_actions_init(&actions);
    for (int i = 0; i < 3; i++)
        posix_spawn_file_actions_addopen(&actions, i, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&actions, socket, GUEST_FD_CONTROL);
    posix_spawn_file_actions_addclosefrom_np(&actions, far > socket ? far + 1 : socket + 1);
    errno = posix_spawn(&pid, path, &actions, NULL, argv, env);
    if (errno)
        harness_die("spawn zygote");
    posix_spawn_file_actions_destroy(&actions);
    close(image);
    close(far);
    close(socket);
    return pid;
}

struct zygote zygote_start(uint32_t root_flags)
{
    struct zygote zygote = {.root_flags = root_flags};
    struct guest_setup setup = {.type = GUEST_SETUP, .version = GUEST_VERSION, .flags = root_flags};
    struct guest_reply reply;
    int pair[2];
    snprintf(zygote.folder, sizeof(zygote.folder), "/var/tmp/guest-test-XXXXXX");
    if (!mkdtemp(zygote.folder))
        harness_die(zygote.folder);
    make_folder(zygote.folder, "state", 0700);
    make_folder(zygote.folder, "base", 0755);
    join(setup.state_dir, sizeof(setup.state_dir), zygote.folder, "state");
    join(setup.base_dir, sizeof(setup.base_dir), zygote.folder, "base");
    make_base(setup.base_dir);
    check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), "socketpair");
    zygote.pid = spawn_zygote(pair[1]);
    zygote.control = pair[0];
    close(pair[1]);
    int self = check((int)syscall(SYS_pidfd_open, getpid(), 0), "pidfd_open");
    send_packet(zygote.control, &setup, sizeof(setup), &self, 1);
    close(self);
    if (!receive_packet(zygote.control, &reply, sizeof(reply), NULL))
        harness_die("setup reply");
    zygote.error = reply.error;
    return zygote;
}

void zygote_stop(struct zygote *zygote)
{
    if (zygote->control >= 0)
        close(zygote->control);
    if (zygote->pid > 0)
        waitpid(zygote->pid, NULL, 0);
    nftw(zygote->folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* --- computers --- */

static struct computer begin(struct zygote *zygote, const char *name, uint32_t flags, const char *v1_group)
{
    static unsigned number;
    struct computer computer = {.pidfd = -1, .next_id = 1, .v1_group = v1_group};
    struct guest_create create = {
        .type = GUEST_CREATE,
        .request = ++number,
        .flags = flags,
        .id_base = ID_BASE,
        .id_count = ID_COUNT,
        .nofile = 1024,
        .shm_bytes = 1 << 20,
    };
    int pair[2], fds[2], tasks_fd = -1;
    unsigned fd_count = 1;
    snprintf(create.hostname, sizeof(create.hostname), "%s", name[0] == '.' ? "" : name);
    snprintf(create.folder, sizeof(create.folder), "%s", name);
    make_computer_folder(zygote, name);
    check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), "socketpair");
    fds[0] = pair[1];
    if (flags & GUEST_HAS_CGROUP2) {
        snprintf(computer.group, sizeof(computer.group), "%s/guest-test-%d-%u", cgroup2_root(), getpid(),
                 number);
        make_group(computer.group);
        fds[fd_count++] = check(open(computer.group, O_RDONLY | O_DIRECTORY | O_CLOEXEC), computer.group);
    }
    if (v1_group) {
        char tasks[192];
        join(tasks, sizeof(tasks), v1_group, "tasks");
        tasks_fd = check(open(tasks, O_WRONLY | O_CLOEXEC), tasks);
    }
    send_packet(zygote->control, &create, sizeof(create), fds, fd_count);
    for (unsigned i = 0; i < fd_count; i++)
        close(fds[i]);
    computer.channel = pair[0];
    const struct guest_begin go = {.type = GUEST_BEGIN};
    send_packet(computer.channel, &go, sizeof(go), &tasks_fd, v1_group ? 1 : 0);
    if (v1_group)
        close(tasks_fd);
    struct guest_reply reply;
    if (!receive_packet(zygote->control, &reply, sizeof(reply), &computer.pidfd) || reply.request != number)
        harness_die("create reply");
    computer.pid = reply.pid;
    computer.error = reply.error;
    return computer;
}

struct computer computer_begin(struct zygote *zygote, const char *name, uint32_t flags)
{
    return begin(zygote, name, flags, NULL);
}

struct computer computer_make(struct zygote *zygote, const char *name, uint32_t flags)
{
    return computer_make_in(zygote, name, flags, NULL);
}

struct computer computer_make_in(struct zygote *zygote, const char *name, uint32_t flags,
                                 const char *v1_group)
{
    struct computer computer = begin(zygote, name, flags, v1_group);
    struct guest_ready ready;
    if (computer.error.stage[0])
        return computer;
    if (!receive_packet(computer.channel, &ready, sizeof(ready), NULL))
        harness_die("ready");
    computer.error = ready.error;
    return computer;
}

bool computer_gone_within(const struct computer *computer, int milliseconds)
{
    struct pollfd polled = {.fd = computer->pidfd, .events = POLLIN};
    return poll(&polled, 1, milliseconds) == 1;
}

void computer_end(struct computer *computer)
{
    close(computer->channel);
    if (computer->pidfd >= 0) {
        if (!computer_gone_within(computer, WAIT_MS))
            harness_die("end of a computer");
        close(computer->pidfd);
    }
    if (computer->group[0])
        group_remove(computer->group);
    if (computer->v1_group && rmdir(computer->v1_group) < 0)
        harness_die(computer->v1_group);
}

/* --- commands --- */

static size_t add_strings(char *body, size_t at, const char *const *strings, uint32_t *ret_count)
{
    for (*ret_count = 0; *strings; strings++, ++*ret_count)
        at += (size_t)sprintf(body + at, "%s", *strings) + 1;
    return at;
}

static int pipe_with(const char *text)
{
    int ends[2];
    check(pipe2(ends, O_CLOEXEC), "pipe");
    check((int)write(ends[1], text, strlen(text)), "fill pipe");
    close(ends[1]);
    return ends[0];
}

/* The far end goes into the request, ours is returned. */
static int add_pipe(int *fds, unsigned *count)
{
    int ends[2];
    check(pipe2(ends, O_CLOEXEC), "pipe");
    fds[(*count)++] = ends[1];
    return ends[0];
}

static int open_scope(const struct command *command)
{
    char path[192];
    if (!command->join_by_writing)
        return check(open(command->scope, O_RDONLY | O_DIRECTORY | O_CLOEXEC), command->scope);
    join(path, sizeof(path), command->scope, "cgroup.procs");
    return check(open(path, O_WRONLY | O_CLOEXEC), path);
}

struct started command_start(struct computer *computer, const struct command *command)
{
    static const char *const default_env[] = {PATH_ENTRY, NULL};
    static char packet[1 << 20];
    struct guest_exec exec = {.type = GUEST_EXEC, .id = computer->next_id++};
    struct started started = {.id = exec.id};
    int fds[GUEST_FDS_MAX];
    unsigned count = 0;
    char *body = packet + sizeof(exec);
    size_t size = (size_t)sprintf(body, "%s", command->cwd ? command->cwd : "/") + 1;
    size = add_strings(body, size, command->argv, &exec.argc);
    size = add_strings(body, size, command->env ? command->env : default_env, &exec.envc);
    exec.body_bytes = (uint32_t)size;
    if (command->in || command->in_fd) {
        exec.flags |= GUEST_EXEC_STDIN;
        fds[count++] = command->in ? pipe_with(command->in) : check(dup(*command->in_fd), "dup");
    }
    started.out = add_pipe(fds, &count);
    started.err = add_pipe(fds, &count);
    started.status = add_pipe(fds, &count);
    if (command->scope) {
        exec.flags |= command->join_by_writing ? GUEST_EXEC_SCOPE : GUEST_EXEC_SCOPE_DIR;
        fds[count++] = open_scope(command);
    }
    if (command->body_in_memfd) {
        exec.flags |= GUEST_EXEC_BODY;
        fds[count++] = sealed_memfd("body", body, size, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
        size = 0;
    }
    if (command->script) {
        exec.flags |= GUEST_EXEC_SCRIPT;
        fds[count++] = sealed_memfd("script", command->script, strlen(command->script), F_SEAL_WRITE);
    }
    memcpy(packet, &exec, sizeof(exec));
    send_packet(computer->channel, packet, sizeof(exec) + size, fds, count);
    for (unsigned i = 0; i < count; i++)
        close(fds[i]);
    return started;
}

static void append(int fd, char *text, size_t size, size_t *length)
{
    ssize_t got;
    while ((got = read(fd, text + *length, size - 1 - *length)) > 0)
        *length += (size_t)got;
    text[*length] = 0;
}

bool command_end(struct started *started, struct ended *ret)
{
    size_t out = 0, err = 0;
    memset(ret, 0, sizeof(*ret));
    fcntl(started->out, F_SETFL, O_NONBLOCK);
    fcntl(started->err, F_SETFL, O_NONBLOCK);
    struct pollfd polled[] = {
        {started->status, POLLIN, 0}, {started->out, POLLIN, 0}, {started->err, POLLIN, 0}};
    while (poll(polled, ARRAY_LEN(polled), WAIT_MS) > 0) {
        append(started->out, ret->out, sizeof(ret->out), &out);
        append(started->err, ret->err, sizeof(ret->err), &err);
        for (size_t i = 1; i < ARRAY_LEN(polled); i++)
            if (polled[i].revents & POLLHUP)
                polled[i].fd = -1;
        if (polled[0].revents)
            break;
    }
    if (!polled[0].revents)
        harness_die("wait for the end of a command");
    ssize_t got = read(started->status, &ret->record, sizeof(ret->record));
    append(started->out, ret->out, sizeof(ret->out), &out);
    append(started->err, ret->err, sizeof(ret->err), &err);
    close(started->status);
    close(started->out);
    close(started->err);
    return got == (ssize_t)sizeof(ret->record) && ret->record.id == started->id;
}

bool command_run(struct computer *computer, const struct command *command, struct ended *ret)
{
    struct started started = command_start(computer, command);
    return command_end(&started, ret);
}

bool shell_run(struct computer *computer, const char *text, struct ended *ret)
{
    const char *const argv[] = {"/bin/sh", "-c", text, NULL};
    return command_run(computer, &(struct command){.argv = argv}, ret);
}
