/* Computers on disk. See store.h for the layout and the rule of ownership. */
#include "computers/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/random.h"
#include "base/str.h"
#include "computers/settings.h"

#define RECORD_NAME "record.json"
/* What a record is called that could not be written anew when its computer was to be removed: a name needs no
 * room on the disk. */
#define DYING_RECORD_NAME "record.deleting.json"
/* 2: with "options" and "terms". A record without them is written as 1, which older programs read, too. */
#define RECORD_VERSION 2
#define MOMENT_MAX (INT64_MAX / 4) /* so that differences are no overflow */
#define BORN_PREFIX ".new-"
#define DYING_PREFIX ".old-"
/* Processes of computers, under other user ids, pass through; they can't look around. */
#define FOLDER_MODE 0711

void record_done(struct record *r)
{
    options_done(&r->options);
    terms_done(&r->terms);
    json_decref(r->data);
    r->data = NULL;
}

static struct moment moment_now(void)
{
    return (struct moment){.now = clock_now(), .wall = clock_wall()};
}

static int64_t age_of(const char *boot, const struct moment *m)
{
    const struct moment now = moment_now();
    int64_t age = strcmp(boot, clock_boot_id()) == 0 ? now.now - m->now : now.wall - m->wall;
    return age > 0 ? age : 0;
}

int64_t record_age(const struct record *r, const struct moment *m)
{
    return r->boot[0] ? age_of(r->boot, m) : 0;
}

/* Both moments are of this boot from now on. */
void record_touch(struct record *r)
{
    const struct moment now = moment_now();
    r->made.now = now.now - record_age(r, &r->made);
    r->made.wall = r->boot[0] ? r->made.wall : now.wall;
    r->used = now;
    snprintf(r->boot, sizeof(r->boot), "%s", clock_boot_id());
    clock_rfc3339(now.wall, r->last_used);
}

void folder_close(struct folder *f)
{
    f->lock = fd_close(f->lock);
    free(f->path);
    f->path = NULL;
}

bool store_is_debris(const char *name)
{
    return str_has_prefix(name, BORN_PREFIX) || str_has_prefix(name, DYING_PREFIX);
}

/* ERR_NOT_FOUND: it has no parent. */
static int make_folder(const char *path, struct error *err)
{
    if (mkdir(path, FOLDER_MODE) == 0 || errno == EEXIST)
        return 0;
    if (errno == ENOENT)
        return error_set(err, ERR_NOT_FOUND, "there is no folder for '%s'", path);
    return error_errno(err, ERR_INTERNAL, errno, "cannot make '%s'", path);
}

/* DIR with those above it, and PARENT in it. */
static int make_parents(const char *dir, const char *parent, struct error *err)
{
    if (dir_make(dir, FOLDER_MODE, err) < 0 || make_folder(parent, err) < 0)
        return -1;
    if (chmod(dir, FOLDER_MODE) < 0 || chmod(parent, FOLDER_MODE) < 0) /* whatever the umask */
        return error_errno(err, ERR_INTERNAL, errno, "cannot set the mode of '%s'", parent);
    return 0;
}

