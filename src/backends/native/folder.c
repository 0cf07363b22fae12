/* A folder is moved aside before it is deleted, so that a computer of the same name can be made again at
 * once, and a crash in between leaves nothing that looks like a computer. */
#include "backends/native/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/native/copy.h"
#include "base/fd.h"
#include "base/mem.h"
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

int folder_prepare(const char *folder, struct error *err)
{
    _cleanup_fd_ int parent = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "open %s", folder);
    return make_layers(parent, AHEAD_NAME, 0, err);
}

/* 1: they were made ahead, and are the computer's now. */
static int take_layers(int parent, uint32_t id, struct error *err)
{
    if (renameat(parent, AHEAD_NAME, parent, "native") < 0)
        return errno == ENOENT ? 0 : error_errno(err, ERR_UNAVAILABLE, errno, "rename " AHEAD_NAME);
    for (size_t i = 0; i < ARRAY_LEN(layers); i++) {
        char path[32];
        snprintf(path, sizeof(path), "native/%s", layers[i]);
        if (fchownat(parent, path, id, id, AT_SYMLINK_NOFOLLOW) < 0)
            return error_errno(err, ERR_UNAVAILABLE, errno, "give %s to the computer's root", path);
    }
    return fchownat(parent, "native", id, id, AT_SYMLINK_NOFOLLOW) == 0
               ? 1
               : error_errno(err, ERR_UNAVAILABLE, errno, "give native to the computer's root");
}

int folder_make(const char *folder, uint32_t id_base, const char *plain_from, struct error *err)
{
    _cleanup_fd_ int parent = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "open the computer's folder %s", folder);
    /* What an earlier computer left there must not come alive again. */
    if (faccessat(parent, "native", F_OK, AT_SYMLINK_NOFOLLOW) == 0 && folder_remove(folder, err) < 0)
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
    return make_owned(fd, "root", 0755, id_base, err) < 0 ? -1
                                                          : copy_tree(plain_from, fd, "root", id_base, err);
}

int folder_check(const char *folder, bool plain, struct error *err)
{
    struct stat st;
    const char *const names[] = {plain ? "root" : "upper", plain ? "root" : "work"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        _cleanup_(cleanup_free) char *path = xasprintf("%s/native/%s", folder, names[i]);
        bool there = lstat(path, &st) == 0;
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
    return remove_trash(parent, err);
}
