/* What several run flags decide together, or a flag and what the body had before: environment and labels,
 * capabilities and security, limits that go with each other, log, health check, entrypoint, host name. */
#include "backends/engine/run_parse.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/macros.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"

/* Of labels that say which computer a container is. */
#define OWN_LABELS "kilntainers"

const json_t *run_given(const struct run *r, const char *flag)
{
    return json_object_get(r->given, flag);
}

/* The last one. */
static const char *given_last(const struct run *r, const char *flag)
{
    const json_t *values = run_given(r, flag);
    size_t n = json_array_size(values);
    return n > 0 ? json_string_value(json_array_get(values, n - 1)) : NULL;
}

static bool given_true(const struct run *r, const char *flag)
{
    const char *last = given_last(r, flag);
    bool on = false;
    return last && run_parse_bool(last, &on) && on;
}

/* ---- environment and labels ---- */

typedef int put_fn(struct run *r, const char *entry, struct error *err);

/* NAME=VALUE takes the place of another of that name. NAME alone has the value of our own environment; if it
 * has none there, the engine takes it out of the image's. */
static int put_env(struct run *r, const char *entry, struct error *err)
{
    _cleanup_(cleanup_free) char *name = NULL, *full = NULL;
    const char *value;
    if (!run_cut(entry, &name, &value)) {
        value = getenv(name);
        full = value ? xasprintf("%s=%s", name, value) : NULL;
    }
    if (!*name)
        return error_set(err, ERR_INVALID, "an environment variable has no name");
    json_t *made = json_string(full ? full : entry);
    if (!made)
        return error_set(err, ERR_INVALID, "the value of %s is not UTF-8", name);

    const json_t *env = json_object_get(r->body, "Env");
    size_t i, n = strlen(name);
    const json_t *other;
    json_array_foreach (env, i, other) {
        const char *text = json_string_value(other);
        if (strncmp(text, name, n) == 0 && (text[n] == '=' || !text[n]))
            return json_array_set_new(json_object_get(r->body, "Env"), i, made);
    }
    run_append(r->body, "Env", made);
    return 0;
}

static int put_label(struct run *r, const char *entry, struct error *err)
{
    _cleanup_(cleanup_free) char *name = NULL;
    const char *value, *member;
    run_cut(entry + strspn(entry, " \t"), &name, &value);
    if (!*name || strpbrk(name, " \t"))
        return error_set(err, ERR_INVALID, "'%s' is not the name of a label", name);
    if (str_has_prefix(name, OWN_LABELS))
        return error_set(err, ERR_INVALID,
                         "labels '" OWN_LABELS "...' say which computer a container is; choose "
                         "another name than '%s'",
                         name);
    json_object_set_new(run_place(r->body, "Labels.", &member), name, json_string(value));
    return 0;
}

/* One line of a file of KEY[=VALUE]: blank lines and those with # are skipped. A key alone has a value in a
 * file of environment only, our own; where there is none, the line counts for nothing. */
static int put_line(struct run *r, char *line, put_fn *put, struct error *err)
{
    line += strspn(line, " \t\v\f\r");
    size_t key = strcspn(line, "=");
    if (!*line || *line == '#')
        return 0;
    if (key == 0 || strcspn(line, " \t") < key)
        return error_set(err, ERR_INVALID, "'%.*s' is not a name", (int)key, line);
    if (!line[key] && (put != put_env || !getenv(line)))
        return 0;
    return put(r, line, err);
}

static int put_file(struct run *r, const char *path, put_fn *put, struct error *err)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT(LIMIT_CONFIG_FILE_BYTES);
    if (file_read(AT_FDCWD, path, &b, err) < 0)
        return error_recast(err, ERR_INVALID, path);
    if (!utf8_valid(b.data, b.len) || memchr(buf_str(&b), '\0', b.len))
        return error_set(err, ERR_INVALID, "%s is not text in UTF-8", path);
    char *line = b.len ? b.data : NULL;
    if (line && str_has_prefix(line, "\xEF\xBB\xBF"))
        line += 3;
    for (int number = 1; line; number++) {
        char *end = strchr(line, '\n');
        if (end) {
            bool returns = end > line && end[-1] == '\r';
            end[returns ? -1 : 0] = '\0';
        }
        if (put_line(r, line, put, err) < 0)
            return error_prefix(err, "%s, line %d", path, number);
        line = end ? end + 1 : NULL;
    }
    return 0;
}

/* Files first, so that single flags win. */
static int settle_pairs(struct run *r, const char *file_flag, const char *flag, put_fn *put,
                        struct error *err)
{
    size_t i;
    const json_t *value;
    json_array_foreach (run_given(r, file_flag), i, value) {
        if (put_file(r, json_string_value(value), put, err) < 0)
            return error_prefix(err, ASKED "--%s", file_flag);
    }
    json_array_foreach (run_given(r, flag), i, value) {
        if (put(r, json_string_value(value), err) < 0)
            return error_prefix(err, ASKED "--%s", flag);
    }
    return 0;
}

/* ---- capabilities and security ---- */