/* 0: locked, and still the folder at this path; 1: it was renamed or removed under us; -1: error. */
static int lock_folder(const char *path, int *ret_lock, struct error *err)
{
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return error_set(err, ERR_NOT_FOUND, "there is no '%s'", path);
    if (fd < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot open '%s'", path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? error_set(err, ERR_BUSY, "'%s' is in use by another server", path)
                                    : error_errno(err, ERR_INTERNAL, errno, "cannot lock '%s'", path);
    struct stat ours, named;
    if (fstat(fd, &ours) < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot look at '%s'", path);
    if (lstat(path, &named) < 0 || ours.st_ino != named.st_ino || ours.st_dev != named.st_dev)
        return 1;
    *ret_lock = TAKE_FD(fd);
    return 0;
}

int store_open(const char *dir, const char *principal, const char *name, struct folder *ret,
               struct error *err)
{
    _cleanup_(cleanup_free) char *path = xasprintf("%s/%s/%s", dir, principal, name);
    int lock = -1, r;
    while ((r = lock_folder(path, &lock, err)) == 1)
        ; /* each round, another server has made progress */
    if (r < 0)
        return -1;
    *ret = (struct folder){.path = TAKE_PTR(path), .lock = lock};
    return 0;
}

/* A locked folder under a name that nobody knows. */
static int make_unborn(const char *parent, struct folder *ret, struct error *err)
{
    for (;;) {
        char hex[RANDOM_HEX_SIZE(8)];
        random_hex(hex, 8);
        _cleanup_(cleanup_free) char *path = xasprintf("%s/" BORN_PREFIX "%s", parent, hex);
        int lock = -1;
        if (make_folder(path, err) < 0)
            return -1;
        int r = lock_folder(path, &lock, err);
        if (r == 0 && fchmod(lock, FOLDER_MODE) < 0) { /* whatever the umask; it is our own */
            error_errno(err, ERR_INTERNAL, errno, "cannot set the mode of '%s'", path);
            rmdir(path);
            fd_close(lock);
            return -1;
        }
        if (r == 0) {
            *ret = (struct folder){.path = TAKE_PTR(path), .lock = lock};
            return 0;
        }
        /* The reaper was faster with the lock, and removes it: another name. Anything else is an error. */
        if (r < 0 && err->code != ERR_BUSY && err->code != ERR_NOT_FOUND)
            return -1;
    }
}

static int sync_folder(const char *path, struct error *err)
{
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot write '%s' to disk", path);
    return 0;
}

int store_prepare(const char *dir, const char *principal, struct folder *ret, struct error *err)
{
    struct error local = ERROR_INIT;
    _cleanup_(cleanup_free) char *parent = path_join(dir, principal);
    err = err ? err : &local;
    if (make_unborn(parent, ret, err) < 0 &&
        (err->code != ERR_NOT_FOUND || make_parents(dir, parent, err) < 0 ||
         make_unborn(parent, ret, err) < 0)) /* none of it is about an id */
        return backend_tell_full(err)
                   ? -1
                   : error_recast(err, ERR_UNAVAILABLE, "the state directory can't be used");
    return 0;
}

int store_name(const char *dir, const struct record *record, struct folder *f, struct error *err)
{
    _cleanup_(cleanup_free) char *parent = path_join(dir, record->principal);
    _cleanup_(cleanup_free) char *path = path_join(parent, record->id);
    FAULT_POINT("create.record-written");
    int failed = renameat2(AT_FDCWD, f->path, AT_FDCWD, path, RENAME_NOREPLACE);
    if (failed < 0 && errno == ENOENT) { /* made for another principal, and this one's first */
        if (make_parents(dir, parent, err) < 0)
            return -1;
        failed = renameat2(AT_FDCWD, f->path, AT_FDCWD, path, RENAME_NOREPLACE);
    }
    if (failed < 0)
        return errno == EEXIST ? error_set(err, ERR_EXISTS, "there is a '%s' already", path)
                               : error_errno(err, ERR_INTERNAL, errno, "cannot make '%s'", path);
    free(f->path);
    f->path = TAKE_PTR(path);
    return 0;
}

/* Whether it has to outlast a machine that stops at once: what is being made hasn't been promised to anybody
 * yet. */
static bool is_durable(const struct record *r)
{
    return !r->temporary && (r->ready || r->dying);
}

int store_sync(const char *dir, const struct record *record, struct error *err)
{
    _cleanup_(cleanup_free) char *parent = path_join(dir, record->principal);
    return is_durable(record) ? sync_folder(parent, err) : 0;
}

/* With its record and its name. On failure it is removed. */
static int complete(const char *dir, const struct record *record, struct folder *f, struct error *err)
{
    FAULT_POINT("create.folder-made");
    if (store_write(f, record, err) == 0 && store_name(dir, record, f, err) == 0 &&
        store_sync(dir, record, err) == 0) {
        FAULT_POINT("create.named");
        return 0;
    }
    store_remove(f, NULL);
    return -1;
}

int store_create(const char *dir, const struct record *record, struct folder *ahead, struct folder *ret,
                 struct error *err)
{
    struct error why = ERROR_INIT;
    struct folder folder = *ahead;
    *ahead = (struct folder)FOLDER_NONE;
    bool made = folder.path && complete(dir, record, &folder, &why) == 0;
    if (why.code == ERR_EXISTS)
        return error_set(err, why.code, "%s", why.msg);
    /* Without one; or somebody has removed it behind our back. */
    if (!made &&
        (store_prepare(dir, record->principal, &folder, err) < 0 || complete(dir, record, &folder, err) < 0))
        return -1;
    *ret = folder;
    return 0;
}

static void write_owner(struct json_writer *w, const struct owner *owner)
{
    jw_begin_object(w);
    jw_key(w, "machine");
    jw_string(w, owner->machine);
    jw_key(w, "boot");
    jw_string(w, owner->boot);
    jw_key(w, "pid");
    jw_integer(w, owner->pid);
    jw_key(w, "start");
    jw_integer(w, (int64_t)owner->start);
    jw_end_object(w);
}

static void write_text(struct json_writer *w, const char *key, const char *value)
{
    jw_key(w, key);
    jw_string(w, value);
}

static void write_moment(struct json_writer *w, const char *key, const struct moment *m)
{
    jw_key(w, key);
    jw_begin_array(w);
    jw_integer(w, m->now);
    jw_integer(w, m->wall);
    jw_end_array(w);
}

static void write_clock(struct json_writer *w, const struct record *r)
{
    jw_key(w, "clock");
    jw_begin_object(w);
    write_text(w, "boot", r->boot);
    write_moment(w, "made", &r->made);
    write_moment(w, "used", &r->used);
    jw_end_object(w);
}

static void write_settings(struct json_writer *w, const struct record *r)
{
    if (r->options.given) {
        jw_key(w, "options");
        options_write(w, &r->options);
    }
    if (!terms_are_none(&r->terms)) {
        jw_key(w, "terms");
        terms_write(w, &r->terms);
    }
    if (r->image[0])
        write_text(w, "image", r->image);
    if (r->idle_pids > 0) {
        jw_key(w, "idle_pids");
        jw_integer(w, r->idle_pids);
    }
    if (r->boot[0])
        write_clock(w, r);
}

static int version_of(const struct record *r)
{
    return r->options.given || !terms_are_none(&r->terms) ? RECORD_VERSION : 1;
}

int store_write(const struct folder *f, const struct record *r, struct error *err)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT(LIMIT_RECORD_BYTES);
    struct json_writer w;
    jw_init(&w, &text);
    jw_begin_object(&w);
    jw_key(&w, "version");
    jw_integer(&w, version_of(r));
    write_text(&w, "id", r->id);
    write_text(&w, "principal", r->principal);
    write_text(&w, "key", r->key);
    write_text(&w, "backend", r->backend);
    write_text(&w, "network", r->network);
    jw_key(&w, "temporary");
    jw_bool(&w, r->temporary);
    write_text(&w, "state", r->ready ? "ready" : r->dying ? "deleting" : "creating");
    write_text(&w, "created_at", r->created_at);
    write_text(&w, "last_used", r->last_used);
    jw_key(&w, "owner");
    write_owner(&w, &r->owner);
    write_settings(&w, r);
    if (r->data) {
        jw_key(&w, "data");
        jw_value(&w, r->data);
    }
    jw_end_object(&w);
    if (w.failed || buf_append_byte(&text, '\n') < 0)
        return error_set(err, ERR_LIMIT, "the record of computer '%s' is larger than %lu bytes", r->id,
                         LIMIT_RECORD_BYTES);
    _cleanup_(cleanup_free) char *path = path_join(f->path, RECORD_NAME);
    struct error why = ERROR_INIT;
    if (file_replace(AT_FDCWD, path, text.data, text.len, is_durable(r), &why) == 0)
        return 0;
    backend_tell_full(&why);
    return error_set(err, why.code, "%s", why.msg);
}

int store_mark_dying(const struct folder *f, struct record *r, struct error *err)
{
    r->ready = false;
    r->dying = true;
    struct error why = ERROR_INIT;
    if (store_write(f, r, &why) == 0)
        return 0;
    if (renameat(f->lock, RECORD_NAME, f->lock, DYING_RECORD_NAME) < 0)
        return error_set(err, why.code, "%s", why.msg);
    return sync_folder(f->path, err);
}

/* False if the member is absent, no string, or too long. */
static bool read_text(const json_t *object, const char *member, char *ret, size_t size)
{
    const char *value = json_get_string(object, member);
    if (!value || strlen(value) >= size)
        return false;
    memcpy(ret, value, strlen(value) + 1);
    return true;
}

static bool read_owner(const json_t *object, struct owner *ret)
{
    const json_t *pid = json_object_get(object, "pid"), *start = json_object_get(object, "start");
    if (!read_text(object, "machine", ret->machine, sizeof(ret->machine)) ||
        !read_text(object, "boot", ret->boot, sizeof(ret->boot)) || !json_is_integer(pid) ||
        !json_is_integer(start))
        return false;
    ret->pid = (pid_t)json_integer_value(pid);
    ret->start = (uint64_t)json_integer_value(start);
    return true;
}

static bool read_moment(const json_t *object, const char *member, struct moment *ret)
{
    const json_t *pair = json_object_get(object, member);
    const json_t *now = json_array_get(pair, 0), *wall = json_array_get(pair, 1);
    if (!json_is_integer(now) || !json_is_integer(wall))
        return false;
    *ret = (struct moment){json_integer_value(now), json_integer_value(wall)};
    return llabs(ret->now) <= MOMENT_MAX && llabs(ret->wall) <= MOMENT_MAX;
}

/* What older records don't have. */
static bool read_settings(const json_t *object, struct record *r)
{
    const json_t *clock = json_object_get(object, "clock"), *pids = json_object_get(object, "idle_pids");
    if (json_object_get(object, "image") && !read_text(object, "image", r->image, sizeof(r->image)))
        return false;
    if (clock && (!read_text(clock, "boot", r->boot, sizeof(r->boot)) ||
                  !read_moment(clock, "made", &r->made) || !read_moment(clock, "used", &r->used)))
        return false;
    if (pids &&
        (!json_is_integer(pids) || json_integer_value(pids) < 0 || json_integer_value(pids) > INT_MAX))
        return false;
    r->idle_pids = (int)json_integer_value(pids);
    return options_read(json_object_get(object, "options"), &r->options) &&
           terms_read(json_object_get(object, "terms"), &r->terms);
}

static bool read_record(const json_t *object, struct record *r)
{
    const char *state = json_get_string(object, "state");
    const json_t *temporary = json_object_get(object, "temporary");
    if (!state || !json_is_boolean(temporary) || !read_text(object, "id", r->id, sizeof(r->id)) ||
        !read_text(object, "principal", r->principal, sizeof(r->principal)) ||
        !read_text(object, "key", r->key, sizeof(r->key)) ||
        !read_text(object, "backend", r->backend, sizeof(r->backend)) ||
        !read_text(object, "network", r->network, sizeof(r->network)) ||
        !read_text(object, "created_at", r->created_at, sizeof(r->created_at)) ||
        !read_text(object, "last_used", r->last_used, sizeof(r->last_used)) ||
        !read_owner(json_get_object(object, "owner"), &r->owner))
        return false;
    r->temporary = json_is_true(temporary);
    r->ready = strcmp(state, "ready") == 0;
    r->dying = strcmp(state, "deleting") == 0;
    /* The key names groups and folders: nothing but what we make ourselves may come back from a file. */
    return strlen(r->key) == COMPUTER_KEY_SIZE - 1 &&
           strspn(r->key, "0123456789abcdef") == COMPUTER_KEY_SIZE - 1 && read_settings(object, r);
}

static int read_file(const struct folder *f, const char *file, struct record *ret, struct error *err)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT(LIMIT_RECORD_BYTES);
    _cleanup_(cleanup_free) char *path = path_join(f->path, file);
    struct error why = ERROR_INIT;
    if (file_read(AT_FDCWD, path, &text, &why) < 0) {
        if (why.code == ERR_NOT_FOUND || why.code == ERR_LIMIT)
            return error_set(err, ERR_INVALID, "%s", why.msg);
        return error_set(err, why.code, "%s", why.msg);
    }
    _cleanup_(cleanup_json_decref) json_t *object = json_parse(buf_str(&text), text.len, &why);
    if (!object)
        return error_set(err, ERR_INVALID, "'%s': %s", path, why.msg);
    const json_t *version = json_object_get(object, "version");
    if (json_is_integer(version) && json_integer_value(version) > RECORD_VERSION)
        return error_set(err, ERR_UNSUPPORTED,
                         "'%s' was written by a newer version of this program: use that one", path);
    struct record record = {0};
    if (!json_is_integer(version) || !read_record(object, &record)) {
        record_done(&record);
        return error_set(err, ERR_INVALID, "'%s' is no record of a computer", path);
    }
    record.data = json_incref(json_get_object(object, "data"));
    const char *name = path_basename(f->path);
    if (!record.id[0] && slug_check(name, NULL) == 0) /* made ahead, its folder alone has the id */
        memcpy(record.id, name, strlen(name) + 1);
    *ret = record;
    return 0;
}

