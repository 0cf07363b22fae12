/* See cache.h. Several servers share it: files are made whole under their names (file_replace), and a file
 * that goes away meanwhile is one that isn't there. */
#include "backends/wasm/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "backends/wasm/memory_file.h"
#include "backends/wasm/wasm_limits.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/str.h"

#define FOLDER "wasm-cache"
#define SUFFIX ".cwasm"
#define CHECKSUM_SIZE 17
#define TEMPORARY_SECONDS 3600 /* what file_replace() has left by then is nobody's */

struct cache_key cache_key(const char *module_hash, int major, bool fuel)
{
    struct cache_key key;
    snprintf(key.text, sizeof(key.text), "%s-%d%s-", module_hash, major, fuel ? "-fuel" : "");
    return key;
}

int cache_open(const char *state_dir, struct error *err)
{
    struct stat st;
    _cleanup_(cleanup_free) char *path = path_join(state_dir, FOLDER);
    if (dir_make(state_dir, 0711, err) < 0 || dir_make(path, 0700, err) < 0)
        return error_recast(err, ERR_UNAVAILABLE, "the state directory can't be used");
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "open %s", path);
    if (st.st_uid != geteuid() || (st.st_mode & 077) != 0)
        return error_set(
            err, ERR_DENIED,
            "%s must belong to the user who runs the server, with mode 0700, since code from it is "
            "run: remove it",
            path);
    return TAKE_FD(fd);
}

/* -- Reading */

static bool is_of(const char *name, const struct cache_key *key)
{
    return str_has_prefix(name, key->text) && str_has_suffix(name, SUFFIX) &&
           strlen(name) == strlen(key->text) + CHECKSUM_SIZE - 1 + strlen(SUFFIX);
}

static int open_own_file(int cache, const char *name, size_t *ret_size)
{
    struct stat st;
    _cleanup_fd_ int fd = openat(cache, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1 ||
        (st.st_mode & 077) != 0 || st.st_size > (off_t)LIMIT_WASM_CODE_BYTES)
        return -1;
    *ret_size = (size_t)st.st_size;
    return TAKE_FD(fd);
}

/* Eight bytes at a time: a cryptographic hash would take longer than all else at a start. */
static uint64_t checksum(const uint8_t *bytes, size_t n)
{
    uint64_t sum = n, word;
    for (size_t i = 0; i < n; i += sizeof(word)) {
        word = 0;
        memcpy(&word, bytes + i, n - i < sizeof(word) ? n - i : sizeof(word));
        sum = (sum ^ word) * 0x9e3779b97f4a7c15ULL;
        sum ^= sum >> 29;
    }
    return sum;
}

/* As it is in the name. -1: it has no content. */
static int checksum_file(int fd, size_t size, char ret[CHECKSUM_SIZE])
{
    void *bytes = size > 0 ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (bytes == MAP_FAILED)
        return -1;
    snprintf(ret, CHECKSUM_SIZE, "%016llx", (unsigned long long)checksum(bytes, size));
    munmap(bytes, size);
    return 0;
}

/* First the copy, then its checksum: what is checked is what is run. */
static int copy_file(int from, size_t size)
{
    _cleanup_fd_ int copy = memory_file_new("wasm-code", NULL);
    off_t at = 0;
    while (copy >= 0 && (size_t)at < size)
        if (sendfile(copy, from, &at, size - (size_t)at) <= 0)
            break;
    return copy >= 0 && (size_t)at == size && memory_file_seal(copy, NULL) == 0 ? TAKE_FD(copy) : -1;
}

static int take(int cache, const char *name, const struct cache_key *key)
{
    size_t size = 0;
    char sum[CHECKSUM_SIZE];
    _cleanup_fd_ int file = open_own_file(cache, name, &size);
    _cleanup_fd_ int copy = file < 0 ? -1 : copy_file(file, size);
    if (copy < 0 || checksum_file(copy, size, sum) < 0 ||
        strncmp(name + strlen(key->text), sum, CHECKSUM_SIZE - 1) != 0)
        return -1;
    futimens(file, NULL); /* used now */
    return TAKE_FD(copy);
}

static DIR *list(int cache)
{
    int fd = openat(cache, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder)
        fd_close(fd);
    return folder;
}

int cache_find(int cache, const struct cache_key *key)
{
    _cleanup_(cleanup_closedir) DIR *folder = list(cache);
    for (const struct dirent *e; folder && (e = readdir(folder));) {
        if (!is_of(e->d_name, key))
            continue;
        int code = take(cache, e->d_name, key);
        if (code >= 0)
            return code;
        log_warning("the compiled module %s was damaged: it is compiled again", e->d_name);
        tree_remove(cache, e->d_name, NULL); /* whatever it is */
    }
    return -1;
}

void cache_drop(int cache, const struct cache_key *key)
{
    _cleanup_(cleanup_closedir) DIR *folder = list(cache);
    for (const struct dirent *e; folder && (e = readdir(folder));)
        if (is_of(e->d_name, key))
            unlinkat(cache, e->d_name, 0);
}

/* -- Writing */

struct entry {
    char name[256];
    int64_t used, bytes;
};

static int by_age(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return x->used < y->used ? 1 : x->used > y->used ? -1 : 0;
}

/* What is too much goes, the oldest first; what isn't a compiled module, if it is old. */
static void prune(int cache)
{
    struct entry entries[2 * LIMIT_WASM_CACHE_FILES];
    size_t count = 0;
    struct stat st;
    _cleanup_(cleanup_closedir) DIR *folder = list(cache);
    for (const struct dirent *e; folder && count < ARRAY_LEN(entries) && (e = readdir(folder));) {
        if (e->d_name[0] == '.' || fstatat(cache, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (!str_has_suffix(e->d_name, SUFFIX)) {
            if (st.st_mtime + TEMPORARY_SECONDS < time(NULL))
                tree_remove(cache, e->d_name, NULL);
            continue;
        }
        entries[count] = (struct entry){.used = st.st_mtime, .bytes = st.st_size};
        snprintf(entries[count++].name, sizeof(entries[0].name), "%s", e->d_name);
    }
    qsort(entries, count, sizeof(entries[0]), by_age);
    int64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += entries[i].bytes;
        if (i >= LIMIT_WASM_CACHE_FILES || bytes > (int64_t)LIMIT_WASM_CACHE_BYTES)
            unlinkat(cache, entries[i].name, 0);
    }
}

void cache_put(int cache, const struct cache_key *key, int code)
{
    struct stat st;
    struct error err = ERROR_INIT;
    char sum[CHECKSUM_SIZE];
    if (fstat(code, &st) < 0 || checksum_file(code, (size_t)st.st_size, sum) < 0)
        return;
    const size_t size = (size_t)st.st_size;
    void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, code, 0);
    if (bytes == MAP_FAILED)
        return;
    _cleanup_(cleanup_free) char *name = xasprintf("%s%s" SUFFIX, key->text, sum);
    if (file_replace(cache, name, bytes, size, false, &err) < 0)
        log_debug("a compiled module isn't kept: %s", err.msg);
    munmap(bytes, size);
    prune(cache);
}