/* "cap_net_raw" as "NET_RAW"; malloced. */
static char *capability(const char *text)
{
    char *name = xstrdup(text);
    for (char *c = name; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    if (str_has_prefix(name, "CAP_"))
        memmove(name, name + 4, strlen(name + 4) + 1);
    return name;
}

static void array_remove(json_t *array, const char *text)
{
    for (size_t i = json_array_size(array); i-- > 0;)
        if (strcmp(json_string_value(json_array_get(array, i)), text) == 0)
            json_array_remove(array, i);
}

/* Takes the values of a flag out of `from`, and puts them into `to`, either of which may be NULL. True if one
 * is ALL. */
static bool move_capabilities(const struct run *r, const char *flag, json_t *from, json_t *to)
{
    bool all = false;
    size_t i;
    const json_t *value;
    json_array_foreach (run_given(r, flag), i, value) {
        _cleanup_(cleanup_free) char *name = capability(json_string_value(value));
        if (strcmp(name, "ALL") == 0) {
            all = true;
            continue;
        }
        array_remove(from, name);
        array_remove(to, name);
        if (to)
            json_array_append_new(to, json_string(name));
    }
    return all;
}

/* The body drops ALL and adds a list, so what is in that list is what there is; so it stays, unless a flag
 * adds ALL: then what flags drop is the list that counts. */
static void settle_capabilities(struct run *r)
{
    _cleanup_(cleanup_json_decref) json_t *added = json_incref(run_get(r->body, "HostConfig.CapAdd"));
    if (!run_given(r, "cap-add") && !run_given(r, "cap-drop"))
        return;
    if (!added)
        added = json_array();
    _cleanup_(cleanup_json_decref) json_t *dropped = json_array();
    if (move_capabilities(r, "cap-drop", added, dropped))
        json_array_clear(added);
    bool all = move_capabilities(r, "cap-add", dropped, added);
    if (all) {
        json_array_clear(added);
        json_array_append_new(added, json_string("ALL"));
    } else {
        json_array_clear(dropped);
        json_array_append_new(dropped, json_string("ALL"));
    }
    run_put(r->body, "HostConfig.CapAdd", json_incref(added));
    run_put(r->body, "HostConfig.CapDrop", json_incref(dropped));
}

/* The default "no-new-privileges", and whatever was said of it since. */
static void remove_no_new_privileges(struct run *r)
{
    json_t *options = run_get(r->body, "HostConfig.SecurityOpt");
    for (size_t i = json_array_size(options); i-- > 0;)
        if (str_has_prefix(json_string_value(json_array_get(options, i)), "no-new-privileges"))
            json_array_remove(options, i);
}

/* The engine wants the profile itself: the file is on our machine, which may be another one. */
static int add_seccomp(struct run *r, const char *path, struct error *err)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT(LIMIT_CONFIG_FILE_BYTES);
    _cleanup_(buf_done) struct buf option = BUF_INIT(LIMIT_CONFIG_FILE_BYTES + 16);
    if (file_read(AT_FDCWD, path, &text, err) < 0)
        return error_recast(err, ERR_INVALID, path);
    _cleanup_(cleanup_json_decref) json_t *profile = json_parse(buf_str(&text), text.len, err);
    if (!profile)
        return error_prefix(err, "%s", path);
    if (buf_append_str(&option, "seccomp=") < 0 || json_append(&option, profile) < 0)
        return error_set(err, ERR_LIMIT, "%s is too large", path);
    run_append(r->body, "HostConfig.SecurityOpt", json_string(buf_str(&option)));
    return 0;
}

static int put_security(struct run *r, const char *value, struct error *err)
{
    size_t key = strcspn(value, "=");
    if (!value[key])
        key = strcspn(value, ":");
    _cleanup_(cleanup_free) char *name = xstrndup(value, key);
    const char *rest = value[key] ? value + key + 1 : "";
    if (strcmp(value, "systempaths=unconfined") == 0) {
        run_put(r->body, "HostConfig.MaskedPaths", json_array());
        run_put(r->body, "HostConfig.ReadonlyPaths", json_array());
        return 0;
    }
    bool on;
    if (strcmp(name, "no-new-privileges") == 0) {
        if (value[key] && !run_parse_bool(rest, &on))
            return error_set(err, ERR_INVALID, "no-new-privileges takes true or false");
        remove_no_new_privileges(r);
    } else if (!*name || !*rest) {
        return error_set(err, ERR_INVALID,
                         "it takes NAME=VALUE, such as seccomp=FILE, apparmor=PROFILE, label=VALUE");
    } else if (strcmp(name, "seccomp") == 0 && strcmp(rest, "builtin") != 0 &&
               strcmp(rest, "unconfined") != 0) {
        return add_seccomp(r, rest, err);
    }
    run_append(r->body, "HostConfig.SecurityOpt", json_string(value));
    return 0;
}