int store_read(const struct folder *f, struct record *ret, struct error *err)
{
    struct error why = ERROR_INIT;
    struct record dying;
    if (read_file(f, RECORD_NAME, ret, &why) == 0)
        return 0;
    if (read_file(f, DYING_RECORD_NAME, &dying, NULL) < 0)
        return error_set(err, why.code, "%s", why.msg);
    dying.ready = false;
    dying.dying = true;
    *ret = dying;
    return 0;
}

int store_remove(struct folder *f, struct error *err)
{
    char hex[RANDOM_HEX_SIZE(8)];
    random_hex(hex, 8);
    const char *name = path_basename(f->path);
    _cleanup_(cleanup_free) char *parent = xstrndup(f->path, (size_t)(name - f->path) - 1);
    _cleanup_(cleanup_free) char *dying_name = xasprintf(DYING_PREFIX "%s", hex);
    _cleanup_fd_ int dirfd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = 0;
    if (dirfd < 0 || renameat(dirfd, name, dirfd, dying_name) < 0)
        r = error_errno(err, ERR_INTERNAL, errno, "cannot remove '%s'", f->path);
    else {
        FAULT_POINT("remove.id-freed");
        r = tree_remove(dirfd, dying_name, err);
    }
    FAULT_POINT("remove.folder-removed");
    folder_close(f);
    return r;
}

