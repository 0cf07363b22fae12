/* From an id to a running instance: a new computer, or a permanent one brought back from its record. Runs on
 * the thread of the call that wants it, without the lock; others wait for the change of state. */
#include "computers/registry.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"

int computers_self(struct computers *c, struct owner *ret, struct error *err)
{
    pthread_mutex_lock(&c->lock);
    bool known = c->self_known;
    *ret = c->self;
    pthread_mutex_unlock(&c->lock);
    if (known)
        return 0;
    if (owner_self(c->state_dir, ret, err) < 0)
        return -1;
    pthread_mutex_lock(&c->lock);
    c->self = *ret;
    c->self_known = true;
    pthread_mutex_unlock(&c->lock);
    return 0;
}

int lifetime_check(const char *id, bool is_temporary, enum lifetime wanted, struct error *err)
{
    if (wanted == LIFETIME_AS_IS || (wanted == LIFETIME_TEMPORARY) == is_temporary)
        return 0;
    return error_set(err, ERR_EXISTS,
                     "computer '%s' exists already with temporary=%s, and was asked for with temporary=%s: "
                     "leave 'temporary' out to use it as it is, or choose another computer_id",
                     id, is_temporary ? "true" : "false", is_temporary ? "false" : "true");
}

struct computer_spec spec_of_record(const struct record *r, const char *folder)
{
    return (struct computer_spec){
        .id = r->id, .principal = r->principal, .key = r->key, .folder = folder, .temporary = r->temporary};
}

void record_begin(const struct computers *c, const char *principal, const char *id, bool temporary,
                  const struct owner *self, struct record *ret)
{
    record_done(ret);
    *ret = (struct record){.temporary = temporary, .owner = *self};
    snprintf(ret->id, sizeof(ret->id), "%s", id);
    snprintf(ret->principal, sizeof(ret->principal), "%s", principal);
    random_hex(ret->key, sizeof(ret->key) / 2);
    snprintf(ret->backend, sizeof(ret->backend), "%s", c->backend->ops->name);
    snprintf(ret->network, sizeof(ret->network), "%s", c->network);
    clock_rfc3339(clock_wall(), ret->created_at);
    memcpy(ret->last_used, ret->created_at, sizeof(ret->last_used));
}

/* The record is written before the backend makes anything, so that a reaper would find it all; and again
 * after, if somebody may want to attach one day. 1: somebody took the id meanwhile. */
static int make_new(struct computer *c, struct folder *ahead, const struct owner *self,
                    const struct progress *progress, const struct wait *wait, struct error *err)
{
    struct backend *b = c->computers->backend;
    struct error why = ERROR_INIT;
    record_begin(c->computers, c->principal, c->id, c->temporary, self, &c->record);
    const struct computer_spec planned = spec_of_record(&c->record, NULL);
    c->record.data = b->ops->plan(b, &planned);
    if (store_create(c->computers->dir, &c->record, ahead, &c->folder, &why) < 0)
        return why.code == ERR_EXISTS ? 1 : error_set(err, why.code, "%s", why.msg);
    struct computer_owner owner;
    owner_words(self, c->computers->state_dir, &owner);
    struct computer_spec spec = spec_of_record(&c->record, c->folder.path);
    spec.owner = &owner;
    spec.progress = progress;
    if (b->ops->create(b, &spec, wait, &c->instance, &why) < 0) {
        store_remove(&c->folder, NULL);
        return why.code == ERR_EXISTS && b->ops->find ? 1 : error_set(err, why.code, "%s", why.msg);
    }
    if (c->temporary)
        return 0;
    c->record.ready = true;
    json_decref(c->record.data);
    c->record.data = b->ops->record(c->instance);
    if (store_write(&c->folder, &c->record, err) < 0) {
        b->ops->remove(TAKE_PTR(c->instance), NULL);
        store_remove(&c->folder, NULL);
        return -1;
    }
    return 0;
}

/* What can't be brought back is kept all the same: it may be the only copy. Frees the id. */
static int set_aside(struct computer *c, const char *what, const struct error *cause, struct error *err)
{
    _cleanup_(cleanup_free) char *aside = NULL;
    struct error why = ERROR_INIT;
    if (store_set_aside(&c->folder, &aside, &why) < 0)
        return error_set(err, why.code, "computer '%s': %s", c->id, why.msg);
    return error_set(err, ERR_GONE,
                     "%s of computer '%s' (%.120s); what is left was kept, as '%.120s', and the next call "
                     "makes a new, empty one",
                     what, c->id, cause->msg, aside);
}