static int settle_security(struct run *r, struct error *err)
{
    if (given_true(r, "privileged")) {
        remove_no_new_privileges(r);
        json_object_del(json_object_get(r->body, "HostConfig"), "CapAdd");
        json_object_del(json_object_get(r->body, "HostConfig"), "CapDrop");
    } else {
        settle_capabilities(r);
    }
    size_t i;
    const json_t *value;
    json_array_foreach (run_given(r, "security-opt"), i, value) {
        if (put_security(r, json_string_value(value), err) < 0)
            return error_prefix(err, ASKED "--security-opt '%s'", json_string_value(value));
    }
    return 0;
}

/* ---- limits ---- */

static int settle_memory(struct run *r, struct error *err)
{
    json_t *host = json_object_get(r->body, "HostConfig");
    json_int_t memory = json_integer_value(json_object_get(host, "Memory"));
    json_int_t swap = json_integer_value(json_object_get(host, "MemorySwap"));
    if (!run_given(r, "memory-swap")) {
        if (run_given(r, "memory") && json_object_get(host, "MemorySwap"))
            json_object_set_new(host, "MemorySwap", json_integer(memory));
        return 0;
    }
    if (swap > 0 && memory == 0 && run_given(r, "memory"))
        return error_set(err, ERR_INVALID, ASKED "--memory-swap needs a limit of memory");
    if (swap > 0 && swap < memory)
        return error_set(err, ERR_INVALID,
                         ASKED
                         "--memory-swap is memory and swap together, so not less than the memory limit");
    return 0;
}

/* The engine takes a number of CPUs or quota and period, not both; a flag wins over the body's. */
static int settle_cpus(struct run *r, struct error *err)
{
    if (!run_given(r, "cpu-quota") && !run_given(r, "cpu-period"))
        return 0;
    if (run_given(r, "cpus"))
        return error_set(err, ERR_INVALID,
                         ASKED "--cpus says the same as --cpu-quota and --cpu-period; give one");
    json_object_del(json_object_get(r->body, "HostConfig"), "NanoCpus");
    return 0;
}

/* ---- the rest ---- */

/* Options without a driver are for the engine's usual one, not for the body's. */
static int settle_log(struct run *r, struct error *err)
{
    if (!run_given(r, "log-opt"))
        return 0;
    const char *driver = given_last(r, "log-driver");
    if (driver && strcmp(driver, "none") == 0)
        return error_set(err, ERR_INVALID, ASKED "--log-opt has no meaning with --log-driver none");
    if (!driver)
        run_put(r->body, "HostConfig.LogConfig.Type", json_string(""));
    return 0;
}

static int settle_health(struct run *r, struct error *err)
{
    static const char *const settings[] = {"health-cmd",          "health-interval",       "health-timeout",
                                           "health-start-period", "health-start-interval", "health-retries"};
    bool off = given_true(r, "no-healthcheck"), any = false;
    for (size_t i = 0; i < ARRAY_LEN(settings); i++)
        any = any || run_given(r, settings[i]);
    if (off && any)
        return error_set(err, ERR_INVALID, ASKED "--no-healthcheck contradicts the other --health-* flags");
    const char *command = given_last(r, "health-cmd");
    if (command && *command)
        run_put(r->body, "Healthcheck.Test", json_pack("[s, s]", "CMD-SHELL", command));
    else if (off)
        run_put(r->body, "Healthcheck.Test", json_pack("[s]", "NONE"));
    else if (any) /* the image's command at another pace */
        json_object_del(json_object_get(r->body, "Healthcheck"), "Test");
    return 0;
}

static void settle_entrypoint(struct run *r)
{
    const char *entrypoint = given_last(r, "entrypoint");
    if (!entrypoint || !*entrypoint)
        return;
    _cleanup_(cleanup_json_decref) json_t *command = json_incref(json_object_get(r->body, "Entrypoint"));
    if (!command)
        command = json_array();
    json_array_extend(command, json_object_get(r->body, "Cmd"));
    json_object_set(r->body, "Cmd", command);
    json_object_set_new(r->body, "Entrypoint", json_pack("[s]", entrypoint));
}

/* A container that shares the names of another has none of its own; the engine refuses one that is given, so
 * only what a flag asked for is left to that. */
static void settle_hostname(struct run *r)
{
    const char *network = json_string_value(run_get(r->body, "HostConfig.NetworkMode"));
    const char *uts = json_string_value(run_get(r->body, "HostConfig.UTSMode"));
    bool shared = (network && str_has_prefix(network, "container:")) || (uts && strcmp(uts, "host") == 0);
    if (shared && !run_given(r, "hostname"))
        json_object_del(r->body, "Hostname");
}

int run_settle(struct run *r, struct error *err)
{
    if (settle_pairs(r, "env-file", "env", put_env, err) < 0 ||
        settle_pairs(r, "label-file", "label", put_label, err) < 0 || settle_security(r, err) < 0 ||
        settle_memory(r, err) < 0 || settle_cpus(r, err) < 0 || settle_log(r, err) < 0 ||
        settle_health(r, err) < 0 || run_settle_networks(r, err) < 0)
        return -1;
    settle_entrypoint(r);
    settle_hostname(r);
    return 0;
}
