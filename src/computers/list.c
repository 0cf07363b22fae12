/* What computers there are: those that this server has in memory, those on disk, and those that the backend
 * alone knows, merged by their ids. A computer that runs here is told from memory; of any other one its
 * record is read. Nothing is waited for but the backend's own list. */
#include "computers/registry.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/str.h"
#include "base/utf8.h"

#define ROWS_MAX (4 * LIMIT_COMPUTERS) /* of each list; more aren't looked at */
#define STAT_SECONDS 5.0               /* of one computer */
#define CACHE_LINE_BYTES 64

/* What the backend's list tells of one. */
struct at_backend {
    struct at_backend *next; /* in the listing */
    bool is, running, temporary, aside, others;
    char created_at[32], provider_id[80], image[256], paused[120];
};

static const struct at_backend NOT_AT_BACKEND = {0};

/* Everything that is known under one id. */
struct row {
    char id[SLUG_SIZE];
    struct computer *computer; /* a reference; NULL: not in memory */
    bool on_disk;
    const struct at_backend *at_backend;
};

struct listing {
    struct computer_session *session;
    const struct computer_list_wish *wish;
    struct owner self;
    int64_t asked_at; /* clock_now(): before the backend's own list */
    struct row *rows;
    size_t count;
    struct at_backend *found; /* all that the backend's list tells */
};

static const char *const CONDITION_NAMES[] = {
    [CONDITION_CREATING] = "creating", [CONDITION_RUNNING] = "running", [CONDITION_STOPPED] = "stopped",
    [CONDITION_MISSING] = "missing",   [CONDITION_FAILED] = "failed",   [CONDITION_DELETING] = "deleting",
};

const char *computer_condition_name(enum computer_condition c)
{
    return CONDITION_NAMES[c];
}

/* -- One computer's view. */

/* What is longer than there is room for is cut where a character ends. */
static void copy_text(char *to, size_t size, const char *from)
{
    size_t n = strlen(from);
    n = n < size ? n : utf8_boundary(from, size - 1);
    memcpy(to, from, n);
    to[n] = '\0';
}
#define COPY(to, from) copy_text(to, sizeof(to), from)

static void view_settings(const struct record *r, struct computer_view *ret)
{
    COPY(ret->backend, r->backend);
    COPY(ret->created_at, r->created_at);
    COPY(ret->stat.image, r->image);
    ret->temporary = r->temporary;
    if (r->terms.description)
        COPY(ret->description, r->terms.description);
}

static void view_commands_locked(const struct computer *c, struct computer_view *ret)
{
    for (const struct list *node = c->calls.next; node != &c->calls; node = node->next) {
        const struct running_call *call = CONTAINER_OF(node, struct running_call, node);
        if (call->command.number == 0)
            continue;
        if (ret->running_count < COMMANDS_LISTED)
            ret->running[ret->running_count] = call->command;
        ret->running_count++;
    }
    ret->last = c->last;
}

static void view_expiry_locked(const struct computer *c, struct computer_view *ret)
{
    const int64_t now = clock_now();
    const struct term_state state = {.temporary = c->temporary,
                                     .runs = true,
                                     .used = c->uses > 0 || ret->paused,
                                     .made_ns = record_age(&c->record, &c->record.made),
                                     .used_ns = now - c->used_at};
    ret->expires_in_s = terms_left(&c->record.terms, &state, &ret->expiry_deletes);
    if (!c->temporary || c->sessions != 1 || list_empty(&c->lease) || c->expired)
        return;
    const int64_t left_ns = c->lease_end - now;
    const double lease_s = left_ns > 0 ? (double)left_ns / (double)NSEC_PER_SEC : 0;
    if (ret->expires_in_s < 0 || lease_s < ret->expires_in_s) {
        ret->expires_in_s = lease_s;
        ret->expiry_deletes = true;
    }
}

/* One with an instance, which nobody is about to end. */
static void view_running_locked(struct computer *c, struct computer_view *ret)
{
    const int64_t now = clock_now();
    view_settings(&c->record, ret);
    clock_rfc3339(clock_wall() - (c->uses > 0 ? 0 : now - c->used_at), ret->last_used);
    view_expiry_locked(c, ret);
    if (c->state == COMPUTER_CHANGING)
        return;
    ret->condition = CONDITION_RUNNING;
    if (c->instance->ops->alive(c->instance))
        return;
    ret->condition = computer_ends_whole(c) ? CONDITION_MISSING : CONDITION_STOPPED;
    COPY(ret->reason, "it has ended by itself");
}

