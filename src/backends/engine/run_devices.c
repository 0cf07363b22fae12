/* Run flags for devices of the engine's machine: nodes, their rules and rates, and GPUs. Syntax as in the
 * docker CLI's cli/command/container/opts.go, opts/throttledevice.go, opts/weightdevice.go and opts/gpus.go.
 */
#include "backends/engine/run_parse.h"

#include <ctype.h>
#include <string.h>

#include "backends/engine/run_flags.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/str.h"

/* Of r, w and m, each once at most. */
static bool is_device_mode(const char *mode)
{
    size_t n = strlen(mode);
    return n > 0 && n == strspn(mode, "rwm") && n <= 3 && (n < 2 || !strchr(mode + 1, mode[0])) &&
           (n < 3 || mode[1] != mode[2]);
}

/* A device of the Container Device Interface: VENDOR/CLASS=NAME. */
static bool is_cdi_name(const char *device)
{
    const char *slash = strchr(device, '/'), *equals = strchr(device, '=');
    return isalpha((unsigned char)*device) && slash && equals && slash < equals - 1 && equals[1];
}

static void add_cdi(struct run *r, const char *device)
{
    json_t *requests = run_get(r->body, "HostConfig.DeviceRequests");
    size_t i;
    json_t *request;
    json_array_foreach (requests, i, request) {
        const char *driver = json_string_value(json_object_get(request, "Driver"));
        if (driver && strcmp(driver, "cdi") == 0) {
            run_append(request, "DeviceIDs", json_string(device));
            return;
        }
    }
    run_append(r->body, "HostConfig.DeviceRequests",
               json_pack("{s:s, s:[s]}", "Driver", "cdi", "DeviceIDs", device));
}

/* PATH[:PATH IN CONTAINER][:MODE], or the name of a CDI device. */
int run_device(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    if (is_cdi_name(value)) {
        add_cdi(r, value);
        return 0;
    }
    _cleanup_(cleanup_free) char *copy = xstrdup(value);
    char *parts[4] = {copy};
    size_t n = 1;
    for (char *colon = strchr(copy, ':'); colon && n < ARRAY_LEN(parts); colon = strchr(parts[n - 1], ':')) {
        *colon = '\0';
        parts[n++] = colon + 1;
    }
    const char *mode = n == 3 ? parts[2] : n == 2 && is_device_mode(parts[1]) ? parts[1] : NULL;
    const char *target = n == 3 || (n == 2 && !mode) ? parts[1] : parts[0];
    if (n > 3 || !*parts[0] || !path_is_absolute(target) || (mode && !is_device_mode(mode)))
        return error_set(err, ERR_INVALID,
                         "it takes PATH, PATH:PATH or PATH:PATH:MODE, absolute, with a mode of r, w "
                         "and m; or VENDOR/CLASS=NAME");
    run_append(r->body, f->place,
               json_pack("{s:s, s:s, s:s}", "PathOnHost", parts[0], "PathInContainer", target,
                         "CgroupPermissions", mode ? mode : "rwm"));
    return 0;
}

/* The end of a number or "*" at `text`; NULL if there is neither. */
static const char *after_device_number(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return *text == '*' ? text + 1 : digits > 0 ? text + digits : NULL;
}

/* "c 1:3 rwm" */
int run_device_rule(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    bool typed = *value && strchr("acb", *value) && value[1] == ' ';
    const char *p = typed ? after_device_number(value + 2) : NULL;
    p = p && *p == ':' ? after_device_number(p + 1) : NULL;
    size_t mode = p && *p == ' ' ? strspn(p + 1, "rwm") : 0;
    if (mode < 1 || mode > 3 || p[1 + mode])
        return error_set(err, ERR_INVALID, "it takes TYPE MAJOR:MINOR MODE, such as 'c 1:3 rwm'");
    return run_list(r, f, value, err);
}

/* /dev/PATH:NUMBER; the part after the path, or NULL. */
static const char *device_number(const char *value, char **ret_path)
{
    const char *colon = strchr(value, ':');
    if (!colon || !str_has_prefix(value, "/dev/"))
        return NULL;
    *ret_path = xstrndup(value, (size_t)(colon - value));
    return colon + 1;
}

