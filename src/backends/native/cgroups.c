/* Making, limiting and removing a computer's groups. Finding out where they go is in cgroups_detect.c. */
#include "backends/native/cgroups.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "backends/native/ids.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/str.h"

#define PREFIX "mcp-sandbox-"
#define CPU_PERIOD_US 100000
#define CPU_QUOTA_MIN_US 1000 /* the kernel's */
#define PAGE_SIZE_MAX 65536   /* the kernel rounds memory limits down to pages */
#define MOVE_ROUNDS 8
#define PIDS_MAX (1U << 20) /* of one cgroup.procs */
#define REMOVE_TIMEOUT_NS (5 * NSEC_PER_SEC)

const char *cgroup_limit_name(enum cgroup_limit limit)
{
    static const char *const names[CGROUP_LIMITS] = {"memory", "pids", "cpu"};
    return names[limit];
}

static char *group_path(const char *parent, const char *key)
{
    return xasprintf("%s/" PREFIX "%s", parent, key);
}

void cgroup_name(const char *key, char *ret, size_t size)
{
    snprintf(ret, size, PREFIX "%s", key);
}

char *cgroup_unified(const struct cgroups *c, const char *key)
{
    return c->unified ? group_path(c->unified, key) : NULL;
}

static void give_up(struct cgroup_place *place, const char *what, int sys)
{
    free(place->why);
    place->why = xasprintf("%s: %s", what, strerror(sys));
    place->version = 0;
}

static int write_file(const char *group, const char *name, const char *text)
{
    _cleanup_(cleanup_free) char *path = path_join(group, name);
    struct error e = ERROR_INIT;
    if (file_write(AT_FDCWD, path, text, &e) == 0)
        return 0;
    errno = e.sys ? e.sys : EIO;
    return -1;
}

/* Makes a group, if need be, and has it pass on the controllers; tells by errno which it can't. */
static void open_group(const struct cgroups *c, const char *group, int failed[CGROUP_LIMITS])
{
    int made = mkdir(group, 0755) < 0 && errno != EEXIST ? errno : 0;
    for (int i = 0; i < CGROUP_LIMITS; i++) {
        char text[16];
        if (c->places[i].version != 2)
            continue;
        snprintf(text, sizeof(text), "+%s", cgroup_limit_name((enum cgroup_limit)i));
        failed[i] = made ? made : write_file(group, "cgroup.subtree_control", text) < 0 ? errno : 0;
    }
}

static void give_up_on_version_2(struct cgroups *c, const char *what, int sys)
{
    for (int i = 0; i < CGROUP_LIMITS; i++)
        if (c->places[i].version == 2)
            give_up(&c->places[i], what, sys);
}

/* Moves the processes of a group, ours among them, to a leaf of it. One at a time, as the kernel wants it;
 * what is forked meanwhile is met by the next round. */
static int move_processes(const char *group, const char *leaf)
{
    _cleanup_(cleanup_free) char *path = path_join(group, "cgroup.procs");
    for (int round = 0; round < MOVE_ROUNDS; round++) {
        _cleanup_(buf_done) struct buf pids = BUF_INIT(PIDS_MAX);
        if (file_read(AT_FDCWD, path, &pids, NULL) < 0 || pids.len == 0)
            return 0;
        char *save = NULL;
        for (char *pid = strtok_r(pids.data, "\n", &save); pid; pid = strtok_r(NULL, "\n", &save))
            if (write_file(leaf, "cgroup.procs", pid) < 0 && errno != ESRCH)
                return -1;
    }
    return 0;
}

