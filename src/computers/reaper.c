/* What dead servers have left, and this one where something could not be removed: temporary computers,
 * computers that were never finished, folders half made or half removed; and what still runs of permanent
 * ones, where that isn't to go on. The lock of a folder is what counts: who can take it is the only one who
 * looks after it. It is not even tried for computers that are none of these, since whoever wants to use one
 * would find it taken. */
#include "computers/registry.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"

#define LEFT_FIRST_NS (60 * NSEC_PER_SEC)
#define LEFT_TRIES 8 /* each after twice the time: in four hours */

struct reaping {
    struct computers *computers;
    struct owner self;
    int count, left;
};

/* We hold the folder's lock, so a record in our own name is of an earlier computer that could not be removed.
 */
static bool is_orphan(const struct owner *self, const struct record *record)
{
    return (record->temporary || !record->ready) &&
           (owner_equal(self, &record->owner) || owner_is_dead(self, &record->owner));
}

/* A permanent computer whose server ended without putting it down. */
static bool is_abandoned(const struct owner *self, const struct record *record)
{
    return !record->temporary && record->ready && record->owner.pid != 0 &&
           owner_is_dead(self, &record->owner);
}

static void settle(struct computers *c, const struct folder *folder, struct record *record)
{
    const struct computer_spec spec = spec_of_record(record, folder->path);
    if (strcmp(record->backend, c->backend->ops->name) != 0 ||
        c->backend->ops->settle(c->backend, &spec, record->data, NULL) < 0)
        return;
    FAULT_POINT("settle.ended");
    record->owner.pid = 0;
    store_write(folder, record, NULL); /* if that fails, it is settled once more */
    FAULT_POINT("settle.recorded");
}

int reap_folder(struct computers *c, struct folder *folder, const struct record *record, struct error *err)
{
    struct owner self;
    if (computers_self(c, &self, err) < 0)
        return -1;
    if (!is_orphan(&self, record))
        return 0;
    if (strcmp(record->backend, c->backend->ops->name) != 0)
        return error_set(
            err, ERR_UNAVAILABLE,
            "computer '%s' is what a dead server has left of the backend '%s'; a server with that backend "
            "removes it, or choose another computer_id",
            record->id, record->backend);
    const struct computer_spec spec = spec_of_record(record, folder->path);
    if (c->backend->ops->reap(c->backend, &spec, record->data, err) < 0 || store_remove(folder, err) < 0)
        return error_prefix(err, "computer '%s', left by a dead server, cannot be removed", record->id);
    return 1;
}

/* One that is abandoned, and whose processes aren't to wait for whoever uses it next. */
static bool is_to_be_settled(const struct computers *c, const struct owner *self, const char *folder,
                             const struct record *record)
{
    const struct backend_ops *ops = c->backend->ops;
    const struct computer_spec spec = spec_of_record(record, folder);
    return is_abandoned(self, record) && !(ops->lives && strcmp(record->backend, ops->name) == 0 &&
                                           ops->lives(c->backend, &spec, record->data));
}

/* By a look from outside: without the lock it may change at any moment. */
static bool may_be_orphan(struct computers *c, const struct owner *self, const char *principal,
                          const char *name)
{
    _cleanup_(cleanup_free) char *path = xasprintf("%s/%s/%s", c->dir, principal, name);
    const struct folder folder = {.path = path, .lock = -1};
    _cleanup_(record_done) struct record record = {0};
    if (store_is_debris(name))
        return true;
    if (store_read(&folder, &record, NULL) < 0)
        return false;
    pthread_mutex_lock(&c->lock);
    terms_note_stored_locked(c, &record); /* we have read it anyway */
    pthread_mutex_unlock(&c->lock);
    return is_orphan(self, &record) || is_to_be_settled(c, self, path, &record);
}