static bool is_in_memory_locked(const struct computer *c)
{
    return (c->state == COMPUTER_RUNNING || c->state == COMPUTER_CHANGING) && c->instance;
}

static void view_begin(const char *id, struct computer_view *ret)
{
    /* The commands aren't read beyond their count: not to clear them spares most of the work. */
    memset(ret, 0, offsetof(struct computer_view, running));
    memset(&ret->last, 0, sizeof(*ret) - offsetof(struct computer_view, last));
    COPY(ret->id, id);
    ret->expires_in_s = -1;
    ret->stat.disk_bytes = -1;
}

/* Into a view that has been begun. */
static void view_known_locked(struct computer *c, struct computer_view *ret)
{
    ret->condition = c->state >= COMPUTER_ENDING ? CONDITION_DELETING : CONDITION_CREATING;
    ret->sessions = c->sessions;
    ret->temporary = c->to_be_temporary;
    clock_rfc3339(c->born, ret->created_at);
    COPY(ret->backend, c->computers->backend->ops->name);
    if (is_in_memory_locked(c))
        view_running_locked(c, ret);
    view_commands_locked(c, ret);
}

void computer_view_locked(struct computer *c, struct computer_view *ret)
{
    view_begin(c->id, ret);
    view_known_locked(c, ret);
}

/* A question to the instance, which stays meanwhile. False: it doesn't run. */
static bool question_begin(struct computer *c, struct running_call *call, struct wait *wait)
{
    pthread_mutex_t *lock = &c->computers->lock;
    *wait = (struct wait){.deadline = clock_deadline_after(STAT_SECONDS)};
    pthread_mutex_lock(lock);
    const bool runs = c->state == COMPUTER_RUNNING;
    if (runs) {
        running_call_begin_locked(call, c, wait);
        c->uses++;
        c->refs++;
    }
    pthread_mutex_unlock(lock);
    return runs;
}

static void question_end(struct computer *c, struct running_call *call)
{
    pthread_mutex_t *lock = &c->computers->lock;
    pthread_mutex_lock(lock);
    running_call_end_locked(call);
    computer_use_end_locked(c);
    computer_unref_locked(c);
    pthread_mutex_unlock(lock);
}

int computer_stat(struct computer *c, bool usage, struct instance_stat *ret, struct error *err)
{
    struct running_call call;
    struct wait wait;
    if (!c->computers->backend->ops->stat || !question_begin(c, &call, &wait))
        return error_set(err, ERR_UNSUPPORTED, "it doesn't run, or its backend can't tell");
    int r = c->instance->ops->stat(c->instance, usage, &wait, ret, err);
    question_end(c, &call);
    return r;
}

bool computer_is_paused(struct computer *c)
{
    struct running_call call;
    struct wait wait;
    if (!c->computers->backend->ops->paused || !question_begin(c, &call, &wait))
        return false;
    const bool is_paused = c->instance->ops->paused(c->instance, &wait);
    question_end(c, &call);
    return is_paused;
}

static void view_stat(struct computer *c, bool usage, struct computer_view *v)
{
    struct instance_stat stat = {.disk_bytes = -1};
    if (v->condition != CONDITION_RUNNING || computer_stat(c, usage, &stat, NULL) < 0)
        return;
    v->stat = stat;
    v->has_stat = true;
    v->has_usage = usage;
}

void computer_look(const struct computer_use *use, struct computer_view *ret)
{
    struct computer *c = use->computer;
    const struct wait wait = {.deadline = clock_deadline_after(STAT_SECONDS)};
    pthread_mutex_lock(&c->computers->lock);
    while (c->state == COMPUTER_CHANGING && computer_wait_locked(c, &wait, NULL) == 0)
        ; /* somebody else restarts it */
    computer_view_locked(c, ret);
    pthread_mutex_unlock(&c->computers->lock);
    view_stat(c, false, ret);
}

const struct instance_stat *computer_ask(struct instance *i, const struct wait *wait,
                                         struct instance_stat *ret)
{
    *ret = (struct instance_stat){.disk_bytes = -1};
    return i->ops->stat && i->ops->stat(i, false, wait, ret, NULL) == 0 ? ret : NULL;
}