void cgroups_prepare(struct cgroups *c)
{
    if (c->leaf &&
        ((mkdir(c->leaf, 0755) < 0 && errno != EEXIST) || move_processes(c->enable[0], c->leaf) < 0))
        give_up_on_version_2(c, "the server can't move to a group of its own", errno);
    for (size_t i = 0; i < ARRAY_LEN(c->enable) && c->enable[i]; i++) {
        int failed[CGROUP_LIMITS] = {0};
        open_group(c, c->enable[i], failed);
        for (int limit = 0; limit < CGROUP_LIMITS; limit++)
            if (failed[limit])
                give_up(&c->places[limit], "its controller can't be passed on to our groups", failed[limit]);
    }
    /* Without limits a group of ours is still good to kill by. */
    if (c->unified && mkdir(c->unified, 0755) < 0 && errno != EEXIST)
        cgroups_drop_unified(c);
}

void cgroups_drop_unified(struct cgroups *c)
{
    give_up_on_version_2(c, "no group can be made for it", ENOTSUP);
    free(c->unified);
    c->unified = NULL;
}

void cgroups_done(struct cgroups *c)
{
    for (size_t i = 0; i < ARRAY_LEN(c->enable); i++) {
        if (i > 0 && c->enable[i])
            rmdir(c->enable[i]); /* fails while others use it */
        free(c->enable[i]);
    }
    free(c->unified);
    free(c->leaf);
    for (int i = 0; i < CGROUP_LIMITS; i++) {
        free(c->places[i].v1);
        free(c->places[i].why);
    }
    *c = (struct cgroups){0};
}

/* One file of a group, and what it is to hold. */
struct setting {
    const char *file;
    char text[48];
    int64_t slack; /* how much less the kernel may make of it */
    bool optional; /* not there on every machine */
};
#define SETTINGS_MAX 2

static int64_t cpu_quota(double cpus)
{
    double quota = cpus * CPU_PERIOD_US;
    return quota < CPU_QUOTA_MIN_US ? CPU_QUOTA_MIN_US : (int64_t)quota;
}

static void number_setting(struct setting *ret, const char *file, int64_t value, int64_t slack)
{
    *ret = (struct setting){.file = file, .slack = slack};
    snprintf(ret->text, sizeof(ret->text), "%lld", (long long)value);
}

/* How many there are. */
static size_t list_settings(enum cgroup_limit limit, bool v1, const struct cgroup_values *v,
                            struct setting ret[SETTINGS_MAX])
{
    switch (limit) {
    case CGROUP_MEMORY: /* without swap */
        number_setting(&ret[0], v1 ? "memory.limit_in_bytes" : "memory.max", v->memory_bytes, PAGE_SIZE_MAX);
        if (v1)
            number_setting(&ret[1], "memory.memsw.limit_in_bytes", v->memory_bytes, PAGE_SIZE_MAX);
        else
            number_setting(&ret[1], "memory.swap.max", 0, 0);
        ret[1].optional = true;
        return 2;
    case CGROUP_PIDS:
        number_setting(&ret[0], "pids.max", v->pids, 0);
        return 1;
    case CGROUP_CPU:
        if (v1) { /* a new group's period is what we count in */
            number_setting(&ret[0], "cpu.cfs_quota_us", cpu_quota(v->cpus), 0);
        } else {
            ret[0] = (struct setting){.file = "cpu.max"};
            snprintf(ret[0].text, sizeof(ret[0].text), "%lld %d", (long long)cpu_quota(v->cpus),
                     CPU_PERIOD_US);
        }
        return 1;
    case CGROUP_LIMITS:
    default:
        return 0;
    }
}

static int write_setting(const char *group, const struct setting *s)
{
    return write_file(group, s->file, s->text) == 0 || (s->optional && errno == ENOENT) ? 0 : -1;
}

/* Of the memory limits of v1 the first may never be above the second: they rise in the other order. */
static int write_settings(const char *group, const struct setting *settings, size_t n, bool rise,
                          struct error *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct setting *s = &settings[rise ? n - 1 - i : i];
        if (write_setting(group, s) < 0)
            return error_errno(err, ERR_UNAVAILABLE, errno, "set %s/%s to %s", group, s->file, s->text);
    }
    return 0;
}

