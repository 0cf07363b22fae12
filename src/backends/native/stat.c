/* A computer as its groups and the rest of the kernel's books show it. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "backends/native/private.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/str.h"

#define FILE_BYTES 4096

void figures_init(struct figures *f)
{
    pthread_mutex_init(&f->lock, NULL);
    for (int i = 0; i < FIGURES; i++)
        f->files[i] = -1;
}

void figures_done(struct figures *f)
{
    for (int i = 0; i < FIGURES; i++)
        f->files[i] = fd_close(f->files[i]);
    pthread_mutex_destroy(&f->lock);
}

void figures_forget(struct figures *f)
{
    pthread_mutex_lock(&f->lock);
    f->cpu = 0;
    f->rests = false;
    pthread_mutex_unlock(&f->lock);
}

/* The computer's group that has the limit's controller, in its version's hierarchy. NULL: there is none. */
static char *group_of(const struct native_instance *i, enum cgroup_limit limit)
{
    const struct cgroup_place *place = &i->native->cgroups.places[limit];
    char name[64];
    cgroup_name(i->key, name, sizeof(name));
    if (place->version == 1)
        return path_join(place->v1, name);
    return place->version == 2 ? cgroup_unified(&i->native->cgroups, i->key) : NULL;
}

static int open_in(const char *group, const char *file)
{
    _cleanup_(cleanup_free) char *path = group ? path_join(group, file) : NULL;
    return path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
}

static int open_figure(const struct native_instance *i, enum figure figure)
{
    static const enum cgroup_limit LIMITS[FIGURES] = {
        [FIGURE_CPU] = CGROUP_CPU, [FIGURE_MEMORY] = CGROUP_MEMORY, [FIGURE_PIDS] = CGROUP_PIDS};
    static const char *const NAMES[FIGURES][2] = {
        [FIGURE_CPU] = {"cpuacct.usage", "cpu.stat"},
        [FIGURE_MEMORY] = {"memory.usage_in_bytes", "memory.current"},
        [FIGURE_PIDS] = {"pids.current", "pids.current"},
    };
    const struct cgroups *c = &i->native->cgroups;
    /* Every cgroup2 group counts time, whether or not there is a controller. */
    const bool is_v2 = figure == FIGURE_CPU ? c->unified != NULL : c->places[LIMITS[figure]].version == 2;
    _cleanup_(cleanup_free) char *group = is_v2 ? cgroup_unified(c, i->key) : group_of(i, LIMITS[figure]);
    return open_in(group, NAMES[figure][is_v2]);
}

/* The first number in the file. The kernel gives all of it at once. 0: there is none. */
static uint64_t read_figure(struct native_instance *i, enum figure figure)
{
    char text[FILE_BYTES];
    int *fd = &i->figures.files[figure];
    ssize_t n = *fd >= 0 ? pread(*fd, text, sizeof(text) - 1, 0) : -1;
    if (n < 0) { /* the first time, or the group was made anew */
        fd_close(*fd);
        *fd = open_figure(i, figure);
        i->figures.cpu = 0;
        n = *fd >= 0 ? pread(*fd, text, sizeof(text) - 1, 0) : -1;
        if (*fd > sysconf(_SC_OPEN_MAX) / 2) /* the rest is for computers */
            *fd = fd_close(*fd);
    }
    if (n <= 0)
        return 0;
    text[n] = '\0';
    return strtoull(text + strcspn(text, "0123456789"), NULL, 10);
}

/* No command runs, and none has since the last look. */
static bool is_left_alone(struct native_instance *i, struct figures *f)
{
    const unsigned ended = atomic_load(&i->commands_ended), begun = atomic_load(&i->commands_begun);
    const bool none_since = begun == f->commands;
    f->commands = begun;
    return none_since && begun == ended;
}

/* Making and ending a process takes time: while that doesn't grow, there are as many as there were. */
static bool read_time(struct native_instance *i, struct figures *f)
{
    const uint64_t cpu = read_figure(i, FIGURE_CPU);
    const bool same = cpu != 0 && cpu == f->cpu;
    if (!same)
        f->pids = (int)read_figure(i, FIGURE_PIDS);
    f->cpu = cpu;
    return same;
}

/* Init alone does nothing before the next command, once it is done with the last one, which shows when it has
 * used no more time between two looks. Memory may be taken from those that sleep, so it is read each time. */
static void read_figures(struct native_instance *i, struct instance_stat *s)
{
    struct figures *f = &i->figures;
    pthread_mutex_lock(&f->lock);
    const bool is_alone = is_left_alone(i, f);
    if (!is_alone || !f->rests)
        f->rests = read_time(i, f) && is_alone && f->pids == 1;
    s->cpu_ns =
        i->native->cgroups.unified ? f->cpu * 1000 : f->cpu; /* "usage_usec N" is the first line there */
    s->memory_bytes = (int64_t)read_figure(i, FIGURE_MEMORY);
    s->pids = f->pids;
    pthread_mutex_unlock(&f->lock);
}

static void read_disk(const struct native_instance *i, struct instance_stat *s)
{
    struct statvfs v;
    s->disk_bytes = -1;
    if (i->disk.way == DISK_IMAGE && i->disk.fd >= 0 && fstatvfs(i->disk.fd, &v) == 0)
        s->disk_bytes = (int64_t)((v.f_blocks - v.f_bfree) * v.f_frsize);
}

static void fill_limits(const struct native_instance *i, struct instance_stat *s)
{
    static const enum computer_option options[CGROUP_LIMITS] = {
        [CGROUP_MEMORY] = COMPUTER_MEMORY, [CGROUP_PIDS] = COMPUTER_PIDS, [CGROUP_CPU] = COMPUTER_CPUS};
    s->memory_limit = i->values.memory_bytes;
    s->pids_limit = i->values.pids;
    s->cpus_limit = i->values.cpus;
    s->disk_limit = i->disk.way == DISK_NONE ? 0 : i->disk.limit.bytes;
    for (size_t l = 0; l < CGROUP_LIMITS; l++)
        if (i->native->cgroups.places[l].version != 0)
            s->enforced |= options[l];
    if (i->disk.way == DISK_IMAGE)
        s->enforced |= COMPUTER_DISK;
}

int instance_stat(struct instance *instance, bool usage, const struct wait *wait, struct instance_stat *ret,
                  struct error *err)
{
    struct native_instance *i = instance_of(instance);
    if (usage && birth_await(i, wait, err) < 0) /* its init counts, too */
        return -1;
    *ret = (struct instance_stat){.disk_bytes = -1};
    snprintf(ret->provider_id, sizeof(ret->provider_id), "%s", i->key);
    if (i->native->rootfs)
        snprintf(ret->image, sizeof(ret->image), "%s", i->native->rootfs);
    fill_limits(i, ret);
    if (!usage)
        return 0;
    read_figures(i, ret);
    read_disk(i, ret);
    return 0;
}
