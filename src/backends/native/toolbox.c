/* Built in a folder of its own, then renamed into place, so that others see all of it or nothing. The name
 * carries a fingerprint of the sources: a host that was upgraded gets a new skeleton, and computers that run
 * keep theirs. Who builds has a shared lock on the state directory: when nobody has, what is half built is of
 * the dead. */
#include "backends/native/toolbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/backend.h"
#include "backends/native/copy.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/str.h"

#define FORMAT 1 /* raise it when the tables below change */
#define PREFIX "toolbox-"
#define UNFINISHED ".new-"
#define COPY_MAX (4U << 20) /* bytes of one file of the host */
#define TREE_MAX 4096       /* entries of one folder of the host */

static const struct {
    const char *path;
    mode_t mode;
} folders[] = {
    {"etc", 0755},
    {"etc/alternatives", 0755},
    {"etc/ld.so.conf.d", 0755},
    {"etc/ssl", 0755},
    {"etc/ssl/certs", 0755},
    {"etc/ssl/certs/java", 0755},
    {"proc", 0755},
    {"sys", 0755},
    {"dev", 0755},
    {"tmp", 01777},
    {"root", 0700},
    {"home", 0755},
    {"var", 0755},
    {"var/tmp", 01777},
    {"var/lib", 0755},
    {"var/log", 0755},
    {"var/cache", 0755},
    {"run", 0755},
    {"run/lock", 01777},
    {"opt", 0755},
    {"mnt", 0755},
    {"srv", 0755},
    {"usr", 0755},
};

static const struct {
    const char *path, *target;
} links[] = {
    {"var/run", "/run"},
    {"var/lock", "/run/lock"},
    {"etc/mtab", "../proc/self/mounts"},
    {"etc/os-release", "../usr/lib/os-release"},
};

static const struct {
    const char *path, *text;
} files[] = {
    {"etc/passwd", "root:x:0:0:root:/root:/bin/bash\n"
                   "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
                   "bin:x:2:2:bin:/bin:/usr/sbin/nologin\n"
                   "sys:x:3:3:sys:/dev:/usr/sbin/nologin\n"
                   "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
    {"etc/group", "root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\nmail:x:8:\nstaff:x:50:\n"
                  "users:x:100:\nnogroup:x:65534:\n"},
    {"etc/hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"},
    {"etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
                          "protocols: files\nservices: files\nethers: files\nrpc: files\n"},
    {"etc/resolv.conf", ""},
    {"etc/host.conf", "multi on\n"},
    {"etc/shells", "/bin/sh\n/bin/bash\n/usr/bin/sh\n/usr/bin/bash\n"},
    {"etc/profile", "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"},
};

/* Public files of the host, copied where they exist. */
static const char *const copies[] = {
    "etc/ld.so.cache", "etc/ld.so.conf", "etc/debian_version", "etc/protocols",
    "etc/services",    "etc/ethertypes", "etc/timezone",       "etc/mime.types",
};

/* Folders of the host of which links and public files are copied: links into /usr, and certificates. */
static const char *const trees[] = {
    "etc/alternatives",
    "etc/ld.so.conf.d",
    "etc/ssl/certs",
    "etc/ssl/certs/java",
};

/* Links to folders of /usr where /usr is merged; where not, folders for the guest to bind the host's upon. */
static const char *const top_level[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ p[i]) * 1099511628211ULL; /* FNV-1a */
    return hash;
}

