/* From an id to a running instance: a new computer, or a permanent one brought back from its record. Runs on
 * the thread of the call that wants it, without the lock; others wait for the change of state. */
#include "computers/registry.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "computers/settings.h"

#define LOOK_SECONDS 5.0

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

int making_check(const struct making *how, const char *id, const struct record *r, struct error *err)
{
    return lifetime_check(id, r->temporary, how->lifetime, err) < 0 ||
                   options_check_same(id, &r->options, how->options, err) < 0
               ? -1
               : terms_check_same(id, &r->terms, how->terms, err);
}

int computer_not_found(const char *id, struct error *err)
{
    return error_set(err, ERR_NOT_FOUND, "Computer '%s' was not found. computer_list shows those there are.",
                     id);
}

bool principal_is_local(const char *principal)
{
    return strcmp(principal, "local") == 0;
}

const char *error_for(const char *principal, const struct error *why)
{
    return principal_is_local(principal) ? why->msg : "who runs the server can find out why";
}

struct computer_spec spec_of_record(const struct record *r, const char *folder)
{
    return (struct computer_spec){.id = r->id,
                                  .principal = r->principal,
                                  .key = r->key,
                                  .folder = folder,
                                  .temporary = r->temporary,
                                  .options = r->options.given ? &r->options : NULL};
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
    record_touch(ret);
    ret->made = ret->used;
    memcpy(ret->created_at, ret->last_used, sizeof(ret->created_at));
}

void record_look(struct record *r, struct instance *i, bool is_new)
{
    const struct wait wait = {.deadline = clock_deadline_after(LOOK_SECONDS)};
    const bool counts = is_new && r->terms.idle_s > 0; /* what it takes to see later that nothing runs */
    struct instance_stat stat;
    if (!i->ops->stat || i->ops->stat(i, counts, &wait, &stat, NULL) < 0)
        return;
    snprintf(r->image, sizeof(r->image), "%s", stat.image);
    r->idle_pids = counts ? stat.pids : r->idle_pids;
}

/* With its record, which is written before the backend makes anything, so that a reaper would find it all. */
static int make_folder(struct computer *c, struct folder *ahead, const struct making *how,
                       const struct owner *self, struct error *err)
{
    struct backend *b = c->computers->backend;
    record_begin(c->computers, c->principal, c->id, c->temporary, self, &c->record);
    c->record.options = options_copy(how->options);
    c->record.terms = terms_copy(how->terms, &c->computers->terms);
    const struct computer_spec planned = spec_of_record(&c->record, NULL);
    c->record.data = b->ops->plan(b, &planned);
    return store_create(c->computers->dir, &c->record, ahead, &c->folder, err);
}

void computer_unmake(struct computer *c)
{
    if (c->instance && c->instance->ops->remove(TAKE_PTR(c->instance), NULL) < 0) {
        folder_close(&c->folder); /* with its record, which the reaper needs */
        reaper_note_left(c->computers);
    }
    if (c->folder.path)
        store_remove(&c->folder, NULL);
}

/* If somebody may want to attach one day, the record is written again. */
static int keep_made(struct computer *c, struct error *err)
{
    c->record.ready = true;
    json_decref(c->record.data);
    c->record.data = c->computers->backend->ops->record(c->instance);
    return store_write(&c->folder, &c->record, err) < 0 ? -1 : store_sync(c->computers->dir, &c->record, err);
}

