/* A new computer in the place of an old one: made first, beside it, in a folder of its own that has no name
 * yet; then the two folders change names, which is one step on disk, and the old computer is removed, under
 * the name that the new one had. Whenever the server dies, the id has the old computer or the new one, whole,
 * and what has no name is a reaper's.
 *
 *   made        the new one runs, its record says all; calls on the old one still run
 *   exchanged   the id is the new one's, on disk
 *   killed      the old one's calls have ended, and it has
 *   removed     nothing is left of it */
#include "computers/registry.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "computers/settings.h"

struct reset {
    struct hold hold; /* of the old one */
    struct computer *old, *new;
    bool was_home; /* the old one, of who resets it */
    bool exchanged;
};

/* -- The new one. */

/* The image is the one that it came from, whatever the server has for new ones by now. */
static void copy_settings(const struct computer *old, struct record *r)
{
    struct computer_options wanted = old->record.options;
    struct backend *b = old->computers->backend;
    const unsigned possible = b->ops->options ? b->ops->options(b) : 0;
    struct instance_stat stat = {0};
    const struct wait now = {.deadline = clock_deadline_after(CREATE_SECONDS)};
    const char *image = old->record.image;
    if (!image[0] && old->instance && old->instance->ops->stat &&
        old->instance->ops->stat(old->instance, false, &now, &stat, NULL) == 0)
        image = stat.image;
    if (!(wanted.given & COMPUTER_IMAGE) && image[0] && (possible & COMPUTER_IMAGE)) {
        wanted.given |= COMPUTER_IMAGE;
        wanted.image = image;
    }
    r->options = options_copy(&wanted);
    r->terms = terms_copy(&old->record.terms, &(struct computer_terms){0});
}

static struct computer *replacement_new(struct computer *old)
{
    pthread_mutex_lock(&old->computers->lock);
    struct computer *c = computer_new_locked(old->computers, old->principal, old->id);
    c->uses = 1;
    c->to_be_temporary = old->temporary;
    pthread_mutex_unlock(&old->computers->lock);
    c->temporary = old->temporary;
    return c;
}

/* Its folder has a record before there is anything else. */
static int prepare(struct reset *r, const struct owner *self, struct computer_spec *ret, struct error *err)
{
    struct computer *c = r->new;
    struct backend *b = c->computers->backend;
    record_begin(c->computers, c->principal, c->id, c->temporary, self, &c->record);
    copy_settings(r->old, &c->record);
    struct computer_spec spec = spec_of_record(&c->record, NULL);
    spec.replacing = true;
    c->record.data = b->ops->plan(b, &spec);
    if (store_prepare(c->computers->dir, c->principal, &c->folder, err) < 0)
        return -1;
    FAULT_POINT("reset.folder-made");
    if (store_write(&c->folder, &c->record, err) < 0)
        return -1;
    FAULT_POINT("reset.record-written");
    spec.folder = c->folder.path;
    *ret = spec;
    return 0;
}

static int record_made(struct computer *c, struct error *err)
{
    json_t *data = c->instance->ops->record(c->instance);
    const bool is_new = !c->record.ready || !json_equal(data, c->record.data);
    c->record.ready = true;
    json_decref(c->record.data);
    c->record.data = data;
    return c->temporary || !is_new ? 0 : store_write(&c->folder, &c->record, err);
}

static int make(struct reset *r, const struct owner *self, struct error *err)
{
    struct computer *c = r->new;
    struct backend *b = c->computers->backend;
    struct computer_spec spec;
    struct computer_owner owner;
    if (prepare(r, self, &spec, err) < 0)
        return -1;
    owner_words(self, c->computers->state_dir, &owner);
    spec.owner = &owner;
    if (b->ops->create(b, &spec, &r->hold.wait, &c->instance, err) < 0)
        return -1;
    FAULT_POINT("reset.made");
    record_look(&c->record, c->instance, true);
    if (record_made(c, err) < 0)
        return -1;
    FAULT_POINT("reset.made-recorded");
    return 0;
}

