/* What is made ahead, while nobody waits: whole computers without an id, if the backend can name them later;
 * else a folder or two, with what the backend can make ahead, which may be a computer that isn't complete. A
 * spare looks like a computer that is being born: a locked folder under a name that nobody knows, but with a
 * record if there is more than the folder, so that a reaper finds all of it when its server was killed. */
#include "computers/registry.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "computers/settings.h"

#define SPARE_NONE                                                                                           \
    (struct spare)                                                                                           \
    {                                                                                                        \
        .folder = FOLDER_NONE                                                                                \
    }

static bool makes_whole(const struct computers *c)
{
    return c->pool > 0 && c->backend->ops->give_id;
}

static int wanted(const struct computers *c)
{
    return makes_whole(c) ? c->pool : c->backend->ops->prepare ? SPARES_BEGUN : 1;
}

static int remove_made(const struct computers *c, struct spare *s)
{
    const struct computer_spec spec = spec_of_record(&s->record, s->folder.path);
    if (s->instance)
        return s->instance->ops->remove(TAKE_PTR(s->instance), NULL);
    return s->record.key[0] ? c->backend->ops->reap(c->backend, &spec, s->record.data, NULL) : 0;
}

static void drop(struct computers *c, struct spare *s)
{
    if (remove_made(c, s) < 0) {
        folder_close(&s->folder); /* with its record, which the reaper needs */
        reaper_note_left(c);
    }
    if (s->folder.path)
        store_remove(&s->folder, NULL);
    record_done(&s->record);
    *s = SPARE_NONE;
}

/* The first command of a computer costs more than the others: the kernel looks up everything anew. */
static void rehearse(struct instance *i, const struct wait *wait)
{
    static char program[] = "/bin/true";
    static char *const argv[] = {program, NULL};
    const struct exec_request request = {.argv = argv, .output_limit = 1, .wait = *wait};
    struct exec_result result = {0};
    if (i->ops->exec(i, &request, &result, NULL) == 0)
        exec_result_done(&result);
}

static int make_whole(const struct computers *c, const struct owner *self, struct computer_spec *spec,
                      struct spare *s)
{
    struct backend *b = c->backend;
    const struct wait wait = {.deadline = clock_deadline_after(CREATE_SECONDS)};
    struct computer_owner owner;
    owner_words(self, c->state_dir, &owner);
    spec->owner = &owner;
    if (b->ops->create(b, spec, &wait, &s->instance, NULL) < 0)
        return -1;
    FAULT_POINT("spare.made");
    rehearse(s->instance, &wait);
    FAULT_POINT("spare.rehearsed");
    return 0;
}

/* More than a folder: what comes into being by the key has a record first. */
static int fill(struct computers *c, const char *principal, struct spare *s)
{
    struct backend *b = c->backend;
    struct owner self;
    if (computers_self(c, &self, NULL) < 0)
        return -1;
    record_begin(c, principal, "", true, &self, &s->record);
    struct computer_spec spec = spec_of_record(&s->record, s->folder.path);
    s->record.data = b->ops->plan(b, &spec);
    if (store_write(&s->folder, &s->record, NULL) < 0)
        return -1;
    if (makes_whole(c))
        return make_whole(c, &self, &spec, s);
    if (b->ops->prepare(b, &spec, &s->instance, NULL) < 0)
        return -1;
    FAULT_POINT("spare.prepared");
    return 0;
}

static int make_spare(struct computers *c, const char *principal, struct spare *ret)
{
    struct spare s = SPARE_NONE;
    if (store_prepare(c->dir, principal, &s.folder, NULL) < 0)
        return -1;
    FAULT_POINT("spare.folder-made");
    const bool is_all = !makes_whole(c) && !c->backend->ops->prepare;
    if (!is_all && fill(c, principal, &s) < 0) {
        drop(c, &s);
        return -1;
    }
    *ret = s;
    return 0;
}

static bool is_needed_locked(const struct computers *c)
{
    return c->spares_at[0] && !c->sparing && c->sessions_open > 0 && c->spare_count < wanted(c);
}

enum preparing computers_want_preparation(struct computers *c)
{
    pthread_mutex_lock(&c->lock);
    const bool may_wait = c->spare_count > 0 && !makes_whole(c);
    const enum preparing wants = !is_needed_locked(c) ? PREPARE_NONE : may_wait ? PREPARE_LATER : PREPARE_NOW;
    pthread_mutex_unlock(&c->lock);
    return wants;
}