/* In the folder that it may have from a spare already. 1: somebody took the id meanwhile. */
static int make_new(struct computer *c, struct folder *ahead, const struct making *how,
                    const struct owner *self, const struct wait *wait, struct error *err)
{
    struct backend *b = c->computers->backend;
    struct error why = ERROR_INIT;
    const bool prepared = c->folder.path != NULL;
    if (!prepared && make_folder(c, ahead, how, self, &why) < 0)
        return why.code == ERR_EXISTS ? 1 : error_set(err, why.code, "%s", why.msg);
    struct computer_owner owner;
    owner_words(self, c->computers->state_dir, &owner);
    struct computer_spec spec = spec_of_record(&c->record, c->folder.path);
    spec.owner = &owner;
    spec.prepared = prepared;
    spec.progress = how->progress;
    if (b->ops->create(b, &spec, wait, &c->instance, &why) < 0) {
        store_remove(&c->folder, NULL);
        return why.code == ERR_EXISTS && b->ops->find ? 1 : error_set(err, why.code, "%s", why.msg);
    }
    FAULT_POINT("create.instance-made");
    const int lost = c->temporary ? 0 : computer_lost_id(c, wait, err);
    if (lost == 0 && (!c->temporary || c->record.terms.idle_s > 0))
        record_look(&c->record, c->instance, true);
    if (lost != 0 || (!c->temporary && keep_made(c, err) < 0)) {
        computer_unmake(c);
        return lost > 0 ? 1 : -1;
    }
    FAULT_POINT("create.kept");
    return 0;
}

/* What can't be brought back is kept all the same: it may be the only copy. Frees the id. */
static int set_aside(struct computer *c, const char *what, const struct error *cause, struct error *err)
{
    _cleanup_(cleanup_free) char *aside = NULL;
    struct error why = ERROR_INIT;
    if (store_set_aside(&c->folder, &aside, &why) < 0)
        return error_set(err, why.code, "computer '%s': %s", c->id, error_for(c->principal, &why));
    log_warning("computer %s/%s: %s (%s); kept as '%s'", c->principal, c->id, what, cause->msg, aside);
    const bool is_local = principal_is_local(c->principal);
    return error_set(err, ERR_GONE,
                     "%s of computer '%s' (%.120s); what is left was kept%s%.120s%s, and the next call makes "
                     "a new, empty one",
                     what, c->id, error_for(c->principal, cause), is_local ? ", as '" : "",
                     is_local ? aside : "", is_local ? "'" : "");
}

int computer_attach(struct computer *c, const struct owner *self, const struct wait *wait, struct error *err)
{
    struct backend *b = c->computers->backend;
    const struct computer_spec spec = spec_of_record(&c->record, c->folder.path);
    struct error why = ERROR_INIT;
    if (b->ops->attach(b, &spec, c->record.data, wait, &c->instance, &why) < 0) {
        if (why.code == ERR_GONE)
            return set_aside(c, "can't find the files", &why, err);
        if (!wait_was_over(&why) && why.code != ERR_BUSY)
            records_note_failure(c->computers, c->principal, c->id, why.msg);
        return error_set(err, why.code, "%s", why.msg);
    }
    c->record.owner = *self;
    record_touch(&c->record);
    if (!c->record.image[0])
        record_look(&c->record, c->instance, false);
    json_decref(c->record.data);
    c->record.data = b->ops->record(c->instance);
    if (store_write(&c->folder, &c->record, err) < 0) {
        b->ops->detach(TAKE_PTR(c->instance), NULL);
        return -1;
    }
    FAULT_POINT("attach.recorded");
    return 0;
}

int record_check_ours(const struct computers *c, const struct record *r, struct error *err)
{
    const char *backend = c->backend->ops->name;
    if (r->temporary || !r->ready)
        return error_set(err, ERR_BUSY, "computer '%s' belongs to a server on another machine", r->id);
    if (strcmp(r->backend, backend) != 0)
        return error_set(err, ERR_UNAVAILABLE,
                         "computer '%s' is of the backend '%s', and this server runs '%s': choose another "
                         "computer_id",
                         r->id, r->backend, backend);
    return 0;
}

/* c->folder is open; it is closed again unless there is a record. */
static enum found read_on_disk(struct computer *c, struct error *err)
{
    struct error why = ERROR_INIT;
    struct record record = {0};
    if (store_read(&c->folder, &record, &why) < 0) {
        if (why.code == ERR_INVALID)
            set_aside(c, "can't read the record", &why, err);
        else
            error_set(err, why.code, "computer '%s': %s", c->id, error_for(c->principal, &why));
        folder_close(&c->folder);
        return FOUND_ERROR;
    }
    FAULT_POINT("attach.locked");
    record_done(&c->record);
    c->record = record;
    c->temporary = record.temporary;
    int reaped = reap_folder(c->computers, &c->folder, &c->record, err);
    if (reaped == 0)
        return FOUND_RECORD;
    if (reaped < 0)
        folder_close(&c->folder);
    return reaped < 0 ? FOUND_ERROR : FOUND_NOTHING;
}

