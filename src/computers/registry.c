/* All computers of this server, and the way to one of them: found, waited for, or made. */
#include "computers/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "computers/settings.h"

struct computers *computers_new(const struct computers_options *options)
{
    struct computers *c = xcalloc(1, sizeof(*c));
    c->state_dir = xstrdup(options->state_dir);
    c->dir = path_join(options->state_dir, "computers");
    snprintf(c->network, sizeof(c->network), "%s", options->network ? options->network : "none");
    c->backend = options->backend;
    c->max_per_principal = options->max_per_principal;
    c->terms = (struct computer_terms){.ttl_s = options->ttl_s, .idle_s = options->idle_s};
    c->stored_due = c->left_due = DEADLINE_NONE;
    c->by_name = map_new(LIMIT_COMPUTERS);
    c->pool = options->pool < SPARES_MAX ? options->pool : SPARES_MAX;
    list_init(&c->leased);
    records_init(c);
    pthread_mutex_init(&c->lock, NULL);
    return c;
}

/* What is to be cleaned up at the end; those in use are left: their calls may still run. */
static size_t claim_all_locked(struct computers *c, struct computer **ret)
{
    static const struct error END = {.code = ERR_CANCELLED, .msg = "the server has ended"};
    size_t count = 0, cursor = 0;
    void *value;
    while (map_next(c->by_name, &cursor, NULL, &value)) {
        struct computer *computer = value;
        computer_end_locked(computer, &END);
        if (computer_claim_locked(computer))
            ret[count++] = computer;
    }
    return count;
}

struct computers *computers_free(struct computers *c)
{
    if (!c)
        return NULL;
    terms_stop(c);
    pthread_mutex_lock(&c->lock);
    struct computer **ending = xcalloc(map_count(c->by_name) + 1, sizeof(struct computer *));
    size_t count = claim_all_locked(c, ending);
    pthread_mutex_unlock(&c->lock);
    computers_clean_all(ending, count);
    free(ending);
    /* A call outlived its session's deadline and may still look here: the process is about to end. */
    if (c->sessions > 0 || map_count(c->by_name) > 0)
        return NULL;
    map_free(c->by_name);
    records_done(c);
    pthread_mutex_destroy(&c->lock);
    cancel_unref(c->caretaker.wake);
    cancel_unref(c->caretaker.stop);
    free(c->state_dir);
    free(c->dir);
    free(c);
    return NULL;
}

static int check_room_locked(const struct computer_session *s, struct error *err)
{
    const struct computers *c = s->computers;
    if (map_count(c->by_name) >= LIMIT_COMPUTERS || map_count(s->by_id) >= LIMIT_COMPUTERS)
        return error_set(err, ERR_LIMIT, "this server has %d computers, its maximum: use one that exists",
                         LIMIT_COMPUTERS);
    return 0;
}

static void list_in_session_locked(struct computer_session *s, struct computer *c)
{
    if (map_put(s->by_id, c->id, c) < 0)
        return; /* listed already */
    c->refs++;
    c->sessions++;
}

/* A computer in the state CREATING, with the caller as its creator and first user. id NULL: under a new
 * random slug; it is the session's default one unless that has one, or a fresh one is wanted. */
static struct computer *insert_locked(struct computer_session *s, const struct computer_wish *wish,
                                      struct error *err)
{
    const char *id = wish->id;
    char slug[SLUG_SIZE], name[COMPUTER_NAME_SIZE];
    if (check_room_locked(s, err) < 0)
        return NULL;
    do {
        if (!id)
            slug_random(slug);
        computer_name(s->principal, id ? id : slug, name);
    } while (!id && (map_get(s->computers->by_name, name) || map_get(s->by_id, slug)));
    struct computer *c = computer_new_locked(s->computers, s->principal, id ? id : slug);
    c->to_be_temporary = wish->lifetime != LIFETIME_PERMANENT;
    if (map_put(s->computers->by_name, name, c) < 0)
        abort(); /* neither full nor taken */
    list_in_session_locked(s, c);
    if (!id && !wish->fresh && s->lease_ns == 0)
        s->home = c;
    return c;
}

