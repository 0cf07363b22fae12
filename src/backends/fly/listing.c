/* Machines by their metadata, although Fly lists those of an app once a second: where a question would have
 * to wait for its turn, one list of all our machines answers everybody who waits. It is one that was begun
 * after they came, so that nobody is told what was before.
 *
 * Such a list is long, since each machine's configuration has our program in it. So where there are many
 * machines each question has a list of its own, and its own turn. */
#include <string.h>

#include "backends/fly/private.h"
#include "base/json.h"

#define COMMON_MOST 200 /* machines */
#define LIST_TIMEOUT_NS (60 * NSEC_PER_SEC)

static int keep_one(void *ctx, const json_t *machine, struct error *err)
{
    json_array_append(ctx, (json_t *)(uintptr_t)machine);
    return 0;
}

void fly_listing_init(struct fly_listing *l)
{
    pthread_mutex_init(&l->lock, NULL);
}

void fly_listing_done(struct fly_listing *l)
{
    json_decref(l->machines);
    pthread_mutex_destroy(&l->lock);
}

/* Under the lock, which is left meanwhile. */
static int list_for_all_locked(struct fly_backend *b, struct error *err)
{
    struct fly_listing *l = &b->listing;
    struct error why = ERROR_INIT;
    json_t *machines = json_array();
    const uint64_t number = ++l->begun;
    pthread_mutex_unlock(&l->lock);
    /* Not the caller's limits: others wait for the same. */
    const struct wait wait = {.deadline = clock_now() + LIST_TIMEOUT_NS};
    const int failed = fly_api_list(b, LABEL_OURS, "true", &wait, keep_one, machines, &why);
    pthread_mutex_lock(&l->lock);
    if (failed == 0) {
        json_decref(l->machines);
        l->machines = json_incref(machines);
        l->done = number;
    }
    json_decref(machines);
    attempt_end(&l->attempt, failed < 0 ? &why : NULL);
    return failed < 0 ? error_set(err, why.code, "%s", why.msg) : 0;
}

/* Of all our machines; a new reference. NULL with the error. */
static json_t *list_in_common(struct fly_backend *b, const struct wait *wait, struct error *err)
{
    struct fly_listing *l = &b->listing;
    json_t *machines = NULL;
    int failed = 0;
    pthread_mutex_lock(&l->lock);
    const uint64_t wanted = l->begun + 1;
    l->waiting++;
    while (failed == 0 && l->done < wanted) {
        const int joined = attempt_join(&l->attempt, &l->lock, wait, err);
        failed = joined == 0 ? list_for_all_locked(b, err) : joined < 0 ? -1 : 0;
    }
    if (failed == 0) {
        l->count = json_array_size(l->machines);
        machines = json_incref(l->machines);
    }
    if (--l->waiting == 0) {
        json_decref(l->machines);
        l->machines = NULL;
    }
    pthread_mutex_unlock(&l->lock);
    return machines;
}

int fly_listing_all(struct fly_backend *b, const struct wait *wait, fly_listing_fn *fn, void *ctx,
                    struct error *err)
{
    size_t n;
    json_t *machine;
    _cleanup_(cleanup_json_decref) json_t *machines = list_in_common(b, wait, err);
    if (!machines)
        return -1;
    json_array_foreach (machines, n, machine)
        if (fn(ctx, machine, err) < 0)
            return -1;
    return 0;
}

static bool is_for_all(struct fly_backend *b)
{
    struct fly_listing *l = &b->listing;
    pthread_mutex_lock(&l->lock);
    const bool few = l->count <= COMMON_MOST;
    pthread_mutex_unlock(&l->lock);
    return few && !fly_api_list_is_free(b);
}

struct choice {
    const char *name, *value;
    fly_listing_fn *fn;
    void *ctx;
};

static int on_any(void *ctx, const json_t *machine, struct error *err)
{
    const struct choice *c = ctx;
    const json_t *metadata = json_get_object(json_get_object(machine, "config"), "metadata");
    const char *value = json_get_string(metadata, c->name);
    return value && strcmp(value, c->value) == 0 ? c->fn(c->ctx, machine, err) : 0;
}

int fly_listing_find(struct fly_backend *b, const char *name, const char *value, const struct wait *wait,
                     fly_listing_fn *fn, void *ctx, struct error *err)
{
    struct choice choice = {.name = name, .value = value, .fn = fn, .ctx = ctx};
    if (fly_account_open(b->account, wait, err) < 0)
        return -1;
    return is_for_all(b) ? fly_listing_all(b, wait, on_any, &choice, err)
                         : fly_api_list(b, name, value, wait, fn, ctx, err);
}