void computer_look_locked(struct computer *c, const struct instance_stat *stat, struct computer_view *ret)
{
    computer_view_locked(c, ret);
    if (!stat || ret->condition != CONDITION_RUNNING)
        return;
    ret->stat = *stat;
    ret->has_stat = true;
}

double computer_expires_in(const struct computer_use *use)
{
    struct computer *c = use->computer;
    struct computer_view v = {.expires_in_s = -1};
    pthread_mutex_lock(&c->computers->lock);
    lease_renew_locked(use->session, c);
    if (c->state < COMPUTER_ENDING)
        view_expiry_locked(c, &v);
    pthread_mutex_unlock(&c->computers->lock);
    return v.expires_in_s;
}

/* -- Gathering. */

static struct row *row_new(struct listing *l, const char *id)
{
    const struct computer_list_wish *w = l->wish;
    if (l->count >= ROWS_MAX || (w->prefix && !str_has_prefix(id, w->prefix)) ||
        (w->after && strcmp(id, w->after) <= 0))
        return NULL;
    if ((l->count & (l->count - 1)) == 0) /* full, at a power of two */
        l->rows = xrealloc_array(l->rows, l->count ? 2 * l->count : 1, sizeof(*l->rows));
    struct row *row = &l->rows[l->count++];
    *row = (struct row){.at_backend = &NOT_AT_BACKEND};
    COPY(row->id, id);
    return row;
}

static void gather_known(struct listing *l)
{
    struct computers *c = l->session->computers;
    size_t cursor = 0;
    void *value;
    pthread_mutex_lock(&c->lock);
    while (map_next(c->by_name, &cursor, NULL, &value)) {
        struct computer *computer = value;
        struct row *row =
            strcmp(computer->principal, l->session->principal) == 0 ? row_new(l, computer->id) : NULL;
        if (!row)
            continue;
        row->computer = computer;
        computer->refs++;
    }
    pthread_mutex_unlock(&c->lock);
}

static void gather_stored(void *ctx, const char *principal, const char *name)
{
    struct row *row = store_is_debris(name) ? NULL : row_new(ctx, name);
    if (row)
        row->on_disk = true;
}

static void gather_found(void *ctx, struct backend_found *f)
{
    struct listing *l = ctx;
    struct row *row = strcmp(f->principal, l->session->principal) == 0 && slug_check(f->id, NULL) == 0
                          ? row_new(l, f->id)
                          : NULL;
    if (!row)
        return;
    struct at_backend *at = xmalloc(sizeof(*at));
    *at = (struct at_backend){.next = l->found,
                              .is = true,
                              .running = f->running,
                              .temporary = f->temporary,
                              .aside = f->aside,
                              .others = computers_is_others(l->session->computers, &l->self, f)};
    COPY(at->created_at, f->created_at);
    COPY(at->provider_id, f->provider_id);
    COPY(at->image, f->image);
    if (!f->aside)
        COPY(at->paused, f->paused);
    row->at_backend = l->found = at;
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct row *)a)->id, ((const struct row *)b)->id);
}

/* Rows of one id become one. */
static void merge(struct listing *l)
{
    size_t kept = 0;
    if (l->count > 0) /* else there are no rows, and qsort wants some */
        qsort(l->rows, l->count, sizeof(*l->rows), by_id);
    for (size_t i = 0; i < l->count; i++) {
        const struct row *from = &l->rows[i];
        struct row *to = kept > 0 ? &l->rows[kept - 1] : NULL;
        if (!to || strcmp(to->id, from->id) != 0) {
            l->rows[kept++] = *from;
            continue;
        }
        to->computer = to->computer ? to->computer : from->computer;
        to->on_disk |= from->on_disk;
        if (from->at_backend->is && (!to->at_backend->is || to->at_backend->aside))
            to->at_backend = from->at_backend;
    }
    l->count = kept;
}

static int gather(struct listing *l, const struct wait *wait, struct error *err)
{
    struct computers *c = l->session->computers;
    struct backend *b = c->backend;
    if (computers_self(c, &l->self, err) < 0)
        return -1;
    l->asked_at = clock_now();
    if (b->ops->list && b->ops->list(b, wait, gather_found, l, err) < 0)
        return error_prefix(err, "can't find out what computers there are");
    gather_known(l);
    store_scan_principal(c->dir, l->session->principal, gather_stored, l);
    merge(l);
    return 0;
}

/* -- Computers that don't run here. */