static void take_locked(struct computer_session *s, struct computer *c, bool created,
                        struct computer_use *ret)
{
    c->uses++;
    c->refs++;
    s->refs++;
    c->used_at = clock_now();
    lease_renew_locked(s, c);
    *ret = (struct computer_use){.computer = c, .session = s, .created = created};
}

void computers_release(struct computer_use *use)
{
    struct computer *c = use->computer;
    if (!c)
        return;
    struct computers *computers = c->computers;
    pthread_mutex_lock(&computers->lock);
    c->used_at = clock_now();
    lease_renew_locked(use->session, c);
    computer_use_end_locked(c);
    computer_unref_locked(c);
    session_unref_locked(use->session);
    pthread_mutex_unlock(&computers->lock);
    *use = (struct computer_use){0};
}

void computers_unmake(struct computer_use *use)
{
    static const struct error UNWANTED = {.code = ERR_DELETED, .msg = "the call that made it was refused"};
    struct computer *c = use->computer;
    if (!use->created)
        return;
    pthread_mutex_lock(&c->computers->lock);
    if (c->uses == 1 && c->sessions == 1 && c->temporary && computer_end_locked(c, &UNWANTED))
        session_forget_locked(use->session, c);
    pthread_mutex_unlock(&c->computers->lock);
}

struct computers_counts computers_count(struct computers *c)
{
    int by_state[COMPUTER_STATE_COUNT] = {0};
    size_t cursor = 0;
    void *value;
    pthread_mutex_lock(&c->lock);
    while (map_next(c->by_name, &cursor, NULL, &value))
        by_state[((const struct computer *)value)->state]++;
    const struct computers_counts counts = {.creating = by_state[COMPUTER_CREATING],
                                            .running =
                                                by_state[COMPUTER_RUNNING] + by_state[COMPUTER_CHANGING],
                                            .ending = by_state[COMPUTER_ENDING],
                                            .ahead = c->spare_count};
    pthread_mutex_unlock(&c->lock);
    return counts;
}

bool computers_knows(struct computers *c, const char *principal, const char *id)
{
    char name[COMPUTER_NAME_SIZE];
    pthread_mutex_lock(&c->lock);
    bool known = map_get(c->by_name, computer_name(principal, id, name)) != NULL;
    pthread_mutex_unlock(&c->lock);
    return known;
}

/* What the session knows under the id, else what its principal has. NULL: nothing. */
static struct computer *look_up_locked(const struct computer_session *s, const char *id)
{
    if (!id)
        return s->home;
    struct computer *c = map_get(s->by_id, id);
    if (c)
        return c;
    char name[COMPUTER_NAME_SIZE];
    return map_get(s->computers->by_name, computer_name(s->principal, id, name));
}

static bool is_listed_locked(const struct computer_session *s, const struct computer *c)
{
    return map_get(s->by_id, c->id) == c;
}

/* The creator's part: without the lock, then with it again. As try_use_locked. */
static int create_locked(struct computer_session *s, struct computer *c, const struct making *how,
                         const struct wait *wait, struct computer_use *use, struct error *err)
{
    pthread_mutex_t *lock = &s->computers->lock;
    struct wait ours = *wait;
    struct running_call call;
    struct error why = ERROR_INIT;
    take_locked(s, c, false, use);
    running_call_begin_locked(&call, c, &ours);
    pthread_mutex_unlock(lock);
    int r = computer_make(c, how, &ours, &use->created, &why);
    pthread_mutex_lock(lock);
    running_call_end_locked(&call);
    if (r != 0) {
        computer_end_locked(c, &why);
        c->gone = false; /* told to the creator here, to the waiters by their waiting */
    } else if (c->state == COMPUTER_CREATING) {
        computer_set_state_locked(c, COMPUTER_RUNNING);
        return 0;
    }
    *err = c->end;
    session_forget_locked(s, c);
    return r == 1 ? 1 : -1; /* 1: a random name that a computer on disk has */
}

/* A wait for another's work is over: 0 to look again, -1 with the error that it failed with. What stopped
 * only the other's call (its deadline, its cancellation) is no reason to fail. */
static int after_wait_locked(const struct computer *c, enum computer_state before, struct error *err)
{
    const bool failed = before == COMPUTER_CREATING && c->state >= COMPUTER_ENDING && !c->gone;
    if (!failed || wait_was_over(&c->end))
        return 0;
    *err = c->end;
    return -1;
}

