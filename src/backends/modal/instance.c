/* The life of one computer. Modal's sandboxes live for a day at most and can't be paused, so its files move:
 * a snapshot of them is an image, and the next sandbox is made of that. That is what restarting is, what
 * leaving and coming back are, and what happens before the lifetime of a sandbox ends (keep.c).
 *
 * Creation is one round trip, once app and image are known. Where its files are is written to the computer's
 * folder before anything depends on it: after a death in the middle the last place that was written holds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/modal/private.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"

#define END_TIMEOUT_NS (60 * NSEC_PER_SEC)
#define ASK_TIMEOUT_NS (10 * NSEC_PER_SEC)

static struct wait for_the_end(void)
{
    return (struct wait){.deadline = clock_now() + END_TIMEOUT_NS};
}

/* --- one in memory --- */

static struct modal_instance *instance_new(struct modal_backend *b, const struct computer_spec *spec)
{
    const struct computer_options none = {0}, *o = spec->options ? spec->options : &none;
    struct modal_instance *i = xcalloc(1, sizeof(*i));
    pthread_condattr_t attr;
    i->base.ops = b->base.ops;
    i->backend = b;
    i->keeper = keepers_choose(&b->keepers);
    snprintf(i->id, sizeof(i->id), "%s", spec->id);
    i->temporary = spec->temporary;
    i->network = o->given & COMPUTER_NETWORK ? o->network : b->network;
    i->image = xstrdup(o->given & COMPUTER_IMAGE ? o->image : b->image);
    i->cpus = o->given & COMPUTER_CPUS ? o->cpus : b->cpus;
    i->memory_mib =
        o->given & COMPUTER_MEMORY ? (o->memory_bytes + (int64_t)MIB - 1) / (int64_t)MIB : b->memory_mib;
    i->env = o->given & COMPUTER_ENV ? strv_copy(o->env) : NULL;
    i->folder = xstrdup(spec->folder);
    shells_init(&i->shells, b->shell);
    list_init(&i->tended.node);
    list_init(&i->calls);
    pthread_mutex_init(&i->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&i->quiet, &attr);
    pthread_condattr_destroy(&attr);
    return i;
}

static struct modal_instance *instance_free(struct modal_instance *i)
{
    if (!i)
        return NULL;
    modal_keep_remove(i);
    modal_router_free(i->router);
    pthread_cond_destroy(&i->quiet);
    pthread_mutex_destroy(&i->lock);
    json_decref(i->tags);
    strv_free(i->env);
    free(i->image);
    free(i->folder);
    free(i);
    return NULL;
}
DEFINE_CLEANUP(struct modal_instance *, instance_free)

/* Where it is, from now on, here and in its folder. own: the image that it was made of, "" if that isn't this
 * computer's alone. Takes the router; on failure too. */
static int settle_in(struct modal_instance *i, const char *sandbox, const char *own,
                     struct modal_router *router, struct error *err)
{
    char before[MODAL_ID_SIZE];
    pthread_mutex_lock(&i->lock);
    snprintf(i->state.sandbox, sizeof(i->state.sandbox), "%s", sandbox);
    snprintf(before, sizeof(before), "%s", i->state.own);
    snprintf(i->state.own, sizeof(i->state.own), "%s", own);
    modal_state_spend(&i->state, before);
    i->state.asked[0] = '\0';
    struct modal_router *router_before = i->router;
    i->router = router;
    const struct modal_state state = i->state;
    _cleanup_(cleanup_free) char *folder = xstrdup(i->folder);
    pthread_mutex_unlock(&i->lock);
    modal_router_free(router_before);
    return modal_state_write(folder, &state, err);
}

/* --- sandboxes --- */

static int make_of(struct modal_instance *i, const char *image, const struct wait *wait,
                   struct modal_sandbox *ret, struct error *err)
{
    const struct modal_backend *b = i->backend;
    const char *tags[MODAL_TAGS_MAX][2];
    size_t count = 0;
    const char *name;
    json_t *value;
    char this_one[MODAL_UUID_SIZE];
    modal_uuid(this_one);
    json_object_foreach (i->tags, name, value)
        if (count < MODAL_TAGS_MAX - 1 && json_is_string(value) && strcmp(name, MODAL_LABEL_SANDBOX) != 0) {
            tags[count][0] = name;
            tags[count++][1] = json_string_value(value);
        }
    tags[count][0] = MODAL_LABEL_SANDBOX;
    tags[count++][1] = this_one;
    const struct modal_creation creation = {
        .image_id = image,
        .cpus = i->cpus,
        .memory_mib = i->memory_mib,
        .gpu = b->gpu,
        .region = b->region,
        .timeout_s = b->lifetime_s,
        .network = i->network,
        .tags = (const char *const(*)[2])tags,
        .tag_count = count,
    };
    return modal_api_create(b->account, &creation, wait, ret, err);
}

