/* The life of one computer. A temporary one is a sandbox that ends with its lifetime, a permanent one is
 * paused then, and its disk kept by the provider; that is what leaving one does as well. What runs in it ends
 * with that, and it begins anew from its disk when it is used again: the same in each case, so that nothing
 * depends on how a server ended.
 *
 * Creation is two round trips: the sandbox, and our program into it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/e2b/private.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

#define END_TIMEOUT_NS (30 * NSEC_PER_SEC)

static struct wait for_the_end(void)
{
    return (struct wait){.deadline = clock_now() + END_TIMEOUT_NS};
}

/* --- one in memory --- */

static struct e2b_instance *instance_new(struct e2b_backend *b, const struct computer_spec *spec)
{
    const struct computer_options *o = spec->options;
    struct e2b_instance *i = xcalloc(1, sizeof(*i));
    i->base.ops = b->base.ops;
    i->backend = b;
    snprintf(i->id, sizeof(i->id), "%s", spec->id);
    i->temporary = spec->temporary;
    i->network = o && o->given & COMPUTER_NETWORK ? o->network : b->network;
    i->env = o && o->given & COMPUTER_ENV ? strv_copy(o->env) : NULL;
    i->pace = pace_new();
    shells_init(&i->shells, b->shell);
    i->keeper = keepers_choose(&b->keepers);
    list_init(&i->tended.node);
    list_init(&i->calls);
    pthread_mutex_init(&i->lock, NULL);
    return i;
}

static struct e2b_instance *instance_free(struct e2b_instance *i)
{
    if (!i)
        return NULL;
    e2b_keep_remove(i);
    http_client_free(i->own_client);
    pace_free(i->pace);
    pthread_mutex_destroy(&i->lock);
    strv_free(i->env);
    free(i);
    return NULL;
}
DEFINE_CLEANUP(struct e2b_instance *, instance_free)

/* Where it is, from now on. Nobody calls it meanwhile. */
static int settle_in(struct e2b_instance *i, const struct e2b_sandbox *sandbox, struct error *err)
{
    struct e2b_backend *b = i->backend;
    struct http_client *client = NULL;
    if (!b->sandbox_client) {
        _cleanup_(cleanup_free) char *url =
            xasprintf("https://49983-%s.%s", sandbox->id, sandbox->domain[0] ? sandbox->domain : b->domain);
        client = http_client_new(&(struct http_address){.url = url, .ca_file = b->ca_file}, err);
        if (!client)
            return -1;
    }
    pthread_mutex_lock(&i->lock);
    i->sandbox = *sandbox;
    struct http_client *before = i->own_client;
    i->own_client = client;
    i->ended = false;
    pthread_mutex_unlock(&i->lock);
    http_client_free(before);
    return 0;
}

static void sandbox_of(struct e2b_instance *i, char ret[E2B_ID_SIZE])
{
    pthread_mutex_lock(&i->lock);
    memcpy(ret, i->sandbox.id, E2B_ID_SIZE);
    pthread_mutex_unlock(&i->lock);
}

/* --- beginning --- */

int e2b_instance_create(struct backend *backend, const struct computer_spec *spec, const struct wait *wait,
                        struct instance **ret, struct error *err)
{
    struct e2b_backend *b = e2b_of(backend);
    struct e2b_sandbox sandbox;
    _cleanup_(cleanup_instance_free) struct e2b_instance *i = instance_new(b, spec);
    if (e2b_api_create(b, spec, i->network, wait, &sandbox, err) < 0)
        return -1;
    if (settle_in(i, &sandbox, err) < 0 || e2b_envd_upload(i, wait, err) < 0) {
        const struct wait bounded = for_the_end();
        e2b_api_kill(b, sandbox.id, &bounded, NULL);
        return -1;
    }
    e2b_keep_add(i);
    *ret = &TAKE_PTR(i)->base;
    return 0;
}

/* From its disk, whether or not something runs in it. */
static int begin_anew(struct e2b_backend *b, const char *id, const struct wait *wait, struct e2b_sandbox *ret,
                      struct error *err)
{
    bool ran = false;
    if (e2b_api_connect(b, id, wait, ret, &ran, err) < 0)
        return -1;
    if (!ran)
        return 0;
    return e2b_api_pause(b, id, wait, err) < 0 ? -1 : e2b_api_connect(b, id, wait, ret, &ran, err);
}

static int bring_back(struct e2b_instance *i, const char *id, const struct wait *wait, struct error *err)
{
    struct e2b_sandbox sandbox;
    struct error why = ERROR_INIT;
    if (begin_anew(i->backend, id, wait, &sandbox, &why) < 0) {
        if (why.code == ERR_NOT_FOUND)
            return error_set(err, ERR_GONE, "E2B has no sandbox %s any more", id);
        return error_set(err, why.code, "%s", why.msg);
    }
    return settle_in(i, &sandbox, err);
}

