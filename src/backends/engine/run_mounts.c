/* What run flags bring into a container from outside: volumes and mounts. Syntax as in the docker CLI's
 * opts/mount.go and internal/volumespec. */
#include "backends/engine/run_parse.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "backends/engine/run_flags.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/str.h"

/* [SOURCE:]TARGET[:MODE]. With a source it is a bind or a named volume, which the engine tells apart by the
 * slash; without, an anonymous volume. What is in MODE is the engine's to judge. */
int run_volume(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    const char *colon = strchr(value, ':');
    const char *target = colon ? colon + 1 : value;
    const char *mode = colon ? strchr(target, ':') : NULL;
    bool sound = *target == '/' && colon != value && (!mode || (mode[1] && !strchr(mode + 1, ':')));
    if (!sound)
        return error_set(err, ERR_INVALID,
                         "it takes TARGET, SOURCE:TARGET or SOURCE:TARGET:MODE, TARGET an absolute "
                         "path in the container");
    if (!colon) {
        const char *member;
        json_t *volumes = run_place(r->body, "Volumes.", &member);
        json_object_set_new(volumes, value, json_object());
        return 0;
    }
    _cleanup_(cleanup_free) char *source = xstrndup(value, (size_t)(colon - value));
    _cleanup_(cleanup_free) char *from = run_absolute(source);
    _cleanup_(cleanup_free) char *bind = xasprintf("%s:%s", from, target);
    run_append(r->body, f->place, json_string(bind));
    return 0;
}

/* TARGET[:OPTIONS] */
int run_tmpfs(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    size_t n = strcspn(value, ":");
    _cleanup_(cleanup_free) char *target = xstrndup(value, n);
    if (!path_is_absolute(target))
        return error_set(err, ERR_INVALID,
                         "it takes PATH or PATH:OPTIONS, an absolute path in the container");
    const char *member;
    json_t *host = run_place(r->body, f->place, &member);
    if (!json_is_object(json_object_get(host, member)))
        json_object_set_new(host, member, json_object());
    json_object_set_new(json_object_get(host, member), target, json_string(value[n] ? value + n + 1 : ""));
    return 0;
}

enum mount_kind {
    MOUNT_TEXT,
    MOUNT_LOWER,
    MOUNT_SOURCE,
    MOUNT_BOOL,
    MOUNT_PAIR,
    MOUNT_BYTES,
    MOUNT_OCTAL,
    MOUNT_RECURSIVE
};

static const struct mount_key {
    const char *name;
    enum mount_kind kind;
    const char *place; /* in the API's Mount */
} mount_keys[] = {
    {"type", MOUNT_LOWER, "Type"},
    {"source", MOUNT_SOURCE, "Source"},
    {"src", MOUNT_SOURCE, "Source"},
    {"target", MOUNT_TEXT, "Target"},
    {"dst", MOUNT_TEXT, "Target"},
    {"destination", MOUNT_TEXT, "Target"},
    {"readonly", MOUNT_BOOL, "ReadOnly"},
    {"ro", MOUNT_BOOL, "ReadOnly"},
    {"consistency", MOUNT_LOWER, "Consistency"},
    {"bind-propagation", MOUNT_LOWER, "BindOptions.Propagation"},
    {"bind-nonrecursive", MOUNT_BOOL, "BindOptions.NonRecursive"},
    {"bind-recursive", MOUNT_RECURSIVE, "BindOptions"},
    {"bind-create-src", MOUNT_BOOL, "BindOptions.CreateMountpoint"},
    {"volume-subpath", MOUNT_TEXT, "VolumeOptions.Subpath"},
    {"volume-nocopy", MOUNT_BOOL, "VolumeOptions.NoCopy"},
    {"volume-label", MOUNT_PAIR, "VolumeOptions.Labels."},
    {"volume-driver", MOUNT_TEXT, "VolumeOptions.DriverConfig.Name"},
    {"volume-opt", MOUNT_PAIR, "VolumeOptions.DriverConfig.Options."},
    {"image-subpath", MOUNT_TEXT, "ImageOptions.Subpath"},
    {"tmpfs-size", MOUNT_BYTES, "TmpfsOptions.SizeBytes"},
    {"tmpfs-mode", MOUNT_OCTAL, "TmpfsOptions.Mode"},
};

/* Which options go with which type. */
static const struct {
    const char *type, *member, *prefix;
} mount_types[] = {{"bind", "BindOptions", "bind-"},
                   {"volume", "VolumeOptions", "volume-"},
                   {"tmpfs", "TmpfsOptions", "tmpfs-"},
                   {"image", "ImageOptions", "image-"}};

static json_t *mount_bool(const char *value)
{
    bool on = !*value || strcmp(value, "1") == 0 || strcmp(value, "true") == 0;
    bool off = strcmp(value, "0") == 0 || strcmp(value, "false") == 0;
    return on || off ? json_boolean(on) : NULL;
}

