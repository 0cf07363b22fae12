/* The zygote's own root, which every computer's mounts are copied from. Sources are opened first, under the
 * names that we were given; then we go to the true root of our mount namespace (the server may run in a
 * chroot), mount an empty root, fill it, and pivot into it. */
#include "guest/template.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "guest/report.h"
#include "guest/sys.h"

/* Where /usr isn't merged the others are folders too; where it is, they are links, which the skeleton has. */
const char *const template_toolbox[] = {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", NULL};
#define TOOLBOX_MAX (ARRAY_LEN(template_toolbox) - 1)

static const struct {
    const char *name;
    unsigned major, minor;
} devices[] = {
    {"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
};
#define DEVICES ARRAY_LEN(devices)

static const struct {
    const char *name, *target;
} device_links[] = {
    {"ptmx", "pts/ptmx"},          {"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"},
    {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
};

/* A new file system in memory, as a detached mount. */
static int open_memory(const char *size)
{
    _cleanup_fd_ int context = sys_fsopen("tmpfs", 0);
    if (context < 0 || sys_fsconfig(context, SYS_FSCONFIG_SET_STRING, "mode", "755") < 0 ||
        sys_fsconfig(context, SYS_FSCONFIG_SET_STRING, "size", size) < 0 ||
        sys_fsconfig(context, SYS_FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
        return -1;
    return sys_fsmount(context, 0, SYS_MOUNT_NOSUID | SYS_MOUNT_NODEV);
}

/* What of the host goes into the root, opened under the names that we were given, before these names mean
 * something else. -1: there is no such folder. */
struct sources {
    int state, base;
    int toolbox[TOOLBOX_MAX];
    int proc, devices[DEVICES]; /* with GUEST_USERS */
};

/* One folder or file of the host as a detached mount, without what is mounted beneath it; in a user namespace
 * of our own the kernel won't uncover what that hides, and it comes along. It is made private: where the
 * host's mounts are shared, as systemd makes them, what we mount on a copy would be mounted on the original
 * too. -1 with errno: no such folder. */
static int open_source(const char *path, unsigned attributes)
{
    unsigned recursive = 0;
    int tree = sys_open_tree(AT_FDCWD, path, SYS_OPEN_TREE_CLONE | O_CLOEXEC);
    if (tree < 0 && errno == EINVAL) {
        recursive = SYS_AT_RECURSIVE;
        tree = sys_open_tree(AT_FDCWD, path, SYS_OPEN_TREE_CLONE | O_CLOEXEC | recursive);
    }
    if (tree < 0)
        return -1;
    const struct sys_mount_attr attr = {.attr_set = attributes, .propagation = MS_PRIVATE};
    if (sys_mount_setattr(tree, &attr, AT_EMPTY_PATH | recursive) == 0)
        return tree;
    int saved = errno;
    close(tree);
    errno = saved;
    return -1;
}

/* Attaches one at NAME beneath the working directory; there must be something to cover. */
static int attach_on(int tree, const char *name, struct guest_error *err)
{
    if (sys_move_mount(tree, AT_FDCWD, name) < 0)
        return report_at(err, "attach", name);
    return 0;
}

static int attach(int tree, const char *name, struct guest_error *err)
{
    if (mkdir(name, 0755) < 0 && errno != EEXIST)
        return report_at(err, "make", name);
    return attach_on(tree, name, err);
}

static int make_node(const char *path, unsigned i, struct guest_error *err)
{
    if (mknod(path, S_IFCHR, makedev(devices[i].major, devices[i].minor)) < 0 || chmod(path, 0666) < 0)
        return report_at(err, "make", path);
    return 0;
}

/* What only root of the machine can make is borrowed from it. */
static int borrow_node(const char *path, int node, struct guest_error *err)
{
    _cleanup_fd_ int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return file < 0 ? report_at(err, "make", path) : attach_on(node, path, err);
}

static int make_devices(const struct sources *sources, struct guest_error *err)
{
    if (mkdir("dev", 0755) < 0 ||
        mount("tmpfs", "dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64k") < 0)
        return report(err, "mount dev");
    char path[64];
    for (unsigned i = 0; i < DEVICES; i++) {
        snprintf(path, sizeof(path), "dev/%s", devices[i].name);
        if ((sources->proc < 0 ? make_node(path, i, err) : borrow_node(path, sources->devices[i], err)) < 0)
            return -1;
    }
    for (unsigned i = 0; i < ARRAY_LEN(device_links); i++) {
        snprintf(path, sizeof(path), "dev/%s", device_links[i].name);
        if (symlink(device_links[i].target, path) < 0)
            return report_at(err, "make", path);
    }
    if (mkdir("dev/pts", 0755) < 0 || mkdir("dev/shm", 0755) < 0)
        return report(err, "make dev");
    if (mount(NULL, "dev", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC, NULL) < 0)
        return report(err, "lock dev");
    return 0;
}

static void close_sources(struct sources *sources)
{
    sys_close_fd(&sources->state);
    sys_close_fd(&sources->base);
    for (unsigned i = 0; i < TOOLBOX_MAX; i++)
        sys_close_fd(&sources->toolbox[i]);
    sys_close_fd(&sources->proc);
    for (unsigned i = 0; i < DEVICES; i++)
        sys_close_fd(&sources->devices[i]);
}

static int open_toolbox(struct sources *ret, struct guest_error *err)
{
    for (unsigned i = 0; template_toolbox[i]; i++) {
        char path[16];
        struct stat st;
        snprintf(path, sizeof(path), "/%s", template_toolbox[i]);
        if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode))
            continue;
        ret->toolbox[i] = open_source(path, SYS_MOUNT_RDONLY | SYS_MOUNT_NOSUID | SYS_MOUNT_NODEV);
        if (ret->toolbox[i] < 0)
            return report_at(err, "open", path);
    }
    return 0;
}

static bool is_copied(const struct guest_setup *setup)
{
    return setup->flags & GUEST_USERS && !(setup->flags & (GUEST_ONE_ID | GUEST_ROOT_PLAIN));
}

static int open_borrowed(struct sources *ret, struct guest_error *err)
{
    ret->proc = open_source("/proc", 0);
    if (ret->proc < 0)
        return report_at(err, "open", "/proc");
    for (unsigned i = 0; i < DEVICES; i++) {
        char path[24];
        snprintf(path, sizeof(path), "/dev/%s", devices[i].name);
        ret->devices[i] = open_source(path, SYS_MOUNT_NOSUID);
        if (ret->devices[i] < 0)
            return report_at(err, "open", path);
    }
    return 0;
}

/* Nobody removes it as unused while we live, though our server may not: the descriptor stays open. */
static int lock_base(const char *base_dir)
{
    int fd = open(base_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -1 : flock(fd, LOCK_SH | LOCK_NB);
}

static int open_sources(const struct guest_setup *setup, struct sources *ret, struct guest_error *err)
{
    *ret = (struct sources){.state = -1, .base = -1, .proc = -1};
    for (unsigned i = 0; i < DEVICES; i++)
        ret->devices[i] = -1;
    for (unsigned i = 0; i < TOOLBOX_MAX; i++)
        ret->toolbox[i] = -1;
    ret->state = open_source(setup->state_dir, SYS_MOUNT_NOSUID | SYS_MOUNT_NODEV);
    if (ret->state < 0)
        return report_at(err, "open", setup->state_dir);
    if (is_copied(setup)) {
        ret->base = open_memory("64m");
        if (ret->base < 0)
            return report(err, "make base");
    } else if (setup->base_dir[0]) {
        ret->base = open_source(setup->base_dir, SYS_MOUNT_RDONLY | SYS_MOUNT_NOSUID | SYS_MOUNT_NODEV);
        if (ret->base < 0)
            return report_at(err, "open", setup->base_dir);
        if (setup->flags & GUEST_ROOT_TOOLBOX && lock_base(setup->base_dir) < 0)
            return report_at(err, "lock", setup->base_dir);
    }
    if (setup->flags & GUEST_USERS && open_borrowed(ret, err) < 0)
        return -1;
    return setup->flags & GUEST_ROOT_TOOLBOX ? open_toolbox(ret, err) : 0;
}

/* A bind of the toolbox takes what is mounted in it along: the mask costs a computer nothing. */
static int attach_toolbox(const struct sources *sources, struct guest_error *err)
{
    for (unsigned i = 0; template_toolbox[i]; i++)
        if (sources->toolbox[i] >= 0 && attach(sources->toolbox[i], template_toolbox[i], err) < 0)
            return -1;
    if (mount("tmpfs", "usr/local/etc", "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
              "size=4k,mode=755") < 0 &&
        errno != ENOENT)
        return report(err, "mask usr/local/etc");
    return 0;
}

/* A computer may mount its own /proc only where a complete one is already to be seen. Ours shows the
 * machine's processes, whose namespace belongs to root of the machine: who isn't that can't mount it anew. */
static int make_proc(const struct sources *sources, struct guest_error *err)
{
    if (sources->proc >= 0)
        return attach(sources->proc, "proc", err);
    if (mkdir("proc", 0755) < 0 || mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        return report(err, "mount proc");
    return 0;
}

static int fill_root(const struct guest_setup *setup, const struct sources *sources, struct guest_error *err)
{
    if (attach(sources->state, "state", err) < 0 ||
        (sources->base >= 0 && attach(sources->base, "base", err) < 0))
        return -1;
    if (setup->flags & GUEST_ROOT_TOOLBOX && attach_toolbox(sources, err) < 0)
        return -1;
    if (make_proc(sources, err) < 0)
        return -1;
    if (mkdir("lower", 0755) < 0 || mkdir("mnt", 0755) < 0 || mkdir("empty", 0755) < 0 ||
        mount("empty", "empty", NULL, MS_BIND, NULL) < 0 ||
        mount(NULL, "empty", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
              NULL) < 0)
        return report(err, "make root");
    return make_devices(sources, err);
}

/* The server may run in a chroot. The kernel refuses user namespaces there, and mounts can't be made private,
 * so we go to the true root of our mount namespace: above the root there is nothing but itself. */
static int leave_chroot(struct guest_error *err)
{
    struct stat here, above;
    _cleanup_fd_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 || chdir("/proc") < 0 || chroot(".") < 0 || fchdir(root) < 0)
        return report(err, "look above the root");
    do {
        if (stat(".", &here) < 0 || stat("..", &above) < 0 || chdir("..") < 0)
            return report(err, "look above the root");
    } while (here.st_dev != above.st_dev || here.st_ino != above.st_ino);
    return chroot(".") < 0 ? report(err, "go to the root") : 0;
}

/* An empty root, mounted on any folder: in this namespace nobody else sees it. It becomes the working
 * directory. */
static int mount_root(int on, struct guest_error *err)
{
    _cleanup_fd_ int root = open_memory("256k");
    if (root < 0)
        return report(err, "make root");
    if (sys_move_mount(root, on, "") < 0 || fchdir(root) < 0)
        return report(err, "mount root");
    return 0;
}

static int make_root(const struct guest_setup *setup, const struct sources *sources, struct guest_error *err)
{
    _cleanup_fd_ int on = open(setup->state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (on < 0)
        return report_at(err, "open", setup->state_dir);
    if (leave_chroot(err) < 0)
        return -1;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return report(err, "make mounts private");
    if (mount_root(on, err) < 0 || fill_root(setup, sources, err) < 0)
        return -1;
    if (sys_pivot_root(".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return report(err, "pivot");
    return 0;
}

int template_make(const struct guest_setup *setup, int *ret_base, struct guest_error *err)
{
    struct sources sources;
    int failed = open_sources(setup, &sources, err);
    if (failed == 0)
        failed = make_root(setup, &sources, err);
    *ret_base = -1;
    if (failed == 0 && is_copied(setup)) {
        *ret_base = sources.base;
        sources.base = -1;
    }
    close_sources(&sources);
    return failed;
}

int template_open_proc(void)
{
    _cleanup_fd_ int context = sys_fsopen("proc", 0);
    if (context < 0 || sys_fsconfig(context, SYS_FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
        return -1;
    return sys_fsmount(context, 0, SYS_MOUNT_NOSUID | SYS_MOUNT_NODEV | SYS_MOUNT_NOEXEC);
}

bool template_shows_proc(void)
{
    int status = -1;
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        _exit(template_open_proc() < 0);
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static void lower_path(unsigned slot, char *ret, size_t size)
{
    snprintf(ret, size, "/lower/%u", slot);
}

int template_attach_lower(unsigned slot, int user_namespace, struct guest_error *err)
{
    _cleanup_fd_ int tree = sys_open_tree(AT_FDCWD, "/base", SYS_OPEN_TREE_CLONE | O_CLOEXEC);
    if (tree < 0)
        return report(err, "open base");
    const struct sys_mount_attr attr = {.attr_set = SYS_MOUNT_IDMAP | SYS_MOUNT_RDONLY,
                                        .userns_fd = (uint64_t)user_namespace};
    if (sys_mount_setattr(tree, &attr, AT_EMPTY_PATH) < 0)
        return report(err, "idmap base");
    char path[24];
    lower_path(slot, path, sizeof(path));
    return attach(tree, path, err);
}

void template_detach_lower(unsigned slot)
{
    char path[24];
    lower_path(slot, path, sizeof(path));
    umount2(path, MNT_DETACH);
}