/* What the backend doesn't tell of isn't there. */
static bool lists_all(const struct backend *b)
{
    return b->ops->list && !(b->ops->capabilities(b) & BACKEND_LISTS_RUNNING);
}

/* A server that lives has it. Whether a record that isn't ready is a temporary one's or one under way it
 * doesn't say. */
static enum computer_condition condition_elsewhere(const struct listing *l, const struct row *row,
                                                   const struct record *r)
{
    const bool is_made = record_age(r, &r->made) > clock_now() - l->asked_at;
    if (!r->ready && !r->temporary)
        return CONDITION_CREATING;
    if (r->temporary || !is_made || !l->session->computers->backend->ops->list || row->at_backend->running)
        return CONDITION_RUNNING;
    return row->at_backend->is || !lists_all(l->session->computers->backend) ? CONDITION_STOPPED
                                                                             : CONDITION_MISSING;
}

/* Of one that somebody has, or nobody. */
static enum computer_condition condition_of(const struct listing *l, const struct row *row,
                                            const struct record *r, const char *path, struct computer_view *v)
{
    struct backend *b = l->session->computers->backend;
    const bool ours = strcmp(r->backend, b->ops->name) == 0;
    const bool has_server = r->owner.pid != 0 && !owner_equal(&l->self, &r->owner);
    const struct computer_spec spec = spec_of_record(r, path);
    if (r->dying)
        return CONDITION_DELETING;
    if (has_server && !owner_is_dead(&l->self, &r->owner)) {
        v->elsewhere = true;
        return ours ? condition_elsewhere(l, row, r) : CONDITION_RUNNING;
    }
    if (r->temporary || !r->ready) {
        COPY(v->reason, "its server has ended without removing it");
        return CONDITION_DELETING;
    }
    if (!ours) {
        snprintf(v->reason, sizeof(v->reason), "it is of the backend '%s', and this server runs '%s'",
                 r->backend, b->ops->name);
        return CONDITION_FAILED;
    }
    if (lists_all(b) && !row->at_backend->is) {
        COPY(v->reason, "the backend doesn't have it any more");
        return CONDITION_MISSING;
    }
    if (row->at_backend->running || (b->ops->lives && b->ops->lives(b, &spec, r->data)))
        return CONDITION_RUNNING;
    return records_tell_failure(l->session->computers, r, v->reason, sizeof(v->reason)) ? CONDITION_FAILED
                                                                                        : CONDITION_STOPPED;
}

static void view_stored_expiry(const struct record *r, struct computer_view *v)
{
    const struct term_state state = {.runs = v->condition == CONDITION_RUNNING,
                                     .used = v->paused,
                                     .made_ns = record_age(r, &r->made),
                                     .used_ns = record_age(r, &r->used)};
    if (!v->elsewhere && !r->temporary)
        v->expires_in_s = terms_left(&r->terms, &state, &v->expiry_deletes);
}

/* False: there is nothing any more. */
static bool view_stored(const struct listing *l, const struct row *row, struct computer_view *v)
{
    const struct computer_session *s = l->session;
    _cleanup_(cleanup_free) char *path = xasprintf("%s/%s/%s", s->computers->dir, s->principal, row->id);
    struct error why = ERROR_INIT;
    const struct record *r = records_get(s->computers, s->principal, row->id, &why);
    if (!r) {
        v->condition = CONDITION_FAILED;
        snprintf(v->reason, sizeof(v->reason), "its record can't be read: %.200s",
                 error_for(s->principal, &why));
        return store_exists(&(struct folder){.path = path, .lock = -1});
    }
    view_settings(r, v);
    COPY(v->last_used, r->last_used);
    v->condition = condition_of(l, row, r, path, v);
    view_stored_expiry(r, v);
    records_put(s->computers, r);
    return true;
}

static void view_found(const struct listing *l, const struct row *row, struct computer_view *v)
{
    COPY(v->backend, l->session->computers->backend->ops->name);
    COPY(v->created_at, row->at_backend->created_at);
    v->temporary = row->at_backend->temporary;
    v->condition = row->at_backend->running ? CONDITION_RUNNING : CONDITION_STOPPED;
    v->elsewhere = row->at_backend->others;
    COPY(v->reason,
         v->elsewhere ? "a server with another --state-dir made it" : "this server hasn't used it yet");
}