static uint64_t hash_file(uint64_t hash, int host, const char *path)
{
    struct stat st;
    if (fstatat(host, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return hash_bytes(hash, path, strlen(path));
    const int64_t facts[] = {(int64_t)st.st_ino, (int64_t)st.st_mode,
                             S_ISDIR(st.st_mode) ? 0 : (int64_t)st.st_size, st.st_mtim.tv_sec,
                             st.st_mtim.tv_nsec};
    return hash_bytes(hash, facts, sizeof(facts));
}

/* A change of a certificate's bundle or of a folder's entries changes a time; that is enough for files that
 * packages replace by renaming. */
static uint64_t fingerprint(int host)
{
    static const int format = FORMAT;
    uint64_t hash = hash_bytes(14695981039346656037ULL, &format, sizeof(format));
    for (size_t i = 0; i < ARRAY_LEN(copies); i++)
        hash = hash_file(hash, host, copies[i]);
    for (size_t i = 0; i < ARRAY_LEN(trees); i++)
        hash = hash_file(hash, host, trees[i]);
    for (size_t i = 0; i < ARRAY_LEN(top_level); i++)
        hash = hash_file(hash, host, top_level[i]);
    hash = hash_file(hash, host, "etc/ssl/certs/ca-certificates.crt");
    return hash_file(hash, host, "etc/localtime");
}

static int add_file(int root, const char *path, const char *text, struct error *err)
{
    _cleanup_fd_ int fd = openat(root, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 || fchmod(fd, 0644) < 0 || fd_write_all(fd, text, strlen(text)) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "make %s", path);
    return 0;
}

static int add_folders(int root, struct error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(folders); i++)
        if (mkdirat(root, folders[i].path, 0700) < 0 ||
            fchmodat(root, folders[i].path, folders[i].mode, 0) < 0)
            return error_errno(err, ERR_UNAVAILABLE, errno, "make %s", folders[i].path);
    return 0;
}

static int add_link(int root, const char *path, const char *target, struct error *err)
{
    if (symlinkat(target, root, path) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "make the link %s", path);
    return 0;
}

static int add_top_level(int root, int host, struct error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(top_level); i++) {
        char target[PATH_MAX];
        struct stat st;
        if (fstatat(host, top_level[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        ssize_t n = readlinkat(host, top_level[i], target, sizeof(target) - 1);
        if (n >= 0) {
            target[n] = '\0';
            if (add_link(root, top_level[i], target, err) < 0)
                return -1;
        } else if (mkdirat(root, top_level[i], 0755) < 0) {
            return error_errno(err, ERR_UNAVAILABLE, errno, "make %s", top_level[i]);
        }
    }
    return 0;
}

static bool is_public_file(int dirfd, const char *name)
{
    struct stat st;
    return fstatat(dirfd, name, &st, 0) == 0 && S_ISREG(st.st_mode) && (st.st_mode & S_IROTH) &&
           st.st_size <= COPY_MAX;
}

static int add_copies(int root, int host, struct error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(copies); i++)
        if (is_public_file(host, copies[i]) &&
            copy_file(host, copies[i], root, copies[i], 0644, COPY_MAX, err) < 0)
            return -1;
    return 0;
}

/* Links that stay in their folder or lead into /usr keep their meaning inside; others would lead nowhere. */
static bool link_is_of_use(const char *target)
{
    return str_has_prefix(target, "/usr/") || str_has_prefix(target, "/etc/alternatives/") ||
           !strchr(target, '/');
}

/* A link of the host is not made anew but given a second name, where that is possible: twenty times cheaper
 * on ext4, and a symbolic link can't be changed through either. */
static int add_tree_entry(int to, int from, const char *name, struct error *err)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);
    if (n < 0)
        return is_public_file(from, name) ? copy_file(from, name, to, name, 0644, COPY_MAX, err) : 0;
    target[n] = '\0';
    if (!link_is_of_use(target) || linkat(from, name, to, name, 0) == 0)
        return 0;
    return add_link(to, name, target, err);
}

static int add_tree(int root, int host, const char *path, struct error *err)
{
    int from = openat(host, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0)
        return 0;
    _cleanup_(cleanup_closedir) DIR *dir = fdopendir(from);
    _cleanup_fd_ int to = openat(root, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (!dir || to < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "copy /%s", path);
    int count = 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL && count < TREE_MAX; count++)
        if (e->d_type != DT_DIR && add_tree_entry(to, from, e->d_name, err) < 0)
            return -1;
    return 0;
}

static int add_local_time(int root, int host, struct error *err)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(host, "etc/localtime", target, sizeof(target) - 1);
    if (n < 0)
        return is_public_file(host, "etc/localtime")
                   ? copy_file(host, "etc/localtime", root, "etc/localtime", 0644, COPY_MAX, err)
                   : 0;
    target[n] = '\0';
    return str_has_prefix(target, "/usr/") || str_has_prefix(target, "../usr/")
               ? add_link(root, "etc/localtime", target, err)
               : 0;
}

