/* See container.h. Order matters: defaults, then flags on top, and only then what depends on both: the
 * firewall needs a network namespace of the container's own, and a capability that no command shall have. */
#include "backends/engine/container.h"

#include <stdlib.h>
#include <string.h>

#include "backends/engine/run_flags.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/mem.h"
#include "base/str.h"
#include "guest/serve_wire.h"

#define LOCAL "local"
#define NANO 1e9

/* What a shell, a package manager and small servers need: the engine's own list without raw sockets, device
 * nodes and the audit log. */
static const char *const capabilities[] = {"CHOWN",   "DAC_OVERRIDE",     "FOWNER",    "FSETID",
                                           "KILL",    "SETGID",           "SETUID",    "SETPCAP",
                                           "SETFCAP", "NET_BIND_SERVICE", "SYS_CHROOT"};

char *container_name(const char *principal, const char *id)
{
    return strcmp(principal, LOCAL) == 0 ? xasprintf("kilntainer-%s", id)
                                         : xasprintf("kilntainer-%s.%s", principal, id);
}

char *container_other_name(const char *principal, const char *id, const char *key)
{
    _cleanup_(cleanup_free) char *name = container_name(principal, id);
    return xasprintf("%s_%s", name, key);
}

enum container_network container_network(const json_t *host_config)
{
    static const char *const shared[] = {"host", "container:", "ns:", "pod:"};

    const char *mode = json_get_string(host_config, "NetworkMode");
    if (!mode)
        return CONTAINER_NETWORK_OWN;
    if (strcmp(mode, "none") == 0)
        return CONTAINER_NETWORK_NONE;
    for (size_t i = 0; i < ARRAY_LEN(shared); i++)
        if (str_has_suffix(shared[i], ":") ? str_has_prefix(mode, shared[i]) : strcmp(mode, shared[i]) == 0)
            return CONTAINER_NETWORK_SHARED;
    return CONTAINER_NETWORK_OWN;
}

/* ---- defaults ---- */

static json_t *make_labels(const struct container_options *o)
{
    static const struct computer_owner nobody;
    const struct computer_owner *owner = o->owner ? o->owner : &nobody;
    const struct {
        const char *name, *value;
    } labels[] = {
        {LABEL_OURS, "true"},
        {LABEL_ID, o->id},
        {LABEL_TEMPORARY, o->temporary ? "true" : "false"},
        {LABEL_IMAGE, o->image},
        {LABEL_PRINCIPAL, strcmp(o->principal, LOCAL) == 0 ? NULL : o->principal},
        {LABEL_KEY, o->key},
        {LABEL_MODE, o->guest ? "serve" : "exec"},
        {LABEL_MACHINE, owner->machine},
        {LABEL_BOOT, owner->boot},
        {LABEL_PID, owner->pid},
        {LABEL_START, owner->start},
        {LABEL_STATE, owner->state},
    };
    json_t *made = json_object();
    for (size_t i = 0; i < ARRAY_LEN(labels); i++)
        if (labels[i].value && *labels[i].value)
            json_object_set_new(made, labels[i].name, json_string(labels[i].value));
    return made;
}

static void set_limits(json_t *host, const struct container_options *o)
{
    if (o->memory_bytes > 0) { /* and no swap beyond it */
        json_object_set_new(host, "Memory", json_integer(o->memory_bytes));
        json_object_set_new(host, "MemorySwap", json_integer(o->memory_bytes));
    }
    if (o->pids > 0)
        json_object_set_new(host, "PidsLimit", json_integer(o->pids));
    if (o->cpus > 0)
        json_object_set_new(host, "NanoCpus", json_integer((json_int_t)(o->cpus * NANO + 0.5)));
}

/* Init: our guest reaps by itself, and must be the first process whatever the engine's own default is. */
static json_t *make_host_config(const struct container_options *o, bool for_root)
{
    json_t *host = json_pack("{s:b, s:b, s:[s], s:[s], s:{s:s, s:{}}, s:{s:s}}", "AutoRemove", o->temporary,
                             "Init", !o->guest, "CapDrop", "ALL", "SecurityOpt", "no-new-privileges",
                             "LogConfig", "Type", "none", "Config", "RestartPolicy", "Name", "no");
    json_t *added = json_array();
    for (size_t i = 0; for_root && i < ARRAY_LEN(capabilities); i++)
        json_array_append_new(added, json_string(capabilities[i]));
    json_object_set_new(host, "CapAdd", added);
    if (!o->network)
        json_object_set_new(host, "NetworkMode", json_string("none"));
    set_limits(host, o);
    return host;
}