static int wait_for_locked(struct computer *c, const struct wait *wait, struct error *err)
{
    enum computer_state before = c->state;
    c->refs++;
    int r = computer_wait_locked(c, wait, err);
    if (r == 0)
        r = after_wait_locked(c, before, err);
    computer_unref_locked(c);
    return r;
}

/* A computer that is ending or has ended. -1: the session is told so, once; 1: it is forgotten, look again;
 * 0: wait for its end. */
static int see_end_locked(struct computer_session *s, struct computer *c, struct error *err)
{
    bool tell =
        is_listed_locked(s, c) && c->gone && clock_now() - c->ended_at < TOMBSTONE_SECONDS * NSEC_PER_SEC;
    if (!tell && c->state == COMPUTER_ENDING)
        return 0;
    if (tell)
        *err = c->end;
    session_forget_locked(s, c);
    return tell ? -1 : 1;
}

/* One attempt. 1: the state has changed, look again. */
static int try_use_locked(struct computer_session *s, const struct computer_wish *wish, bool existing_only,
                          const struct wait *wait, struct computer_use *ret, struct error *err)
{
    const struct making how = {.lifetime = wish->lifetime,
                               .new_only = !wish->id,
                               .existing_only = existing_only,
                               .options = wish->options,
                               .terms = wish->terms,
                               .progress = wish->progress};
    if (s->closing)
        return error_set(err, ERR_CANCELLED, "the session has ended");
    struct computer *c = !wish->id && wish->fresh ? NULL : look_up_locked(s, wish->id);
    if (!c) {
        c = insert_locked(s, wish, err);
        return c ? create_locked(s, c, &how, wait, ret, err) : -1;
    }
    if (c->state == COMPUTER_RUNNING) {
        if (making_check(&how, c->id, &c->record, err) < 0)
            return -1;
        if (!is_listed_locked(s, c) && map_count(s->by_id) >= LIMIT_COMPUTERS)
            return error_set(err, ERR_LIMIT, "this session uses %d computers, the maximum", LIMIT_COMPUTERS);
        list_in_session_locked(s, c);
        take_locked(s, c, false, ret);
        return 0;
    }
    int seen = c->state >= COMPUTER_ENDING ? see_end_locked(s, c, err) : 0;
    if (seen != 0)
        return seen;
    return wait_for_locked(c, wait, err) < 0 ? -1 : 1;
}

int computers_create_seconds(const struct computer_session *s)
{
    const struct backend_ops *ops = s->computers->backend->ops;
    return ops->create_seconds ? ops->create_seconds : CREATE_SECONDS;
}

static int use(struct computer_session *s, const struct computer_wish *wish, bool existing_only,
               const struct wait *wait, struct computer_use *ret, struct error *err)
{
    if (wish->id && slug_check(wish->id, err) < 0)
        return -1;
    for (;;) {
        struct computer_use taken = {0};
        struct error why = ERROR_INIT;
        pthread_mutex_lock(&s->computers->lock);
        int r = try_use_locked(s, wish, existing_only, wait, &taken, &why);
        pthread_mutex_unlock(&s->computers->lock);
        if (r == 0) {
            *ret = taken;
            return 0;
        }
        computers_release(&taken);
        if (r < 0)
            return error_set(err, why.code, "%s", why.msg);
    }
}

int computers_use(struct computer_session *s, const struct computer_wish *wish, const struct wait *wait,
                  struct computer_use *ret, struct error *err)
{
    return options_check_possible(s->computers->backend, wish->options, err) < 0
               ? -1
               : use(s, wish, false, wait, ret, err);
}

int computers_use_existing(struct computer_session *s, const char *id, const struct wait *wait,
                           struct computer_use *ret, struct error *err)
{
    return use(s, &(struct computer_wish){.id = id}, true, wait, ret, err);
}

void session_list_locked(struct computer_session *s, struct computer *c, bool as_home)
{
    if (s->closing)
        return;
    list_in_session_locked(s, c);
    lease_renew_locked(s, c);
    s->home = as_home ? c : s->home;
}
