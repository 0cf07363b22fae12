/* Containers that are computers, as the engine knows them by their labels, whoever made them. */
#include <stdio.h>
#include <string.h>

#include "backends/engine/container.h"
#include "backends/engine/private.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

#define LIST_BYTES_MAX (32 * MIB) /* of the engine's list */

static json_t *data_of(const struct engine *e, const char *container)
{
    return json_pack("{s:s, s:s, s:s}", "container", container, "engine", engine_name(e), "address",
                     e->address.text);
}

int engine_find(struct backend *backend, const struct computer_spec *spec, const struct wait *wait,
                backend_found_fn *fn, void *ctx, struct error *err)
{
    struct engine *e = engine_ready(engine_of(backend), wait, err);
    _cleanup_(cleanup_free) char *name = container_name(spec->principal, spec->id);
    struct container_look look;
    if (!e || container_look(e, name, wait, &look, err) < 0)
        return -1;
    _cleanup_(cleanup_json_decref) json_t *inspect = look.inspect;
    const char *id = json_get_string(inspect, "Id");
    if (look.state == CONTAINER_ABSENT || !id)
        return 0;
    _cleanup_(backend_found_done) struct backend_found found = {0};
    const json_t *labels = json_get_object(json_get_object(inspect, "Config"), "Labels");
    if (!labels_read(labels, "local", &found) || strcmp(found.id, spec->id) != 0 ||
        strcmp(found.principal, spec->principal) != 0)
        return error_set(
            err, ERR_UNAVAILABLE,
            "there is a container %s that is no computer: choose another computer_id, or remove it", name);
    found.data = data_of(e, id);
    fn(ctx, &found);
    return 0;
}

/* Those that are beside a computer have its labels, but not its name. A killed Docker may go on listing one
 * that it has removed, under no name. */
static bool is_aside(const json_t *container, const struct backend_found *f)
{
    size_t n;
    json_t *name;
    const json_t *names = json_object_get(container, "Names");
    _cleanup_(cleanup_free) char *own = container_name(f->principal, f->id);
    json_array_foreach (names, n, name) {
        const char *text = json_is_string(name) ? json_string_value(name) : "";
        if (strcmp(text + (*text == '/'), own) == 0)
            return false;
    }
    return true;
}

/* What a list says of one beside its labels. Frozen processes are processes. */
static void read_listed(const struct engine *e, const json_t *container, struct backend_found *f)
{
    const char *state = json_get_string(container, "State"), *id = json_get_string(container, "Id");
    const char *image = json_get_string(json_get_object(container, "Labels"), LABEL_IMAGE);
    const json_int_t created = json_integer_value(json_object_get(container, "Created"));
    if (!image)
        image = json_get_string(container, "Image");
    const bool is_paused = state && strcmp(state, "paused") == 0;
    f->running = is_paused || (state && strcmp(state, "running") == 0);
    if (is_paused)
        snprintf(f->paused, sizeof(f->paused), "%s unpause %.12s", engine_name(e), id);
    f->aside = is_aside(container, f);
    if (created > 0 && created < INT64_MAX / NSEC_PER_SEC)
        clock_rfc3339(created * NSEC_PER_SEC, f->created_at);
    snprintf(f->provider_id, sizeof(f->provider_id), "%s", id);
    snprintf(f->image, sizeof(f->image), "%s", image ? image : "");
}

int engine_list(struct backend *backend, const struct wait *wait, backend_found_fn *fn, void *ctx,
                struct error *err)
{
    struct engine *e = engine_ready(engine_of(backend), wait, err);
    if (!e)
        return -1;
    _cleanup_(cleanup_free) char *filter = http_encode("{\"label\":[\"" LABEL_ID "\"]}");
    _cleanup_(cleanup_free) char *path = xasprintf("/containers/json?all=1&filters=%s", filter);
    const struct http_request request = {
        .method = "GET", .path = path, .max_body = LIST_BYTES_MAX, .wait = *wait};
    _cleanup_(http_response_done) struct http_response response = {0};
    if (engine_request(e, &request, &response, err) < 0)
        return -1;
    _cleanup_(cleanup_json_decref) json_t *list = json_parse(buf_str(&response.body), response.body.len, err);
    if (!list)
        return -1;
    size_t n;
    json_t *container;
    json_array_foreach (list, n, container) {
        const char *id = json_get_string(container, "Id");
        struct backend_found found;
        if (!id || !labels_read(json_get_object(container, "Labels"), "local", &found))
            continue;
        found.data = data_of(e, id);
        read_listed(e, container, &found);
        fn(ctx, &found);
        backend_found_done(&found);
    }
    return 0;
}
