/* Folders are opened one below the other without following links, a descriptor each. What comes or goes while
 * we count may be missed: the next count has it. */
#include "backends/native/usage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

#define DEPTH_MAX 100
#define BLOCK_BYTES 512 /* st_blocks are of these, whatever the file system */

/* A file of several names is met several times. */
static void count(const struct stat *st, struct usage *u)
{
    int64_t names = S_ISDIR(st->st_mode) || st->st_nlink == 0 ? 1 : (int64_t)st->st_nlink;
    u->bytes += st->st_blocks * BLOCK_BYTES / names;
    u->files++;
}

/* What has just gone or changed; and what is closed to us, who may not be root. */
static bool is_passed_over(int sys)
{
    return sys == ENOENT || sys == ENOTDIR || sys == ELOOP || sys == EACCES;
}

static int count_folder(int parent, const char *name, int depth, int64_t max_files, struct usage *u)
{
    _cleanup_fd_ int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return is_passed_over(errno) ? 0 : -1;
    _cleanup_(cleanup_closedir) DIR *dir = fdopendir(fd);
    if (!dir)
        return -1;
    TAKE_FD(fd);
    for (const struct dirent *e; u->bytes < USAGE_UNKNOWN && u->files < max_files && (e = readdir(dir));) {
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        count(&st, u);
        if (!S_ISDIR(st.st_mode))
            continue;
        if (depth == DEPTH_MAX)
            u->bytes = USAGE_UNKNOWN;
        else if (count_folder(dirfd(dir), e->d_name, depth + 1, max_files, u) < 0)
            return -1;
    }
    return 0;
}

int usage_measure(int dirfd, const char *name, int64_t max_files, struct usage *ret, struct error *err)
{
    struct usage u = {0};
    if (count_folder(dirfd, name, 0, max_files, &u) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "measure %s", name);
    *ret = u;
    return 0;
}
