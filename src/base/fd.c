/* Descriptors and files. Tree removal has a file of its own: tree.c. */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/limits.h"
#include "base/mem.h"

#define LOCK_AGAIN_NS (5 * NSEC_PER_MSEC)

int fd_close(int fd)
{
    int saved = errno;
    if (fd >= 0)
        close(fd);
    errno = saved;
    return -1;
}

void cleanup_closedir(DIR **dir)
{
    int saved = errno;
    if (*dir)
        closedir(*dir);
    errno = saved;
}

int fd_set_nonblocking(int fd, bool on)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0)
        return -1;
    int wanted = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
    return wanted == flags ? 0 : fcntl(fd, F_SETFL, wanted);
}

void fd_cloexec_from(int first)
{
    close_range((unsigned)first, ~0U, CLOSE_RANGE_CLOEXEC);
}

/* Nothing tells when the lock is free, and a thread that waits in flock(2) can't be called back. */
int fd_lock(int fd, int64_t timeout_ns, const struct wait *wait, struct error *err)
{
    const int64_t latest = clock_now() + timeout_ns;
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return error_errno(err, ERR_UNAVAILABLE, errno, "lock a file");
        if (clock_now() >= latest)
            return error_set(err, ERR_BUSY, "it is locked by another process");
        if (wait_pause(wait, LOCK_AGAIN_NS, err) < 0)
            return -1;
    }
    return 0;
}

int fd_write_all(int fd, const void *bytes, size_t n)
{
    const char *p = bytes;
    while (n > 0) {
        ssize_t written = write(fd, p, n);
        if (written < 0) {
            if (errno == EINTR)
                continue;
            return -1;
        }
        p += written;
        n -= (size_t)written;
    }
    return 0;
}

int file_read(int dirfd, const char *path, struct buf *b, struct error *err)
{
    _cleanup_fd_ int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return error_errno(err, error_code_of_errno(errno), errno, "open %s", path);

    size_t before = b->len;
    for (;;) {
        /* Beyond the maximum, one byte is asked for, to learn whether it is the end. */
        char extra;
        size_t room = b->max - b->len, step = room < 16 * KIB ? room : 16 * KIB;
        if (buf_reserve(b, step) < 0)
            return error_set(err, ERR_LIMIT, "read %s: out of memory", path);
        ssize_t n = step > 0 ? read(fd, b->data + b->len, step) : read(fd, &extra, 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n > 0 && step > 0) {
            b->len += (size_t)n;
            continue;
        }
        int sys = errno;
        b->len = n == 0 ? b->len : before;
        b->data[b->len] = '\0';
        if (n == 0)
            return 0;
        if (n > 0)
            return error_set(err, ERR_LIMIT, "read %s: it is longer than %zu bytes", path, b->max - before);
        return error_errno(err, error_code_of_errno(sys), sys, "read %s", path);
    }
}

int file_write(int dirfd, const char *path, const char *text, struct error *err)
{
    _cleanup_fd_ int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return error_errno(err, error_code_of_errno(errno), errno, "open %s", path);
    size_t n = strlen(text);
    ssize_t written;
    do
        written = write(fd, text, n);
    while (written < 0 && errno == EINTR);
    if (written < 0)
        return error_errno(err, error_code_of_errno(errno), errno, "write to %s", path);
    if ((size_t)written < n)
        return error_set(err, ERR_INTERNAL, "write to %s: only %zd of %zu bytes were taken", path, written,
                         n);
    return 0;
}

/* Makes a rename in the folder of `path` durable. */
static int sync_parent(int dirfd, const char *path)
{
    const char *slash = strrchr(path, '/');
    _cleanup_(cleanup_free) char *parent = slash ? xstrndup(path, (size_t)(slash - path) + 1) : xstrdup(".");
    _cleanup_fd_ int fd = openat(dirfd, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -1 : fsync(fd);
}

int file_replace(int dirfd, const char *path, const void *bytes, size_t n, bool durable, struct error *err)
{
    _cleanup_(cleanup_free) char *tmp = xasprintf("%s.tmp", path);
    _cleanup_fd_ int fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, error_code_of_errno(errno), errno, "create %s", tmp);
    int failed = fd_write_all(fd, bytes, n) < 0 || (durable && fsync(fd) < 0);
    FAULT_POINT("file.written");
    if (failed || renameat(dirfd, tmp, dirfd, path) < 0) {
        int sys = errno;
        unlinkat(dirfd, tmp, 0);
        return error_errno(err, error_code_of_errno(sys), sys, "replace %s", path);
    }
    if (durable && sync_parent(dirfd, path) < 0)
        return error_errno(err, error_code_of_errno(errno), errno, "sync the folder of %s", path);
    return 0;
}

static int make_one(const char *path, mode_t mode, struct error *err)
{
    if (mkdir(path, mode) == 0)
        return 0;
    int sys = errno;
    struct stat st;
    if (sys != EEXIST)
        return error_errno(err, error_code_of_errno(sys), sys, "make folder %s", path);
    if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
        return error_set(err, ERR_EXISTS, "make folder %s: there is something else of that name", path);
    return 0;
}

int dir_make(const char *path, mode_t mode, struct error *err)
{
    if (mkdir(path, mode) == 0) /* mostly its parent is there */
        return 0;
    if (errno != ENOENT)
        return make_one(path, mode, err);
    _cleanup_(cleanup_free) char *copy = xstrdup(path);
    for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/'; n--)
        copy[n - 1] = '\0';
    for (char *slash = strchr(copy + strspn(copy, "/"), '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (make_one(copy, 0755, err) < 0)
            return -1;
        *slash = '/';
    }
    return make_one(copy, mode, err);
}