/* Numbers may be rounded down; anything else is held as it was written. */
static bool is_held(const struct setting *s, const char *held)
{
    int64_t value, kept;
    if (strcmp(held, s->text) == 0)
        return true;
    return str_parse_i64(s->text, &value) && str_parse_i64(held, &kept) && kept <= value &&
           value - kept <= s->slack;
}

/* What the kernel holds counts, not what it took. */
static int check_settings(const char *group, const struct setting *settings, size_t n, struct error *err)
{
    for (size_t i = 0; i < n; i++) {
        _cleanup_(cleanup_free) char *path = path_join(group, settings[i].file);
        _cleanup_(buf_done) struct buf b = BUF_INIT(64);
        struct error why = ERROR_INIT;
        if (file_read(AT_FDCWD, path, &b, &why) < 0) {
            if (settings[i].optional && why.code == ERR_NOT_FOUND)
                continue;
            return error_set(err, ERR_UNAVAILABLE, "%s", why.msg);
        }
        _cleanup_(cleanup_free) char *held = str_trim(buf_str(&b));
        if (!is_held(&settings[i], held))
            return error_set(err, ERR_UNAVAILABLE, "%s was set to '%s', but the kernel holds '%s'", path,
                             settings[i].text, held);
    }
    return 0;
}

/* 0: it was there. */
static int make_group(const char *path, struct error *err)
{
    if (mkdir(path, 0755) == 0)
        return 1;
    return errno == EEXIST ? 0 : error_errno(err, ERR_UNAVAILABLE, errno, "make the group %s", path);
}

static int open_in(const char *group, const char *name, int flags, struct error *err)
{
    _cleanup_(cleanup_free) char *path = path_join(group, name);
    int fd = open(path, flags | O_CLOEXEC);
    if (fd < 0)
        error_errno(err, ERR_UNAVAILABLE, errno, "open %s", path);
    return fd;
}

/* Another server may have removed the shared group since. What fails here shows when limits are set. */
static void reopen_shared(const struct cgroups *c)
{
    for (size_t i = 0; i < ARRAY_LEN(c->enable) && c->enable[i]; i++) {
        int ignored[CGROUP_LIMITS];
        open_group(c, c->enable[i], ignored);
    }
}

