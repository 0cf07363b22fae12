/* Removal of a tree that somebody hostile has filled.
 *
 * Recursion goes DEPTH_MAX folders deep, each with one descriptor. What lies deeper is moved up, to the top
 * of the tree under a new name, and met again there: any depth takes the same memory and descriptors, and
 * each folder is moved at most once per DEPTH_MAX levels. Folders are opened with openat2(2), which refuses
 * links and mounts, and files are unlinked relative to such a folder, so that nothing outside can be reached.
 */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/random.h"

#define DEPTH_MAX 16

static int open_folder_flags(int dirfd, const char *name, int flags)
{
    struct open_how how = {
        .flags = (unsigned)(flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    return (int)syscall(SYS_openat2, dirfd, name, &how, sizeof(how));
}

/* Opens a folder for reading and makes sure that its owner may empty it. */
static int open_folder(int dirfd, const char *name)
{
    struct stat st;
    int fd = open_folder_flags(dirfd, name, O_RDONLY);
    if (fd >= 0) {
        if (fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700)
            fchmod(fd, 0700);
        return fd;
    }
    if (errno != EACCES)
        return -1;
    /* Unreadable: its mode can only be changed through an O_PATH descriptor, which fchmod(2) doesn't take. */
    _cleanup_fd_ int handle = open_folder_flags(dirfd, name, O_PATH);
    char self[32];
    snprintf(self, sizeof(self), "/proc/self/fd/%d", handle);
    if (handle < 0 || chmod(self, 0700) < 0)
        return -1;
    return openat(handle, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int remove_folder(int top, int dirfd, const char *name, int depth);

/* Moves a folder that lies too deep to the top of the tree. */
static int move_up(int top, int dirfd, const char *name)
{
    char unique[RANDOM_HEX_SIZE(16)];
    random_hex(unique, 16);
    return renameat(dirfd, name, top, unique);
}

static int remove_entry(int top, int dirfd, const struct dirent *entry, int depth)
{
    if (entry->d_type != DT_DIR) {
        if (unlinkat(dirfd, entry->d_name, 0) == 0 || errno == ENOENT)
            return 0;
        if (errno != EISDIR)
            return -1;
    }
    if (depth == DEPTH_MAX)
        return move_up(top, dirfd, entry->d_name);
    return remove_folder(top, dirfd, entry->d_name, depth);
}

/* Removes what one pass over the folder shows. 1: there was something, 0: nothing, -1: it failed. */
static int empty_once(int top, DIR *dir, int depth)
{
    int found = 0;
    rewinddir(dir);
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry)
            return errno ? -1 : found;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (remove_entry(top, dirfd(dir), entry, depth) < 0)
            return -1;
        found = 1;
    }
}

/* top: the uppermost folder of the tree; -1: it is this one. */
static int remove_folder(int top, int parent, const char *name, int depth)
{
    _cleanup_fd_ int fd = open_folder(parent, name);
    if (fd < 0)
        return errno == ENOENT ? 0 : -1;
    _cleanup_(cleanup_closedir) DIR *dir = fdopendir(fd);
    if (!dir)
        return -1;
    TAKE_FD(fd);

    /* Names may come while we read: what was moved up, and what a file system skips when others are removed.
     */
    for (;;) {
        int found = empty_once(top < 0 ? dirfd(dir) : top, dir, depth + 1);
        if (found < 0)
            return -1;
        if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
            return 0;
        if ((errno != ENOTEMPTY && errno != EEXIST) || found == 0)
            return -1;
    }
}

int tree_remove(int dirfd, const char *name, struct error *err)
{
    /* The way to the tree is the caller's and trusted; the tree is not. */
    const char *slash = strrchr(name, '/');
    _cleanup_(cleanup_free) char *above = slash ? xstrndup(name, (size_t)(slash - name) + 1) : xstrdup(".");
    const char *base = slash ? slash + 1 : name;
    if (!*base || strcmp(base, ".") == 0 || strcmp(base, "..") == 0)
        return error_set(err, ERR_INVALID, "remove %s: the path must end in a name", name);
    _cleanup_fd_ int parent = openat(dirfd, above, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0 && errno == ENOENT)
        return 0;
    if (parent < 0)
        return error_errno(err, error_code_of_errno(errno), errno, "remove %s", name);

    if (unlinkat(parent, base, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR)
        return error_errno(err, error_code_of_errno(errno), errno, "remove %s", name);
    if (remove_folder(-1, parent, base, 0) == 0)
        return 0;
    if (errno == EXDEV || errno == EBUSY)
        return error_errno(err, ERR_BUSY, errno, "remove %s: something is mounted there; unmount it first",
                           name);
    return error_errno(err, error_code_of_errno(errno), errno, "remove %s", name);
}
