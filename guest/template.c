#include "guest/template.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "guest/report.h"
#include "guest/sys.h"

/* Where /usr isn't merged the others are folders too; where it is, they are links, which the skeleton has. */
const char *const template_toolbox[] = {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", NULL};

static const struct {
    const char *name;
    unsigned major, minor;
} devices[] = {
    {"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
};

static const struct {
    const char *name, *target;
} device_links[] = {
    {"ptmx", "pts/ptmx"},          {"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"},
    {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
};

/* One folder of the host as a detached mount, without what is mounted beneath it. -1 with errno: no such
 * folder. */
static int open_folder(const char *path, unsigned attributes)
{
    int tree = sys_open_tree(AT_FDCWD, path, SYS_OPEN_TREE_CLONE | O_CLOEXEC);
    if (tree < 0)
        return -1;
    const struct sys_mount_attr attr = {.attr_set = attributes};
    if (sys_mount_setattr(tree, &attr, AT_EMPTY_PATH) == 0)
        return tree;
    int saved = errno;
    close(tree);
    errno = saved;
    return -1;
}

/* Attaches one at NAME beneath the working directory. */
static int attach(int tree, const char *name, struct guest_error *err)
{
    if (mkdir(name, 0755) < 0 && errno != EEXIST)
        return report_at(err, "make", name);
    if (sys_move_mount(tree, AT_FDCWD, name) < 0)
        return report_at(err, "attach", name);
    return 0;
}

static int make_devices(struct guest_error *err)
{
    if (mkdir("dev", 0755) < 0 ||
        mount("tmpfs", "dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64k") < 0)
        return report(err, "mount dev");
    char path[64];
    for (unsigned i = 0; i < ARRAY_LEN(devices); i++) {
        snprintf(path, sizeof(path), "dev/%s", devices[i].name);
        if (mknod(path, S_IFCHR, makedev(devices[i].major, devices[i].minor)) < 0 || chmod(path, 0666) < 0)
            return report_at(err, "make", path);
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

/* A bind of the toolbox takes what is mounted in it along: the mask costs a computer nothing. */
static int attach_toolbox(struct guest_error *err)
{
    for (const char *const *name = template_toolbox; *name; name++) {
        char path[16];
        struct stat st;
        snprintf(path, sizeof(path), "/%s", *name);
        if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode))
            continue;
        _cleanup_fd_ int tree = open_folder(path, SYS_MOUNT_RDONLY | SYS_MOUNT_NOSUID | SYS_MOUNT_NODEV);
        if (tree < 0)
            return report_at(err, "open", path);
        if (attach(tree, *name, err) < 0)
            return -1;
    }
    if (mount("tmpfs", "usr/local/etc", "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
              "size=4k,mode=755") < 0 &&
        errno != ENOENT)
        return report(err, "mask usr/local/etc");
    return 0;
}

static int fill_root(const struct guest_setup *setup, int state, int base, struct guest_error *err)
{
    if (attach(state, "state", err) < 0 || (base >= 0 && attach(base, "base", err) < 0))
        return -1;
    if (setup->flags & GUEST_ROOT_TOOLBOX && attach_toolbox(err) < 0)
        return -1;
    /* A computer may mount its own /proc only where a complete one is already to be seen. */
    if (mkdir("proc", 0755) < 0 || mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        return report(err, "mount proc");
    if (mkdir("lower", 0755) < 0 || mkdir("mnt", 0755) < 0 || mkdir("empty", 0755) < 0 ||
        mount("empty", "empty", NULL, MS_BIND, NULL) < 0 ||
        mount(NULL, "empty", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
              NULL) < 0)
        return report(err, "make root");
    return make_devices(err);
}

int template_make(const struct guest_setup *setup, struct guest_error *err)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return report(err, "make mounts private");
    _cleanup_fd_ int state = open_folder(setup->state_dir, SYS_MOUNT_NOSUID | SYS_MOUNT_NODEV);
    if (state < 0)
        return report(err, "open state folder");
    _cleanup_fd_ int base = -1;
    if (setup->base_dir[0]) {
        base = open_folder(setup->base_dir, SYS_MOUNT_RDONLY | SYS_MOUNT_NOSUID | SYS_MOUNT_NODEV);
        if (base < 0)
            return report(err, "open base folder");
    }
    /* Any folder will do to mount the new root on: in this namespace nobody else sees it. */
    if (mount("tmpfs", setup->state_dir, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=256k") < 0)
        return report(err, "mount root");
    if (chdir(setup->state_dir) < 0)
        return report(err, "enter root");
    if (fill_root(setup, state, base, err) < 0)
        return -1;
    if (sys_pivot_root(".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return report(err, "pivot");
    return 0;
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
    const struct sys_mount_attr attr = {.attr_set = SYS_MOUNT_IDMAP, .userns_fd = (uint64_t)user_namespace};
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