static bool sets_language(char *const *env)
{
    for (; env && *env; env++)
        if (str_has_prefix(*env, "LANG=") || str_has_prefix(*env, "LC_ALL="))
            return true;
    return false;
}

/* Without a guest something has to keep the container alive: a shell, since commands need one too, that waits
 * for input which nobody sends. The health check is for what the image would run, which doesn't run here. */
static json_t *make_body(const struct container_options *o, bool for_root)
{
    json_t *entrypoint = o->guest
                             ? json_pack("[s, s]", o->guest, SERVE_COMMAND)
                             : json_pack("[s, s, s]", CONTAINER_SHELL, "-c", "trap 'exit 0' TERM; read -r _");
    json_t *body =
        json_pack("{s:s, s:s, s:o, s:[], s:o, s:o, s:s, s:{s:[s]}}", "Image", o->image, "Hostname", o->id,
                  "Entrypoint", entrypoint, "Cmd", "Labels", make_labels(o), "HostConfig",
                  make_host_config(o, for_root), "StopSignal", "SIGTERM", "Healthcheck", "Test", "NONE");
    static const char *const streams[] = {"StdinOnce", "AttachStdin", "AttachStdout", "AttachStderr"};
    json_object_set_new(body, "OpenStdin", json_true());
    for (size_t i = 0; i < ARRAY_LEN(streams); i++)
        json_object_set_new(body, streams[i], json_boolean(o->guest != NULL));
    json_object_set_new(body, "Tty", json_false());
    if (!sets_language(o->image_env) && !sets_language(o->env))
        json_object_set_new(body, "Env", json_pack("[s]", "LANG=C.UTF-8"));
    return body;
}

/* ---- after the flags ---- */

static bool has_string(const json_t *array, const char *text)
{
    size_t i;
    const json_t *element;
    json_array_foreach (array, i, element) {
        if (strcmp(json_string_value(element), text) == 0)
            return true;
    }
    return false;
}

/* "NAME[:GROUP]" */
static bool is_root(const char *user)
{
    size_t n = strcspn(user, ":");
    return n == 0 || (n == 1 && *user == '0') || (n == 4 && strncmp(user, "root", n) == 0);
}

static const char *user_of(const struct container_options *o, const struct container *c)
{
    const char *user = json_get_string(c->body, "User");
    return user ? user : o->image_user ? o->image_user : "";
}

/* Whoever asked for NET_ADMIN shall have it, which the guest would give up, and could undo the firewall. */
static void decide_firewall(const struct container_options *o, struct container *c)
{
    json_t *host = json_object_get(c->body, "HostConfig");
    json_t *added = json_object_get(host, "CapAdd");
    c->network = container_network(host);
    if (c->network == CONTAINER_NETWORK_NONE)
        return;
    if (c->network == CONTAINER_NETWORK_SHARED) {
        c->no_firewall = "the network namespace is not the computer's own";
    } else if (!o->guest) {
        c->no_firewall = "the guest program can't run in this container";
    } else if (o->outlives) {
        /* What the engine starts in a container has all of its capabilities. */
        c->no_firewall = "it has to run on when the server ends (--on-exit keep)";
    } else if (!is_root(user_of(o, c))) {
        c->no_firewall = "the container's user is not root";
    } else if (json_is_true(json_object_get(host, "Privileged")) || has_string(added, "ALL") ||
               has_string(added, "NET_ADMIN")) {
        c->no_firewall = "commands may change the network themselves, as --docker-run-flag asks for";
    } else {
        json_array_append_new(added, json_string("NET_ADMIN"));
        c->firewall = true;
    }
}

static void warn(struct container *c, const char *text)
{
    json_array_append_new(c->warnings, json_string(text));
}