int store_exchange(struct folder *a, struct folder *b, struct error *err)
{
    if (renameat2(AT_FDCWD, a->path, AT_FDCWD, b->path, RENAME_EXCHANGE) < 0)
        return error_errno(err, error_code_of_errno(errno), errno, "cannot exchange '%s' and '%s'", a->path,
                           b->path);
    char *path = a->path;
    a->path = b->path;
    b->path = path;
    return 0;
}

int store_set_aside(struct folder *f, char **ret_path, struct error *err)
{
    _cleanup_(cleanup_free) char *path = xasprintf("%s.bad-%lld", f->path, (long long)clock_wall());
    int r = 0;
    if (renameat2(AT_FDCWD, f->path, AT_FDCWD, path, RENAME_NOREPLACE) < 0)
        r = error_errno(err, ERR_INTERNAL, errno, "cannot rename '%s'", f->path);
    else
        *ret_path = TAKE_PTR(path);
    folder_close(f);
    return r;
}

bool store_exists(const struct folder *f)
{
    return access(f->path, F_OK) == 0;
}

int store_stat(const struct folder *f, struct stat *ret)
{
    _cleanup_(cleanup_free) char *path = path_join(f->path, RECORD_NAME);
    return stat(path, ret);
}

void store_scan_principal(const char *dir, const char *principal, store_scan_fn *fn, void *ctx)
{
    _cleanup_(cleanup_free) char *path = path_join(dir, principal);
    DIR *entries = opendir(path);
    if (!entries)
        return;
    for (const struct dirent *e; (e = readdir(entries));)
        if (slug_check(e->d_name, NULL) == 0 || store_is_debris(e->d_name))
            fn(ctx, principal, e->d_name);
    closedir(entries);
}

void store_scan(const char *dir, store_scan_fn *fn, void *ctx)
{
    DIR *principals = opendir(dir);
    if (!principals)
        return;
    for (const struct dirent *e; (e = readdir(principals));)
        if (slug_check(e->d_name, NULL) == 0)
            store_scan_principal(dir, e->d_name, fn, ctx);
    closedir(principals);
}