/* It never had a name. */
static void unmake(struct computer *c)
{
    computer_unmake(c);
    pthread_mutex_t *lock = &c->computers->lock;
    pthread_mutex_lock(lock);
    c->uses--;
    computer_unref_locked(c);
    pthread_mutex_unlock(lock);
}

/* -- The old one's end. */

/* Unless somebody has ended it meanwhile: then the new one ends, too, since it was to be in its place. */
static void end_old_locked(struct reset *r)
{
    struct computer *c = r->old;
    struct error why = ERROR_INIT;
    error_set(&why, ERR_GONE,
              "computer '%s' was reset; its files are lost, and the next call finds a new, empty one", c->id);
    r->was_home = r->hold.session->home == c;
    if (computer_end_locked(c, &why)) {
        session_forget_locked(r->hold.session, c); /* who did it needn't be told */
        return;
    }
    computer_end_locked(r->new, &c->end);
    r->new->gone = false;
    r->new->doomed = c->doomed;
}

/* Nothing uses its instance any more but we. */
static void quiet_old(struct reset *r)
{
    struct computer *c = r->old;
    pthread_mutex_t *lock = &c->computers->lock;
    const struct wait wait = {.deadline = clock_deadline_after(CREATE_SECONDS)};
    struct error err = ERROR_INIT;
    pthread_mutex_lock(lock);
    end_old_locked(r);
    pthread_mutex_unlock(lock);
    if (c->instance)
        c->instance->ops->kill(c->instance);
    FAULT_POINT("reset.killed");
    pthread_mutex_lock(lock);
    if (computer_drain_locked(c, &r->hold.call, &wait, &err) < 0)
        log_debug("computer %s/%s: a call doesn't end: %s", c->principal, c->id, err.msg);
    pthread_mutex_unlock(lock);
}

/* Its folder is elsewhere now. An instance that can't follow is let go: what is left is found by the record.
 */
static void move_old(struct computer *c)
{
    struct instance *i = c->instance;
    if (i && i->ops->make_way && i->ops->make_way(i, c->folder.path, NULL) < 0)
        i->ops->detach(TAKE_PTR(c->instance), NULL);
}

static void name_new(struct reset *r)
{
    struct computers *computers = r->new->computers;
    char name[COMPUTER_NAME_SIZE];
    pthread_mutex_lock(&computers->lock);
    computer_name(r->old->principal, r->old->id, name);
    map_remove(computers->by_name, name);
    if (map_put(computers->by_name, name, r->new) < 0)
        abort();    /* there was one more just now */
    r->new->refs++; /* the registry's; ours is until the end */
    r->old->doomed = true;
    session_list_locked(r->hold.session, r->new, r->was_home);
    pthread_mutex_unlock(&computers->lock);
}

/* Called by the backend when the folder of the new one is to get its name; it may hold a lock of many servers
 * meanwhile. */
static int exchange(void *ctx, struct error *err)
{
    struct reset *r = ctx;
    if (store_exchange(&r->new->folder, &r->old->folder, err) < 0)
        return -1;
    r->exchanged = true;
    FAULT_POINT("reset.exchanged");
    return 0;
}

/* From here on the id is the new one's, whatever else fails. */
static void remove_old(struct reset *r)
{
    struct error err = ERROR_INIT;
    quiet_old(r);
    move_old(r->old);
    if (store_sync(r->new->computers->dir, &r->new->record, &err) < 0)
        log_debug("computer %s/%s: %s", r->new->principal, r->new->id, err.msg);
    name_new(r);
    hold_release(&r->hold); /* removes it */
    FAULT_POINT("reset.old-removed");
}

/* -- Together. */

static int give_name(struct reset *r, struct error *err)
{
    struct computer *c = r->new;
    _cleanup_(cleanup_free) char *path = xasprintf("%s/%s/%s", c->computers->dir, c->principal, c->id);
    const struct computer_spec spec = spec_of_record(&c->record, path);
    int taken_over = c->instance->ops->take_over(c->instance, &spec, exchange, r, err);
    FAULT_POINT("reset.taken-over");
    if (r->exchanged)
        remove_old(r);
    return taken_over < 0 ? -1 : record_made(c, err);
}

