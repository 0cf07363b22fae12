/* Nothing of the computer runs yet while its tree is built, so no path can change under us. But what an
 * earlier life of a computer left in its root is hostile: a name at its top that we mount on must be a
 * folder, never a link. */
#include "guest/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "guest/report.h"
#include "guest/sys.h"
#include "guest/template.h"

enum mask { MASK_FILE, MASK_FOLDER, MASK_READ_ONLY };

/* What of /proc isn't the computer's own: hidden, or not to be changed. Absent ones are skipped. */
static const struct {
    const char *path;
    enum mask mask;
} masks[] = {
    {"proc/kcore", MASK_FILE},         {"proc/keys", MASK_FILE},
    {"proc/key-users", MASK_FILE},     {"proc/kmsg", MASK_FILE},
    {"proc/timer_list", MASK_FILE},    {"proc/sched_debug", MASK_FILE},
    {"proc/latency_stats", MASK_FILE}, {"proc/interrupts", MASK_FILE},
    {"proc/acpi", MASK_FOLDER},        {"proc/scsi", MASK_FOLDER},
    {"proc/asound", MASK_FOLDER},      {"proc/sys", MASK_READ_ONLY},
    {"proc/irq", MASK_READ_ONLY},      {"proc/bus", MASK_READ_ONLY},
    {"proc/fs", MASK_READ_ONLY},       {"proc/sysrq-trigger", MASK_READ_ONLY},
};

/* The kernel gives a namespace no more of /proc than its maker sees. Where that isn't all (in containers),
 * these are what there is: they tell of the machine and of no process. */
static const char *const proc_files[] = {"cpuinfo", "filesystems", "loadavg", "meminfo",
                                         "stat",    "uptime",      "version"};

static int mount_overlay(uint32_t root_flags, unsigned slot, struct guest_error *err)
{
    char lower[24] = "/base", options[96];
    if (!(root_flags & GUEST_ONE_ID))
        snprintf(lower, sizeof(lower), "/lower/%u", slot);
    snprintf(options, sizeof(options), "lowerdir=%s,upperdir=upper,workdir=work,userxattr", lower);
    if (mount("overlay", "/mnt", "overlay", MS_NODEV | MS_NOSUID, options) < 0)
        return report(err, "mount overlay");
    if (chdir("/mnt") < 0)
        return report(err, "enter root");
    return 0;
}

static int bind_plain(struct guest_error *err)
{
    if (mount("root", "root", NULL, MS_BIND, NULL) < 0)
        return report(err, "bind root");
    if (chdir("root") < 0)
        return report(err, "enter root");
    return 0;
}

static int make_folder(const char *name, struct guest_error *err)
{
    struct stat st;
    if (lstat(name, &st) < 0)
        return errno == ENOENT && mkdir(name, 0755) == 0 ? 0 : report_at(err, "make", name);
    if (!S_ISDIR(st.st_mode)) {
        errno = ENOTDIR;
        return report_at(err, "make", name);
    }
    return 0;
}

static int bind_toolbox(struct guest_error *err)
{
    for (const char *const *name = template_toolbox; *name; name++) {
        char source[16];
        snprintf(source, sizeof(source), "/%s", *name);
        if (access(source, F_OK) < 0)
            continue;
        if (make_folder(*name, err) < 0)
            return -1;
        if (mount(source, *name, NULL, MS_BIND | MS_REC, NULL) < 0)
            return report_at(err, "bind", *name);
    }
    return 0;
}

/* All terminals of the machine come out of one number, 4096: no computer gets them all. */
static int mount_dev(uint32_t root_flags, uint64_t shm_bytes, struct guest_error *err)
{
    char options[80];
    const char *pts = root_flags & GUEST_ONE_ID ? "newinstance,ptmxmode=0666,mode=620,max=256"
                                                : "newinstance,ptmxmode=0666,mode=620,max=256,gid=5";
    snprintf(options, sizeof(options), "size=%" PRIu64 ",nr_inodes=16384,mode=1777", shm_bytes);
    /* The nodes may be mounts of their own: see template.c. */
    if (mount("/dev", "dev", NULL, MS_BIND | MS_REC, NULL) < 0)
        return report(err, "bind dev");
    if (mount("devpts", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, pts) < 0)
        return report(err, "mount dev/pts");
    if (mount("shm", "dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, options) < 0)
        return report(err, "mount dev/shm");
    return 0;
}

static int lock_read_only(const char *path)
{
    if (mount(path, path, NULL, MS_BIND, NULL) < 0)
        return -1;
    return mount(NULL, path, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

static int mask_proc(struct guest_error *err)
{
    for (unsigned i = 0; i < ARRAY_LEN(masks); i++) {
        const char *path = masks[i].path;
        int failed;
        if (masks[i].mask == MASK_READ_ONLY)
            failed = lock_read_only(path);
        else
            failed = mount(masks[i].mask == MASK_FILE ? "/dev/null" : "/empty", path, NULL, MS_BIND, NULL);
        if (failed && errno != ENOENT)
            return report_at(err, "mask", path);
    }
    return 0;
}

static int mount_proc(struct guest_error *err)
{
    if (mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        return report(err, "mount proc");
    return mask_proc(err);
}

/* What has a part of it hidden on top is never bound as a whole: nobody would see that it is another's. */
static int imitate_proc(struct guest_error *err)
{
    const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
    if (mount("proc", "proc", "tmpfs", flags, "size=16k,mode=555") < 0)
        return report(err, "mount proc");
    for (unsigned i = 0; i < ARRAY_LEN(proc_files); i++) {
        char source[32], target[32];
        snprintf(source, sizeof(source), "/proc/%s", proc_files[i]);
        snprintf(target, sizeof(target), "proc/%s", proc_files[i]);
        if (access(source, R_OK) < 0)
            continue;
        _cleanup_fd_ int file = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
        if (file < 0 || mount(source, target, NULL, MS_BIND, NULL) < 0 ||
            mount(NULL, target, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | flags, NULL) < 0)
            return report_at(err, "show", target);
    }
    if (mount(NULL, "proc", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | flags, NULL) < 0)
        return report(err, "lock proc");
    return 0;
}

int tree_make(uint32_t root_flags, unsigned slot, uint64_t shm_bytes, struct guest_error *err)
{
    if ((root_flags & GUEST_ROOT_PLAIN ? bind_plain(err) : mount_overlay(root_flags, slot, err)) < 0)
        return -1;
    if (make_folder("proc", err) < 0 || make_folder("dev", err) < 0)
        return -1;
    if (root_flags & GUEST_ROOT_TOOLBOX && bind_toolbox(err) < 0)
        return -1;
    if ((root_flags & GUEST_PROC_HIDDEN ? imitate_proc(err) : mount_proc(err)) < 0)
        return -1;
    if (mount_dev(root_flags, shm_bytes, err) < 0)
        return -1;
    if (sys_pivot_root(".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return report(err, "pivot");
    return 0;
}
