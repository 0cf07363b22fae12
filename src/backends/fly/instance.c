/* The life of one computer. A temporary one is a machine that is destroyed when its main process exits: that
 * is our program, which does so once nobody has spoken to it for the time of its lease. A permanent one is a
 * machine whose disk is kept: leaving it stops it, so that only its disk is paid for. What runs in it ends
 * with that, and it begins anew from its disk when it is used again: the same in each case, so that nothing
 * depends on how a server ended.
 *
 * Creation is two round trips: the machine, which comes with our program, and until it has started. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/fly/private.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

#define END_TIMEOUT_NS (30 * NSEC_PER_SEC)
#define ASK_TIMEOUT_NS (10 * NSEC_PER_SEC)
#define SWEEP_S 20
#define MEMORY_STEP_MB 256
#define GIB (1024 * (int64_t)MIB)

static struct wait for_the_end(void)
{
    return (struct wait){.deadline = clock_now() + END_TIMEOUT_NS};
}

/* --- what it is made of --- */

/* Fly sells whole processors, and memory and disks in steps: what isn't to be had so is refused, not rounded.
 */
static int read_options(const struct computer_options *o, struct fly_shape *shape, struct error *err)
{
    const unsigned given = o ? o->given : 0;
    if (given & COMPUTER_IMAGE && strlen(o->image) >= sizeof(shape->image))
        return error_set(err, ERR_INVALID, "the name of the image is too long");
    if (given & COMPUTER_CPUS && (o->cpus < 1 || o->cpus != (double)(int64_t)o->cpus))
        return error_set(err, ERR_INVALID, "a machine of Fly has whole CPUs: give cpu as 1, 2, 4, 8 or 16");
    if (given & COMPUTER_MEMORY &&
        (o->memory_bytes <= 0 || o->memory_bytes % (MEMORY_STEP_MB * (int64_t)MIB)))
        return error_set(err, ERR_INVALID, "a machine of Fly has a multiple of %d MiB of memory",
                         MEMORY_STEP_MB);
    if (given & COMPUTER_DISK && (o->disk_bytes <= 0 || o->disk_bytes % GIB))
        return error_set(err, ERR_INVALID, "a machine of Fly has a disk of whole GiB");
    if (given & COMPUTER_IMAGE)
        snprintf(shape->image, sizeof(shape->image), "%s", o->image);
    if (given & COMPUTER_CPUS)
        shape->cpus = (int64_t)o->cpus;
    if (given & COMPUTER_MEMORY)
        shape->memory_mb = o->memory_bytes / (int64_t)MIB;
    if (given & COMPUTER_DISK)
        shape->rootfs_gb = o->disk_bytes / GIB;
    return 0;
}

/* --- one in memory --- */

static struct fly_instance *instance_new(struct fly_backend *b, const struct computer_spec *spec)
{
    const struct computer_options *o = spec->options;
    struct fly_instance *i = xcalloc(1, sizeof(*i));
    i->base.ops = b->base.ops;
    i->backend = b;
    snprintf(i->id, sizeof(i->id), "%s", spec->id);
    snprintf(i->hostname, sizeof(i->hostname), "HOSTNAME=%s", spec->id);
    i->temporary = spec->temporary;
    i->shape = b->shape;
    i->env = o && o->given & COMPUTER_ENV ? strv_copy(o->env) : NULL;
    shells_init(&i->shells, b->shell);
    i->keeper = keepers_choose(&b->keepers);
    list_init(&i->tended.node);
    fly_calls_init(&i->calls);
    pthread_mutex_init(&i->lock, NULL);
    return i;
}

static struct fly_instance *instance_free(struct fly_instance *i)
{
    if (!i)
        return NULL;
    fly_keep_remove(i);
    pthread_mutex_destroy(&i->lock);
    strv_free(i->env);
    free(i);
    return NULL;
}
DEFINE_CLEANUP(struct fly_instance *, instance_free)

static void settle_in(struct fly_instance *i, const struct fly_machine *m)
{
    memcpy(i->machine, m->id, sizeof(i->machine));
    pthread_mutex_lock(&i->lock);
    i->ended = false;
    pthread_mutex_unlock(&i->lock);
}

/* --- beginning --- */

