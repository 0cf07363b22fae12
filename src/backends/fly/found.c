/* Machines that are computers, as Fly knows them by their metadata, whoever made them: the Python program's
 * have other names there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/fly/private.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

#define REAP_TIMEOUT_NS (60 * NSEC_PER_SEC)
#define FOUND_MAX 64      /* of one key */
#define PRINCIPAL "local" /* of what the Python program has made */

/* Its own labels, and those of the Python program by our names. */
static json_t *labels_of(const json_t *metadata)
{
    static const char *const names[][2] = {{LABEL_ID, FLY_LABEL_ID}, {LABEL_TEMPORARY, FLY_LABEL_TEMPORARY}};
    json_t *labels = json_object();
    for (size_t n = 0; n < ARRAY_LEN(names); n++)
        json_object_set(labels, names[n][0], json_object_get(metadata, names[n][1]));
    if (metadata)
        json_object_update(labels, (json_t *)(uintptr_t)metadata);
    return labels;
}

/* False: it is no computer, or none any more, or its metadata make no sense. */
static bool read_found(const struct fly_backend *b, const json_t *told, struct backend_found *ret)
{
    struct fly_machine m;
    struct fly_shape shape;
    if (fly_machine_read(told, &m, NULL) < 0)
        return false;
    const json_t *metadata = json_get_object(m.config, "metadata");
    _cleanup_(cleanup_json_decref) json_t *labels = labels_of(metadata);
    const bool is_computer = labels_read(labels, PRINCIPAL, ret);
    fly_machine_shape(m.config, &shape);
    fly_machine_done(&m);
    if (!is_computer)
        return false;
    if (strcmp(m.state, "destroying") == 0 || strcmp(m.state, "destroyed") == 0) {
        backend_found_done(ret);
        return false;
    }
    ret->running = strcmp(m.state, "started") == 0 || strcmp(m.state, "starting") == 0;
    ret->data = json_pack("{s:s, s:s}", "machine", m.id, "app", fly_account_app(b->account));
    labels_copy(told, "created_at", ret->created_at, sizeof(ret->created_at));
    snprintf(ret->image, sizeof(ret->image), "%s", shape.image);
    snprintf(ret->provider_id, sizeof(ret->provider_id), "%s", m.id);
    return true;
}

/* --- find and list --- */

struct telling {
    const struct fly_backend *backend;
    const struct computer_spec *spec; /* NULL: all */
    backend_found_fn *fn;
    void *ctx;
};

static int on_computer(void *ctx, const json_t *told, struct error *err)
{
    const struct telling *t = ctx;
    struct backend_found found;
    if (!read_found(t->backend, told, &found))
        return 0;
    if (!t->spec || backend_found_is(&found, t->spec))
        t->fn(t->ctx, &found);
    backend_found_done(&found);
    return 0;
}

int fly_find(struct backend *backend, const struct computer_spec *spec, const struct wait *wait,
             backend_found_fn *fn, void *ctx, struct error *err)
{
    struct telling t = {.backend = fly_of(backend), .spec = spec, .fn = fn, .ctx = ctx};
    return fly_listing_find(fly_of(backend), FLY_LABEL_ID, spec->id, wait, on_computer, &t, err);
}

int fly_list(struct backend *backend, const struct wait *wait, backend_found_fn *fn, void *ctx,
             struct error *err)
{
    struct telling t = {.backend = fly_of(backend), .fn = fn, .ctx = ctx};
    return fly_listing_all(fly_of(backend), wait, on_computer, &t, err);
}

/* --- what a dead server has left --- */

int fly_check_app(struct fly_backend *b, const json_t *data, const struct wait *wait, struct error *err)
{
    const char *app = json_get_string(data, "app");
    if (fly_account_open(b->account, wait, err) < 0)
        return -1;
    if (!app || strcmp(app, fly_account_app(b->account)) == 0)
        return 0;
    return error_set(
        err, ERR_UNAVAILABLE,
        "its machine belongs to the app '%.63s' at Fly, and this server uses '%.63s': start it with "
        "--fly-app to have it back",
        app, fly_account_app(b->account));
}

struct gathering {
    char ids[FOUND_MAX][FLY_ID_SIZE];
    size_t count;
};

static int on_one(void *ctx, const json_t *told, struct error *err)
{
    struct gathering *g = ctx;
    const char *id = json_get_string(told, "id");
    if (!fly_is_id(id))
        return 0;
    if (g->count == FOUND_MAX)
        return error_set(err, ERR_LIMIT, "Fly has more than %d machines of one key", FOUND_MAX);
    snprintf(g->ids[g->count++], FLY_ID_SIZE, "%s", id);
    return 0;
}

/* By its id, where that is known, else by the key of its creation. */
static int do_to_all(struct backend *backend, const struct computer_spec *spec, const json_t *data,
                     int (*fn)(struct fly_backend *b, const char *id, const struct wait *wait,
                               struct error *err),
                     struct error *err)
{
    struct fly_backend *b = fly_of(backend);
    const struct wait wait = {.deadline = clock_now() + REAP_TIMEOUT_NS};
    const char *id = json_get_string(data, "machine");
    _cleanup_(cleanup_free) struct gathering *g = xcalloc(1, sizeof(*g));
    struct error why = ERROR_INIT;
    if (fly_check_app(b, data, &wait, err) < 0)
        return -1;
    if (fly_is_id(id))
        snprintf(g->ids[g->count++], FLY_ID_SIZE, "%s", id);
    else if (spec->key && *spec->key && fly_api_list_made(b, spec->key, &wait, on_one, g, err) < 0)
        return -1;
    for (size_t n = 0; n < g->count; n++)
        if (fn(b, g->ids[n], &wait, &why) < 0 && why.code != ERR_NOT_FOUND)
            return error_set(err, why.code, "%s", why.msg);
    return 0;
}

int fly_reap(struct backend *backend, const struct computer_spec *spec, const json_t *data, struct error *err)
{
    return do_to_all(backend, spec, data, fly_api_destroy, err);
}

int fly_settle(struct backend *backend, const struct computer_spec *spec, const json_t *data,
               struct error *err)
{
    return do_to_all(backend, spec, data, fly_api_stop, err);
}
