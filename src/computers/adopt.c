/* Computers of which the state directory knows nothing, though the backend does: made by another program, or
 * by a server whose state directory is gone. One whose maker is dead is removed if it was temporary, and
 * taken up else; what may belong to somebody alive is left alone. */
#include "computers/registry.h"

#include <stdio.h>
#include <string.h>

#include "backends/pace.h"
#include "base/clock.h"
#include "base/mem.h"

#define LOOKS_MOST 6 /* within ten seconds or so */

static struct computer_spec spec_of(const struct backend_found *f)
{
    return (struct computer_spec){
        .id = f->id, .principal = f->principal, .key = f->key, .temporary = f->temporary};
}

static int remove_found(struct computers *c, const struct backend_found *f, struct error *err)
{
    const struct computer_spec spec = spec_of(f);
    return c->backend->ops->reap(c->backend, &spec, f->data, err);
}

/* Who made it. A permanent one belongs to the state directory that has its record, not to the server that
 * happened to make it. */
enum maker { MAKER_ANOTHER_PROGRAM, MAKER_DEAD, MAKER_THIS_DIRECTORY, MAKER_OTHERS };

static enum maker maker_of(const struct computers *c, const struct owner *self, const struct backend_found *f)
{
    struct owner owner;
    struct computer_owner ours;
    if (!f->owner.machine[0])
        return MAKER_ANOTHER_PROGRAM;
    owner_words(self, c->state_dir, &ours);
    if (f->temporary)
        return owner_of_words(&f->owner, &owner) && (owner_is_dead(self, &owner) || owner_equal(self, &owner))
                   ? MAKER_DEAD
                   : MAKER_OTHERS;
    return strcmp(ours.machine, f->owner.machine) == 0 && strcmp(ours.state, f->owner.state) == 0
               ? MAKER_THIS_DIRECTORY
               : MAKER_OTHERS;
}

bool computers_is_others(const struct computers *c, const struct owner *self, const struct backend_found *f)
{
    return maker_of(c, self, f) == MAKER_OTHERS;
}

/* Gives it a folder with a record, as if we had made it. 1: somebody was faster. */
static int record_found(struct computer *c, const struct owner *self, struct backend_found *f,
                        struct error *err)
{
    struct record *r = &c->record;
    struct error why = ERROR_INIT;
    struct folder none = FOLDER_NONE;
    c->temporary = f->temporary;
    record_begin(c->computers, c->principal, c->id, f->temporary, self, r);
    r->ready = true;
    if (f->key[0])
        snprintf(r->key, sizeof(r->key), "%s", f->key);
    r->data = TAKE_PTR(f->data);
    if (store_create(c->computers->dir, r, &none, &c->folder, &why) == 0)
        return 0;
    return why.code == ERR_EXISTS ? 1 : error_set(err, why.code, "%s", why.msg);
}

/* Takes it up as ours. */
static enum found adopt(struct computer *c, const struct owner *self, const struct making *how,
                        struct backend_found *f, const struct wait *wait, struct error *err)
{
    if (how->new_only)
        return FOUND_TAKEN;
    const struct record found = {.temporary = f->temporary};
    if (making_check(how, c->id, &found, err) < 0)
        return FOUND_ERROR;
    int r = record_found(c, self, f, err);
    if (r != 0)
        return r < 0 ? FOUND_ERROR : FOUND_CHANGED;
    if (computer_attach(c, self, wait, err) == 0)
        return FOUND_ATTACHED;
    if (c->folder.path)
        store_remove(&c->folder, NULL); /* only the record is in it */
    return FOUND_ERROR;
}

/* In the place of what was there. */
static void put(struct backend_found *place, struct backend_found *f)
{
    backend_found_done(place);
    *place = *f;
    *f = (struct backend_found){0};
}

/* Of two, one has replaced the other, whose server died before it had removed that: the newer one. Times of
 * one backend are of one form: as texts they are in order. */
static void choose(void *ctx, struct backend_found *f)
{
    struct backend_found *chosen = ctx;
    if (!chosen->id || strcmp(chosen->created_at, f->created_at) < 0)
        put(chosen, f);
}