static int fill(int root, int host, struct error *err)
{
    if (add_folders(root, err) < 0 || add_top_level(root, host, err) < 0 || add_copies(root, host, err) < 0 ||
        add_local_time(root, host, err) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(links); i++)
        if (add_link(root, links[i].path, links[i].target, err) < 0)
            return -1;
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        if (add_file(root, files[i].path, files[i].text, err) < 0)
            return -1;
    for (size_t i = 0; i < ARRAY_LEN(trees); i++)
        if (add_tree(root, host, trees[i], err) < 0)
            return -1;
    return 0;
}

static int build(int state, int host, const char *name, struct error *err)
{
    char suffix[RANDOM_HEX_SIZE(8)];
    random_hex(suffix, 8);
    _cleanup_(cleanup_free) char *temporary = xasprintf("%s" UNFINISHED "%s", name, suffix);
    if (flock(state, LOCK_SH) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "lock the state directory");
    if (mkdirat(state, temporary, 0755) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "make the toolbox folder %s", temporary);
    _cleanup_fd_ int root = openat(state, temporary, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int result =
        root < 0 ? error_errno(err, ERR_UNAVAILABLE, errno, "open %s", temporary) : fill(root, host, err);
    if (result == 0 && fchmod(root, 0755) < 0)
        result = error_errno(err, ERR_UNAVAILABLE, errno, "set the mode of %s", temporary);
    FAULT_POINT("start.toolbox-filled");
    if (result == 0 && renameat(state, temporary, state, name) == 0)
        return 0;
    bool other_was_first = result == 0 && (errno == EEXIST || errno == ENOTEMPTY);
    if (result == 0 && !other_was_first)
        result = error_errno(err, ERR_UNAVAILABLE, errno, "rename %s", temporary);
    tree_remove(state, temporary, NULL);
    return result;
}

/* Opens the skeleton with a shared lock, and makes sure that it wasn't removed before the lock was there. */
static int open_locked(int state, const char *name)
{
    _cleanup_fd_ int fd = openat(state, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat opened, named;
    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0 || fstat(fd, &opened) < 0 ||
        fstatat(state, name, &named, AT_SYMLINK_NOFOLLOW) < 0 || opened.st_ino != named.st_ino)
        return -1;
    return TAKE_FD(fd);
}

static bool is_being_built(int state, const char *name)
{
    return strstr(name, UNFINISHED) && flock(state, LOCK_EX | LOCK_NB) < 0;
}

/* Skeletons of earlier fingerprints that no server holds, and what was left half built. */
static void remove_unused(int state, const char *keep)
{
    int list = openat(state, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_(cleanup_closedir) DIR *dir = list < 0 ? NULL : fdopendir(list);
    if (!dir) {
        fd_close(list);
        return;
    }
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (!str_has_prefix(e->d_name, PREFIX) || strcmp(e->d_name, keep) == 0 ||
            is_being_built(state, e->d_name))
            continue;
        _cleanup_fd_ int fd = openat(state, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
            continue;
        _cleanup_(cleanup_free) char *aside = xasprintf("%s.old", e->d_name);
        if (str_has_suffix(e->d_name, ".old") || renameat(state, e->d_name, state, aside) < 0)
            tree_remove(state, e->d_name, NULL);
        else
            tree_remove(state, aside, NULL);
    }
}

int toolbox_open(const char *state_dir, const char *host_root, struct toolbox *ret, struct error *err)
{
    _cleanup_fd_ int state = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (state < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "open the state directory %s", state_dir);
    _cleanup_fd_ int host = open(host_root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (host < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "open %s", host_root);
    _cleanup_(cleanup_free) char *name = xasprintf(PREFIX "%016llx", (unsigned long long)fingerprint(host));

    for (int attempt = 0; attempt < 3; attempt++) {
        int fd = open_locked(state, name);
        if (fd >= 0) {
            *ret = (struct toolbox){.path = xasprintf("%s/%s", state_dir, name), .lock_fd = fd};
            remove_unused(state, name);
            return 0;
        }
        if (build(state, host, name, err) < 0) {
            backend_tell_full(err);
            return -1;
        }
    }
    return error_set(err, ERR_UNAVAILABLE, "the toolbox folder %s/%s can't be opened", state_dir, name);
}

void toolbox_done(struct toolbox *t)
{
    cleanup_free(&t->path);
    *t = (struct toolbox){.lock_fd = fd_close(t->lock_fd)};
}
