/* What is done to a container as such: restarted, put into another's place, looked at. */
#include <stdio.h>
#include <string.h>

#include "backends/engine/container.h"
#include "backends/engine/private.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/json.h"
#include "base/mem.h"

#define TAKE_OVER_TIMEOUT_NS (30 * NSEC_PER_SEC)

static void note_end(struct engine_instance *i, bool ended, bool absent)
{
    pthread_mutex_lock(&i->lock);
    i->ended = ended;
    i->absent = absent;
    pthread_mutex_unlock(&i->lock);
}

static int removed(struct engine_instance *i, struct error *err)
{
    note_end(i, true, true);
    return error_set(err, ERR_GONE, "its container %.12s was removed", i->container);
}

/* Where stopping it would be its end, our program can make an end of all the others. */
static int restart_inside(struct engine_instance *i, const struct wait *wait, struct error *err)
{
    if (i->way == WAY_LINK && !i->foreign)
        return engine_instance_clear(i, wait, err);
    return error_set(err, ERR_UNSUPPORTED,
                     "%s removes this container, with its files, when it stops, and our program isn't its "
                     "first process: use computer_factory_reset, or end its processes by a command",
                     engine_name(i->engine));
}

static void drop_link(struct engine_instance *i)
{
    pthread_mutex_lock(&i->lock);
    struct link *link = TAKE_PTR(i->link);
    pthread_mutex_unlock(&i->lock);
    link_unref(link);
}

/* Its first process is our program, or a shell that holds it up: with it all ends, and the files stay. What
 * fails in between leaves one that has ended, and can be started. */
static int stop_and_start(struct engine_instance *i, const struct wait *wait, struct error *err)
{
    struct container_look look;
    note_end(i, true, false);
    drop_link(i);
    if (container_stop(i->engine, i->container, wait, err) < 0 ||
        container_look(i->engine, i->container, wait, &look, err) < 0)
        return -1;
    FAULT_POINT("container.stopped");
    _cleanup_(cleanup_json_decref) json_t *inspect = look.inspect;
    if (!inspect)
        return removed(i, err);
    if (engine_instance_resume(i, &look, wait, err) < 0)
        return -1;
    note_end(i, false, false);
    return 0;
}

int engine_instance_restart(struct instance *instance, const struct wait *wait, struct error *err)
{
    struct engine_instance *i = engine_instance_of(instance);
    struct container_look look;
    if (container_look(i->engine, i->container, wait, &look, err) < 0)
        return -1;
    _cleanup_(cleanup_json_decref) json_t *inspect = look.inspect;
    if (look.state == CONTAINER_ABSENT)
        return removed(i, err);
    if (look.state == CONTAINER_PAUSED)
        return engine_instance_paused(i, err);
    const json_t *host = json_get_object(inspect, "HostConfig");
    return json_is_true(json_object_get(host, "AutoRemove")) ? restart_inside(i, wait, err)
                                                             : stop_and_start(i, wait, err);
}

static int rename_container(struct engine *e, const char *container, const char *name,
                            const struct wait *wait, struct error *err)
{
    _cleanup_(cleanup_free) char *path = xasprintf("/containers/%s/rename?name=%s", container, name);
    return engine_call(e, "POST", path, NULL, wait, NULL, err);
}

/* Whoever has the name gets the other one. */
static int free_name(struct engine *e, const struct computer_spec *spec, const char *name,
                     const struct wait *wait, struct error *err)
{
    struct container_look look;
    if (container_look(e, name, wait, &look, err) < 0)
        return -1;
    _cleanup_(cleanup_json_decref) json_t *inspect = look.inspect;
    const char *id = json_get_string(inspect, "Id"), *key = container_label(inspect, LABEL_KEY);
    if (look.state == CONTAINER_ABSENT || !container_is_id(id))
        return 0;
    _cleanup_(cleanup_free) char *other =
        container_other_name(spec->principal, spec->id, key ? key : "0000000000000000");
    return rename_container(e, id, other, wait, err);
}

void engine_instance_settle_name(struct engine *e, const struct computer_spec *spec, const json_t *inspect,
                                 const struct wait *wait)
{
    _cleanup_(cleanup_free) char *other = container_other_name(spec->principal, spec->id, spec->key);
    _cleanup_(cleanup_free) char *name = container_name(spec->principal, spec->id);
    const char *its = json_get_string(inspect, "Name");
    if (!its || strcmp(its + (*its == '/'), other) != 0)
        return;
    if (free_name(e, spec, name, wait, NULL) == 0)
        rename_container(e, json_get_string(inspect, "Id"), name, wait, NULL);
}

int engine_instance_take_over(struct instance *instance, const struct computer_spec *spec,
                              int (*move)(void *ctx, struct error *err), void *ctx, struct error *err)
{
    struct engine_instance *i = engine_instance_of(instance);
    const struct wait bounded = {.deadline = clock_now() + TAKE_OVER_TIMEOUT_NS};
    _cleanup_(cleanup_free) char *name = container_name(spec->principal, spec->id);
    if (move(ctx, err) < 0 || free_name(i->engine, spec, name, &bounded, err) < 0)
        return -1;
    FAULT_POINT("container.name-freed");
    if (rename_container(i->engine, i->container, name, &bounded, err) < 0)
        return -1;
    FAULT_POINT("container.renamed");
    return 0;
}

bool engine_instance_is_paused(struct instance *instance, const struct wait *wait)
{
    const struct engine_instance *i = engine_instance_of(instance);
    struct container_look look;
    if (container_look(i->engine, i->container, wait, &look, NULL) < 0)
        return false;
    json_decref(look.inspect);
    return look.state == CONTAINER_PAUSED;
}

/* Of the engine's two samples only the second is wanted, and it comes at once. */
static int stat_usage(struct engine_instance *i, const struct wait *wait, struct instance_stat *s,
                      struct error *err)
{
    _cleanup_(cleanup_free) char *path =
        xasprintf("/containers/%s/stats?stream=false&one-shot=true", i->container);
    _cleanup_(cleanup_json_decref) json_t *stats = NULL;
    if (engine_call(i->engine, "GET", path, NULL, wait, &stats, err) < 0)
        return -1;
    const json_t *cpu = json_get_object(json_get_object(stats, "cpu_stats"), "cpu_usage");
    s->cpu_ns = (uint64_t)json_integer_value(json_object_get(cpu, "total_usage"));
    s->memory_bytes = json_integer_value(json_object_get(json_get_object(stats, "memory_stats"), "usage"));
    s->pids = (int)json_integer_value(json_object_get(json_get_object(stats, "pids_stats"), "current"));
    return 0;
}

int engine_instance_stat(struct instance *instance, bool usage, const struct wait *wait,
                         struct instance_stat *ret, struct error *err)
{
    struct engine_instance *i = engine_instance_of(instance);
    struct instance_stat s = {
        .disk_bytes = -1,
        .memory_limit = i->memory_bytes,
        .pids_limit = i->pids,
        .cpus_limit = i->cpus,
        .network = i->has_network,
    };
    snprintf(s.provider_id, sizeof(s.provider_id), "%s", i->container);
    snprintf(s.image, sizeof(s.image), "%.*s", (int)sizeof(s.image) - 1, i->image);
    s.enforced = (i->engine->limits_memory ? COMPUTER_MEMORY : 0) |
                 (i->engine->limits_pids ? COMPUTER_PIDS : 0) | (i->engine->limits_cpu ? COMPUTER_CPUS : 0);
    if (usage && stat_usage(i, wait, &s, err) < 0)
        return -1;
    *ret = s;
    return 0;
}
