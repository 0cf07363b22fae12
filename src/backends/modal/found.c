/* Sandboxes that are computers, as Modal knows them by their tags, whoever made them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/modal/private.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

#define REAP_TIMEOUT_NS (60 * NSEC_PER_SEC)
#define FOUND_MAX 64 /* of one key */

/* False: it is no computer, or its tags make no sense. */
static bool read_found(const json_t *sandbox, struct backend_found *ret)
{
    json_t *tags = json_get_object(sandbox, "tags");
    const char *id = json_get_string(sandbox, "id"), *network = json_get_string(tags, MODAL_LABEL_NETWORK);
    const double created = json_number_value(json_object_get(sandbox, "created"));
    if (!modal_is_id(id) || !labels_read(tags, NULL, ret))
        return false;
    ret->running = true;
    ret->data = json_pack("{s:s, s:b, s:O}", "sandbox", id, "network",
                          network && strcmp(network, "true") == 0, "tags", tags);
    if (created > 0 && created < 1e10)
        clock_rfc3339((int64_t)(created * 1e9), ret->created_at);
    snprintf(ret->provider_id, sizeof(ret->provider_id), "%s", id);
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

int modal_find(struct backend *backend, const struct computer_spec *spec, const struct wait *wait,
               backend_found_fn *fn, void *ctx, struct error *err)
{
    struct telling t = {.spec = spec, .fn = fn, .ctx = ctx};
    const char *const tags[][2] = {{LABEL_ID, spec->id}, {LABEL_PRINCIPAL, spec->principal}};
    return modal_api_list(modal_of(backend)->account, tags, ARRAY_LEN(tags), wait, on_computer, &t, err);
}

int modal_list(struct backend *backend, const struct wait *wait, backend_found_fn *fn, void *ctx,
               struct error *err)
{
    struct telling t = {.fn = fn, .ctx = ctx};
    const char *const tags[][2] = {{LABEL_OURS, "true"}};
    return modal_api_list(modal_of(backend)->account, tags, ARRAY_LEN(tags), wait, on_computer, &t, err);
}

/* --- what a dead server has left --- */

struct gathering {
    char ids[FOUND_MAX][MODAL_ID_SIZE];
    size_t count;
};

static int on_one(void *ctx, const json_t *sandbox, struct error *err)
{
    struct gathering *g = ctx;
    const char *id = json_get_string(sandbox, "id");
    if (!modal_is_id(id))
        return 0;
    if (g->count == FOUND_MAX)
        return error_set(err, ERR_LIMIT, "Modal has more than %d sandboxes of one key", FOUND_MAX);
    snprintf(g->ids[g->count++], MODAL_ID_SIZE, "%s", id);
    return 0;
}

int modal_end_all(struct modal_backend *b, const char *key, const char *but, const struct wait *wait,
                  struct error *err)
{
    const char *const tags[][2] = {{LABEL_KEY, key}};
    _cleanup_(cleanup_free) struct gathering *g = xcalloc(1, sizeof(*g));
    if (key[0] && modal_api_list(b->account, tags, 1, wait, on_one, g, err) < 0)
        return -1;
    for (size_t n = 0; n < g->count; n++)
        if (strcmp(g->ids[n], but) != 0 && modal_api_terminate(b->account, g->ids[n], wait, err) < 0)
            return -1;
    return 0;
}

/* By the key of its creation, since it may have died on the move, and have two. */
int modal_reap(struct backend *backend, const struct computer_spec *spec, const json_t *data,
               struct error *err)
{
    struct modal_backend *b = modal_of(backend);
    const struct wait wait = {.deadline = clock_now() + REAP_TIMEOUT_NS};
    struct modal_state state;
    modal_state_read(spec->folder, data, &state);
    if (state.sandbox[0] && modal_api_terminate(b->account, state.sandbox, &wait, err) < 0)
        return -1;
    if (modal_end_all(b, spec->key ? spec->key : "", state.sandbox, &wait, err) < 0)
        return -1;
    if (modal_images_delete(b->account, &state, &wait, err) < 0)
        return -1;
    modal_state_remove(spec->folder);
    return 0;
}
