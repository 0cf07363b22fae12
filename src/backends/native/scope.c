/* A folder that can be removed is empty, and one that can't be is not: so rmdir(2) is both the question
 * whether a background scope is still needed and its end. */
#include "backends/native/scope.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

#define IDLE_MAX 2          /* kept open */
#define BACKGROUND_MAX 4096 /* left running at once, where no limit of processes is lower */
#define SWEEP_MAX 4         /* background scopes asked per command */
#define KILL_AGAIN_MS 50
#define STATUS_MAX 8192 /* of /proc/PID/status */

static void scope_path(const struct scopes *s, uint32_t number, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/e%u", s->group, number);
}

static void scope_free(struct scope *scope)
{
    list_unlink(&scope->node);
    fd_close(scope->folder);
    fd_close(scope->procs);
    free(scope);
}

void scopes_init(struct scopes *s, const char *group, uint32_t id_base)
{
    *s = (struct scopes){.group = xstrdup(group), .id_base = id_base};
    pthread_mutex_init(&s->lock, NULL);
    list_init(&s->idle);
    list_init(&s->background);
}

static void free_all(struct list *head)
{
    list_for_each (node, head)
        scope_free(list_entry(node, struct scope, node));
}

void scopes_done(struct scopes *s)
{
    free_all(&s->idle);
    free_all(&s->background);
    pthread_mutex_destroy(&s->lock);
    cleanup_free(&s->group);
}

/* Under the lock. */
static struct scope *take_idle(struct scopes *s)
{
    if (list_empty(&s->idle))
        return NULL;
    struct scope *scope = list_entry(s->idle.next, struct scope, node);
    list_unlink(&scope->node);
    s->idle_count--;
    return scope;
}

static struct scope *scope_new(const struct scopes *s, uint32_t number, struct error *err)
{
    char path[PATH_MAX];
    scope_path(s, number, path);
    if (mkdir(path, 0755) < 0) {
        error_errno(err, errno == ENOENT || errno == ENODEV ? ERR_GONE : ERR_UNAVAILABLE, errno,
                    "make a control group for the command");
        return NULL;
    }
    struct scope *scope = xcalloc(1, sizeof(*scope));
    *scope = (struct scope){.number = number};
    list_init(&scope->node);
    scope->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scope->procs = openat(scope->folder, "cgroup.procs", O_RDWR | O_CLOEXEC);
    if (scope->procs < 0 || fchown(scope->procs, s->id_base, s->id_base) < 0) {
        error_errno(err, ERR_UNAVAILABLE, errno, "set up the control group %s", path);
        scope_free(scope);
        rmdir(path);
        return NULL;
    }
    return scope;
}

/* What is empty goes; what isn't, some command of an earlier server has left running. */
static void resume_scope(struct scopes *s, const char *name)
{
    unsigned number;
    char path[PATH_MAX], rest;
    if (sscanf(name, "e%u%c", &number, &rest) != 1 || number == UINT32_MAX)
        return;
    if (number >= s->next)
        s->next = number + 1;
    scope_path(s, number, path);
    if (rmdir(path) == 0 || errno != EBUSY)
        return;
    struct scope *scope = xcalloc(1, sizeof(*scope));
    *scope = (struct scope){.number = number, .folder = -1, .procs = -1};
    list_append(&s->background, &scope->node);
    s->background_count++;
}

void scopes_resume(struct scopes *s)
{
    DIR *dir = opendir(s->group);
    if (!dir)
        return; /* the next command tells */
    for (const struct dirent *e; (e = readdir(dir));)
        resume_scope(s, e->d_name);
    closedir(dir);
}

struct scope *scope_take(struct scopes *s, struct error *err)
{
    pthread_mutex_lock(&s->lock);
    struct scope *scope = take_idle(s);
    bool full = !scope && s->background_count >= BACKGROUND_MAX;
    uint32_t number = scope || full ? 0 : s->next++;
    pthread_mutex_unlock(&s->lock);
    if (full) {
        error_set(err, ERR_LIMIT,
                  "%d commands have left processes running in this computer: end some of them",
                  BACKGROUND_MAX);
        return NULL;
    }
    return scope ? scope : scope_new(s, number, err);
}

