/* The template is made once per server, in the state directory, since that is where images must work; it has
 * no name there, so it can't be left behind. To have it mounted once shows that images work here, and leaves
 * the layers' folders in every copy. */
#include "backends/native/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/native/loop.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/spawn.h"

#define IMAGE_NAME "disk"
#define MAKER "mkfs.ext4"
#define MAKER_MISSING MAKER " was not found: install e2fsprogs"
#define MAKER_FD 3
#define LAZINESS "-Elazy_itable_init=1,lazy_journal_init=1,nodiscard"
#define MAKER_TIMEOUT_NS (10 * NSEC_PER_SEC)
#define BYTES_PER_FILE 8192 /* of the cap: a file's share, in mean */
#define FILES_MAX (INT64_C(16) << 20)
#define FULL_BYTES 65536 /* less than this is left: what failed for want of room may have left some */
#define COPY_BYTES 65536

/* Of <linux/ext4.h>, which is newer than the headers of Debian 12. */
#define EXT4_IOC_SHUTDOWN _IOR('X', 125, uint32_t)
#define EXT4_GOING_FLAGS_NOLOGFLUSH 2U

/* --- making images --- */

/* Administrators' programs may be missing from the PATH that we were started with. */
static char *find_maker(void)
{
    char *path = spawn_find(MAKER);
    if (!path && access("/usr/sbin/" MAKER, X_OK) == 0)
        path = xstrdup("/usr/sbin/" MAKER);
    if (!path && access("/sbin/" MAKER, X_OK) == 0)
        path = xstrdup("/sbin/" MAKER);
    return path;
}