/* A computer that was made ahead has a record, and may have more than a folder. */
static int remove_debris(struct computers *c, struct folder *folder, const struct record *record)
{
    if (record && strcmp(record->backend, c->backend->ops->name) != 0)
        return 0;
    const struct computer_spec spec =
        record ? spec_of_record(record, folder->path) : (struct computer_spec){0};
    return (!record || c->backend->ops->reap(c->backend, &spec, record->data, NULL) == 0) &&
                   store_remove(folder, NULL) == 0
               ? 0
               : -1;
}

static void reap_name(void *ctx, const char *principal, const char *name)
{
    struct reaping *reaping = ctx;
    if (!may_be_orphan(reaping->computers, &reaping->self, principal, name))
        return;
    struct folder folder = FOLDER_NONE;
    _cleanup_(record_done) struct record record = {0};
    if (store_open(reaping->computers->dir, principal, name, &folder, NULL) < 0)
        return;
    FAULT_POINT("reap.locked");
    bool readable = store_read(&folder, &record, NULL) == 0;
    int reaped = 0;
    if (store_is_debris(name))
        reaped = remove_debris(reaping->computers, &folder, readable ? &record : NULL);
    else if (!readable)
        ; /* whoever asks for it is told */
    else if (is_to_be_settled(reaping->computers, &reaping->self, folder.path, &record))
        settle(reaping->computers, &folder, &record);
    else
        reaped = reap_folder(reaping->computers, &folder, &record, NULL);
    reaping->count += reaped > 0;
    reaping->left += reaped < 0;
    folder_close(&folder);
}

static void set_reaping(struct computers *c, struct cancel *over)
{
    pthread_mutex_lock(&c->lock);
    c->reaping = over;
    pthread_mutex_unlock(&c->lock);
}

int computers_await_reaper(struct computers *c, const struct wait *wait, struct error *err)
{
    pthread_mutex_lock(&c->lock);
    _cleanup_(cleanup_cancel_unref) struct cancel *over = c->reaping ? cancel_ref(c->reaping) : NULL;
    pthread_mutex_unlock(&c->lock);
    if (!over)
        return 0;
    return wait_fd(cancel_fd(over), POLLIN, wait, NULL, err) < 0 ? -1 : 1;
}

/* -1: it is not known what is left. */
static int reap(struct computers *c, int *ret_left)
{
    _cleanup_(cleanup_free) char *path = path_join(c->state_dir, "reaper.lock");
    _cleanup_fd_ int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) < 0)
        return -1;
    struct reaping reaping = {.computers = c};
    if (computers_self(c, &reaping.self, NULL) < 0)
        return -1;
    struct cancel *over = cancel_new();
    set_reaping(c, over);
    store_scan(c->dir, reap_name, &reaping);
    reaping.count += computers_sweep_elsewhere(c, &reaping.self);
    set_reaping(c, NULL);
    cancel_fire(over, ERR_BUSY);
    cancel_unref(over);
    *ret_left = reaping.left;
    return reaping.count;
}

int computers_reap(struct computers *c)
{
    int left;
    const int count = reap(c, &left);
    return count > 0 ? count : 0;
}

/* -- While this server runs. */

void reaper_note_left(struct computers *c)
{
    pthread_mutex_lock(&c->lock);
    c->left_tries = 0;
    c->left_due = clock_now() + LEFT_FIRST_NS;
    terms_wake_locked(c);
    pthread_mutex_unlock(&c->lock);
}

void reaper_try_left(struct computers *c)
{
    int left = 0;
    pthread_mutex_lock(&c->lock);
    const bool due = c->left_due <= clock_now();
    if (due)
        c->left_due = DEADLINE_NONE;
    pthread_mutex_unlock(&c->lock);
    if (!due)
        return;
    const int count = reap(c, &left);
    if (count > 0)
        log_info("removed %d computers that could not be removed before", count);
    pthread_mutex_lock(&c->lock);
    if ((count < 0 || left > 0) && c->left_due == DEADLINE_NONE && ++c->left_tries < LEFT_TRIES)
        c->left_due = clock_now() + (LEFT_FIRST_NS << c->left_tries);
    pthread_mutex_unlock(&c->lock);
}