/* By which process, if it is one of this machine, whose user asks. */
static int in_use_elsewhere(const struct computer *c, struct error *err)
{
    _cleanup_(cleanup_free) char *path = xasprintf("%s/%s/%s", c->computers->dir, c->principal, c->id);
    const struct folder folder = {.path = path, .lock = -1};
    _cleanup_(record_done) struct record r = {0};
    char who[64] = "";
    if (principal_is_local(c->principal) && store_read(&folder, &r, NULL) == 0 && r.owner.pid > 0)
        snprintf(who, sizeof(who), " (process %d)", (int)r.owner.pid);
    return error_set(err, ERR_BUSY,
                     "computer '%s' is in use by another server%s of this state directory: end that one, or "
                     "choose another computer_id",
                     c->id, who);
}

enum found computer_find_on_disk(struct computer *c, bool taken_is_fine, const struct wait *wait,
                                 struct error *err)
{
    struct error why = ERROR_INIT;
    if (store_open(c->computers->dir, c->principal, c->id, &c->folder, &why) == 0)
        return read_on_disk(c, err);
    if (why.code == ERR_NOT_FOUND)
        return FOUND_NOTHING;
    if (why.code == ERR_BUSY && taken_is_fine)
        return FOUND_TAKEN; /* whoever has it */
    if (why.code == ERR_BUSY) {
        int waited = computers_await_reaper(c->computers, wait, err);
        if (waited != 0)
            return waited > 0 ? FOUND_CHANGED : FOUND_ERROR;
        in_use_elsewhere(c, err);
    } else {
        error_set(err, why.code, "computer '%s': %s", c->id, error_for(c->principal, &why));
    }
    return FOUND_ERROR;
}

static enum found look_on_disk(struct computer *c, const struct making *how, const struct owner *self,
                               const struct wait *wait, struct error *err)
{
    enum found found = computer_find_on_disk(c, how->new_only, wait, err);
    if (found != FOUND_RECORD)
        return found;
    if (how->new_only)
        found = FOUND_TAKEN;
    else if (record_check_ours(c->computers, &c->record, err) == 0 &&
             making_check(how, c->id, &c->record, err) == 0 && computer_attach(c, self, wait, err) == 0)
        return FOUND_ATTACHED;
    else
        found = FOUND_ERROR;
    folder_close(&c->folder);
    return found;
}

/* There is none yet: its creation. 0; -1; 1: somebody took the id meanwhile. */
static int make(struct computer *c, const struct making *how, const struct owner *self,
                const struct wait *wait, struct error *err)
{
    struct backend *b = c->computers->backend;
    if (how->existing_only)
        return computer_not_found(c->id, err);
    if (quota_check(c, err) < 0)
        return -1;
    c->temporary = how->lifetime != LIFETIME_PERMANENT;
    if (!c->temporary && !(b->ops->capabilities(b) & BACKEND_PERSISTENT))
        return error_set(err, ERR_UNSUPPORTED,
                         "the backend '%s' cannot keep computers: use temporary=true, or leave it out",
                         b->ops->name);
    if (!spares_may_have(c->computers, how->options)) {
        struct folder none = FOLDER_NONE;
        return make_new(c, &none, how, self, wait, err);
    }
    struct spare spare = spares_take(c->computers, c->principal);
    int r = spare.record.key[0] ? spare_use(c, &spare, how, self) : -1;
    return r < 0 || (r == 0 && !c->instance) ? make_new(c, &spare.folder, how, self, wait, err) : r;
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
        int r = make(c, how, &self, wait, err);
        if (r < 0)
            return -1;
        if (r == 0) {
            *ret_created = true;
            return 0;
        }
    }
}