static int await_maker(pid_t pid, int pidfd, struct error *err)
{
    struct wait wait = {.deadline = clock_now() + MAKER_TIMEOUT_NS};
    int status;
    if (wait_fd(pidfd, POLLIN, &wait, NULL, NULL) < 0)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return error_errno(err, ERR_UNAVAILABLE, errno, "wait for " MAKER);
    if (WIFSIGNALED(status))
        return error_set(err, ERR_UNAVAILABLE, MAKER " was ended by signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status) != 0)
        return error_set(err, ERR_UNAVAILABLE, MAKER " failed with exit code %d", WEXITSTATUS(status));
    return 0;
}

/* With a small journal, for what is permanent: a machine that stops at once must not cost it its files. */
static int run_maker(int image, int64_t files, struct error *err)
{
    _cleanup_(cleanup_free) char *path = find_maker();
    if (!path)
        return error_set(err, ERR_UNAVAILABLE, MAKER_MISSING);
    char count[24], target[32];
    snprintf(count, sizeof(count), "%lld", (long long)files);
    snprintf(target, sizeof(target), "/proc/self/fd/%d", MAKER_FD);
    const char *const argv[] = {MAKER,    "-qF", "-b4096", "-m0",  "-Jsize=4", "-O^resize_inode",
                                LAZINESS, "-N",  count,    target, NULL};
    const int fds[] = {-1, -1, -1, image};
    const struct spawn_request request = {
        .path = path, .argv = (char *const *)argv, .fds = fds, .fd_count = MAKER_FD + 1};
    pid_t pid;
    int pidfd;
    if (spawn(&request, &pid, &pidfd, err) < 0)
        return -1;
    int result = await_maker(pid, pidfd, err);
    fd_close(pidfd);
    return result;
}

static int make_layers(int root, struct error *err)
{
    static const char *const layers[] = {"upper", "work"};
    for (size_t i = 0; i < ARRAY_LEN(layers); i++)
        if (mkdirat(root, layers[i], 0755) < 0 || fchmodat(root, layers[i], 0755, 0) < 0)
            return error_errno(err, ERR_UNAVAILABLE, errno, "make the folder %s in an image", layers[i]);
    return fchmodat(root, ".", 0700, 0) == 0 ? 0 : error_errno(err, ERR_UNAVAILABLE, errno, "close an image");
}

static int make_template(const struct disks *d, const char *state_dir, struct error *err)
{
    const struct wait wait = {.deadline = DEADLINE_NONE};
    _cleanup_fd_ int image = open(state_dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (image < 0 || ftruncate(image, d->limit.bytes) < 0)
        return errno == EFBIG
                   ? error_set(err, ERR_UNAVAILABLE,
                               "%lld bytes are more than a file can have in the state directory",
                               (long long)d->limit.bytes)
                   : error_errno(err, ERR_UNAVAILABLE, errno, "make an image in the state directory");
    if (run_maker(image, d->limit.files, err) < 0)
        return -1;
    /* Through a descriptor of its own, which has the lock: that shows when all is written. */
    char self[32];
    snprintf(self, sizeof(self), "/proc/self/fd/%d", image);
    int mounted = open(self, O_RDWR | O_CLOEXEC);
    if (mounted < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "open an image in the state directory");
    int root = loop_lock(mounted, &wait, err) < 0 ? -1 : loop_mount(mounted, err);
    fd_close(mounted);
    int result = root < 0 ? -1 : make_layers(root, err);
    fd_close(root);
    if (result < 0 || loop_lock(image, &wait, err) < 0)
        return -1;
    if (lseek(image, 0, SEEK_HOLE) >= d->limit.bytes)
        return error_set(err, ERR_UNAVAILABLE, "the file system of %s has no sparse files", state_dir);
    return TAKE_FD(image);
}

/* By several threads at once: nothing here depends on the template's own offset. */
static int copy_sparse(int from, int to, off_t size)
{
    static const size_t chunk_size = COPY_BYTES;
    _cleanup_(cleanup_free) char *chunk = xmalloc(chunk_size);
    if (ioctl(to, FICLONE, from) == 0)
        return 0;
    if (ftruncate(to, size) < 0)
        return -1;
    for (off_t at = 0; (at = lseek(from, at, SEEK_DATA)) >= 0;) {
        off_t end = lseek(from, at, SEEK_HOLE);
        if (end < 0)
            return -1;
        while (at < end) {
            size_t wanted = (size_t)(end - at) < chunk_size ? (size_t)(end - at) : chunk_size;
            ssize_t n = pread(from, chunk, wanted, at);
            if (n > 0)
                n = pwrite(to, chunk, (size_t)n, at); /* the next one tells why it took less */
            if (n <= 0)
                return -1;
            at += n;
        }
    }
    return errno == ENXIO ? 0 : -1; /* no data beyond */
}

int disk_make_image(const struct disks *d, int dirfd, struct error *err)
{
    _cleanup_fd_ int fd = openat(dirfd, IMAGE_NAME, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno == EEXIST ? 0 : error_errno(err, ERR_UNAVAILABLE, errno, "make the computer's disk");
    if (copy_sparse(d->template, fd, d->limit.bytes) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "fill the computer's disk");
    return 0;
}

/* --- the way of a backend --- */

static const char *what_is_missing(void)
{
    _cleanup_(cleanup_free) char *maker = find_maker();
    if (geteuid() != 0)
        return "only root of the machine can mount an image for each computer";
    if (access(LOOP_CONTROL, R_OK | W_OK) < 0)
        return "there are no loop devices";
    return maker ? NULL : MAKER_MISSING;
}

bool disks_may_be_images(void)
{
    return !what_is_missing();
}

static void only_watch(struct disks *d, const char *why)
{
    d->way = DISK_WATCHED;
    snprintf(d->why, sizeof(d->why), "%.255s", why);
}

void disks_foresee(struct disks *d, int64_t bytes)
{
    *d = (struct disks)DISKS_NONE;
    if (bytes == 0)
        return;
    int64_t files = bytes / BYTES_PER_FILE;
    d->limit = (struct usage){.bytes = bytes, .files = files < FILES_MAX ? files : FILES_MAX};
    d->way = DISK_IMAGE;
    const char *missing = what_is_missing();
    if (missing)
        only_watch(d, missing);
}

void disks_give_up(struct disks *d, const char *why)
{
    if (d->way != DISK_WATCHED)
        return;
    d->way = DISK_NONE;
    snprintf(d->why, sizeof(d->why), "%.255s", why);
}

void disks_prepare(struct disks *d, const char *state_dir, const char *no_image)
{
    struct error why = ERROR_INIT;
    if (d->way != DISK_IMAGE)
        return;
    if (no_image)
        only_watch(d, no_image);
    else if ((d->template = make_template(d, state_dir, &why)) < 0)
        only_watch(d, why.msg);
}

void disks_done(struct disks *d)
{
    d->template = fd_close(d->template);
}

/* --- one computer's --- */

struct disk disk_planned(const struct disks *d)
{
    return (struct disk){.way = d->way, .limit = d->limit, .fd = -1};
}

void disk_close(struct disk *d)
{
    d->fd = fd_close(d->fd);
}

void disk_throw_away(const struct disk *d)
{
    uint32_t how = EXT4_GOING_FLAGS_NOLOGFLUSH;
    if (d->fd < 0)
        return;
    _cleanup_fd_ int fd = openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ioctl(fd, EXT4_IOC_SHUTDOWN, &how); /* else it takes longer */
}

int disk_has_image(int dirfd, struct error *err)
{
    struct stat st;
    if (fstatat(dirfd, IMAGE_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return S_ISREG(st.st_mode);
    return errno == ENOENT ? 0 : error_errno(err, ERR_UNAVAILABLE, errno, "look at the computer's disk");
}

int disk_open_image(int dirfd, const struct wait *wait, struct disk *ret, struct error *err)
{
    struct stat st;
    struct statfs fs;
    _cleanup_fd_ int image = openat(dirfd, IMAGE_NAME, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (image < 0 || fstat(image, &st) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "open the computer's disk");
    if (loop_lock(image, wait, err) < 0)
        return -1;
    _cleanup_fd_ int root = loop_mount(image, err);
    if (root < 0)
        return -1;
    if (fstatfs(root, &fs) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "look at the computer's disk");
    *ret = (struct disk){
        .way = DISK_IMAGE,
        .limit = {.bytes = st.st_size, .files = (int64_t)fs.f_files},
        .fd = TAKE_FD(root),
    };
    return 0;
}

int disk_resume(int root, uint64_t device, struct disk *ret, struct error *err)
{
    struct disk disk = {.way = DISK_IMAGE, .limit = ret->limit, .fd = root};
    if (disk_device(&disk) == device) {
        *ret = disk;
        return 0;
    }
    disk_close(&disk);
    return error_set(err, ERR_UNAVAILABLE, "the computer's disk is not the one that its record says");
}

uint64_t disk_device(const struct disk *d)
{
    struct stat st;
    return d->fd >= 0 && fstat(d->fd, &st) == 0 ? st.st_dev : 0;
}

bool disk_is_full(const struct disk *d)
{
    struct statfs fs;
    if (d->fd < 0 || fstatfs(d->fd, &fs) < 0)
        return false;
    return fs.f_ffree == 0 || fs.f_bavail * (uint64_t)fs.f_bsize < FULL_BYTES;
}