int fly_instance_create(struct backend *backend, const struct computer_spec *spec, const struct wait *wait,
                        struct instance **ret, struct error *err)
{
    struct fly_backend *b = fly_of(backend);
    struct fly_machine m;
    _cleanup_(cleanup_instance_free) struct fly_instance *i = instance_new(b, spec);
    if (read_options(spec->options, &i->shape, err) < 0 ||
        fly_api_create(b, spec, &i->shape, wait, &m, err) < 0)
        return -1;
    fly_machine_done(&m);
    settle_in(i, &m);
    struct error why = ERROR_INIT;
    if (fly_api_await(b, m.id, "started", NULL, wait, &why) < 0) {
        const struct wait bounded = for_the_end();
        fly_api_destroy(b, m.id, &bounded, NULL);
        return error_set(err, why.code == ERR_GONE || why.code == ERR_NOT_FOUND ? ERR_UNAVAILABLE : why.code,
                         "%s", why.msg);
    }
    fly_keep_add(i);
    *ret = &TAKE_PTR(i)->base;
    return 0;
}

static bool is(const struct fly_machine *m, const char *state)
{
    return strcmp(m->state, state) == 0;
}

static int start(struct fly_backend *b, const char *id, const struct wait *wait, struct error *err)
{
    return fly_api_start(b, id, wait, err) < 0 ? -1 : fly_api_await(b, id, "started", NULL, wait, err);
}

/* Until it is at rest, wherever it is on its way to. */
static int bring_to_rest(struct fly_backend *b, const struct fly_machine *m, const struct wait *wait,
                         struct error *err)
{
    if (is(m, "stopped") || is(m, "created"))
        return 0;
    if (is(m, "suspended") && start(b, m->id, wait, err) < 0) /* its processes would go on */
        return -1;
    if (is(m, "starting") || is(m, "restarting") || is(m, "replacing"))
        if (fly_api_await(b, m->id, "started", NULL, wait, err) < 0)
            return -1;
    if (!is(m, "stopping") && fly_api_stop(b, m->id, wait, err) < 0)
        return -1;
    return fly_api_await(b, m->id, "stopped", m->version, wait, err);
}

/* From its disk, whether or not something runs in it, and with this server's program of ours. */
static int begin_anew(struct fly_backend *b, struct fly_machine *m, const struct wait *wait,
                      struct error *err)
{
    struct fly_machine renewed;
    if (is(m, "destroyed") || is(m, "destroying"))
        return error_set(err, ERR_NOT_FOUND, "it is destroyed");
    _cleanup_(cleanup_json_decref) json_t *config = fly_machine_renewed(b, m);
    if (!config)
        return bring_to_rest(b, m, wait, err) < 0 ? -1 : start(b, m->id, wait, err);
    if (fly_api_update(b, m->id, config, wait, &renewed, err) < 0)
        return -1;
    fly_machine_done(&renewed);
    return fly_api_await(b, m->id, "started", renewed.version, wait, err);
}

static int bring_back(struct fly_instance *i, const char *id, const struct wait *wait, struct error *err)
{
    struct fly_machine m = {0};
    struct error why = ERROR_INIT;
    int failed = fly_api_look(i->backend, id, wait, &m, &why);
    if (failed == 0)
        failed = begin_anew(i->backend, &m, wait, &why);
    if (failed == 0) {
        fly_machine_shape(m.config, &i->shape);
        settle_in(i, &m);
    }
    fly_machine_done(&m);
    if (failed < 0 && why.code == ERR_NOT_FOUND)
        return error_set(err, ERR_GONE, "Fly has no machine %s any more", id);
    return failed < 0 ? error_set(err, why.code == ERR_GONE ? ERR_UNAVAILABLE : why.code, "%s", why.msg) : 0;
}

int fly_instance_attach(struct backend *backend, const struct computer_spec *spec, const json_t *data,
                        const struct wait *wait, struct instance **ret, struct error *err)
{
    const char *id = json_get_string(data, "machine");
    _cleanup_(cleanup_instance_free) struct fly_instance *i = instance_new(fly_of(backend), spec);
    if (!fly_is_id(id))
        return error_set(err, ERR_GONE, "its record names no machine of Fly");
    if (fly_check_app(i->backend, data, wait, err) < 0 || bring_back(i, id, wait, err) < 0)
        return -1;
    fly_keep_add(i);
    *ret = &TAKE_PTR(i)->base;
    return 0;
}

json_t *fly_instance_plan(const struct backend *backend, const struct computer_spec *spec)
{
    return json_pack("{s:s, s:s}", "key", spec->key, "app", fly_account_app(fly_of(backend)->account));
}

json_t *fly_instance_record(const struct instance *instance)
{
    const struct fly_instance *i = fly_instance_of(instance);
    return json_pack("{s:s, s:s}", "machine", i->machine, "app", fly_account_app(i->backend->account));
}

/* --- meanwhile --- */

/* A temporary machine can't be stopped and started: it would be destroyed, with its files. So everything in
 * it is ended but its main process. */