/* Of a reference of a registry, or of a snapshot: with our program in it, of whatever version that is. */
static int make_with_program(struct modal_instance *i, const char *reference, const struct progress *progress,
                             const struct wait *wait, struct modal_sandbox *ret,
                             char ret_image[MODAL_ID_SIZE], struct error *err)
{
    struct modal_account *a = i->backend->account;
    for (int again = 0;; again++) {
        struct error why = ERROR_INIT;
        if (modal_image_get(a, reference, progress, wait, ret_image, err) < 0)
            return -1;
        if (make_of(i, ret_image, wait, ret, &why) == 0)
            return 0;
        if (why.code == ERR_NOT_FOUND && again == 0)
            continue; /* it was deleted meanwhile */
        return error_set(err, why.code == ERR_NOT_FOUND ? ERR_UNAVAILABLE : why.code, "%s", why.msg);
    }
}

/* It is where the computer is from now on. */
static int move_into(struct modal_instance *i, struct modal_sandbox *sandbox, const char *own,
                     struct error *err)
{
    struct modal_router *router = modal_router_new(i->backend->account, sandbox, err);
    if (!router)
        return -1;
    const int failed = settle_in(i, sandbox->id, own, router, err);
    pthread_mutex_lock(&i->lock);
    i->made_at = clock_now();
    i->retry_at = 0;
    i->dirty_since = i->save_at = 0;
    i->used = false;
    i->ended = false;
    pthread_mutex_unlock(&i->lock);
    return failed;
}

static void terminate(const struct modal_backend *b, const char *id)
{
    const struct wait bounded = for_the_end();
    struct error why = ERROR_INIT;
    if (id[0] && modal_api_terminate(b->account, id, &bounded, &why) < 0)
        log_warning("sandbox %s is left behind at Modal, and ends with its lifetime: %s", id, why.msg);
}

static int no_files(const struct modal_instance *i, struct error *err)
{
    return error_set(err, ERR_GONE, "Modal has neither a sandbox nor a snapshot of computer '%s' any more",
                     i->id);
}

/* Mostly our program is in it already. */
static int make_of_snapshot(struct modal_instance *i, const struct modal_state *s, const struct wait *wait,
                            struct modal_sandbox *ret, char ret_image[MODAL_ID_SIZE], struct error *err)
{
    struct error why = ERROR_INIT;
    if (strcmp(s->guest, i->backend->guest) != 0)
        return make_with_program(i, s->image, NULL, wait, ret, ret_image, err);
    snprintf(ret_image, MODAL_ID_SIZE, "%s", s->image);
    if (make_of(i, s->image, wait, ret, &why) == 0)
        return 0;
    return error_set(err, why.code == ERR_NOT_FOUND ? ERR_UNAVAILABLE : why.code, "%s", why.msg);
}

int modal_move(struct modal_instance *i, const struct wait *wait, struct error *err)
{
    struct modal_sandbox fresh = {0};
    char image[MODAL_ID_SIZE];
    if (modal_save(i, wait, err) < 0)
        return -1;
    const struct modal_state before = modal_state_of(i);
    if (!before.image[0])
        return no_files(i, err);
    if (make_of_snapshot(i, &before, wait, &fresh, image, err) < 0)
        return -1;
    const int failed = move_into(i, &fresh, image, err);
    terminate(i->backend, failed < 0 ? fresh.id : before.sandbox);
    modal_sandbox_done(&fresh);
    if (failed == 0)
        modal_tidy(i, wait);
    return failed;
}

int modal_put_down(struct modal_instance *i, bool keep, const struct wait *wait, struct error *err)
{
    struct modal_account *a = i->backend->account;
    if (keep && modal_save(i, wait, err) < 0)
        return -1;
    if (!keep)
        modal_claim(i, wait);
    const struct modal_state before = modal_state_of(i);
    if (before.sandbox[0] && modal_api_terminate(a, before.sandbox, wait, err) < 0)
        return -1;
    if (!keep && modal_images_delete(a, &before, wait, err) < 0)
        return -1;
    if (!keep) {
        pthread_mutex_lock(&i->lock);
        i->state = (struct modal_state){0};
        pthread_mutex_unlock(&i->lock);
        return 0;
    }
    if (settle_in(i, "", "", NULL, err) < 0)
        return -1;
    modal_tidy(i, wait);
    return 0;
}

