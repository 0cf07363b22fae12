/* Making, limiting and removing a computer's groups. Finding out where they go is in cgroups_detect.c. */
#include "backends/native/cgroups.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* Sets one file, then reads it back: what the kernel holds counts. slack: how much less is the same. */
static int set_number(const char *group, const char *name, int64_t value, int64_t slack, struct error *err)
{
    char text[32];
    snprintf(text, sizeof(text), "%lld", (long long)value);
    if (write_file(group, name, text) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "set %s/%s to %s", group, name, text);
    _cleanup_(cleanup_free) char *path = path_join(group, name);
    _cleanup_(buf_done) struct buf b = BUF_INIT(64);
    int64_t held;
    if (file_read(AT_FDCWD, path, &b, err) < 0)
        return -1;
    _cleanup_(cleanup_free) char *trimmed = str_trim(buf_str(&b));
    if (!str_parse_i64(trimmed, &held) || held > value || value - held > slack)
        return error_set(err, ERR_UNAVAILABLE, "%s was set to %s, but the kernel holds '%s'", path, text,
                         trimmed);
    return 0;
}

static bool file_exists(const char *group, const char *name)
{
    _cleanup_(cleanup_free) char *path = path_join(group, name);
    return access(path, F_OK) == 0;
}

static int64_t cpu_quota(double cpus)
{
    double quota = cpus * CPU_PERIOD_US;
    return quota < CPU_QUOTA_MIN_US ? CPU_QUOTA_MIN_US : (int64_t)quota;
}

static int limit_v1(const char *group, enum cgroup_limit limit, const struct cgroup_values *v,
                    struct error *err)
{
    switch (limit) {
    case CGROUP_MEMORY:
        if (set_number(group, "memory.limit_in_bytes", v->memory_bytes, PAGE_SIZE_MAX, err) < 0)
            return -1;
        return file_exists(group, "memory.memsw.limit_in_bytes")
                   ? set_number(group, "memory.memsw.limit_in_bytes", v->memory_bytes, PAGE_SIZE_MAX, err)
                   : 0;
    case CGROUP_PIDS:
        return set_number(group, "pids.max", v->pids, 0, err);
    case CGROUP_CPU:
        return set_number(group, "cpu.cfs_period_us", CPU_PERIOD_US, 0, err) < 0
                   ? -1
                   : set_number(group, "cpu.cfs_quota_us", cpu_quota(v->cpus), 0, err);
    case CGROUP_LIMITS:
    default:
        return 0;
    }
}

static int limit_cpu_v2(const char *group, double cpus, struct error *err)
{
    char text[48];
    snprintf(text, sizeof(text), "%lld %d", (long long)cpu_quota(cpus), CPU_PERIOD_US);
    if (write_file(group, "cpu.max", text) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "set %s/cpu.max to %s", group, text);
    _cleanup_(cleanup_free) char *path = path_join(group, "cpu.max");
    _cleanup_(buf_done) struct buf b = BUF_INIT(64);
    if (file_read(AT_FDCWD, path, &b, err) < 0)
        return -1;
    _cleanup_(cleanup_free) char *held = str_trim(buf_str(&b));
    if (strcmp(held, text) != 0)
        return error_set(err, ERR_UNAVAILABLE, "%s was set to '%s', but the kernel holds '%s'", path, text,
                         held);
    return 0;
}

static int limit_v2(const char *group, enum cgroup_limit limit, const struct cgroup_values *v,
                    struct error *err)
{
    switch (limit) {
    case CGROUP_MEMORY:
        if (set_number(group, "memory.max", v->memory_bytes, PAGE_SIZE_MAX, err) < 0)
            return -1;
        return file_exists(group, "memory.swap.max") ? set_number(group, "memory.swap.max", 0, 0, err) : 0;
    case CGROUP_PIDS:
        return set_number(group, "pids.max", v->pids, 0, err);
    case CGROUP_CPU:
        return limit_cpu_v2(group, v->cpus, err);
    case CGROUP_LIMITS:
    default:
        return 0;
    }
}

static int make_group(const char *path, struct error *err)
{
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return error_errno(err, ERR_UNAVAILABLE, errno, "make the group %s", path);
    return 0;
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

int cgroup_begin(const struct cgroups *c, const char *key, uint32_t id_base, struct cgroup_birth *birth,
                 struct error *err)
{
    _cleanup_(cleanup_free) char *group = cgroup_unified(c, key);
    if (!group)
        return 0;
    if (mkdir(group, 0755) < 0 && errno != EEXIST) {
        reopen_shared(c);
        if (make_group(group, err) < 0)
            return -1;
    }
    birth->unified = open(group, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (birth->unified < 0 ||
        fchownat(birth->unified, "cgroup.procs", id_base, id_base, AT_SYMLINK_NOFOLLOW) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "set up the group %s", group);
    return 0;
}

static int create_limit(const struct cgroups *c, enum cgroup_limit limit, const char *key,
                        const struct cgroup_values *values, struct cgroup_birth *birth, struct error *err)
{
    const struct cgroup_place *place = &c->places[limit];
    bool old = place->version == 1;
    _cleanup_(cleanup_free) char *group = old ? group_path(place->v1, key) : cgroup_unified(c, key);
    if (place->version == 0 || !group)
        return 0;
    if (old) {
        if (make_group(group, err) < 0 || limit_v1(group, limit, values, err) < 0)
            return -1;
        int tasks = open_in(group, "tasks", O_WRONLY, err);
        if (tasks < 0)
            return -1;
        birth->v1_tasks[birth->v1_count++] = tasks;
    } else if (limit_v2(group, limit, values, err) < 0) {
        return -1;
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

static int kill_and_remove(const char *path, struct error *err)
{
    int64_t deadline = clock_now() + REMOVE_TIMEOUT_NS;
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

int cgroup_remove(const struct cgroups *c, const char *key, const json_t *paths, struct error *err)
{
    json_t *own = paths ? NULL : cgroup_list(c, key);
    const json_t *list = paths ? paths : own;
    int result = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *path = json_string_value(json_array_get(list, i));
        if (path && is_group_of(path, key) && kill_and_remove(path, err) < 0)
            result = -1;
    }
    json_decref(own);
    return result;
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
