/* Only trees that we made ourselves are copied, so recursion is bounded by what we made. */
#include "backends/native/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

#define DEPTH_MAX 16

static int copy_bytes(int in, int out, const char *name, uint64_t max, struct error *err)
{
    char chunk[16384];
    uint64_t total = 0;
    for (;;) {
        ssize_t n = read(in, chunk, sizeof(chunk));
        if (n == 0)
            return 0;
        if (n < 0)
            return error_errno(err, ERR_UNAVAILABLE, errno, "read %s", name);
        total += (uint64_t)n;
        if (total > max)
            return error_set(err, ERR_LIMIT, "%s is larger than %llu bytes", name, (unsigned long long)max);
        if (fd_write_all(out, chunk, (size_t)n) < 0)
            return error_errno(err, ERR_UNAVAILABLE, errno, "write %s", name);
    }
}

int copy_file(int from_dirfd, const char *from, int dirfd, const char *name, unsigned mode, uint64_t max,
              struct error *err)
{
    _cleanup_fd_ int in = openat(from_dirfd, from, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (in < 0)
        return error_errno(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_UNAVAILABLE, errno, "open %s", from);
    _cleanup_fd_ int out = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (out < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "make %s", name);
    if (copy_bytes(in, out, from, max, err) < 0)
        return -1;
    if (fchmod(out, mode & 07777) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "set the mode of %s", name);
    return 0;
}

static int copy_link(int from, int to, const char *name, struct error *err)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);
    if (n < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "read the link %s", name);
    target[n] = '\0';
    if (symlinkat(target, to, name) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "make the link %s", name);
    return 0;
}

/* Copies what is in the folder `from` into the folder `to`; takes over both descriptors. */
static int copy_folder(int from, int to_fd, uint32_t id, int depth, struct error *err)
{
    _cleanup_fd_ int to = to_fd;
    _cleanup_(cleanup_closedir) DIR *dir = fdopendir(from);
    if (!dir) {
        fd_close(from);
        return error_errno(err, ERR_UNAVAILABLE, ENOMEM, "list a folder");
    }
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (fstatat(from, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return error_errno(err, ERR_UNAVAILABLE, errno, "look at %s", e->d_name);
        int failed = 0;
        if (S_ISREG(st.st_mode))
            failed = copy_file(from, e->d_name, to, e->d_name, st.st_mode, UINT64_MAX, err);
        else if (S_ISLNK(st.st_mode))
            failed = copy_link(from, to, e->d_name, err);
        else if (S_ISDIR(st.st_mode))
            failed = mkdirat(to, e->d_name, 0700);
        else
            continue;
        if (failed < 0)
            return S_ISDIR(st.st_mode) ? error_errno(err, ERR_UNAVAILABLE, errno, "make %s", e->d_name) : -1;
        if (fchownat(to, e->d_name, id, id, AT_SYMLINK_NOFOLLOW) < 0)
            return error_errno(err, ERR_UNAVAILABLE, errno, "change the owner of %s", e->d_name);
        if (!S_ISDIR(st.st_mode))
            continue;
        int sub_from = openat(from, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int sub_to = openat(to, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (sub_from < 0 || sub_to < 0 || depth >= DEPTH_MAX || fchmod(sub_to, st.st_mode & 07777) < 0) {
            int saved = errno;
            fd_close(sub_from);
            fd_close(sub_to);
            return error_errno(err, ERR_UNAVAILABLE, saved, "open %s", e->d_name);
        }
        if (copy_folder(sub_from, sub_to, id, depth + 1, err) < 0)
            return -1;
    }
    return 0;
}

int copy_tree(const char *from, int dirfd, const char *name, uint32_t id, struct error *err)
{
    int source = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (source < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "open %s", from);
    int target = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (target < 0) {
        fd_close(source);
        return error_errno(err, ERR_UNAVAILABLE, errno, "open %s", name);
    }
    return copy_folder(source, target, id, 0, err);
}