static json_t *lower_string(const char *value)
{
    _cleanup_(cleanup_free) char *lower = xstrdup(value);
    for (char *c = lower; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return json_string(lower);
}

static json_t *mount_octal(const char *value)
{
    size_t n = strlen(value);
    return n >= 1 && n <= 5 && strspn(value, "01234567") == n ? json_integer(strtol(value, NULL, 8)) : NULL;
}

static json_t *mount_bytes(const char *value)
{
    int64_t bytes;
    return run_flags_bytes(value, &bytes) == 0 ? json_integer(bytes) : NULL;
}

/* bind-recursive says in one word what is three members in the API; those that are set already stay. */
static bool mount_recursive(json_t *mount, const char *value)
{
    static const struct {
        const char *word, *place;
    } words[] = {{"enabled", NULL},
                 {"disabled", "BindOptions.NonRecursive"},
                 {"writable", "BindOptions.ReadOnlyNonRecursive"},
                 {"readonly", "BindOptions.ReadOnlyForceRecursive"}};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcmp(value, words[i].word) == 0) {
            if (words[i].place)
                run_put(mount, words[i].place, json_true());
            return true;
        }
    return false;
}

static bool mount_set(json_t *mount, const struct mount_key *key, const char *value)
{
    json_t *made = NULL;
    switch (key->kind) {
    case MOUNT_PAIR:
        return run_put_pair(mount, key->place, value);
    case MOUNT_RECURSIVE:
        return mount_recursive(mount, value);
    case MOUNT_TEXT:
        made = json_string(value);
        break;
    case MOUNT_LOWER:
        made = lower_string(value);
        break;
    case MOUNT_SOURCE: {
        _cleanup_(cleanup_free) char *source = run_absolute(value);
        made = json_string(source);
        break;
    }
    case MOUNT_BOOL:
        made = mount_bool(value);
        break;
    case MOUNT_BYTES:
        made = mount_bytes(value);
        break;
    case MOUNT_OCTAL:
        made = mount_octal(value);
        break;
    default:
        break;
    }
    if (made)
        run_put(mount, key->place, made);
    return made != NULL;
}

static int mount_field(json_t *mount, const char *field, struct error *err)
{
    _cleanup_(cleanup_free) char *name = NULL;
    const char *value;
    bool has_value = run_cut(field, &name, &value);
    const struct mount_key *key = NULL;
    for (size_t i = 0; !key && i < ARRAY_LEN(mount_keys); i++)
        key = str_equal_nocase(name, mount_keys[i].name) ? &mount_keys[i] : NULL;
    if (!key)
        return error_set(err, ERR_INVALID, "there is no option '%s' of a mount", name);
    if (has_value && !*value)
        return error_set(err, ERR_INVALID, "'%s' has an empty value", name);
    if (!has_value && key->kind != MOUNT_BOOL)
        return error_set(err, ERR_INVALID, "'%s' takes a value: %s=VALUE", name, name);
    if (!mount_set(mount, key, value))
        return error_set(err, ERR_INVALID, "'%s' can't be '%s'", name, value);
    return 0;
}

static int mount_check(const json_t *mount, struct error *err)
{
    const char *type = json_get_string(mount, "Type");
    bool known = strcmp(type, "cluster") == 0;
    for (size_t i = 0; i < ARRAY_LEN(mount_types); i++) {
        bool same = strcmp(type, mount_types[i].type) == 0;
        known = known || same;
        if (!same && json_object_get(mount, mount_types[i].member))
            return error_set(err, ERR_INVALID, "options %s* are not for a mount of type '%s'",
                             mount_types[i].prefix, type);
    }
    if (!known)
        return error_set(err, ERR_INVALID, "there is no type '%s'; there are bind, volume, tmpfs and image",
                         type);
    const char *target = json_get_string(mount, "Target");
    if (!target || !path_is_absolute(target))
        return error_set(err, ERR_INVALID, "it needs target=PATH, an absolute path in the container");
    if (strcmp(type, "bind") == 0 && !json_get_string(mount, "Source"))
        return error_set(err, ERR_INVALID, "a bind needs source=PATH");

    const char *propagation = json_string_value(run_get(mount, "BindOptions.Propagation"));
    bool read_only = json_is_true(json_object_get(mount, "ReadOnly"));
    bool force = json_is_true(run_get(mount, "BindOptions.ReadOnlyForceRecursive"));
    if ((force || json_is_true(run_get(mount, "BindOptions.ReadOnlyNonRecursive"))) && !read_only)
        return error_set(err, ERR_INVALID, "bind-recursive=%s needs 'readonly', too",
                         force ? "readonly" : "writable");
    if (force && (!propagation || strcmp(propagation, "rprivate") != 0))
        return error_set(err, ERR_INVALID, "bind-recursive=readonly needs bind-propagation=rprivate, too");
    return 0;
}

int run_mount(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    _cleanup_(cleanup_json_decref) json_t *fields = run_csv(value, err);
    _cleanup_(cleanup_json_decref) json_t *mount = json_pack("{s:s}", "Type", "volume");
    size_t i;
    const json_t *field;
    if (!fields)
        return -1;
    json_array_foreach (fields, i, field) {
        if (mount_field(mount, json_string_value(field), err) < 0)
            return -1;
    }
    if (mount_check(mount, err) < 0)
        return -1;
    run_append(r->body, f->place, TAKE_PTR(mount));
    return 0;
}