/* Nobody here has noticed yet, but the backend tells that it ended. */
static void view_ended(const struct listing *l, const struct row *row, struct computer_view *v)
{
    const struct computer *c = row->computer;
    const bool is_known = l->session->computers->backend->ops->list && c->state == COMPUTER_RUNNING &&
                          c->state_since < l->asked_at;
    if (!is_known || v->condition != CONDITION_RUNNING || row->at_backend->running)
        return;
    v->condition = row->at_backend->is ? CONDITION_STOPPED : CONDITION_MISSING;
    snprintf(v->reason, sizeof(v->reason), "it was %s from outside, or has ended by itself",
             row->at_backend->is ? "stopped" : "removed");
    COPY(v->stat.provider_id, row->at_backend->provider_id);
}

/* False: it isn't there any more. */
static bool view_row(const struct listing *l, const struct row *row, struct computer_view *v)
{
    struct computer *c = row->computer;
    view_begin(row->id, v);
    v->paused = row->at_backend->paused[0];
    bool known = false;
    if (c) {
        pthread_mutex_t *lock = &c->computers->lock;
        pthread_mutex_lock(lock);
        view_known_locked(c, v);
        known = c->state < COMPUTER_ENDED;
        const bool is_whole = is_in_memory_locked(c);
        if (is_whole)
            view_ended(l, row, v);
        pthread_mutex_unlock(lock);
        if (is_whole)
            return true;
    }
    /* While it changes, the record tells what it is, but not how it is. */
    const enum computer_condition changing = v->condition;
    bool there = row->on_disk && view_stored(l, row, v);
    const bool found = row->at_backend->is && !row->at_backend->aside;
    if (!there && found)
        view_found(l, row, v);
    if (row->at_backend->is && v->condition != CONDITION_MISSING) {
        COPY(v->stat.provider_id, row->at_backend->provider_id);
        COPY(v->stat.image, row->at_backend->image);
    }
    if (known) {
        v->condition = changing;
        v->elsewhere = false;
        v->reason[0] = '\0';
    }
    return known || there || found;
}

static void view_paused(const struct row *row, struct computer_view *v)
{
    v->paused = v->paused && v->condition == CONDITION_RUNNING;
    if (v->paused)
        snprintf(v->reason, sizeof(v->reason), "it is paused, and does nothing until somebody runs: %s",
                 row->at_backend->paused);
}

/* Computers lie all over the memory, and waiting for it is most of what a long list takes: so it is asked for
 * ahead. */
static void foresee(const struct listing *l, size_t i)
{
    const char *computer = i < l->count ? (const char *)l->rows[i].computer : NULL;
    for (size_t at = 0; computer && at < sizeof(struct computer); at += CACHE_LINE_BYTES)
        __builtin_prefetch(computer + at);
}

static void tell(const struct listing *l, void (*fn)(void *ctx, const struct computer_view *v), void *ctx,
                 size_t *ret_total)
{
    const struct computer_list_wish *w = l->wish;
    struct computer_view v;
    size_t total = 0;
    for (size_t i = 0; i < l->count; i++) {
        const struct row *row = &l->rows[i];
        foresee(l, i + 1);
        const bool is_told = w->most == 0 || total < (size_t)w->most;
        if (!is_told && w->condition < 0) {
            total++;
            continue;
        }
        if (!view_row(l, row, &v) ||
            (w->condition >= 0 && v.condition != (enum computer_condition)w->condition))
            continue;
        total++;
        if (!is_told)
            continue;
        view_paused(row, &v);
        if (row->computer)
            view_stat(row->computer, w->usage, &v);
        fn(ctx, &v);
    }
    *ret_total = total;
}

static void listing_done(struct listing *l)
{
    while (l->found) {
        struct at_backend *next = l->found->next;
        free(l->found);
        l->found = next;
    }
    free(l->rows);
}

int computers_list(struct computer_session *s, const struct computer_list_wish *wish, const struct wait *wait,
                   void (*fn)(void *ctx, const struct computer_view *v), void *ctx, size_t *ret_total,
                   struct error *err)
{
    struct listing l = {.session = s, .wish = wish};
    session_enter(s);
    int r = gather(&l, wait, err);
    if (r == 0)
        tell(&l, fn, ctx, ret_total);
    pthread_mutex_lock(&s->computers->lock);
    for (size_t i = 0; i < l.count; i++)
        if (l.rows[i].computer)
            computer_unref_locked(l.rows[i].computer);
    pthread_mutex_unlock(&s->computers->lock);
    session_leave(s);
    listing_done(&l);
    return r;
}