int fly_instance_restart(struct instance *instance, const struct wait *wait, struct error *err)
{
    struct fly_instance *i = fly_instance_of(instance);
    if (i->temporary)
        return fly_tell(i, JOB_SWEEP, SWEEP_S, wait, err);
    fly_keep_remove(i);
    const int failed = bring_back(i, i->machine, wait, err);
    fly_keep_add(i);
    return failed;
}

/* Its metadata have the id from the beginning, and no machine has a name that others can't have. */
int fly_instance_take_over(struct instance *instance, const struct computer_spec *spec,
                           int (*move)(void *ctx, struct error *err), void *ctx, struct error *err)
{
    (void)instance;
    (void)spec;
    return move(ctx, err);
}

int fly_instance_stat(struct instance *instance, bool usage, const struct wait *wait,
                      struct instance_stat *ret, struct error *err)
{
    const struct fly_instance *i = fly_instance_of(instance);
    struct instance_stat s = {
        .disk_bytes = -1,
        .cpus_limit = (double)i->shape.cpus,
        .memory_limit = i->shape.memory_mb * (int64_t)MIB,
        .disk_limit = i->shape.rootfs_gb * GIB,
        .network = true,
        .enforced = COMPUTER_CPUS | COMPUTER_MEMORY | (i->shape.rootfs_gb > 0 ? COMPUTER_DISK : 0),
    };
    snprintf(s.provider_id, sizeof(s.provider_id), "%s", i->machine);
    snprintf(s.image, sizeof(s.image), "%s", i->shape.image);
    *ret = s;
    return 0;
}

bool fly_instance_alive(const struct instance *instance)
{
    struct fly_instance *i = (struct fly_instance *)(uintptr_t)instance;
    pthread_mutex_lock(&i->lock);
    const bool alive = !i->ended;
    pthread_mutex_unlock(&i->lock);
    return alive;
}

int fly_instance_ask(struct fly_instance *i, const struct wait *call, struct error *err)
{
    struct error why = ERROR_INIT;
    struct fly_machine m = {0};
    const bool is_over = wait_check(call, NULL) < 0;
    const struct wait wait = is_over ? (struct wait){.deadline = clock_now() + ASK_TIMEOUT_NS / 4}
                                     : wait_at_most(call, clock_now() + ASK_TIMEOUT_NS);
    const int failed = fly_api_look(i->backend, i->machine, &wait, &m, &why);
    fly_machine_done(&m);
    if (failed < 0 && why.code != ERR_NOT_FOUND)
        return error_set(err, ERR_UNAVAILABLE, "what became of the machine of computer '%s' isn't known: %s",
                         i->id, why.msg);
    if (failed == 0 &&
        (is(&m, "started") || is(&m, "starting") || is(&m, "restarting") || is(&m, "replacing")))
        return 0;
    pthread_mutex_lock(&i->lock);
    i->ended = true;
    pthread_mutex_unlock(&i->lock);
    if (i->temporary)
        return error_set(
            err, ERR_GONE,
            "its machine %s doesn't exist any more: it was ended from outside, or nobody had spoken to "
            "it for %lld s",
            i->machine, (long long)i->backend->lease_s);
    return error_set(err, ERR_GONE, "its machine %s doesn't run any more (%s): it was ended from outside",
                     i->machine, failed < 0 ? "not there" : m.state);
}

/* --- the end --- */

void fly_instance_kill(struct instance *instance)
{
    struct fly_instance *i = fly_instance_of(instance);
    pthread_mutex_lock(&i->lock);
    const bool again = i->ended;
    i->ended = true;
    fly_calls_cut_locked(i);
    pthread_mutex_unlock(&i->lock);
    if (!again)
        fly_keep_end(i);
}

static int leave(struct instance *instance, bool remove, struct error *err)
{
    struct fly_instance *i = fly_instance_of(instance);
    struct fly_backend *b = i->backend;
    const struct wait wait = for_the_end();
    struct error why = ERROR_INIT;
    fly_keep_remove(i);
    const int failed =
        remove ? fly_api_destroy(b, i->machine, &wait, &why) : fly_api_stop(b, i->machine, &wait, &why);
    if (failed < 0 && why.code != ERR_NOT_FOUND)
        error_set(err, why.code, "the machine %s is left behind: %s", i->machine, why.msg);
    instance_free(i);
    return failed < 0 && why.code != ERR_NOT_FOUND ? -1 : 0;
}

int fly_instance_detach(struct instance *instance, struct error *err)
{
    return leave(instance, fly_instance_of(instance)->temporary, err);
}

int fly_instance_remove(struct instance *instance, struct error *err)
{
    return leave(instance, true, err);
}
