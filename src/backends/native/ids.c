/* The file is an array of slots of fixed size, one per range, each with the folder that holds the range as
 * text, or zeros. It is locked for the short read and write of a slot or a few. The search begins at a place
 * that depends on the folder's name, so that it usually ends at the first slot. */
#include "backends/native/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

#define SLOT_SIZE 512U

struct slot {
    char folder[SLOT_SIZE];
};

static int lock_file(const char *file, int *ret_fd, struct error *err)
{
    _cleanup_(cleanup_free) char *dir = xstrndup(file, (size_t)(strrchr(file, '/') - file));
    _cleanup_fd_ int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno == ENOENT) {
        if (dir_make(dir, 0755, err) < 0)
            return -1;
        fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    }
    if (fd < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "open the list of user id ranges %s", file);
    while (flock(fd, LOCK_EX) < 0)
        if (errno != EINTR)
            return error_errno(err, ERR_UNAVAILABLE, errno, "lock %s", file);
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* What is beyond the end of the file is empty. */
static int read_slot(int fd, uint32_t n, struct slot *ret)
{
    memset(ret, 0, sizeof(*ret));
    ssize_t got = pread(fd, ret, sizeof(*ret), (off_t)n * SLOT_SIZE);
    ret->folder[SLOT_SIZE - 1] = '\0';
    return got < 0 ? -1 : 0;
}

static int write_slot(int fd, uint32_t n, const char *folder, struct error *err)
{
    struct slot s = {{0}};
    memcpy(s.folder, folder, strlen(folder));
    if (pwrite(fd, &s, sizeof(s), (off_t)n * SLOT_SIZE) != sizeof(s))
        return error_errno(err, ERR_UNAVAILABLE, errno, "write to the list of user id ranges");
    return 0;
}

static bool slot_is_free(const struct slot *s)
{
    struct stat st;
    return s->folder[0] == '\0' || (lstat(s->folder, &st) < 0 && (errno == ENOENT || errno == ENOTDIR));
}

static int check_folder(const char *folder, struct error *err)
{
    if (strlen(folder) >= SLOT_SIZE)
        return error_set(err, ERR_INVALID, "the folder's path is longer than %u bytes: %.80s...",
                         SLOT_SIZE - 1, folder);
    return 0;
}

static uint32_t first_slot(const struct id_ranges *ranges, const char *folder)
{
    uint32_t hash = 2166136261U; /* FNV-1a */
    for (const char *p = folder; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619U;
    return hash % ranges->count;
}

int ids_take(const struct id_ranges *ranges, const char *folder, uint32_t *ret_base, struct error *err)
{
    _cleanup_fd_ int fd = -1;
    *ret_base = ranges->first;
    if (!ranges->file)
        return 0;
    if (check_folder(folder, err) < 0 || lock_file(ranges->file, &fd, err) < 0)
        return -1;
    uint32_t first = first_slot(ranges, folder);
    for (uint32_t i = 0; i < ranges->count; i++) {
        uint32_t n = (first + i) % ranges->count;
        struct slot s;
        if (read_slot(fd, n, &s) < 0)
            return error_errno(err, ERR_UNAVAILABLE, errno, "read %s", ranges->file);
        if (!slot_is_free(&s) && strcmp(s.folder, folder) != 0)
            continue;
        if (write_slot(fd, n, folder, err) < 0)
            return -1;
        *ret_base = ranges->first + n * ranges->size;
        return 0;
    }
    return error_set(
        err, ERR_LIMIT,
        "all %u ranges of user ids that there are for computers are in use (%s): delete computers",
        ranges->count, ranges->file);
}

static int slot_of(const struct id_ranges *ranges, uint32_t base, uint32_t *ret, struct error *err)
{
    uint32_t n = (base - ranges->first) / ranges->size;
    if (base < ranges->first || n >= ranges->count || (base - ranges->first) % ranges->size != 0)
        return error_set(err, ERR_INVALID, "%u is not the beginning of one of our ranges of user ids", base);
    *ret = n;
    return 0;
}

int ids_hold(const struct id_ranges *ranges, const char *folder, uint32_t base, struct error *err)
{
    _cleanup_fd_ int fd = -1;
    uint32_t n = 0;
    struct slot s;
    if (check_folder(folder, err) < 0 || slot_of(ranges, base, &n, err) < 0)
        return -1;
    if (!ranges->file)
        return 0;
    if (lock_file(ranges->file, &fd, err) < 0)
        return -1;
    if (read_slot(fd, n, &s) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "read %s", ranges->file);
    if (strcmp(s.folder, folder) == 0)
        return 0;
    if (!slot_is_free(&s))
        return error_set(err, ERR_UNAVAILABLE,
                         "the computer's user ids belong to another computer by now: %s", s.folder);
    return write_slot(fd, n, folder, err);
}

int ids_move(const struct id_ranges *ranges, uint32_t base, const char *to,
             int (*move)(void *ctx, struct error *err), void *ctx, struct error *err)
{
    _cleanup_fd_ int fd = -1;
    uint32_t n = 0;
    struct slot before;
    if (!ranges->file)
        return move(ctx, err);
    if (check_folder(to, err) < 0 || slot_of(ranges, base, &n, err) < 0 ||
        lock_file(ranges->file, &fd, err) < 0)
        return -1;
    if (read_slot(fd, n, &before) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "read %s", ranges->file);
    if (write_slot(fd, n, to, err) < 0)
        return -1;
    if (move(ctx, err) == 0)
        return 0;
    write_slot(fd, n, before.folder, NULL);
    return -1;
}

int ids_give_back(const struct id_ranges *ranges, const char *folder, uint32_t base, struct error *err)
{
    _cleanup_fd_ int fd = -1;
    uint32_t n = 0;
    struct slot s;
    if (!ranges->file)
        return 0;
    if (slot_of(ranges, base, &n, err) < 0 || lock_file(ranges->file, &fd, err) < 0)
        return -1;
    if (read_slot(fd, n, &s) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "read %s", ranges->file);
    return strcmp(s.folder, folder) == 0 ? write_slot(fd, n, "", err) : 0;
}