/* The new one is everybody's now; or ends, if it was no use in the end, or somebody wants its end already. */
static int publish(struct reset *r, int made, struct computer_view *ret, struct error *err)
{
    static const struct error NOBODYS = {.code = ERR_CANCELLED, .msg = "the session has ended"};
    struct computer *c = r->new;
    pthread_mutex_t *lock = &c->computers->lock;
    const struct wait wait = {.deadline = clock_deadline_after(CREATE_SECONDS)};
    struct instance_stat stat;
    const struct instance_stat *told = c->instance ? computer_ask(c->instance, &wait, &stat) : NULL;
    struct error why = made < 0 ? *err : (struct error)ERROR_INIT;
    pthread_mutex_lock(lock);
    if (made < 0)
        computer_end_locked(c, &why);
    else if (c->temporary && c->sessions == 0) /* whoever wanted it has ended meanwhile */
        computer_end_locked(c, &NOBODYS);
    else if (c->state == COMPUTER_CREATING)
        computer_set_state_locked(c, COMPUTER_RUNNING);
    const bool runs = c->state == COMPUTER_RUNNING;
    why = c->end;
    if (runs)
        computer_look_locked(c, told, ret);
    computer_use_end_locked(c);
    computer_unref_locked(c);
    pthread_mutex_unlock(lock);
    return runs ? 0 : error_set(err, why.code, "%s", why.msg);
}

static int reset_held(struct reset *r, struct computer_view *ret, struct error *err)
{
    struct backend *b = r->old->computers->backend;
    struct owner self;
    struct error why = ERROR_INIT;
    if (b->ops->probe(b, &r->hold.wait, err) < 0 || computers_self(r->old->computers, &self, err) < 0)
        return -1;
    r->new = replacement_new(r->old);
    int made = make(r, &self, &why);
    if (made == 0)
        made = give_name(r, &why);
    if (r->exchanged) {
        int published = publish(r, made, ret, &why);
        return published < 0 ? error_set(err, why.code, "%s", why.msg) : 0;
    }
    unmake(r->new);
    return error_set(err, why.code, "%s", why.msg);
}

/* One that the backend alone knows gets a folder first. */
static int take_up(struct computer_session *s, const char *id, const struct wait *wait, struct error *err)
{
    struct computer_use use = {0};
    int r = computers_use_existing(s, id, wait, &use, err);
    computers_release(&use);
    return r;
}

/* With a reference, too: the hold may be over before we are. */
static int hold_old(struct computer_session *s, const char *id, const struct wait *wait, struct reset *r,
                    struct error *err)
{
    while (!r->old) {
        if (hold_take(s, id, wait, &r->hold, err) < 0)
            return -1;
        if (r->hold.computer->folder.path) {
            r->old = r->hold.computer;
        } else {
            hold_release(&r->hold);
            if (take_up(s, id, wait, err) < 0)
                return -1;
        }
    }
    pthread_mutex_lock(&s->computers->lock);
    r->old->refs++;
    pthread_mutex_unlock(&s->computers->lock);
    return 0;
}

static int reset(struct computer_session *s, const char *id, const struct wait *wait,
                 struct computer_view *ret, struct error *err)
{
    struct reset r = {0};
    if (!s->computers->backend->ops->take_over)
        return error_set(err, ERR_UNSUPPORTED,
                         "computers of the backend '%s' can't be replaced: use computer_delete, then "
                         "computer_create",
                         s->computers->backend->ops->name);
    if (hold_old(s, id, wait, &r, err) < 0)
        return -1;
    int result = reset_held(&r, ret, err);
    hold_release(&r.hold);
    pthread_mutex_lock(&s->computers->lock);
    computer_unref_locked(r.old);
    pthread_mutex_unlock(&s->computers->lock);
    return result;
}

int computer_reset(struct computer_session *s, const char *id, const struct wait *wait,
                   struct computer_view *ret, struct error *err)
{
    session_enter(s);
    int r = reset(s, id, wait, ret, err);
    session_leave(s);
    return r;
}
