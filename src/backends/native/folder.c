/* A folder is moved aside before it is deleted, so that a computer of the same name can be made again at
 * once, and a crash in between leaves nothing that looks like a computer. */
#include "backends/native/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/backend.h"
#include "backends/native/copy.h"
#include "backends/native/ids.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/str.h"

#define TRASH_PREFIX "native-trash"
#define AHEAD_NAME "native-ahead" /* "native" of a computer that is yet to come */

static const char *const layers[] = {"upper", "work"};

static int make_owned(int dirfd, const char *name, mode_t mode, uint32_t id, struct error *err)
{
    if (mkdirat(dirfd, name, mode) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "make the folder %s of the computer", name);
    if (fchmodat(dirfd, name, mode, 0) < 0) /* whatever the umask */
        return error_errno(err, ERR_UNAVAILABLE, errno, "set the mode of the folder %s", name);
    if (fchownat(dirfd, name, id, id, AT_SYMLINK_NOFOLLOW) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "give the folder %s to the computer's root", name);
    return 0;
}

/* Those of overlayfs. The id they belong to may not be known yet. */
static int make_layers(int parent, const char *name, uint32_t id, struct error *err)
{
    if (make_owned(parent, name, 0700, id, err) < 0)
        return -1;
    _cleanup_fd_ int fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "open %s", name);
    for (size_t i = 0; i < ARRAY_LEN(layers); i++)
        if (make_owned(fd, layers[i], 0755, id, err) < 0)
            return -1;
    return 0;
}

/* NAME with an image in it. */
static int make_image(int parent, const char *name, const struct disks *disks, struct error *err)
{
    if (mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
        return error_errno(err, ERR_UNAVAILABLE, errno, "make the folder %s of the computer", name);
    _cleanup_fd_ int fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "open %s", name);
    return disk_make_image(disks, fd, err);
}

int folder_prepare(const char *folder, const struct disks *disks, struct error *err)
{
    _cleanup_fd_ int parent = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "open %s", folder);
    return disks->way == DISK_IMAGE ? make_image(parent, AHEAD_NAME, disks, err)
                                    : make_layers(parent, AHEAD_NAME, ID_OURS, err);
}

/* Those beneath fd, and fd itself. */
static int give_layers(int fd, uint32_t id, struct error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(layers); i++)
        if (fchownat(fd, layers[i], id, id, AT_SYMLINK_NOFOLLOW) < 0)
            return error_errno(err, ERR_UNAVAILABLE, errno, "give %s to the computer's root", layers[i]);
    return fchownat(fd, "", id, id, AT_EMPTY_PATH) == 0
               ? 0
               : error_errno(err, ERR_UNAVAILABLE, errno, "give native to the computer's root");
}

/* 1: what was made ahead is the computer's now. */
static int take_ahead(int parent, struct error *err)
{
    if (renameat(parent, AHEAD_NAME, parent, "native") == 0)
        return 1;
    return errno == ENOENT ? 0 : error_errno(err, ERR_UNAVAILABLE, errno, "rename " AHEAD_NAME);
}

static int take_layers(int parent, uint32_t id, struct error *err)
{
    int taken = take_ahead(parent, err);
    if (taken <= 0)
        return taken;
    _cleanup_fd_ int fd = openat(parent, "native", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "open native");
    return give_layers(fd, id, err) < 0 ? -1 : 1;
}

/* The computer's folder, without what an earlier computer left there: that must not come alive again. */
static int open_for_new(const char *folder, struct error *err)
{
    _cleanup_fd_ int parent = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "open the computer's folder %s", folder);
    if (faccessat(parent, "native", F_OK, AT_SYMLINK_NOFOLLOW) == 0 && folder_remove(folder, err) < 0)
        return -1;
    return TAKE_FD(parent);
}

static int make_plain(int fd, uint32_t id_base, const char *from, struct error *err)
{
    return make_owned(fd, "root", 0755, id_base, err) < 0 ? -1 : copy_tree(from, fd, "root", id_base, err);
}