int modal_ask(struct modal_instance *i, const struct wait *call, struct error *err)
{
    const bool is_over = wait_check(call, NULL) < 0;
    const struct wait wait = is_over ? (struct wait){.deadline = clock_now() + ASK_TIMEOUT_NS / 4}
                                     : wait_at_most(call, clock_now() + ASK_TIMEOUT_NS);
    const struct modal_state state = modal_state_of(i);
    struct error why = ERROR_INIT;
    _cleanup_(cleanup_free) char *words = NULL;
    const int ended = modal_api_ended(i->backend->account, state.sandbox, &wait, &words, &why);
    if (ended == 0)
        return 0;
    if (ended < 0)
        return error_set(err, ERR_UNAVAILABLE, "the sandbox of computer '%s' can't be reached: %s", i->id,
                         why.msg);
    pthread_mutex_lock(&i->lock);
    i->ended = true;
    pthread_mutex_unlock(&i->lock);
    return error_set(err, ERR_GONE, "its sandbox %s doesn't run any more: %.200s%s", state.sandbox,
                     words ? words : "it has ended",
                     state.image[0] ? "; what was written since its last snapshot is lost" : "");
}

/* --- beginning --- */

int modal_instance_create(struct backend *backend, const struct computer_spec *spec, const struct wait *wait,
                          struct instance **ret, struct error *err)
{
    struct modal_sandbox sandbox = {0};
    char image[MODAL_ID_SIZE]; /* everybody's who wants the same */
    _cleanup_(cleanup_instance_free) struct modal_instance *i = instance_new(modal_of(backend), spec);
    i->tags = json_object();
    labels_write(i->tags, spec);
    json_object_set_new(i->tags, MODAL_LABEL_NETWORK, json_string(i->network ? "true" : "false"));
    if (wait_check(wait, err) < 0 ||
        make_with_program(i, i->image, spec->progress, wait, &sandbox, image, err) < 0)
        return -1;
    const int failed = move_into(i, &sandbox, "", err);
    if (failed < 0) {
        terminate(i->backend, sandbox.id);
        modal_state_remove(i->folder);
    }
    modal_sandbox_done(&sandbox);
    if (failed < 0)
        return -1;
    modal_keep_add(i);
    *ret = &TAKE_PTR(i)->base;
    return 0;
}

/* A sandbox that a dead server has left: what runs in it ends with the move. */
static int take_up(struct modal_instance *i, const struct wait *wait, struct error *err)
{
    struct modal_sandbox sandbox = {0};
    struct error why = ERROR_INIT;
    if (!i->state.sandbox[0])
        return 0;
    if (modal_api_reach(i->backend->account, i->state.sandbox, wait, &sandbox, &why) < 0)
        return why.code == ERR_NOT_FOUND ? 0 : error_set(err, why.code, "%s", why.msg);
    i->router = modal_router_new(i->backend->account, &sandbox, err);
    i->used = true;
    modal_sandbox_done(&sandbox);
    return i->router ? 0 : -1;
}

static struct modal_instance *recall(struct modal_backend *b, const struct computer_spec *spec,
                                     const json_t *data)
{
    struct modal_instance *i = instance_new(b, spec);
    const json_t *network = json_object_get(data, "network");
    const json_t *tags = json_get_object(data, "tags");
    modal_state_read(spec->folder, data, &i->state);
    if (json_is_boolean(network))
        i->network = json_is_true(network);
    i->tags = tags ? json_deep_copy(tags) : json_object();
    if (!tags)
        labels_write(i->tags, spec);
    return i;
}

static const char *key_of(const struct modal_instance *i)
{
    const char *key = json_get_string(i->tags, LABEL_KEY);
    return key ? key : "";
}

/* A server that died on the move has left two; the one of which its folder knows nothing has never been used.
 * That nobody finds it costs no more than its lifetime. */
static void end_others(struct modal_instance *i, const struct wait *wait)
{
    const struct modal_state state = modal_state_of(i);
    struct error why = ERROR_INIT;
    if (modal_end_all(i->backend, key_of(i), state.sandbox, wait, &why) < 0)
        log_debug("computer %s may have another sandbox at Modal: %s", i->id, why.msg);
}

int modal_instance_attach(struct backend *backend, const struct computer_spec *spec, const json_t *data,
                          const struct wait *wait, struct instance **ret, struct error *err)
{
    _cleanup_(cleanup_instance_free) struct modal_instance *i = recall(modal_of(backend), spec, data);
    if (take_up(i, wait, err) < 0 || modal_move(i, wait, err) < 0)
        return -1;
    end_others(i, wait);
    modal_keep_add(i);
    *ret = &TAKE_PTR(i)->base;
    return 0;
}

