/* A walk over a tree that somebody hostile may have filled. It goes DEPTH_MAX folders deep, each with one
 * descriptor; what lies deeper is moved up to the top under a new name and met again there, which doesn't
 * matter to who wants to remove it (nothing else is so deep). A folder changes its owner when all beneath it
 * has: one that has its new owner is done. */
#include "guest/owner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "guest/report.h"
#include "guest/sys.h"

#define DEPTH_MAX 16

struct walk {
    uint32_t id;
    int top;
    unsigned moved;
};

static int open_folder(int dir, const char *name)
{
    const struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    };
    return sys_openat2(dir, name, &how);
}

static int move_up(struct walk *walk, int dir, const char *name)
{
    char unique[32];
    do {
        snprintf(unique, sizeof(unique), GUEST_DEEP_PREFIX "%u", walk->moved++);
        if (syscall(SYS_renameat2, dir, name, walk->top, unique, 1 /* RENAME_NOREPLACE */) == 0)
            return 0;
    } while (errno == EEXIST);
    return -1;
}

static int change_folder(struct walk *walk, int parent, const char *name, unsigned depth);

static int change_entry(struct walk *walk, int dir, const struct dirent *entry, unsigned depth)
{
    if (entry->d_type != DT_DIR)
        return fchownat(dir, entry->d_name, walk->id, walk->id, AT_SYMLINK_NOFOLLOW);
    return depth == DEPTH_MAX ? move_up(walk, dir, entry->d_name)
                              : change_folder(walk, dir, entry->d_name, depth + 1);
}

static int change_entries(struct walk *walk, DIR *dir, unsigned depth)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry)
            return errno ? -1 : 0;
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            change_entry(walk, dirfd(dir), entry, depth) < 0)
            return -1;
    }
}

static int change_folder(struct walk *walk, int parent, const char *name, unsigned depth)
{
    struct stat st;
    int fd = open_folder(parent, name);
    if (fd < 0)
        return -1;
    DIR *dir = fdopendir(fd);
    if (!dir)
        return sys_close(fd);
    int failed = fstat(fd, &st);
    if (!failed && st.st_uid != walk->id)
        failed = change_entries(walk, dir, depth) < 0 ? -1 : fchown(fd, walk->id, walk->id);
    int saved = errno;
    closedir(dir);
    errno = saved;
    return failed;
}

/* The top is looked at again as long as something came up. */
static int change_top(struct walk *walk)
{
    unsigned before;
    int fd = open_folder(walk->top, ".");
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return -1;
    int failed;
    do {
        before = walk->moved;
        rewinddir(dir);
        failed = change_entries(walk, dir, 0);
    } while (!failed && walk->moved != before);
    int saved = errno;
    closedir(dir);
    errno = saved;
    return failed;
}

int owner_change(const struct guest_own *own, struct guest_error *err)
{
    const struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    _cleanup_fd_ int state = open("/state", O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_fd_ int top = sys_openat2(state, own->folder, &how);
    if (top < 0)
        return report(err, "open folder");
    struct walk walk = {.id = own->id, .top = top};
    if (change_top(&walk) < 0 || fchownat(top, "", own->id, own->id, AT_EMPTY_PATH) < 0)
        return report(err, "change owners");
    return 0;
}
