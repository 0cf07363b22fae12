/* Containers that are computers, as the engine knows them by their labels, whoever made them. */
#include <stdio.h>
#include <string.h>

#include "backends/engine/container.h"
#include "backends/engine/private.h"
#include "base/json.h"
#include "base/mem.h"

#define LIST_BYTES_MAX (32 * MIB) /* of the engine's list */

static void copy_label(const json_t *labels, const char *label, char *ret, size_t size)
{
    const char *value = json_get_string(labels, label);
    snprintf(ret, size, "%s", value ? value : "");
}

static bool is_key(const char *text)
{
    return strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16;
}

/* False: the container is no computer, or its labels make no sense. */
static bool read_labels(const json_t *labels, struct backend_found *ret)
{
    const char *id = json_get_string(labels, LABEL_ID);
    const char *principal = json_get_string(labels, LABEL_PRINCIPAL);
    const char *temporary = json_get_string(labels, LABEL_TEMPORARY);
    if (!id || !temporary)
        return false;
    *ret = (struct backend_found){
        .id = xstrdup(id),
        .principal = xstrdup(principal ? principal : "local"),
        .temporary = strcmp(temporary, "true") == 0,
    };
    copy_label(labels, LABEL_KEY, ret->key, sizeof(ret->key));
    if (!is_key(ret->key))
        ret->key[0] = '\0';
    copy_label(labels, LABEL_MACHINE, ret->owner.machine, sizeof(ret->owner.machine));
    copy_label(labels, LABEL_BOOT, ret->owner.boot, sizeof(ret->owner.boot));
    copy_label(labels, LABEL_PID, ret->owner.pid, sizeof(ret->owner.pid));
    copy_label(labels, LABEL_START, ret->owner.start, sizeof(ret->owner.start));
    copy_label(labels, LABEL_STATE, ret->owner.state, sizeof(ret->owner.state));
    return true;
}

static json_t *data_of(const struct engine *e, const char *container)
{
    return json_pack("{s:s, s:s, s:s}", "container", container, "engine", engine_name(e), "address",
                     e->address.text);
}

int engine_find(struct backend *backend, const struct computer_spec *spec, const struct wait *wait,
                struct backend_found *ret, struct error *err)
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
    if (!read_labels(labels, &found) || strcmp(found.id, spec->id) != 0 ||
        strcmp(found.principal, spec->principal) != 0)
        return error_set(
            err, ERR_UNAVAILABLE,
            "there is a container %s that is no computer: choose another computer_id, or remove it", name);
    found.data = data_of(e, id);
    *ret = found;
    found = (struct backend_found){0};
    return 1;
}

int engine_list(struct backend *backend, const struct wait *wait,
                void (*fn)(void *ctx, struct backend_found *f), void *ctx, struct error *err)
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
        if (!id || !read_labels(json_get_object(container, "Labels"), &found))
            continue;
        found.data = data_of(e, id);
        fn(ctx, &found);
        backend_found_done(&found);
    }
    return 0;
}