/* RECORD: one that may be taken up or removed. What a dead server has left is removed. */
static enum found find(struct computer *c, const struct owner *self, const struct wait *wait,
                       struct backend_found *ret, struct error *err)
{
    struct backend *b = c->computers->backend;
    const struct computer_spec spec = {.id = c->id, .principal = c->principal};
    if (b->ops->find && b->ops->find(b, &spec, wait, choose, ret, err) < 0)
        return FOUND_ERROR;
    if (!ret->id)
        return FOUND_NOTHING;
    switch (maker_of(c->computers, self, ret)) {
    case MAKER_DEAD:
        return remove_found(c->computers, ret, err) < 0 ? FOUND_ERROR : FOUND_NOTHING;
    case MAKER_OTHERS:
        error_set(
            err, ERR_BUSY,
            "there is a computer '%s' already, made by a server with another --state-dir: start this one "
            "with that, or choose another computer_id",
            c->id);
        return FOUND_ERROR;
    case MAKER_ANOTHER_PROGRAM:
    case MAKER_THIS_DIRECTORY:
    default:
        return FOUND_RECORD;
    }
}

enum found computer_find_elsewhere(struct computer *c, const struct owner *self, const struct making *how,
                                   const struct wait *wait, struct error *err)
{
    _cleanup_(backend_found_done) struct backend_found found = {0};
    enum found what = find(c, self, wait, &found, err);
    return what == FOUND_RECORD ? adopt(c, self, how, &found, wait, err) : what;
}

enum found computer_find_at_backend(struct computer *c, const struct wait *wait, struct error *err)
{
    _cleanup_(backend_found_done) struct backend_found found = {0};
    struct owner self;
    if (computers_self(c->computers, &self, err) < 0)
        return FOUND_ERROR;
    enum found what = find(c, &self, wait, &found, err);
    if (what != FOUND_RECORD)
        return what;
    record_done(&c->record);
    c->temporary = found.temporary;
    c->record = (struct record){.temporary = found.temporary, .data = TAKE_PTR(found.data)};
    memcpy(c->record.id, c->id, sizeof(c->id));
    memcpy(c->record.principal, c->principal, sizeof(c->principal));
    memcpy(c->record.key, found.key, sizeof(c->record.key));
    return FOUND_RECORD;
}

/* Those that have been made for an id: ours, by its key, and what others have made. */
struct rivals {
    const char *key;
    struct backend_found ours, eldest; /* without an id: there is none */
};

static bool is_elder(const struct backend_found *a, const struct backend_found *b)
{
    const int order = strcmp(a->created_at, b->created_at);
    return order < 0 || (order == 0 && strcmp(a->provider_id, b->provider_id) < 0);
}

static void note_rival(void *ctx, struct backend_found *f)
{
    struct rivals *r = ctx;
    struct backend_found *place = strcmp(f->key, r->key) == 0 ? &r->ours : &r->eldest;
    if (!place->id || !is_elder(place, f))
        put(place, f);
}

/* 0: nobody else has it; 1: whoever made it first has; 2: ours is the first. */
static int look_for_rivals(const struct computer *c, const struct wait *wait, struct error *err)
{
    struct backend *b = c->computers->backend;
    const struct computer_spec spec = {.id = c->id, .principal = c->principal};
    struct rivals r = {.key = c->record.key};
    int result = b->ops->find(b, &spec, wait, note_rival, &r, err);
    if (result == 0 && r.eldest.id)
        result = r.ours.id && is_elder(&r.ours, &r.eldest) ? 2 : 1;
    backend_found_done(&r.ours);
    backend_found_done(&r.eldest);
    return result;
}

/* Whoever was too late removes what it made. If that doesn't happen, its maker has not seen ours, and keeps
 * it: then it is we who are late. */
int computer_lost_id(const struct computer *c, const struct wait *wait, struct error *err)
{
    const struct backend *b = c->computers->backend;
    if (!b->ops->find || b->ops->capabilities(b) & BACKEND_TAKES_ID)
        return 0;
    for (int looks = 0;; looks++) {
        const int rivals = look_for_rivals(c, wait, err);
        if (rivals != 2)
            return rivals;
        if (looks == LOOKS_MOST)
            return 1;
        if (wait_pause(wait, pace_delay(looks), err) < 0)
            return -1;
    }
}

struct sweep {
    struct computers *computers;
    const struct owner *self;
    int count;
};

static void sweep_found(void *ctx, struct backend_found *f)
{
    struct sweep *s = ctx;
    if (f->temporary && maker_of(s->computers, s->self, f) == MAKER_DEAD &&
        !computers_knows(s->computers, f->principal, f->id) && remove_found(s->computers, f, NULL) == 0)
        s->count++;
}

int computers_sweep_elsewhere(struct computers *c, const struct owner *self)
{
    struct backend *b = c->backend;
    const struct wait wait = {.deadline = clock_deadline_after(CREATE_SECONDS)};
    struct sweep sweep = {.computers = c, .self = self};
    if (b->ops->list)
        b->ops->list(b, &wait, sweep_found, &sweep, NULL);
    return sweep.count;
}