int e2b_instance_attach(struct backend *backend, const struct computer_spec *spec, const json_t *data,
                        const struct wait *wait, struct instance **ret, struct error *err)
{
    struct e2b_backend *b = e2b_of(backend);
    const char *id = json_get_string(data, "sandbox"), *home = json_get_string(data, "home");
    const json_t *network = json_object_get(data, "network");
    _cleanup_(cleanup_instance_free) struct e2b_instance *i = instance_new(b, spec);
    if (!e2b_is_id(id))
        return error_set(err, ERR_GONE, "its record names no sandbox of E2B");
    if (json_is_boolean(network))
        i->network = json_is_true(network);
    if (home && home[0] == '/' && strlen(home) < sizeof(i->home))
        snprintf(i->home, sizeof(i->home), "%s", home);
    if (bring_back(i, id, wait, err) < 0 || (!i->home[0] && e2b_envd_upload(i, wait, err) < 0))
        return -1;
    e2b_keep_add(i);
    *ret = &TAKE_PTR(i)->base;
    return 0;
}

json_t *e2b_instance_plan(const struct backend *backend, const struct computer_spec *spec)
{
    (void)backend;
    return json_pack("{s:s}", "key", spec->key);
}

json_t *e2b_instance_record(const struct instance *instance)
{
    struct e2b_instance *i = (struct e2b_instance *)(uintptr_t)instance;
    char id[E2B_ID_SIZE];
    sandbox_of(i, id);
    return json_pack("{s:s, s:s, s:b}", "sandbox", id, "home", i->home, "network", i->network);
}

/* --- meanwhile --- */

/* Paused at once, and begun anew from its disk. */
int e2b_instance_restart(struct instance *instance, const struct wait *wait, struct error *err)
{
    struct e2b_instance *i = e2b_instance_of(instance);
    char id[E2B_ID_SIZE];
    sandbox_of(i, id);
    e2b_keep_remove(i);
    const int failed = bring_back(i, id, wait, err);
    e2b_keep_add(i);
    return failed;
}

/* Its metadata have the id from the beginning, and nothing at the provider has a name that others can't have.
 */
int e2b_instance_take_over(struct instance *instance, const struct computer_spec *spec,
                           int (*move)(void *ctx, struct error *err), void *ctx, struct error *err)
{
    (void)instance;
    (void)spec;
    return move(ctx, err);
}

int e2b_instance_stat(struct instance *instance, bool usage, const struct wait *wait,
                      struct instance_stat *ret, struct error *err)
{
    struct e2b_instance *i = e2b_instance_of(instance);
    struct instance_stat s = {.disk_bytes = -1, .network = i->network};
    _cleanup_(cleanup_json_decref) json_t *detail = NULL;
    sandbox_of(i, s.provider_id);
    snprintf(s.image, sizeof(s.image), "%.*s", (int)sizeof(s.image) - 1, i->backend->template);
    if (usage && e2b_api_look(i->backend, s.provider_id, wait, &detail, err) < 0)
        return -1;
    s.cpus_limit = json_number_value(json_object_get(detail, "cpuCount"));
    s.memory_limit = json_integer_value(json_object_get(detail, "memoryMB")) * (int64_t)MIB;
    s.disk_limit = json_integer_value(json_object_get(detail, "diskSizeMB")) * (int64_t)MIB;
    s.enforced = detail ? COMPUTER_CPUS | COMPUTER_MEMORY | COMPUTER_DISK : 0;
    *ret = s;
    return 0;
}

bool e2b_instance_alive(const struct instance *instance)
{
    struct e2b_instance *i = (struct e2b_instance *)(uintptr_t)instance;
    pthread_mutex_lock(&i->lock);
    const bool alive = !i->ended;
    pthread_mutex_unlock(&i->lock);
    return alive;
}

/* --- the end --- */

void e2b_instance_kill(struct instance *instance)
{
    struct e2b_instance *i = e2b_instance_of(instance);
    pthread_mutex_lock(&i->lock);
    const bool again = i->ended;
    i->ended = true;
    e2b_calls_cut_locked(i);
    pthread_mutex_unlock(&i->lock);
    if (!again)
        e2b_keep_end(i);
}

static int leave(struct instance *instance, bool remove, struct error *err)
{
    struct e2b_instance *i = e2b_instance_of(instance);
    const struct wait wait = for_the_end();
    struct error why = ERROR_INIT;
    char id[E2B_ID_SIZE];
    sandbox_of(i, id);
    e2b_keep_remove(i);
    int failed =
        remove ? e2b_api_kill(i->backend, id, &wait, &why) : e2b_api_pause(i->backend, id, &wait, &why);
    instance_free(i);
    if (failed == 0 || why.code == ERR_NOT_FOUND)
        return 0;
    return error_set(err, why.code, "the sandbox %s is left behind: %s", id, why.msg);
}

int e2b_instance_detach(struct instance *instance, struct error *err)
{
    return leave(instance, e2b_instance_of(instance)->temporary, err);
}

int e2b_instance_remove(struct instance *instance, struct error *err)
{
    return leave(instance, true, err);
}