int computer_attach(struct computer *c, const struct owner *self, const struct wait *wait, struct error *err)
{
    struct backend *b = c->computers->backend;
    const struct computer_spec spec = spec_of_record(&c->record, c->folder.path);
    struct error why = ERROR_INIT;
    if (b->ops->attach(b, &spec, c->record.data, wait, &c->instance, &why) < 0)
        return why.code == ERR_GONE ? set_aside(c, "can't find the files", &why, err)
                                    : error_set(err, why.code, "%s", why.msg);
    c->record.owner = *self;
    clock_rfc3339(clock_wall(), c->record.last_used);
    json_decref(c->record.data);
    c->record.data = b->ops->record(c->instance);
    if (store_write(&c->folder, &c->record, err) < 0) {
        b->ops->detach(TAKE_PTR(c->instance), NULL);
        return -1;
    }
    return 0;
}

/* c->folder is open; it is closed again unless the computer was attached. */
static enum found take_up(struct computer *c, const struct making *how, const struct owner *self,
                          const struct wait *wait, struct error *err)
{
    const char *backend = c->computers->backend->ops->name;
    struct error why = ERROR_INIT;
    struct record record = {0};
    if (store_read(&c->folder, &record, &why) < 0) {
        if (why.code == ERR_INVALID)
            set_aside(c, "can't read the record", &why, err);
        else
            error_set(err, why.code, "computer '%s': %s", c->id, why.msg);
        folder_close(&c->folder);
        return FOUND_ERROR;
    }
    record_done(&c->record);
    c->record = record;
    c->temporary = record.temporary;
    int reaped = reap_folder(c->computers, &c->folder, &c->record, err);
    if (reaped == 1)
        return FOUND_NOTHING;
    if (reaped == 0 && how->new_only) {
        folder_close(&c->folder);
        return FOUND_TAKEN;
    }
    if (reaped == 0) {
        if (record.temporary || !record.ready)
            error_set(err, ERR_BUSY, "computer '%s' belongs to a server on another machine", c->id);
        else if (strcmp(record.backend, backend) != 0)
            error_set(
                err, ERR_UNAVAILABLE,
                "computer '%s' is of the backend '%s', and this server runs '%s': choose another computer_id",
                c->id, record.backend, backend);
        else if (lifetime_check(c->id, false, how->lifetime, err) == 0 &&
                 computer_attach(c, self, wait, err) == 0)
            return FOUND_ATTACHED;
    }
    folder_close(&c->folder);
    return FOUND_ERROR;
}

static enum found look_on_disk(struct computer *c, const struct making *how, const struct owner *self,
                               const struct wait *wait, struct error *err)
{
    struct error why = ERROR_INIT;
    if (store_open(c->computers->dir, c->principal, c->id, &c->folder, &why) == 0)
        return take_up(c, how, self, wait, err);
    if (why.code == ERR_NOT_FOUND)
        return FOUND_NOTHING;
    if (why.code == ERR_BUSY && how->new_only)
        return FOUND_TAKEN; /* whoever has it */
    if (why.code == ERR_BUSY) {
        int waited = computers_await_reaper(c->computers, wait, err);
        if (waited != 0)
            return waited > 0 ? FOUND_CHANGED : FOUND_ERROR;
    }
    if (why.code == ERR_BUSY)
        error_set(err, ERR_BUSY,
                  "computer '%s' is in use by another server of this state directory: end that one, or "
                  "choose another computer_id",
                  c->id);
    else
        error_set(err, why.code, "computer '%s': %s", c->id, why.msg);
    return FOUND_ERROR;
}

int computer_make(struct computer *c, const struct making *how, const struct wait *wait, bool *ret_created,
                  struct error *err)
{
    struct backend *b = c->computers->backend;
    struct owner self;
    if (b->ops->probe(b, wait, err) < 0 || computers_self(c->computers, &self, err) < 0)
        return -1;
    for (;;) {
        if (wait_check(wait, err) < 0)
            return -1;
        enum found found = look_on_disk(c, how, &self, wait, err);
        if (found == FOUND_NOTHING)
            found = computer_find_elsewhere(c, &self, how, wait, err);
        if (found == FOUND_CHANGED)
            continue;
        if (found == FOUND_TAKEN) {
            error_set(err, ERR_EXISTS, "computer '%s' exists already", c->id);
            return 1;
        }
        if (found != FOUND_NOTHING) {
            *ret_created = false;
            return found == FOUND_ATTACHED ? 0 : -1;
        }
        c->temporary = how->lifetime != LIFETIME_PERMANENT;
        if (!c->temporary && !(b->ops->capabilities(b) & BACKEND_PERSISTENT))
            return error_set(err, ERR_UNSUPPORTED,
                             "the backend '%s' cannot keep computers: use temporary=true, or leave it out",
                             b->ops->name);
        struct spare spare = spares_take(c->computers, c->principal);
        int r = spare.instance ? spare_use(c, &spare, &self) : -1;
        if (r < 0)
            r = make_new(c, &spare.folder, &self, how->progress, wait, err);
        if (r < 0)
            return -1;
        if (r == 0) {
            *ret_created = true;
            return 0;
        }
    }
}
