/* Machines as JSON: what the API is to be told to make, and what it tells of one. Source: the documents of
 * the Machines API and the structs of fly-go, August 2026. */
#include <stdio.h>
#include <string.h>

#include "backends/fly/private.h"
#include "backends/native/image.h"
#include "base/base64.h"
#include "base/json.h"
#include "base/mem.h"

#define GUEST_MODE 0755
#define GUEST_FILE_MAX (16 * MIB)

bool fly_is_id(const char *id)
{
    return provider_is_id(id, FLY_ID_SIZE);
}

/* --- what is asked for --- */

char *fly_machine_name(const char *key)
{
    return xasprintf("sandbox-%s", key);
}

static json_t *guest_file(void)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT(GUEST_FILE_MAX);
    (void)!base64_append(&text, guest_image, guest_image_size); /* it is long enough for each build */
    return json_pack("{s:s, s:s, s:i}", "guest_path", FLY_GUEST, "raw_value", buf_str(&text), "mode",
                     GUEST_MODE);
}

static json_t *main_process(int64_t lease_s)
{
    char lease[24];
    snprintf(lease, sizeof(lease), "%lld", (long long)lease_s);
    return json_pack("{s:[s, s, s]}", "exec", FLY_GUEST, JOB_MAIN, lease);
}

static json_t *metadata_of(const struct fly_backend *b, const struct computer_spec *spec,
                           const struct fly_shape *shape)
{
    json_t *metadata = json_pack("{s:s, s:s, s:s, s:s}", FLY_LABEL_ID, spec->id, FLY_LABEL_TEMPORARY,
                                 spec->temporary ? "true" : "false", FLY_LABEL_IMAGE, shape->image,
                                 FLY_LABEL_GUEST, b->guest_name);
    labels_write(metadata, spec);
    return metadata;
}

static json_t *rootfs_of(bool temporary, const struct fly_shape *shape)
{
    json_t *rootfs = json_pack("{s:s}", "persist", temporary ? "never" : "always");
    if (shape->rootfs_gb > 0)
        json_object_set_new(rootfs, "size_gb", json_integer(shape->rootfs_gb));
    return rootfs;
}

/* A temporary machine goes when its main process does; a permanent one is always to run, until it is stopped.
 */
json_t *fly_machine_creation(const struct fly_backend *b, const struct computer_spec *spec,
                             const struct fly_shape *shape)
{
    _cleanup_(cleanup_free) char *name = fly_machine_name(spec->key);
    json_t *config =
        json_pack("{s:s, s:o, s:{s:s, s:I, s:I}, s:o, s:b, s:{s:s}, s:o, s:[o]}", "image", shape->image,
                  "init", main_process(spec->temporary ? b->lease_s : 0), "guest", "cpu_kind",
                  b->performance ? "performance" : "shared", "cpus", (json_int_t)shape->cpus, "memory_mb",
                  (json_int_t)shape->memory_mb, "rootfs", rootfs_of(spec->temporary, shape), "auto_destroy",
                  spec->temporary, "restart", "policy", spec->temporary ? "no" : "always", "metadata",
                  metadata_of(b, spec, shape), "files", guest_file());
    json_t *creation = json_pack("{s:s, s:o}", "name", name, "config", config);
    if (b->region)
        json_object_set_new(creation, "region", json_string(b->region));
    return creation;
}

static void put_file(json_t *files, json_t *file)
{
    const char *path = json_get_string(file, "guest_path");
    for (size_t n = json_array_size(files); n > 0; n--) {
        const char *other = json_get_string(json_array_get(files, n - 1), "guest_path");
        if (other && strcmp(other, path) == 0)
            json_array_remove(files, n - 1);
    }
    json_array_append_new(files, file);
}

/* Of one that another version of this server has made, or the Python program. */
json_t *fly_machine_renewed(const struct fly_backend *b, const struct fly_machine *m)
{
    const json_t *metadata = json_get_object(m->config, "metadata");
    const char *guest = json_get_string(metadata, FLY_LABEL_GUEST);
    if (guest && strcmp(guest, b->guest_name) == 0)
        return NULL;
    json_t *config = json_deep_copy(m->config);
    json_t *files = json_array(), *labels = json_object();
    if (json_is_array(json_object_get(config, "files")))
        json_array_extend(files, json_object_get(config, "files"));
    put_file(files, guest_file());
    if (metadata)
        json_object_update(labels, json_object_get(config, "metadata"));
    json_object_set_new(labels, FLY_LABEL_GUEST, json_string(b->guest_name));
    json_object_set_new(config, "files", files);
    json_object_set_new(config, "metadata", labels);
    json_object_set_new(config, "init", main_process(0));
    return config;
}

/* --- what is told --- */

int fly_machine_read(const json_t *told, struct fly_machine *ret, struct error *err)
{
    struct fly_machine m = {0};
    const char *id = json_get_string(told, "id");
    const char *version = json_get_string(told, "instance_id");
    const char *state = json_get_string(told, "state");
    if (!fly_is_id(id) || !fly_is_id(version) || !state || strlen(state) >= sizeof(m.state))
        return error_set(err, ERR_UNAVAILABLE, "Fly answered without the id and state of a machine");
    snprintf(m.id, sizeof(m.id), "%s", id);
    snprintf(m.version, sizeof(m.version), "%s", version);
    snprintf(m.state, sizeof(m.state), "%s", state);
    m.config = json_incref(json_get_object(told, "config"));
    *ret = m;
    return 0;
}

void fly_machine_done(struct fly_machine *m)
{
    json_decref(m->config);
    m->config = NULL;
}

static int64_t count_of(const json_t *object, const char *member)
{
    const json_int_t n = json_integer_value(json_object_get(object, member));
    return n > 0 && n < INT32_MAX ? n : 0;
}

void fly_machine_shape(const json_t *config, struct fly_shape *ret)
{
    const json_t *guest = json_get_object(config, "guest");
    struct fly_shape shape = {
        .cpus = count_of(guest, "cpus"),
        .memory_mb = count_of(guest, "memory_mb"),
        .rootfs_gb = count_of(json_get_object(config, "rootfs"), "size_gb"),
    };
    labels_copy(config, "image", shape.image, sizeof(shape.image));
    *ret = shape;
}
