/* Sandboxes that are computers, as the provider knows them by their metadata, whoever made them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/e2b/private.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

#define REAP_TIMEOUT_NS (60 * NSEC_PER_SEC)
#define FOUND_MAX 64 /* of one key */

/* False: it is no computer, or its metadata make no sense. */
static bool read_found(const json_t *sandbox, struct backend_found *ret)
{
    const json_t *meta = json_get_object(sandbox, "metadata");
    const char *sandbox_id = json_get_string(sandbox, "sandboxID"),
               *state = json_get_string(sandbox, "state");
    const char *network = json_get_string(meta, LABEL_NETWORK);
    if (!e2b_is_id(sandbox_id) || !labels_read(meta, NULL, ret))
        return false;
    ret->running = state && strcmp(state, "running") == 0;
    ret->data =
        json_pack("{s:s, s:b}", "sandbox", sandbox_id, "network", network && strcmp(network, "true") == 0);
    labels_copy(sandbox, "startedAt", ret->created_at, sizeof(ret->created_at));
    labels_copy(sandbox, "templateID", ret->image, sizeof(ret->image));
    snprintf(ret->provider_id, sizeof(ret->provider_id), "%s", sandbox_id);
    return true;
}

/* --- find and list --- */

struct telling {
    const struct computer_spec *spec; /* NULL: all */
    backend_found_fn *fn;
    void *ctx;
};

static int on_computer(void *ctx, const json_t *sandbox, struct error *err)
{
    const struct telling *t = ctx;
    struct backend_found found;
    (void)err;
    if (!read_found(sandbox, &found))
        return 0;
    if (!t->spec || backend_found_is(&found, t->spec))
        t->fn(t->ctx, &found);
    backend_found_done(&found);
    return 0;
}

int e2b_find(struct backend *backend, const struct computer_spec *spec, const struct wait *wait,
             backend_found_fn *fn, void *ctx, struct error *err)
{
    struct telling t = {.spec = spec, .fn = fn, .ctx = ctx};
    const char *const pairs[][2] = {{LABEL_ID, spec->id}, {LABEL_PRINCIPAL, spec->principal}};
    return e2b_api_list(e2b_of(backend), pairs, ARRAY_LEN(pairs), wait, on_computer, &t, err);
}

int e2b_list(struct backend *backend, const struct wait *wait, backend_found_fn *fn, void *ctx,
             struct error *err)
{
    struct telling t = {.fn = fn, .ctx = ctx};
    const char *const pairs[][2] = {{LABEL_OURS, "true"}};
    return e2b_api_list(e2b_of(backend), pairs, ARRAY_LEN(pairs), wait, on_computer, &t, err);
}

/* --- what a dead server has left --- */

struct gathering {
    char ids[FOUND_MAX][E2B_ID_SIZE];
    size_t count;
};

static int on_one(void *ctx, const json_t *sandbox, struct error *err)
{
    struct gathering *g = ctx;
    const char *id = json_get_string(sandbox, "sandboxID");
    if (!e2b_is_id(id))
        return 0;
    if (g->count == FOUND_MAX)
        return error_set(err, ERR_LIMIT, "E2B has more than %d sandboxes of one key", FOUND_MAX);
    snprintf(g->ids[g->count++], E2B_ID_SIZE, "%s", id);
    return 0;
}

/* By its id, where that is known, else by the key of its creation. */
static int do_to_all(struct backend *backend, const struct computer_spec *spec, const json_t *data,
                     int (*fn)(struct e2b_backend *b, const char *id, const struct wait *wait,
                               struct error *err),
                     struct error *err)
{
    struct e2b_backend *b = e2b_of(backend);
    const struct wait wait = {.deadline = clock_now() + REAP_TIMEOUT_NS};
    const char *id = json_get_string(data, "sandbox");
    const char *const pairs[][2] = {{LABEL_KEY, spec->key ? spec->key : ""}};
    _cleanup_(cleanup_free) struct gathering *g = xcalloc(1, sizeof(*g));
    struct error why = ERROR_INIT;
    if (e2b_is_id(id))
        snprintf(g->ids[g->count++], E2B_ID_SIZE, "%s", id);
    else if (pairs[0][1][0] && e2b_api_list(b, pairs, 1, &wait, on_one, g, err) < 0)
        return -1;
    for (size_t n = 0; n < g->count; n++)
        if (fn(b, g->ids[n], &wait, &why) < 0 && why.code != ERR_NOT_FOUND)
            return error_set(err, why.code, "%s", why.msg);
    return 0;
}

int e2b_reap(struct backend *backend, const struct computer_spec *spec, const json_t *data, struct error *err)
{
    return do_to_all(backend, spec, data, e2b_api_kill, err);
}

int e2b_settle(struct backend *backend, const struct computer_spec *spec, const json_t *data,
               struct error *err)
{
    return do_to_all(backend, spec, data, e2b_api_pause, err);
}