int modal_settle(struct backend *backend, const struct computer_spec *spec, const json_t *data,
                 struct error *err)
{
    const struct wait wait = for_the_end();
    _cleanup_(cleanup_instance_free) struct modal_instance *i = recall(modal_of(backend), spec, data);
    if (!i->folder)
        return error_set(err, ERR_UNAVAILABLE, "its folder isn't there");
    if (take_up(i, &wait, err) < 0 || modal_put_down(i, true, &wait, err) < 0)
        return -1;
    return modal_end_all(i->backend, key_of(i), "", &wait, err);
}

json_t *modal_instance_plan(const struct backend *backend, const struct computer_spec *spec)
{
    (void)backend;
    return json_pack("{s:s}", "key", spec->key);
}

json_t *modal_instance_record(const struct instance *instance)
{
    struct modal_instance *i = (struct modal_instance *)(uintptr_t)instance;
    const struct modal_state state = modal_state_of(i);
    json_t *record = modal_state_pack(&state);
    json_object_set_new(record, "network", json_boolean(i->network));
    json_object_set(record, "tags", i->tags);
    return record;
}

/* --- meanwhile --- */

int modal_instance_restart(struct instance *instance, const struct wait *wait, struct error *err)
{
    struct modal_instance *i = modal_instance_of(instance);
    modal_keep_remove(i);
    const int failed = modal_move(i, wait, err);
    modal_keep_add(i);
    return failed;
}

int modal_instance_make_way(struct instance *instance, const char *folder, struct error *err)
{
    struct modal_instance *i = modal_instance_of(instance);
    (void)err;
    pthread_mutex_lock(&i->lock);
    free(i->folder);
    i->folder = xstrdup(folder);
    pthread_mutex_unlock(&i->lock);
    return 0;
}

/* Its tags have the id from the beginning, and nothing at the provider has a name that others can't have. */
int modal_instance_take_over(struct instance *instance, const struct computer_spec *spec,
                             int (*move)(void *ctx, struct error *err), void *ctx, struct error *err)
{
    return move(ctx, err) < 0 ? -1 : modal_instance_make_way(instance, spec->folder, err);
}

int modal_instance_stat(struct instance *instance, bool usage, const struct wait *wait,
                        struct instance_stat *ret, struct error *err)
{
    struct modal_instance *i = modal_instance_of(instance);
    const struct modal_state state = modal_state_of(i);
    (void)usage;
    (void)wait;
    (void)err;
    *ret = (struct instance_stat){.disk_bytes = -1,
                                  .network = i->network,
                                  .cpus_limit = i->cpus,
                                  .memory_limit = i->memory_mib * (int64_t)MIB};
    snprintf(ret->provider_id, sizeof(ret->provider_id), "%s", state.sandbox);
    snprintf(ret->image, sizeof(ret->image), "%.*s", (int)sizeof(ret->image) - 1, i->image);
    return 0;
}

bool modal_instance_alive(const struct instance *instance)
{
    struct modal_instance *i = (struct modal_instance *)(uintptr_t)instance;
    pthread_mutex_lock(&i->lock);
    const bool alive = !i->ended;
    pthread_mutex_unlock(&i->lock);
    return alive;
}

bool modal_instance_lost(const struct instance *instance)
{
    struct modal_instance *i = (struct modal_instance *)(uintptr_t)instance;
    pthread_mutex_lock(&i->lock);
    const bool lost = i->ended && !i->to_end && !i->state.image[0];
    pthread_mutex_unlock(&i->lock);
    return lost;
}

/* --- the end --- */

void modal_instance_kill(struct instance *instance)
{
    struct modal_instance *i = modal_instance_of(instance);
    pthread_mutex_lock(&i->lock);
    const bool again = i->ended;
    i->ended = true;
    modal_calls_cut_locked(i, false);
    pthread_mutex_unlock(&i->lock);
    if (!again)
        modal_keep_end(i);
}

static int leave(struct instance *instance, bool keep, struct error *err)
{
    struct modal_instance *i = modal_instance_of(instance);
    const struct wait wait = for_the_end();
    struct error why = ERROR_INIT;
    modal_keep_remove(i);
    const int failed = modal_put_down(i, keep, &wait, &why);
    const struct modal_state state = modal_state_of(i);
    if (failed == 0 && !keep)
        modal_state_remove(i->folder);
    instance_free(i);
    if (failed == 0)
        return 0;
    return error_set(err, why.code, "the sandbox %s, or an image of its files, is left behind: %s",
                     state.sandbox, why.msg);
}

int modal_instance_detach(struct instance *instance, struct error *err)
{
    return leave(instance, !modal_instance_of(instance)->temporary, err);
}

int modal_instance_remove(struct instance *instance, struct error *err)
{
    return leave(instance, false, err);
}
