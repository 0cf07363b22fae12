/* See preopen.h. The engine opens by path, and follows links there: so each folder is opened by us first,
 * and is then the current one, "." for the engine. */
#include "backends/wasm/preopen.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/utf8.h"

#define FOLDERS_MAX 64 /* by name; of more, those that the kernel lists first */

static int preopen(struct wasmtime_wasi *wasi, int fd, const char *name, struct error *err)
{
    if (fchdir(fd) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "enter the folder %s", name);
    if (!wasi_config_preopen_dir(wasi, ".", name, true))
        return error_errno(err, ERR_UNAVAILABLE, errno, "open the folder %s", name);
    return 0;
}

static bool has_namesake(int cwd, const char *name)
{
    struct stat st;
    return fstatat(cwd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* 1: it is one, and open now. What isn't a folder, or goes away meanwhile, is none. */
static int preopen_named(struct wasmtime_wasi *wasi, int root, int cwd, const char *name, struct error *err)
{
    char absolute[NAME_MAX + 2];
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || !utf8_valid(name, strlen(name)) ||
        has_namesake(cwd, name))
        return 0;
    _cleanup_fd_ int fd = openat(root, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return 0;
    snprintf(absolute, sizeof(absolute), "/%s", name);
    return preopen(wasi, fd, absolute, err) < 0 ? -1 : 1;
}

static int preopen_all_named(struct wasmtime_wasi *wasi, int root, int cwd, struct error *err)
{
    int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_(cleanup_closedir) DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder) {
        fd_close(fd);
        return error_errno(err, ERR_UNAVAILABLE, errno, "list the computer's folder");
    }
    int count = 0;
    for (const struct dirent *e; count < FOLDERS_MAX && (e = readdir(folder));) {
        int opened = preopen_named(wasi, root, cwd, e->d_name, err);
        if (opened < 0)
            return -1;
        count += opened;
    }
    return 0;
}

static bool is_same(int a, int b)
{
    struct stat x, y;
    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int preopen_folders(struct wasmtime_wasi *wasi, int root, int cwd, struct error *err)
{
    if (preopen(wasi, root, "/", err) < 0)
        return -1;
    if (is_same(root, cwd))
        return 0;
    return preopen(wasi, cwd, ".", err) < 0 || preopen_all_named(wasi, root, cwd, err) < 0 ? -1 : 0;
}