static int make_files(const char *folder, uint32_t id_base, const char *plain_from, struct error *err)
{
    _cleanup_fd_ int parent = open_for_new(folder, err);
    if (parent < 0)
        return -1;
    if (!plain_from) {
        int taken = take_layers(parent, id_base, err);
        return taken == 0 ? make_layers(parent, "native", id_base, err) : taken < 0 ? -1 : 0;
    }
    if (make_owned(parent, "native", 0700, id_base, err) < 0)
        return -1;
    _cleanup_fd_ int fd = openat(parent, "native", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "open %s/native", folder);
    return make_plain(fd, id_base, plain_from, err);
}

int folder_make(const char *folder, uint32_t id_base, const char *plain_from, struct error *err)
{
    if (make_files(folder, id_base, plain_from, err) == 0)
        return 0;
    backend_tell_full(err);
    return -1;
}

static int open_native(const char *folder, struct error *err)
{
    _cleanup_(cleanup_free) char *path = path_join(folder, "native");
    int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    bool lost = errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
    return error_errno(err, lost ? ERR_GONE : ERR_UNAVAILABLE, errno, "open %s", path);
}

int folder_make_image(const char *folder, uint32_t id_base, const char *plain_from, const struct disks *disks,
                      const struct wait *wait, struct disk *ret_disk, struct error *err)
{
    _cleanup_fd_ int parent = open_for_new(folder, err);
    if (parent < 0 || take_ahead(parent, err) < 0 || make_image(parent, "native", disks, err) < 0) {
        backend_tell_full(err);
        return -1;
    }
    struct disk disk;
    if (folder_open_image(folder, wait, &disk, err) < 0)
        return -1;
    if (give_layers(disk.fd, id_base, err) < 0 ||
        (plain_from && make_plain(disk.fd, id_base, plain_from, err) < 0)) {
        disk_close(&disk);
        return -1;
    }
    *ret_disk = disk;
    return 0;
}

int folder_has_image(const char *folder, struct error *err)
{
    struct error why = ERROR_INIT;
    _cleanup_fd_ int fd = open_native(folder, &why);
    if (fd >= 0)
        return disk_has_image(fd, err);
    return why.code == ERR_GONE ? 0 : error_set(err, why.code, "%s", why.msg);
}

int folder_open_image(const char *folder, const struct wait *wait, struct disk *ret_disk, struct error *err)
{
    _cleanup_fd_ int fd = open_native(folder, err);
    if (fd < 0)
        return -1;
    return disk_open_image(fd, wait, ret_disk, err) == 0 ? 0 : error_prefix(err, "%s/native/disk", folder);
}

int folder_check(const char *folder, bool plain, struct error *err)
{
    struct stat st;
    const char *const names[] = {plain ? "root" : "upper", plain ? "root" : "work"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        _cleanup_(cleanup_free) char *path = xasprintf("%s/native/%s", folder, names[i]);
        bool there = lstat(path, &st) == 0;
        if (!there && errno == EACCES) /* the computer's alone to look into: it is there */
            continue;
        if (!there && errno != ENOENT && errno != ENOTDIR) /* a sick disk has lost nothing yet */
            return error_errno(err, ERR_UNAVAILABLE, errno, "look at %s", path);
        if (!there || !S_ISDIR(st.st_mode))
            return error_set(err, ERR_GONE, "the computer's files are lost: %s is missing", path);
    }
    return 0;
}

/* Also what an earlier removal left when it was interrupted. */
static int remove_trash(int parent, struct error *err)
{
    int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        int saved = errno;
        fd_close(fd);
        return error_errno(err, ERR_UNAVAILABLE, saved, "list the computer's folder");
    }
    int result = 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        if (str_has_prefix(e->d_name, TRASH_PREFIX) && tree_remove(parent, e->d_name, err) < 0)
            result = -1;
    closedir(dir);
    return result;
}

int folder_remove(const char *folder, struct error *err)
{
    _cleanup_fd_ int parent = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0)
        return errno == ENOENT ? 0 : error_errno(err, ERR_UNAVAILABLE, errno, "open %s", folder);
    if (renameat(parent, "native", parent, TRASH_PREFIX) < 0 && errno != ENOENT &&
        tree_remove(parent, "native", err) < 0) /* an older one is in the way */
        return -1;
    FAULT_POINT("end.files-aside");
    return tree_remove(parent, AHEAD_NAME, err) < 0 ? -1 : remove_trash(parent, err);
}