void computers_prepare(struct computers *c)
{
    int failed = 0;
    pthread_mutex_lock(&c->lock);
    while (failed == 0 && is_needed_locked(c)) {
        struct spare made = SPARE_NONE;
        char principal[SLUG_SIZE];
        memcpy(principal, c->spares_at, sizeof(principal));
        c->sparing = true;
        pthread_mutex_unlock(&c->lock);
        failed = make_spare(c, principal, &made);
        pthread_mutex_lock(&c->lock);
        c->sparing = false;
        if (failed == 0 && c->sessions_open > 0) {
            c->spares[c->spare_count++] = made;
        } else if (failed == 0) {
            pthread_mutex_unlock(&c->lock);
            drop(c, &made);
            pthread_mutex_lock(&c->lock);
        }
    }
    pthread_mutex_unlock(&c->lock);
}

void spares_drop(struct computers *c)
{
    struct spare unused[SPARES_MAX];
    int count = 0;
    pthread_mutex_lock(&c->lock);
    if (c->sessions_open == 0) {
        memcpy(unused, c->spares, sizeof(c->spares));
        count = c->spare_count;
        c->spare_count = 0;
    }
    pthread_mutex_unlock(&c->lock);
    for (int i = 0; i < count; i++)
        if (unused[i].instance)
            unused[i].instance->ops->kill(unused[i].instance); /* so that they end side by side */
    for (int i = 0; i < count; i++)
        drop(c, &unused[i]);
}

struct spare spares_take(struct computers *c, const char *principal)
{
    struct spare taken = SPARE_NONE;
    pthread_mutex_lock(&c->lock);
    if (c->spare_count > 0)
        taken = c->spares[--c->spare_count];
    snprintf(c->spares_at, sizeof(c->spares_at), "%s", principal);
    pthread_mutex_unlock(&c->lock);
    if (taken.instance && !taken.instance->ops->alive(taken.instance))
        drop(c, &taken);
    return taken;
}

/* What is but a folder has nothing yet that could be otherwise. */
bool spares_may_have(const struct computers *c, const struct computer_options *options)
{
    const struct backend_ops *ops = c->backend->ops;
    return !options || (!makes_whole(c) && !ops->prepare) || !(options->given & ~ops->late_options);
}

struct move {
    const char *dir;
    const struct record *record;
    struct folder *folder;
};

static int move_folder(void *ctx, struct error *err)
{
    struct move *m = ctx;
    return store_name(m->dir, m->record, m->folder, err);
}

/* The record of one that is to be found again comes first: from the moment that the folder has its name, it
 * says what that is. A temporary one keeps the record that it has, which is all that a reaper needs, unless
 * that names another principal. */
static int become(struct computer *c, struct spare *spare, struct error *err)
{
    const struct computers *computers = c->computers;
    const struct record *r = &c->record;
    _cleanup_(cleanup_free) char *path = xasprintf("%s/%s/%s", computers->dir, c->principal, c->id);
    const struct computer_spec spec = spec_of_record(r, path);
    struct move move = {computers->dir, r, &spare->folder};
    const bool is_anothers = strcmp(spare->record.principal, r->principal) != 0;
    if ((!r->temporary || is_anothers) && store_write(&spare->folder, r, err) < 0)
        return -1;
    if ((spare->instance ? computers->backend->ops->give_id(spare->instance, &spec, move_folder, &move, err)
                         : move_folder(&move, err)) < 0)
        return -1;
    FAULT_POINT("give-id.given");
    return store_sync(computers->dir, r, err);
}

/* What it has of its own it has before the record tells so. */
static int fill_record(struct computer *c, const struct spare *spare, const struct making *how,
                       const struct owner *self, struct error *err)
{
    struct record *r = &c->record;
    struct backend *b = c->computers->backend;
    record_begin(c->computers, c->principal, c->id, c->temporary, self, r);
    r->options = options_copy(how->options);
    r->terms = terms_copy(how->terms, &c->computers->terms);
    memcpy(r->key, spare->record.key, sizeof(r->key));
    r->ready = spare->instance != NULL;
    const struct computer_spec spec = spec_of_record(r, NULL);
    if (r->ready && b->ops->begin && b->ops->begin(spare->instance, spec.options, err) < 0)
        return -1;
    FAULT_POINT("give-id.begun");
    if (r->ready && (!r->temporary || r->terms.idle_s > 0))
        record_look(r, spare->instance, true);
    if (!r->ready)
        r->data = b->ops->plan(b, &spec);
    else if (!r->temporary)
        r->data = b->ops->record(spare->instance);
    return 0;
}

int spare_use(struct computer *c, struct spare *spare, const struct making *how, const struct owner *self)
{
    struct error why = ERROR_INIT;
    if (fill_record(c, spare, how, self, &why) < 0 || become(c, spare, &why) < 0) {
        log_debug("computer %s/%s: one made ahead is no good: %s", c->principal, c->id, why.msg);
        drop(c->computers, spare);
        return why.code == ERR_EXISTS ? 1 : -1;
    }
    c->folder = spare->folder;
    c->instance = spare->instance;
    record_done(&spare->record);
    *spare = SPARE_NONE;
    return 0;
}
