/* The file is an array of slots of fixed size, one per range, each with the folder that holds the range as
 * text, or zeros. While a folder is moved its slot has both names, the new one first; who is killed meanwhile
 * leaves them, and the range is held as long as either is there. The file is locked for the short read and
 * write of a slot or a few. The search begins at a place that depends on the folder's name, so that it
 * usually ends at the first slot. */
#include "backends/native/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/mem.h"

#define SLOT_SIZE 512U
#define SLOTS_AT_ONCE 256U                  /* of a look at all */
#define LOCK_TIMEOUT_NS (10 * NSEC_PER_SEC) /* of what takes microseconds */

struct slot {
    char folder[SLOT_SIZE]; /* and after its end the one before, if any */
};

/* Every server of the machine waits for this lock, so that one that was stopped must not stop all. */
static int lock_file(const char *file, int *ret_fd, struct error *err)
{
    static const struct wait for_ever = {.deadline = DEADLINE_NONE};
    struct error why = ERROR_INIT;
    _cleanup_(cleanup_free) char *dir = xstrndup(file, (size_t)(strrchr(file, '/') - file));
    _cleanup_fd_ int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno == ENOENT) {
        if (dir_make(dir, 0755, err) < 0)
            return -1;
        fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    }
    if (fd < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "open the list of user id ranges %s", file);
    if (fd_lock(fd, LOCK_TIMEOUT_NS, &for_ever, &why) < 0)
        return error_set(err, ERR_UNAVAILABLE,
                         "the list of user id ranges %s is locked by a server that doesn't go on (%s): end "
                         "that one, /proc/locks names it",
                         file, why.msg);
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

/* before: "" without; also left out where there is no room for it. */
static int write_slot(int fd, uint32_t n, const char *folder, const char *before, struct error *err)
{
    struct slot s = {{0}};
    const size_t length = strlen(folder), length_before = strlen(before);
    memcpy(s.folder, folder, length);
    if (length + 1 + length_before < SLOT_SIZE)
        memcpy(s.folder + length + 1, before, length_before);
    if (pwrite(fd, &s, sizeof(s), (off_t)n * SLOT_SIZE) != sizeof(s))
        return error_errno(err, ERR_UNAVAILABLE, errno, "write to the list of user id ranges");
    return 0;
}

static const char *folder_before(const struct slot *s)
{
    const size_t length = strlen(s->folder);
    return length + 1 < SLOT_SIZE ? s->folder + length + 1 : "";
}

static bool is_gone(const char *folder)
{
    struct stat st;
    return folder[0] == '\0' || (lstat(folder, &st) < 0 && (errno == ENOENT || errno == ENOTDIR));
}

static bool slot_is_free(const struct slot *s)
{
    return is_gone(s->folder) && is_gone(folder_before(s));
}

/* Its own, and nobody else's that was to get this name. */
static bool slot_is_of(const struct slot *s, const char *folder)
{
    return strcmp(s->folder, folder) == 0 && is_gone(folder_before(s));
}

/* A slot, and whose it is. */
struct holder {
    uint32_t n;
    const char *folder;
};

/* Calls fn for each that was ever written, until it says false; whether it never did. */
static bool each_slot(int fd, const struct id_ranges *ranges,
                      bool (*fn)(void *ctx, int fd, uint32_t n, const struct slot *s), void *ctx)
{
    _cleanup_(cleanup_free) struct slot *slots = xcalloc(SLOTS_AT_ONCE, sizeof(*slots));
    for (uint32_t first = 0; first < ranges->count; first += SLOTS_AT_ONCE) {
        const ssize_t got = pread(fd, slots, SLOTS_AT_ONCE * sizeof(*slots), (off_t)first * SLOT_SIZE);
        const uint32_t count = got > 0 ? (uint32_t)got / SLOT_SIZE : 0;
        for (uint32_t i = 0; i < count && first + i < ranges->count; i++) {
            slots[i].folder[SLOT_SIZE - 1] = '\0';
            if (!fn(ctx, fd, first + i, &slots[i]))
                return false;
        }
        if (count < SLOTS_AT_ONCE)
            break;
    }
    return true;
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
        if (!slot_is_free(&s) && !slot_is_of(&s, folder))
            continue;
        if (write_slot(fd, n, folder, "", err) < 0)
            return -1;
        *ret_base = ranges->first + n * ranges->size;
        FAULT_POINT("create.ids-claimed");
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

/* A server that is killed may leave ranges under a name that a later computer gets, which would hold them for
 * as long as it is there. */
static bool free_stale(void *ctx, int fd, uint32_t n, const struct slot *s)
{
    const struct holder *h = ctx;
    if (n != h->n && slot_is_of(s, h->folder))
        write_slot(fd, n, "", "", NULL);
    return true;
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
    if (strcmp(s.folder, folder) != 0) {
        if (!slot_is_free(&s))
            return error_set(err, ERR_UNAVAILABLE,
                             "the computer's user ids belong to another computer by now: %s", s.folder);
        if (write_slot(fd, n, folder, "", err) < 0)
            return -1;
    }
    each_slot(fd, ranges, free_stale, &(struct holder){n, folder});
    return 0;
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
    if (write_slot(fd, n, to, before.folder, err) < 0)
        return -1;
    FAULT_POINT("give-id.ids-moved");
    int failed = move(ctx, err);
    write_slot(fd, n, failed < 0 ? before.folder : to, "", NULL); /* if not: both names are as good */
    return failed < 0 ? -1 : 0;
}

static bool is_another(void *ctx, int fd, uint32_t n, const struct slot *s)
{
    const struct holder *h = ctx;
    return n == h->n || strcmp(s->folder, h->folder) != 0;
}

static bool is_named_elsewhere(int fd, const struct id_ranges *ranges, uint32_t n, const char *folder)
{
    return !each_slot(fd, ranges, is_another, &(struct holder){n, folder});
}

/* One that had to give its name to another may still be listed under that, which the other is, too. A name
 * that nobody has yet would hold the range as soon as somebody gets it. */
static bool is_holder(int fd, const struct id_ranges *ranges, uint32_t n, const struct slot *s,
                      const char *folder)
{
    return slot_is_free(s) || strcmp(s->folder, folder) == 0 || strcmp(folder_before(s), folder) == 0 ||
           (s->folder[0] && is_named_elsewhere(fd, ranges, n, s->folder));
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
    return is_holder(fd, ranges, n, &s, folder) ? write_slot(fd, n, "", "", err) : 0;
}
