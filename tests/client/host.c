/* See host.h. Everything is read from /proc, the control group file systems, and the records of a state
 * directory. */
#include "host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/str.h"

#define GROUPS_MAX 65536
#define KEYS_MAX 4096
#define OWN_MAX 16
#define TEXT_MAX (8 * MIB)

struct host {
    struct map *groups; /* path -> itself */
    struct buf mounts;  /* /proc/self/mounts */
    struct map *own;    /* the state directories that alone count; none: everything does -> itself */
    struct map *keys;   /* of the computers that they have had, as their groups are named -> itself */
};

/* nftw(3) has no argument for its callback. */
static struct {
    struct map *into;     /* remember: every group */
    const struct host *h; /* compare: what was there before, and what counts */
    struct buf *report;
    size_t found;
} walk;

/* A report that is full loses lines, never the count. */
static void tell(struct buf *report, const char *kind, const char *name)
{
    if (report && buf_printf(report, "%s %s\n", kind, name) < 0)
        return;
}

static int remember_group(const char *path, const struct stat *st, int type, struct FTW *at)
{
    if (type == FTW_D)
        (void)map_put(walk.into, path, walk.into);
    return 0;
}

static bool group_is_deserted(const char *path)
{
    _cleanup_(cleanup_free) char *file = path_join(path, "cgroup.procs");
    _cleanup_(buf_done) struct buf procs = BUF_INIT(TEXT_MAX);
    return file_read(AT_FDCWD, file, &procs, NULL) == 0 && procs.len == 0;
}

static bool names_any(const char *text, const struct map *names)
{
    size_t cursor = 0;
    const char *name;
    void *value;
    while (map_next(names, &cursor, &name, &value))
        if (strstr(text, name))
            return true;
    return false;
}

static bool group_counts(const struct host *h, const char *path)
{
    return map_count(h->own) > 0 ? names_any(path, h->keys)
                                 : !map_get(h->groups, path) && group_is_deserted(path);
}

static int compare_group(const char *path, const struct stat *st, int type, struct FTW *at)
{
    if (type != FTW_D || !group_counts(walk.h, path))
        return 0;
    walk.found++;
    tell(walk.report, "group", path);
    return 0;
}

struct host *host_remember(void)
{
    struct host *h = xcalloc(1, sizeof *h);
    h->groups = map_new(GROUPS_MAX);
    h->own = map_new(OWN_MAX);
    h->keys = map_new(KEYS_MAX);
    h->mounts.max = TEXT_MAX;
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    walk.into = h->groups;
    (void)nftw("/sys/fs/cgroup", remember_group, 16, FTW_PHYS);
    (void)file_read(AT_FDCWD, "/proc/self/mounts", &h->mounts, NULL);
    return h;
}

static void free_names(struct map *names)
{
    size_t cursor = 0;
    const char *name;
    void *value;
    while (map_next(names, &cursor, &name, &value))
        map_remove(names, name);
    map_free(names);
}

struct host *host_free(struct host *h)
{
    if (!h)
        return NULL;
    free_names(h->groups);
    free_names(h->keys);
    free_names(h->own);
    buf_done(&h->mounts);
    free(h);
    return NULL;
}

static bool is_our_child(const char *pid, char name[48])
{
    char path[64], stat[512];
    (void)snprintf(path, sizeof path, "/proc/%.16s/stat", pid);
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, stat, sizeof stat - 1);
    if (n <= 0)
        return false;
    stat[n] = '\0';
    char *open_paren = strchr(stat, '('), *close_paren = strrchr(stat, ')');
    int parent;
    if (!open_paren || !close_paren || sscanf(close_paren + 1, " %*c %d", &parent) != 1)
        return false;
    (void)snprintf(name, 48, "%.16s (%.*s)", pid, (int)(close_paren - open_paren - 1), open_paren + 1);
    return parent == getpid();
}

static size_t compare_processes(struct buf *report)
{
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    DIR *proc = opendir("/proc");
    size_t found = 0;
    for (struct dirent *e; proc && (e = readdir(proc));) {
        char name[48];
        if (e->d_name[0] < '0' || e->d_name[0] > '9' || !is_our_child(e->d_name, name))
            continue;
        found++;
        tell(report, "process", name);
    }
    if (proc)
        closedir(proc);
    return found;
}

static size_t compare_mounts(const struct host *h, struct buf *report)
{
    _cleanup_(buf_done) struct buf now = BUF_INIT(TEXT_MAX);
    (void)file_read(AT_FDCWD, "/proc/self/mounts", &now, NULL);
    size_t found = 0;
    char *rest = now.data;
    for (char *line; rest && (line = strsep(&rest, "\n"));) {
        if (*line == '\0' || strstr(buf_str(&h->mounts), line) ||
            (map_count(h->own) > 0 && !names_any(line, h->own)))
            continue;
        found++;
        tell(report, "mount", line);
    }
    return found;
}

static size_t compare_groups(const struct host *h, struct buf *report)
{
    walk.h = h;
    walk.report = report;
    walk.found = 0;
    (void)nftw("/sys/fs/cgroup", compare_group, 16, FTW_PHYS);
    return walk.found;
}

static size_t compare(const struct host *h, struct buf *report)
{
    return compare_processes(report) + compare_mounts(h, report) + compare_groups(h, report);
}

size_t host_leftovers(struct host *h, double seconds, struct buf *ret)
{
    int64_t deadline = clock_deadline_after(seconds);
    while (compare(h, NULL) > 0 && clock_now() < deadline)
        (void)poll(NULL, 0, 10); /* the end of what isn't our child, or of a group, can't be waited for */
    return compare(h, ret);
}

/* The folders of computers, those made ahead as well; `.` and `..` are among them. globfree() it if true. */
static bool find_folders(const char *state_dir, glob_t *ret)
{
    _cleanup_(cleanup_free) char *pattern = path_join(state_dir, "computers/*/*");
    return glob(pattern, GLOB_ONLYDIR | GLOB_NOSORT | GLOB_PERIOD, NULL, ret) == 0;
}

static void remember_key(struct host *h, const char *folder)
{
    _cleanup_(cleanup_free) char *record = path_join(folder, "record.json");
    json_t *json = json_load_file(record, 0, NULL);
    const char *key = json_string_value(json_object_get(json, "key"));
    if (key && *key)
        (void)map_put(h->keys, key, h);
    json_decref(json);
}

size_t host_own(struct host *h, const char *state_dir)
{
    glob_t found;
    (void)map_put(h->own, state_dir, h);
    if (find_folders(state_dir, &found)) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            remember_key(h, found.gl_pathv[i]);
        globfree(&found);
    }
    return map_count(h->keys);
}

size_t state_dir_computers(const char *state_dir)
{
    glob_t found;
    size_t count = 0;
    if (!find_folders(state_dir, &found))
        return 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct stat st;
        bool dots = str_has_suffix(found.gl_pathv[i], "/.") || str_has_suffix(found.gl_pathv[i], "/..");
        if (!dots && stat(found.gl_pathv[i], &st) == 0 && S_ISDIR(st.st_mode))
            count++;
    }
    globfree(&found);
    return count;
}