void scopes_warm(struct scopes *s)
{
    struct scope *scope = scope_take(s, NULL);
    if (scope)
        scope_give_back(s, scope);
}

/* Under the lock. Those that are still in use go to the end of the list, so that each gets its turn. */
static void sweep_background(struct scopes *s)
{
    unsigned asked = s->background_count < SWEEP_MAX ? s->background_count : SWEEP_MAX;
    for (unsigned i = 0; i < asked; i++) {
        struct scope *scope = list_entry(s->background.next, struct scope, node);
        char path[PATH_MAX];
        scope_path(s, scope->number, path);
        list_unlink(&scope->node);
        if (rmdir(path) < 0 && errno == EBUSY) {
            list_append(&s->background, &scope->node);
            continue;
        }
        s->background_count--;
        scope_free(scope);
    }
}

/* To the background list goes also what is empty but of no use: the sweep removes it. */
void scope_give_back(struct scopes *s, struct scope *scope)
{
    bool reusable = !scope->killed && scope_is_empty(scope);
    pthread_mutex_lock(&s->lock);
    if (reusable && s->idle_count < IDLE_MAX) {
        list_append(&s->idle, &scope->node);
        s->idle_count++;
    } else {
        scope->folder = fd_close(scope->folder);
        scope->procs = fd_close(scope->procs);
        list_append(&s->background, &scope->node);
        s->background_count++;
    }
    sweep_background(s);
    pthread_mutex_unlock(&s->lock);
}

bool scope_is_empty(const struct scope *scope)
{
    char first;
    return pread(scope->procs, &first, 1, 0) == 0;
}

void scope_kill(struct scope *scope)
{
    scope->killed = true;
    _cleanup_fd_ int fd = openat(scope->folder, "cgroup.kill", O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, "1", 1) < 0) {
        /* The computer's group is being removed: all of it is dead or dying. */
    }
}

int scope_end(struct scope *scope, int64_t deadline)
{
    _cleanup_fd_ int events = openat(scope->folder, "cgroup.events", O_RDONLY | O_CLOEXEC);
    while (!scope_is_empty(scope)) {
        if (clock_now() >= deadline)
            return -1;
        scope_kill(scope);
        /* The kernel tells a change of cgroup.events as POLLPRI, to whom has read it since the last one. */
        char text[64];
        if (events >= 0 && pread(events, text, sizeof(text), 0) > 0 && !scope_is_empty(scope)) {
            struct pollfd p = {.fd = events, .events = POLLPRI};
            poll(&p, 1, KILL_AGAIN_MS);
        }
    }
    return 0;
}

/* The pid in the innermost namespace: the last number of the NSpid line. -1: it has ended, or is about to: it
 * has no memory any more. */
static int inner_pid(int pid)
{
    char path[40];
    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    _cleanup_(buf_done) struct buf b = BUF_INIT(STATUS_MAX);
    if (file_read(AT_FDCWD, path, &b, NULL) < 0 || !strstr(b.data, "\nVmSize:"))
        return -1;
    char *line = strstr(b.data, "\nNSpid:");
    if (!line)
        return -1;
    line++;
    line[strcspn(line, "\n")] = '\0';
    const char *last = strrchr(line, '\t');
    return last ? atoi(last + 1) : -1;
}

size_t scope_pids(const struct scope *scope, int *pids, size_t max, bool *ret_more)
{
    char text[4096]; /* more than max numbers */
    size_t n = 0;
    ssize_t got = pread(scope->procs, text, sizeof(text) - 1, 0);
    *ret_more = false;
    if (got <= 0)
        return 0;
    text[got] = '\0';
    *ret_more = (size_t)got == sizeof(text) - 1;
    for (char *p = text, *end; *p; p = end + (*end == '\n')) {
        int pid = (int)strtol(p, &end, 10);
        if (end == p)
            break;
        int inner = pid > 0 ? inner_pid(pid) : -1;
        if (inner > 0 && n == max)
            *ret_more = true;
        else if (inner > 0)
            pids[n++] = inner;
    }
    return n;
}