size_t cgroups_open_parents(const struct cgroups *c, int ret[CGROUP_PARENTS_MAX])
{
    const char *paths[CGROUP_PARENTS_MAX] = {c->unified};
    size_t count = 0;
    for (int i = 0; i < CGROUP_LIMITS; i++)
        paths[1 + i] = c->places[i].version == 1 ? c->places[i].v1 : NULL;
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        if (paths[i] && (ret[count] = open(paths[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0)
            count++;
    return count;
}

int cgroup_begin(const struct cgroups *c, const char *key, uint32_t id_base, struct cgroup_birth *birth,
                 struct error *err)
{
    _cleanup_(cleanup_free) char *group = cgroup_unified(c, key);
    if (!group)
        return 0;
    int made = make_group(group, NULL);
    if (made < 0) {
        reopen_shared(c);
        made = make_group(group, err);
    }
    if (made < 0)
        return -1;
    birth->unified_is_new = made;
    birth->unified = open(group, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (birth->unified < 0 ||
        fchownat(birth->unified, "cgroup.procs", id_base, id_base, AT_SYMLINK_NOFOLLOW) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "set up the group %s", group);
    return 0;
}

/* Where a limit of the computer is set; NULL: nowhere. malloced. */
static char *limit_group(const struct cgroups *c, enum cgroup_limit limit, const char *key)
{
    const struct cgroup_place *place = &c->places[limit];
    return place->version == 0   ? NULL
           : place->version == 1 ? group_path(place->v1, key)
                                 : cgroup_unified(c, key);
}

static bool is_same(enum cgroup_limit limit, const struct cgroup_values *a, const struct cgroup_values *b)
{
    return limit == CGROUP_MEMORY ? a->memory_bytes == b->memory_bytes
           : limit == CGROUP_PIDS ? a->pids == b->pids
                                  : cpu_quota(a->cpus) == cpu_quota(b->cpus);
}

/* held: what the group has; NULL: it is new. */
static int set_limit(const char *group, enum cgroup_limit limit, bool v1, const struct cgroup_values *held,
                     const struct cgroup_values *values, struct cgroup_birth *birth, struct error *err)
{
    struct setting settings[SETTINGS_MAX];
    if (held && is_same(limit, held, values))
        return 0;
    birth->is_unchecked = true;
    return write_settings(group, settings, list_settings(limit, v1, values, settings),
                          held && values->memory_bytes > held->memory_bytes, err);
}

static int create_limit(const struct cgroups *c, enum cgroup_limit limit, const char *key,
                        const struct cgroup_values *values, struct cgroup_birth *birth, struct error *err)
{
    bool old = c->places[limit].version == 1;
    _cleanup_(cleanup_free) char *group = limit_group(c, limit, key);
    if (!group)
        return 0;
    const int is_new = old ? make_group(group, err) : birth->unified_is_new;
    if (is_new < 0 || set_limit(group, limit, old, is_new ? NULL : birth->prepared, values, birth, err) < 0)
        return -1;
    if (old) {
        int tasks = open_in(group, "tasks", O_WRONLY, err);
        if (tasks < 0)
            return -1;
        birth->v1_tasks[birth->v1_count++] = tasks;
    }
    if (limit == CGROUP_MEMORY)
        birth->oom = open_in(group, old ? "memory.oom_control" : "memory.events", O_RDONLY, NULL);
    return 0;
}

int cgroup_limit(const struct cgroups *c, const char *key, const struct cgroup_values *values,
                 struct cgroup_birth *birth, struct error *err)
{
    for (int i = 0; i < CGROUP_LIMITS; i++)
        if (create_limit(c, (enum cgroup_limit)i, key, values, birth, err) < 0)
            return -1;
    return 0;
}

int cgroup_check(const struct cgroups *c, const char *key, const struct cgroup_values *values,
                 const struct cgroup_birth *birth, struct error *err)
{
    struct setting settings[SETTINGS_MAX];
    for (int i = 0; birth->is_unchecked && i < CGROUP_LIMITS; i++) {
        _cleanup_(cleanup_free) char *group = limit_group(c, (enum cgroup_limit)i, key);
        size_t n = list_settings((enum cgroup_limit)i, c->places[i].version == 1, values, settings);
        if (group && check_settings(group, settings, n, err) < 0)
            return -1;
    }
    return 0;
}

int cgroup_change(const struct cgroups *c, const char *key, const struct cgroup_values *from,
                  const struct cgroup_values *values, struct cgroup_birth *birth, struct error *err)
{
    for (enum cgroup_limit limit = 0; limit < CGROUP_LIMITS; limit++) {
        _cleanup_(cleanup_free) char *group = limit_group(c, limit, key);
        if (group && set_limit(group, limit, c->places[limit].version == 1, from, values, birth, err) < 0)
            return -1;
    }
    return 0;
}

int cgroup_prepare(const struct cgroups *c, const char *key, const struct cgroup_values *values,
                   struct error *err)
{
    struct cgroup_birth birth = CGROUP_BIRTH_NONE;
    int failed = cgroup_begin(c, key, ID_OURS, &birth, err) < 0 || /* whose it is, is known later */
                         cgroup_limit(c, key, values, &birth, err) < 0 ||
                         cgroup_check(c, key, values, &birth, err) < 0
                     ? -1
                     : 0;
    fd_close(birth.oom);
    cgroup_birth_done(&birth);
    return failed;
}

void cgroup_birth_done(struct cgroup_birth *b)
{
    b->unified = fd_close(b->unified);
    while (b->v1_count > 0)
        fd_close(b->v1_tasks[--b->v1_count]);
}

json_t *cgroup_list(const struct cgroups *c, const char *key)
{
    json_t *list = json_array();
    _cleanup_(cleanup_free) char *unified = cgroup_unified(c, key);
    if (unified)
        json_array_append_new(list, json_string(unified));
    for (int i = 0; i < CGROUP_LIMITS; i++) {
        if (c->places[i].version != 1)
            continue;
        _cleanup_(cleanup_free) char *path = group_path(c->places[i].v1, key);
        json_array_append_new(list, json_string(path));
    }
    return list;
}

/* rmdir(2) says EBUSY until the kernel is done with what was killed, which nothing announces on v1: asked
 * again, at growing intervals. */
static int remove_group(const char *path, int64_t deadline, struct error *err)
{
    for (int ms = 1;; ms = ms < 64 ? ms * 2 : ms) {
        if (rmdir(path) == 0 || errno == ENOENT)
            return 0;
        if (errno != EBUSY || clock_now() >= deadline)
            return error_errno(err, ERR_UNAVAILABLE, errno, "remove the group %s", path);
        poll(NULL, 0, ms);
    }
}

static int remove_inner_groups(const char *path, int64_t deadline, struct error *err)
{
    DIR *dir = opendir(path);
    int result = 0;
    if (!dir)
        return 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (e->d_type != DT_DIR || e->d_name[0] == '.')
            continue;
        _cleanup_(cleanup_free) char *inner = path_join(path, e->d_name);
        if (remove_group(inner, deadline, err) < 0)
            result = -1;
    }
    closedir(dir);
    return result;
}

static int kill_and_remove(const char *path, int64_t deadline, struct error *err)
{
    if (rmdir(path) == 0 || errno == ENOENT)
        return 0;
    if (write_file(path, "cgroup.kill", "1") < 0 && errno != ENOENT && errno != ENODEV)
        return error_errno(err, ERR_UNAVAILABLE, errno, "kill what is in %s", path);
    return remove_inner_groups(path, deadline, err) < 0 ? -1 : remove_group(path, deadline, err);
}

/* Only what bears this computer's name is touched, whatever a record says. */
static bool is_group_of(const char *path, const char *key)
{
    const char *name = path_basename(path);
    return path_is_absolute(path) && str_has_prefix(name, PREFIX) && strcmp(name + strlen(PREFIX), key) == 0;
}

/* The i-th path, if it is one of this computer's. */
static const char *listed_group(const json_t *paths, size_t i, const char *key)
{
    const char *path = json_string_value(json_array_get(paths, i));
    return path && is_group_of(path, key) ? path : NULL;
}

int cgroup_remove(const struct cgroups *c, const char *key, const json_t *paths, struct error *err)
{
    json_t *own = paths ? NULL : cgroup_list(c, key);
    const json_t *list = paths ? paths : own;
    const int64_t deadline = clock_now() + REMOVE_TIMEOUT_NS; /* of all: the same processes are in each */
    int result = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *path = listed_group(list, i, key);
        if (path && kill_and_remove(path, deadline, err) < 0)
            result = -1;
    }
    json_decref(own);
    return result;
}

char *cgroup_listed_unified(const json_t *paths, const char *key)
{
    for (size_t i = 0; i < json_array_size(paths); i++) {
        const char *path = listed_group(paths, i, key);
        struct statfs fs;
        if (path && statfs(path, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC)
            return xstrdup(path);
    }
    return NULL;
}

int cgroup_listed_oom(const json_t *paths, const char *key)
{
    static const char *const names[] = {"memory.oom_control", "memory.events"};
    for (size_t i = 0; i < json_array_size(paths); i++) {
        const char *path = listed_group(paths, i, key);
        for (size_t n = 0; path && n < ARRAY_LEN(names); n++) {
            int fd = open_in(path, names[n], O_RDONLY, NULL);
            if (fd >= 0)
                return fd;
        }
    }
    return -1;
}

uint64_t cgroup_oom_kills(int oom_fd)
{
    char text[512];
    ssize_t n = oom_fd < 0 ? -1 : pread(oom_fd, text, sizeof(text) - 1, 0);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    const char *line = strstr(text, "oom_kill ");
    return line ? strtoull(line + strlen("oom_kill "), NULL, 10) : 0;
}