int run_device_rate(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    _cleanup_(cleanup_free) char *path = NULL;
    const char *number = device_number(value, &path);
    bool in_bytes = str_has_suffix(f->name, "bps");
    int64_t rate = -1;
    if (!number || (in_bytes ? run_flags_bytes(number, &rate) < 0 : !str_parse_i64(number, &rate)) ||
        rate < 0)
        return error_set(err, ERR_INVALID, "it takes /dev/PATH:%s",
                         in_bytes ? "SIZE, such as /dev/sda:1mb" : "NUMBER");
    run_append_keyed(r->body, f->place, "Path",
                     json_pack("{s:s, s:I}", "Path", path, "Rate", (json_int_t)rate));
    return 0;
}

int run_device_weight(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    _cleanup_(cleanup_free) char *path = NULL;
    const char *number = device_number(value, &path);
    int64_t weight;
    if (!number || !str_parse_i64(number, &weight) || !run_in_range(f, weight))
        return error_set(err, ERR_INVALID, "it takes /dev/PATH:WEIGHT, a weight of 10 to 1000, or 0");
    run_append_keyed(r->body, f->place, "Path",
                     json_pack("{s:s, s:I}", "Path", path, "Weight", (json_int_t)weight));
    return 0;
}

/* ---- GPUs ---- */

static json_t *split_commas(const char *text)
{
    json_t *parts = json_array();
    for (const char *p = text;; p++) {
        size_t n = strcspn(p, ",");
        json_array_append_new(parts, json_stringn(p, n));
        p += n;
        if (!*p)
            return parts;
    }
}

static json_t *gpu_count(const char *value)
{
    int64_t count = -1;
    bool sound =
        strcmp(value, "all") == 0 || (str_parse_i64(value, &count) && count >= -1 && count <= INT32_MAX);
    return sound ? json_integer(count) : NULL;
}

static json_t *gpu_options(const char *value)
{
    _cleanup_(cleanup_json_decref) json_t *pairs = run_csv(value, NULL);
    _cleanup_(cleanup_json_decref) json_t *options = json_object();
    size_t i;
    const json_t *pair;
    json_array_foreach (pairs, i, pair) {
        if (!run_put_pair(options, "", json_string_value(pair)))
            return NULL;
    }
    return pairs ? TAKE_PTR(options) : NULL;
}

static json_t *gpu_capabilities(const char *value)
{
    json_t *all = split_commas(value);
    json_array_append_new(all, json_string("gpu"));
    return json_pack("[o]", all);
}

static const struct {
    const char *name, *member;
    json_t *(*make)(const char *value);
} gpu_keys[] = {{"count", "Count", gpu_count},
                {"device", "DeviceIDs", split_commas},
                {"driver", "Driver", json_string},
                {"capabilities", "Capabilities", gpu_capabilities},
                {"options", "Options", gpu_options}};

/* KEY=VALUE, or a count alone. */
static int gpu_field(json_t *request, const char *field, struct error *err)
{
    _cleanup_(cleanup_free) char *name = NULL;
    const char *value;
    bool is_count = !run_cut(field, &name, &value);
    for (size_t i = 0; i < ARRAY_LEN(gpu_keys); i++) {
        if (strcmp(is_count ? "count" : name, gpu_keys[i].name) != 0)
            continue;
        if (json_object_get(request, gpu_keys[i].member))
            return error_set(err, ERR_INVALID, "'%s' is there twice", gpu_keys[i].name);
        json_t *made = gpu_keys[i].make(is_count ? field : value);
        if (!made)
            return error_set(err, ERR_INVALID, "'%s' can't be '%s'", gpu_keys[i].name,
                             is_count ? field : value);
        json_object_set_new(request, gpu_keys[i].member, made);
        return 0;
    }
    return error_set(err, ERR_INVALID,
                     "there is no '%s'; there are count, device, driver, capabilities and options", name);
}

int run_gpus(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    _cleanup_(cleanup_json_decref) json_t *fields = run_csv(value, err);
    _cleanup_(cleanup_json_decref) json_t *request = json_object();
    size_t i;
    const json_t *field;
    if (!fields)
        return -1;
    json_array_foreach (fields, i, field) {
        if (gpu_field(request, json_string_value(field), err) < 0)
            return -1;
    }
    if (!json_object_get(request, "Count") && !json_object_get(request, "DeviceIDs"))
        json_object_set_new(request, "Count", json_integer(1));
    if (!json_object_get(request, "Capabilities"))
        json_object_set_new(request, "Capabilities", json_pack("[[s]]", "gpu"));
    run_append(r->body, f->place, TAKE_PTR(request));
    return 0;
}