/* Whether a path on the engine's machine leads to an engine: its socket, or a folder with it inside. */
static bool leads_to_engine(const char *source)
{
    static const char *const sockets[] = {"docker.sock", "podman.sock", "containerd.sock", "crio.sock"};
    static const char *const folders[] = {
        "/", "/run", "/var", "/var/run", "/run/podman", "/run/containerd", "/run/docker"};

    for (size_t i = 0; i < ARRAY_LEN(sockets); i++)
        if (str_has_suffix(source, sockets[i]))
            return true;
    size_t n = strlen(source);
    while (n > 1 && source[n - 1] == '/')
        n--;
    for (size_t i = 0; i < ARRAY_LEN(folders); i++)
        if (strlen(folders[i]) == n && strncmp(source, folders[i], n) == 0)
            return true;
    return false;
}

static void warn_of_source(struct container *c, const char *source)
{
    if (!leads_to_engine(source))
        return;
    _cleanup_(cleanup_free) char *text = xasprintf(
        "the mount of %s lets every command in a computer control the engine, and so its machine", source);
    warn(c, text);
}

static void warn_of_mounts(struct container *c, const json_t *host)
{
    size_t i;
    const json_t *element;
    json_array_foreach (json_object_get(host, "Binds"), i, element) {
        const char *bind = json_string_value(element);
        _cleanup_(cleanup_free) char *source = xstrndup(bind, strcspn(bind, ":"));
        warn_of_source(c, source);
    }
    json_array_foreach (json_object_get(host, "Mounts"), i, element) {
        const char *source = json_get_string(element, "Source");
        if (source)
            warn_of_source(c, source);
    }
}

static void collect_warnings(const struct container_options *o, struct container *c)
{
    json_t *host = json_object_get(c->body, "HostConfig");
    const char *pid = json_get_string(host, "PidMode");
    warn_of_mounts(c, host);
    if (json_is_true(json_object_get(host, "Privileged")))
        warn(c, "--privileged lets every command in a computer control the engine's machine");
    if (pid && strcmp(pid, "host") == 0)
        warn(c, "--pid=host shows every command the processes of the engine's machine");
    if (c->firewall && has_string(json_object_get(host, "CapAdd"), "NET_RAW"))
        warn(c, "--cap-add=NET_RAW lets commands reach what is closed to them, metadata services among it");
    if (!o->network && c->network != CONTAINER_NETWORK_NONE)
        warn(c, "a --network among the run flags gives computers a network, though it is off otherwise");
}

/* The engine restarts nothing that it removes at its end. */
static void settle_restart(struct container *c)
{
    json_t *host = json_object_get(c->body, "HostConfig");
    const char *policy = json_get_string(json_object_get(host, "RestartPolicy"), "Name");
    if (!json_is_true(json_object_get(host, "AutoRemove")) || (policy && strcmp(policy, "no") == 0))
        return;
    json_object_set_new(host, "RestartPolicy", json_pack("{s:s}", "Name", "no"));
    warn(c, "--restart holds for permanent computers only");
}

/* After the flags, which are all computers'. */
static void add_own_env(const struct container_options *o, json_t *body)
{
    if (o->env && !json_object_get(body, "Env"))
        json_object_set_new(body, "Env", json_array());
    for (char *const *entry = o->env; entry && *entry; entry++)
        json_array_append_new(json_object_get(body, "Env"), json_string(*entry));
}

static int build_body(const struct container_options *o, bool for_root, struct container *c,
                      struct error *err)
{
    json_decref(c->body);
    c->body = make_body(o, for_root);
    if (run_flags_apply(o->run_flags, c->body, err) < 0)
        return -1;
    add_own_env(o, c->body);
    return 0;
}

/* Another user than root has no use for the capabilities, under no-new-privileges; Podman would make them
 * effective. Who it is, the flags say. */
int container_plan(const struct container_options *options, struct container *ret, struct error *err)
{
    struct container c = {.warnings = json_array()};
    int failed = build_body(options, true, &c, err);
    if (failed == 0 && !is_root(user_of(options, &c)))
        failed = build_body(options, false, &c, err);
    if (failed < 0) {
        container_done(&c);
        return -1;
    }
    decide_firewall(options, &c);
    collect_warnings(options, &c);
    settle_restart(&c);
    c.name = options->replacing ? container_other_name(options->principal, options->id, options->key)
                                : container_name(options->principal, options->id);
    *ret = c;
    return 0;
}

void container_done(struct container *c)
{
    free(c->name);
    json_decref(c->body);
    json_decref(c->warnings);
    *c = (struct container){0};
}
