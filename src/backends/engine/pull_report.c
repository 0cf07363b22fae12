/* Objects are found by their brackets, so that it doesn't matter how they are divided: by lines, by pieces of
 * the transfer, or not at all. */
#include "backends/engine/pull_report.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/str.h"

#define OBJECT_MAX (64 * KIB)
#define BYTES_MAX (1ULL << 50) /* of a layer; more isn't believed */

enum layer_phase { LAYER_WAITS, LAYER_DOWNLOADED, LAYER_COMPLETE };

/* The words that engines have for a layer's state, by their beginnings. */
static const struct {
    const char *words;
    enum layer_phase phase;
    bool begins; /* a layer that wasn't mentioned before */
    bool counts; /* its progress is of the download */
} states[] = {
    {"Pulling fs layer", LAYER_WAITS, true, false},
    {"Waiting", LAYER_WAITS, true, false},
    {"Downloading", LAYER_WAITS, true, true},
    {"Retrying", LAYER_WAITS, false, false},
    {"Verifying Checksum", LAYER_DOWNLOADED, false, false},
    {"Download complete", LAYER_DOWNLOADED, false, false},
    {"Extracting", LAYER_DOWNLOADED, false, false},
    {"Pull complete", LAYER_COMPLETE, false, false},
    {"Already exists", LAYER_COMPLETE, true, false},
};

/* In lower case; the first that is contained decides. */
static const struct {
    const char *words;
    enum error_code code;
} meanings[] = {
    {"no matching manifest for", ERR_UNSUPPORTED},
    {"no image found in manifest list", ERR_UNSUPPORTED},
    {"no image found in image index", ERR_UNSUPPORTED},
    {"does not match the specified platform", ERR_UNSUPPORTED},
    {"unauthorized", ERR_DENIED},
    {"access denied", ERR_DENIED},
    {"denied: ", ERR_DENIED},
    {"resource is denied", ERR_DENIED},
    {"authentication required", ERR_DENIED},
    {"no basic auth credentials", ERR_DENIED},
    {"incorrect username or password", ERR_DENIED},
    {"403 forbidden", ERR_DENIED},
    {"manifest unknown", ERR_NOT_FOUND},
    {"name unknown", ERR_NOT_FOUND},
    {"not known to registry", ERR_NOT_FOUND},
    {"no such image", ERR_NOT_FOUND},
    {"not found", ERR_NOT_FOUND},
};

enum error_code pull_meaning(const char *words, enum error_code code)
{
    for (size_t i = 0; i < ARRAY_LEN(meanings); i++)
        if (strcasestr(words, meanings[i].words))
            return meanings[i].code;
    return code;
}

void pull_report_init(struct pull_report *r)
{
    memset(r, 0, sizeof(*r));
    r->object.max = OBJECT_MAX;
}

void pull_report_done(struct pull_report *r)
{
    buf_done(&r->object);
}

static struct pull_layer *find_layer(struct pull_report *r, const char *id, bool begin)
{
    char cut[sizeof(r->layers[0].id)];
    snprintf(cut, sizeof(cut), "%s", id);
    for (unsigned i = 0; i < r->layer_count; i++)
        if (strcmp(r->layers[i].id, cut) == 0)
            return &r->layers[i];
    if (!begin || r->layer_count == PULL_LAYERS_MAX)
        return NULL;
    struct pull_layer *layer = &r->layers[r->layer_count++];
    memcpy(layer->id, cut, sizeof(cut));
    return layer;
}

static uint64_t bytes_of(const json_t *detail, const char *member)
{
    json_int_t n = json_integer_value(json_object_get(detail, member));
    return n < 0 || (uint64_t)n > BYTES_MAX ? 0 : (uint64_t)n;
}

static void take_state(struct pull_report *r, const char *id, const char *status, const json_t *detail)
{
    for (size_t i = 0; i < ARRAY_LEN(states); i++) {
        if (!str_has_prefix(status, states[i].words))
            continue;
        struct pull_layer *layer = find_layer(r, id, states[i].begins);
        if (!layer)
            return;
        layer->phase = (int)states[i].phase;
        if (states[i].counts) {
            layer->done = bytes_of(detail, "current");
            layer->total = bytes_of(detail, "total");
        }
        return;
    }
}

static int take_object(struct pull_report *r, struct error *err)
{
    struct error why = ERROR_INIT;
    _cleanup_(cleanup_json_decref) json_t *object = json_parse(r->object.data, r->object.len, &why);
    if (!object)
        return error_set(err, ERR_UNAVAILABLE, "the engine's account of the pull is %s", why.msg);
    const char *failure = json_get_string(json_get_object(object, "errorDetail"), "message");
    if (!failure)
        failure = json_get_string(object, "error");
    if (failure && *failure)
        return error_set(err, ERR_UNAVAILABLE, "%s", failure);
    const char *id = json_get_string(object, "id"), *status = json_get_string(object, "status");
    if (id && status)
        take_state(r, id, status, json_get_object(object, "progressDetail"));
    return 0;
}

/* One byte of the object; true: it was the last. */
static bool ends_object(struct pull_report *r, char c)
{
    if (r->in_string) {
        if (r->escaped)
            r->escaped = false;
        else if (c == '\\')
            r->escaped = true;
        else if (c == '"')
            r->in_string = false;
        return false;
    }
    if (c == '"')
        r->in_string = true;
    else if (c == '{' || c == '[')
        r->depth++;
    else if (c == '}' || c == ']')
        r->depth--;
    return r->depth == 0;
}

int pull_report_feed(struct pull_report *r, const void *bytes, size_t n, struct error *err)
{
    const char *p = bytes;
    for (size_t i = 0; i < n; i++) {
        if (r->depth == 0 && strchr(" \t\r\n", p[i]) && p[i])
            continue;
        if (r->depth == 0 && p[i] != '{')
            return error_set(err, ERR_UNAVAILABLE, "the engine's account of the pull is no JSON");
        if (buf_append_byte(&r->object, p[i]) < 0)
            return error_set(err, ERR_UNAVAILABLE,
                             "the engine's account of the pull has an object of more than %lu bytes",
                             OBJECT_MAX);
        if (!ends_object(r, p[i]))
            continue;
        if (take_object(r, err) < 0)
            return -1;
        buf_clear(&r->object);
    }
    return 0;
}

int pull_report_end(const struct pull_report *r, struct error *err)
{
    return r->depth == 0 ? 0
                         : error_set(err, ERR_UNAVAILABLE, "the engine's account of the pull was cut short");
}

void pull_report_status(const struct pull_report *r, struct pull_status *ret)
{
    struct pull_status s = {.layers = r->layer_count};
    unsigned complete = 0;
    for (unsigned i = 0; i < r->layer_count; i++) {
        const struct pull_layer *layer = &r->layers[i];
        bool downloaded = layer->phase >= LAYER_DOWNLOADED;
        s.downloaded += downloaded;
        complete += layer->phase == LAYER_COMPLETE;
        s.total += layer->total;
        s.done += downloaded || layer->done > layer->total ? layer->total : layer->done;
    }
    s.unpacking = s.layers > 0 && s.downloaded == s.layers && complete < s.layers;
    *ret = s;
}
