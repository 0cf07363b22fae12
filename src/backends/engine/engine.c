/* The backend: its options, its one engine, and the words for the tool's description. */
#include "backends/engine/engine.h"

#include <stdlib.h>

#include "backends/engine/private.h"
#include "backends/engine/run_flags.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

#define DEFAULT_IMAGE "debian:bookworm-slim"
#define DEFAULT_PIDS 1024
#define CONNECT_TIMEOUT_NS (60 * NSEC_PER_SEC)

/* --- the engine --- */

/* Once: the words are valid as long as the backend. */
static void describe_limits_locked(struct engine_backend *b, const struct engine *e)
{
    const struct engine_options *o = &b->options;
    struct buf text = BUF_INIT(512);
    int64_t memory = engine_memory(b, e);
    (void)!buf_printf(&text, "%lld MiB of memory, %lld processes", (long long)(memory / (1024 * 1024)),
                      (long long)engine_pids(b));
    if (o->cpus > 0)
        (void)!buf_printf(&text, ", %g CPUs", o->cpus);
    if (!e->limits_memory || !e->limits_pids || (o->cpus > 0 && !e->limits_cpu))
        (void)!buf_printf(&text, " (not enforced by this engine:%s%s%s)", e->limits_memory ? "" : " memory",
                          e->limits_pids ? "" : " processes", o->cpus > 0 && !e->limits_cpu ? " CPUs" : "");
    b->limits = buf_steal(&text);
}

static void *connect_for_all(void *arg)
{
    struct engine_backend *b = arg;
    const struct wait wait = {.deadline = clock_now() + CONNECT_TIMEOUT_NS, .cancel = b->end};
    struct error why = ERROR_INIT;
    struct engine *e = engine_connect(&b->options, &wait, &why);
    pthread_mutex_lock(&b->lock);
    b->engine = e;
    if (e)
        describe_limits_locked(b, e);
    attempt_end(&b->connecting, e ? NULL : &why);
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

struct engine *engine_ready(struct engine_backend *b, const struct wait *wait, struct error *err)
{
    int failed = 0;
    pthread_mutex_lock(&b->lock);
    while (failed == 0 && !b->engine)
        failed = attempt_by_thread(&b->connecting, &b->lock, connect_for_all, b, wait, err);
    struct engine *e = failed < 0 ? NULL : b->engine;
    pthread_mutex_unlock(&b->lock);
    return e;
}

int64_t engine_memory(const struct engine_backend *b, const struct engine *e)
{
    return b->options.memory_bytes ? b->options.memory_bytes : e->memory_bytes / 2;
}

int64_t engine_pids(const struct engine_backend *b)
{
    return b->options.pids ? b->options.pids : DEFAULT_PIDS;
}

bool engine_answers(const struct engine_options *options, int timeout_ms)
{
    const struct wait wait = {.deadline = clock_now() + timeout_ms * NSEC_PER_MSEC};
    return engine_address_likely(options) && engine_pings(options, &wait);
}

/* --- the table --- */

static int engine_probe(struct backend *b, const struct wait *wait, struct error *err)
{
    return engine_ready(engine_of(b), wait, err) ? 0 : -1;
}

static unsigned engine_capabilities(const struct backend *backend)
{
    struct engine_backend *b = engine_of(backend);
    unsigned capabilities = BACKEND_PERSISTENT | BACKEND_NETWORK | BACKEND_NETWORK_OFF | BACKEND_TAKES_ID;
    if (!b->options.without_guest)
        capabilities |= BACKEND_GUEST;
    pthread_mutex_lock(&b->lock);
    const struct engine *e = b->engine;
    if (e && e->limits_memory && e->limits_pids && (b->options.cpus == 0 || e->limits_cpu))
        capabilities |= BACKEND_LIMITS;
    pthread_mutex_unlock(&b->lock);
    return capabilities;
}

static unsigned engine_options_of(const struct backend *backend)
{
    (void)backend;
    return COMPUTER_IMAGE | COMPUTER_CPUS | COMPUTER_MEMORY | COMPUTER_PIDS | COMPUTER_NETWORK | COMPUTER_ENV;
}

static void engine_describe(const struct backend *backend, struct backend_description *ret)
{
    struct engine_backend *b = engine_of(backend);
    pthread_mutex_lock(&b->lock);
    *ret = (struct backend_description){
        .environment = b->environment,
        .shell = b->options.shell ? b->options.shell : "/bin/bash",
        .network = b->options.network ? "network access" : "no network (loopback only)",
        .limits = b->limits ? b->limits : b->wanted_limits,
    };
    pthread_mutex_unlock(&b->lock);
}

static struct backend *engine_free(struct backend *backend)
{
    if (!backend)
        return NULL;
    struct engine_backend *b = engine_of(backend);
    cancel_fire(b->end, ERR_CANCELLED);
    attempt_finish(&b->connecting);
    cancel_unref(b->end);
    images_free(b->images);
    engine_disconnect(b->engine);
    keeper_free(b->keeper);
    pthread_mutex_destroy(&b->lock);
    engine_options_done(&b->options);
    free(b->limits);
    free(b->wanted_limits);
    free(b->environment);
    free(b);
    return NULL;
}

static const struct backend_ops ops = {
    .name = "docker",
    .create_seconds = CREATE_SECONDS + LIMIT_PULL_SECONDS,
    .probe = engine_probe,
    .capabilities = engine_capabilities,
    .describe = engine_describe,
    .find = engine_find,
    .list = engine_list,
    .create = engine_instance_create,
    .options = engine_options_of,
    .restart = engine_instance_restart,
    .take_over = engine_instance_take_over,
    .stat = engine_instance_stat,
    .paused = engine_instance_is_paused,
    .attach = engine_instance_attach,
    .plan = engine_instance_plan,
    .record = engine_instance_record,
    .exec = engine_instance_exec,
    .alive = engine_instance_alive,
    .lost = engine_instance_lost,
    .kill = engine_instance_kill,
    .detach = engine_instance_detach,
    .remove = engine_instance_remove,
    .reap = engine_reap,
    .settle = engine_settle,
    .free = engine_free,
};

static char *describe_wanted_limits(const struct engine_backend *b)
{
    if (b->options.memory_bytes)
        return xasprintf("%lld MiB of memory, %lld processes",
                         (long long)(b->options.memory_bytes / (1024 * 1024)), (long long)engine_pids(b));
    return xasprintf("half of the engine's memory, %lld processes", (long long)engine_pids(b));
}

/* What can be found out without an engine: the flags are tried on an empty body. */
static int check_flags(const struct engine_options *o, struct error *err)
{
    _cleanup_(cleanup_json_decref) json_t *body = json_pack("{s:{}}", "HostConfig");
    return o->run_flags ? run_flags_apply(o->run_flags, body, err) : 0;
}

struct backend *engine_new(const struct engine_options *options, struct error *err)
{
    struct reference image;
    if (engine_address_check(options, err) < 0 ||
        reference_parse(options->image ? options->image : DEFAULT_IMAGE, &image, err) < 0 ||
        check_flags(options, err) < 0)
        return NULL;
    struct engine_backend *b = xcalloc(1, sizeof(*b));
    b->base.ops = &ops;
    engine_options_copy(options, &b->options);
    b->image = image;
    b->images = images_new();
    b->keeper = keeper_new();
    b->end = cancel_new();
    pthread_mutex_init(&b->lock, NULL);
    b->wanted_limits = describe_wanted_limits(b);
    b->environment = xasprintf("an isolated Linux computer: a container of the image %s", image.text);
    return &b->base;
}
