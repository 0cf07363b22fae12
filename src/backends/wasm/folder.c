/* See folder.h. A folder is moved aside before it is deleted, so that a crash in between leaves nothing that
 * looks like a computer. */
#include "backends/wasm/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/mem.h"

#define TRASH "wasm-trash"
#define SPOOL "tmp/command-output"
#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

int wasm_folder_open(const char *folder, struct error *err)
{
    _cleanup_(cleanup_free) char *path = xasprintf("%s/" WASM_FOLDER, folder);
    int fd = open(path, FOLDER_FLAGS);
    if (fd >= 0)
        return fd;
    if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
        return error_set(err, ERR_GONE, "the computer's files are lost: %s is missing", path);
    return error_errno(err, ERR_UNAVAILABLE, errno, "open %s", path);
}

int wasm_folder_make(const char *folder, struct error *err)
{
    _cleanup_(cleanup_free) char *path = xasprintf("%s/" WASM_FOLDER, folder);
    if (mkdir(path, 0700) < 0 && errno == EEXIST) {
        if (wasm_folder_remove(folder, err) < 0)
            return -1;
        if (mkdir(path, 0700) < 0)
            return error_errno(err, ERR_UNAVAILABLE, errno, "make %s", path);
    }
    _cleanup_fd_ int root = wasm_folder_open(folder, err);
    if (root < 0)
        return error_recast(err, ERR_UNAVAILABLE, "make the computer");
    if (mkdirat(root, "tmp", 0755) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "make %s/tmp", path);
    return TAKE_FD(root);
}

int wasm_folder_remove(const char *folder, struct error *err)
{
    _cleanup_fd_ int parent = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0)
        return errno == ENOENT ? 0 : error_errno(err, ERR_UNAVAILABLE, errno, "open %s", folder);
    if (renameat(parent, WASM_FOLDER, parent, TRASH) < 0 && errno != ENOENT &&
        tree_remove(parent, WASM_FOLDER, err) < 0) /* an older one is in the way */
        return -1;
    FAULT_POINT("end.files-aside");
    return tree_remove(parent, TRASH, err);
}

static int open_in(int root, const char *path, int flags)
{
    const struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC),
                                 .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    int fd;
    do { /* EAGAIN: something was renamed meanwhile, so that nobody can tell where ".." leads */
        fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
    } while (fd < 0 && (errno == EAGAIN || errno == EINTR));
    return fd;
}

/* Each folder on the way, from the first to the last. */
static int make_way_to(int root, const char *path)
{
    _cleanup_(cleanup_free) char *so_far = xstrdup(path);
    for (char *at = so_far + strspn(so_far, "/"); *at; at += strspn(at, "/")) {
        char *const name = at, *const slash = at > so_far ? at - 1 : NULL; /* before it */
        at += strcspn(at, "/");
        const char after = *at;
        *at = '\0';
        if (slash)
            *slash = '\0';
        _cleanup_fd_ int parent = open_in(root, slash && slash > so_far ? so_far : ".", O_PATH | O_DIRECTORY);
        if (parent < 0 || (mkdirat(parent, name, 0755) < 0 && errno != EEXIST))
            return -1;
        if (slash)
            *slash = '/';
        *at = after;
    }
    return 0;
}

int wasm_folder_enter(int root, const char *path, struct error *err)
{
    int fd = open_in(root, path, O_PATH | O_DIRECTORY);
    if (fd < 0 && errno == ENOENT && make_way_to(root, path) == 0)
        fd = open_in(root, path, O_PATH | O_DIRECTORY);
    if (fd >= 0)
        return fd;
    if (errno == ENOSYS || errno == EPERM)
        return error_errno(err, ERR_UNAVAILABLE, errno, "resolve paths in the computer");
    return error_errno(err, ERR_CWD_NOT_FOUND, errno, "the working directory %s can't be entered", path);
}

int wasm_folder_open_spool(void *ctx, const char *name, char **ret_path)
{
    const int root = *(const int *)ctx;
    if (mkdirat(root, "tmp", 0755) < 0 && errno != EEXIST)
        return -1;
    _cleanup_fd_ int tmp = open_in(root, "tmp", O_PATH | O_DIRECTORY);
    if (tmp < 0 || (mkdirat(tmp, "command-output", 0755) < 0 && errno != EEXIST))
        return -1;
    _cleanup_fd_ int folder = open_in(root, SPOOL, O_PATH | O_DIRECTORY);
    int fd =
        folder < 0 ? -1 : openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0)
        *ret_path = xasprintf("/" SPOOL "/%s", name);
    return fd;
}
