/* The life of one container: made with our program as its first process, or taken up as it is; stopped;
 * removed. How commands get in is decided when it is taken up:
 *
 *   new or stopped, ours   attach to its first process, then start it: our program, which greets
 *   running                put our program into it, start that by one exec of the engine
 *   neither works          one exec of the engine per command, said in the record
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/engine/container.h"
#include "backends/engine/podman.h"
#include "backends/engine/private.h"
#include "backends/engine/run_flags.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"

#define END_TIMEOUT_NS (30 * NSEC_PER_SEC)
#define NAME_TIMEOUT_NS NSEC_PER_SEC       /* from taking a name to being known by it */
#define LATE_TIMEOUT_NS (NSEC_PER_SEC / 2) /* the end of a server waits for it */
#define START_TRIES 4
#define LEASE_S 600 /* longer than a nap of the machine that the server is on */
#define ENTRYPOINT_WORDS                                                                                     \
    ". What --entrypoint names has to run its arguments, which are our program: exec \"$@\""
#define NANO 1e9
#define SPOOL_DIR "/tmp/command-output" /* as in native computers */

static struct engine_instance *instance_new(struct engine_backend *b, struct engine *e, const char *id,
                                            bool temporary)
{
    struct engine_instance *i = xcalloc(1, sizeof(*i));
    i->base.ops = b->base.ops;
    i->backend = b;
    i->engine = e;
    i->temporary = temporary;
    snprintf(i->id, sizeof(i->id), "%s", id);
    pthread_mutex_init(&i->lock, NULL);
    list_init(&i->plains);
    return i;
}

static struct engine_instance *instance_free(struct engine_instance *i)
{
    if (!i)
        return NULL;
    link_unref(i->link);
    pthread_mutex_destroy(&i->lock);
    free(i);
    return NULL;
}

/* --- the way in --- */

/* A stream to another machine may be over without its far end being told. */
static struct serve_config guest_config(const struct engine_instance *i, bool first_process)
{
    const bool dies = i->temporary && !i->foreign;
    struct serve_config config = {
        .flags = (dies ? SERVE_DIES : 0) | (first_process && i->firewall_wanted ? SERVE_FIREWALL : 0),
        .lease_s = dies && !i->engine->address.unix_path ? LEASE_S : 0,
    };
    snprintf(config.spool_dir, sizeof(config.spool_dir), "%s", SPOOL_DIR);
    return config;
}

static void note_ready(struct engine_instance *i, const struct serve_ready *ready)
{
    i->has_bash = ready->has_shell[0] == 1;
    i->has_sh = ready->has_shell[1] == 1;
    if (ready->firewall == SERVE_FIREWALL_FAILED)
        snprintf(i->firewall, sizeof(i->firewall), "%.60s: %.120s", ready->error.stage, ready->error.text);
}

static int on_silence(void *instance, struct error *err)
{
    const struct wait over = {.deadline = clock_now()};
    return engine_instance_ask(instance, &over, err);
}

/* stream: taken. */
static int greet(struct engine_instance *i, struct http_stream *stream, bool first_process,
                 const struct wait *wait, struct link **ret, struct error *err)
{
    struct serve_ready ready;
    const struct link_options options = {
        .stream = stream,
        .config = guest_config(i, first_process),
        .on_silence = on_silence,
        .ctx = i,
        .keeper = i->backend->keeper,
    };
    struct link *link = link_open(&options, wait, &ready, err);
    if (!link)
        return -1;
    note_ready(i, &ready);
    *ret = link;
    return 0;
}

static int put_guest(struct engine_instance *i, const struct wait *wait, struct error *err)
{
    if (i->backend->options.without_guest)
        return error_set(err, ERR_UNSUPPORTED, "our program is to be left out");
    return container_upload(i->engine, i->container, wait, err);
}

/* The stream is there before the container starts: nothing that our program says is lost. */
static int start_attached(struct engine_instance *i, const struct wait *wait, struct error *err)
{
    struct http_stream *stream = NULL;
    if (container_attach(i->engine, i->container, wait, &stream, err) < 0)
        return -1;
    if (container_start(i->engine, i->container, wait, err) < 0) {
        http_stream_free(stream);
        return -1;
    }
    FAULT_POINT("container.started");
    return greet(i, stream, true, wait, &i->link, err);
}

bool engine_instance_may_enter(const struct engine_instance *i)
{
    return !i->firewall_wanted;
}

int engine_instance_enter(struct engine_instance *i, const struct wait *wait, struct link **ret,
                          struct error *err)
{
    struct http_stream *stream = NULL;
    if (put_guest(i, wait, err) < 0 || container_exec_guest(i->engine, i->container, wait, &stream, err) < 0)
        return -1;
    return greet(i, stream, false, wait, ret, err);
}

/* What keeps our program out: the image's architecture, a read-only or noexec root, a policy. Only what says
 * so counts, of our program: a computer without it is a weaker one, and is never had because of something
 * passing, or of a network that can't be made.
 */
static bool is_kept_out(const struct error *err)
{
    static const char *const subjects[] = {CONTAINER_GUEST_PATH, PUT_WORDS, "exec"};
    static const char *const words[] = {"exec format error", "permission denied", "Permission denied",
                                        "read-only",         "read only",         "operation not permitted"};
    bool ours = false, kept_out = false;
    for (size_t n = 0; n < ARRAY_LEN(subjects); n++)
        ours = ours || strstr(err->msg, subjects[n]);
    for (size_t n = 0; n < ARRAY_LEN(words); n++)
        kept_out = kept_out || strstr(err->msg, words[n]);
    return err->code == ERR_UNSUPPORTED || (ours && kept_out);
}

static void use_exec(struct engine_instance *i, const struct error *why)
{
    i->way = WAY_EXEC;
    snprintf(i->way_why, sizeof(i->way_why), "%.150s", why->msg);
    i->has_bash = i->has_sh = true; /* as far as we know */
}

/* --- what the engine tells of a container --- */

const char *container_label(const json_t *inspect, const char *label)
{
    return json_get_string(json_get_object(json_get_object(inspect, "Config"), "Labels"), label);
}

/* Whether our program is its first process. */
static bool runs_guest(const json_t *inspect)
{
    const char *mode = container_label(inspect, LABEL_MODE);
    return mode && strcmp(mode, "serve") == 0;
}

static bool is_of_creation(const json_t *inspect, const char *key)
{
    const char *its = container_label(inspect, LABEL_KEY);
    return its && strcmp(its, key) == 0;
}

/* --- making --- */

static const char *wanted_platform(const struct engine_backend *b)
{
    const char *flag = run_flags_value(b->options.run_flags, "platform");
    return flag ? flag : b->options.platform;
}

/* What the user asked for is the same for every computer, and so is what is to be said about it. */
static void tell_warnings(struct engine_backend *b, const json_t *warnings)
{
    size_t n;
    json_t *warning;
    if (atomic_exchange(&b->warned, true))
        return;
    json_array_foreach (warnings, n, warning)
        log_warning("%s", json_string_value(warning));
}

/* A limit that isn't held is no secret. */
static void tell_of_no_firewall(struct engine_instance *i)
{
    if (i->firewall[0] && !atomic_exchange(&i->backend->told_of_no_wall, true))
        log_warning("computer %s can reach metadata services and the engine's own machine: %s", i->id,
                    i->firewall);
}

static int plan_container(const struct engine_instance *i, const struct computer_spec *spec,
                          const struct image *image, bool with_guest, struct container *ret,
                          struct error *err)
{
    char *const image_env[] = {(char *)(uintptr_t)(image->lang[0] ? image->lang : NULL), NULL};
    const struct engine_backend *b = i->backend;
    const struct computer_options *own = spec->options;
    const unsigned given = own ? own->given : 0;
    const struct container_options options = {
        .image = i->image,
        .id = spec->id,
        .principal = spec->principal,
        .key = spec->key,
        .temporary = spec->temporary,
        .replacing = spec->replacing,
        .env = given & COMPUTER_ENV ? own->env : NULL,
        .owner = spec->owner,
        .guest = with_guest ? CONTAINER_GUEST_PATH : NULL,
        .image_env = image_env,
        .image_user = image->user,
        .network = given & COMPUTER_NETWORK ? own->network : b->options.network,
        .outlives = b->options.keep_running && !spec->temporary,
        .memory_bytes = given & COMPUTER_MEMORY ? own->memory_bytes : engine_memory(b, i->engine),
        .pids = given & COMPUTER_PIDS ? own->pids : engine_pids(b),
        .cpus = given & COMPUTER_CPUS ? own->cpus : b->options.cpus,
        .run_flags = b->options.run_flags,
    };
    return container_plan(&options, ret, err);
}

/* As the engine is asked for them, or as it tells. */
static void note_limits(struct engine_instance *i, const json_t *config)
{
    const json_t *host = json_get_object(config, "HostConfig");
    i->memory_bytes = json_integer_value(json_object_get(host, "Memory"));
    i->pids = json_integer_value(json_object_get(host, "PidsLimit"));
    i->cpus = (double)json_integer_value(json_object_get(host, "NanoCpus")) / NANO;
    i->has_network = container_network(host) != CONTAINER_NETWORK_NONE;
}

static bool is_known(struct engine *e, const char *name, const struct wait *wait)
{
    const struct wait bounded = wait_at_most(wait, clock_now() + NAME_TIMEOUT_NS);
    for (;;) {
        struct container_look look;
        if (container_look(e, name, &bounded, &look, NULL) < 0)
            return false;
        json_decref(look.inspect);
        if (look.state != CONTAINER_ABSENT)
            return true;
        wait_pause(&bounded, 50 * NSEC_PER_MSEC, NULL);
    }
}

/* A name may be taken by what nobody knows: the rest of a creation under which Podman was killed. */
static int create_named(struct engine *e, const char *name, const char *path, const json_t *body,
                        const struct wait *wait, json_t **ret, struct error *err)
{
    struct error why = ERROR_INIT;
    if (engine_call(e, "POST", path, body, wait, ret, &why) == 0)
        return 0;
    if (!podman_is_taken(e, &why))
        return error_set(err, why.code, "%s", why.msg);
    if (is_known(e, name, wait))
        return error_set(err, ERR_EXISTS, "%s", why.msg);
    if (container_remove(e, name, wait, err) < 0)
        return -1;
    return engine_call(e, "POST", path, body, wait, ret, err);
}

static int make_container(struct engine_instance *i, const struct computer_spec *spec,
                          const struct image *image, bool with_guest, const struct wait *wait,
                          struct error *err)
{
    struct engine_backend *b = i->backend;
    _cleanup_(cleanup_json_decref) json_t *made = NULL;
    _cleanup_(container_done) struct container plan = {0};
    if (plan_container(i, spec, image, with_guest, &plan, err) < 0)
        return -1;
    tell_warnings(b, plan.warnings);
    const char *wanted = wanted_platform(b);
    _cleanup_(cleanup_free) char *platform = wanted ? http_encode(wanted) : NULL;
    _cleanup_(cleanup_free) char *path = xasprintf("/containers/create?name=%s%s%s", plan.name,
                                                   platform ? "&platform=" : "", platform ? platform : "");
    podman_adapt_create(i->engine, plan.body);
    if (create_named(i->engine, plan.name, path, plan.body, wait, &made, err) < 0)
        return -1;
    i->firewall_wanted = plan.firewall;
    if (plan.no_firewall)
        snprintf(i->firewall, sizeof(i->firewall), "%s", plan.no_firewall);
    note_limits(i, plan.body);
    const char *id = json_get_string(made, "Id");
    if (!container_is_id(id))
        return error_set(err, ERR_UNAVAILABLE, "%s gave the container no id", engine_name(i->engine));
    snprintf(i->container, sizeof(i->container), "%s", id);
    FAULT_POINT("container.created");
    return 0;
}

/* The container of that name, if it is of this very creation: another's is none of ours. 1: it was there. */
static char *name_of(const struct computer_spec *spec)
{
    return spec->replacing ? container_other_name(spec->principal, spec->id, spec->key)
                           : container_name(spec->principal, spec->id);
}

static int remove_of_creation(struct engine *e, const struct computer_spec *spec, const struct wait *wait,
                              struct error *err)
{
    _cleanup_(cleanup_free) char *name = name_of(spec);
    struct container_look look;
    if (container_look(e, name, wait, &look, err) < 0)
        return -1;
    _cleanup_(cleanup_json_decref) json_t *inspect = look.inspect;
    const char *id = json_get_string(inspect, "Id");
    if (look.state == CONTAINER_ABSENT || !id || !is_of_creation(inspect, spec->key))
        return 0;
    return container_remove(e, id, wait, err) < 0 ? -1 : 1;
}

/* An engine goes on with what its client has given up: what it was to make may come yet. */
static void remove_late_comer(struct engine *e, const struct computer_spec *spec)
{
    const struct wait patient = {.deadline = clock_now() + LATE_TIMEOUT_NS};
    for (int ms = 20; remove_of_creation(e, spec, &patient, NULL) == 0; ms = ms < 500 ? ms * 2 : ms)
        if (wait_pause(&patient, ms * NSEC_PER_MSEC, NULL) < 0)
            return;
}

/* Nothing is left of a creation that failed, also when the engine's answer to it was lost. */
static void discard(struct engine_instance *i, const struct computer_spec *spec, const struct error *why)
{
    const struct wait bounded = {.deadline = clock_now() + END_TIMEOUT_NS};
    link_unref(TAKE_PTR(i->link));
    if (i->container[0])
        container_remove(i->engine, i->container, &bounded, NULL);
    else if (wait_was_over(why))
        remove_late_comer(i->engine, spec);
    else
        remove_of_creation(i->engine, spec, &bounded, NULL);
    i->container[0] = '\0';
}

static int make_linked(struct engine_instance *i, const struct computer_spec *spec, const struct image *image,
                       const struct wait *wait, struct error *err)
{
    if (make_container(i, spec, image, true, wait, err) < 0)
        return -1;
    if (put_guest(i, wait, err) == 0 && start_attached(i, wait, err) == 0)
        return 0;
    return -1;
}

/* What keeps a container up without our program. An init of the engine's own would start all the same, and
 * end.
 */
static int check_shell(struct engine_instance *i, const struct wait *wait, struct error *err)
{
    struct error why = ERROR_INIT;
    if (container_has_file(i->engine, i->container, CONTAINER_SHELL, wait, &why) == 0)
        return 0;
    if (why.code != ERR_NOT_FOUND)
        return error_set(err, why.code, "%s", why.msg);
    return error_set(err, ERR_UNAVAILABLE,
                     "where our program can't run, the image needs " CONTAINER_SHELL ", which it hasn't got");
}

static int make_plain(struct engine_instance *i, const struct computer_spec *spec, const struct image *image,
                      const struct wait *wait, struct error *err)
{
    return make_container(i, spec, image, false, wait, err) < 0 || check_shell(i, wait, err) < 0
               ? -1
               : container_start(i->engine, i->container, wait, err);
}

static bool has_entrypoint(const struct engine_backend *b)
{
    return run_flags_value(b->options.run_flags, "entrypoint") != NULL;
}

static bool is_passing(const struct error *why)
{
    return why->code == ERR_UNAVAILABLE || why->code == ERR_EXISTS;
}

static int make(struct engine_instance *i, const struct computer_spec *spec, const struct image *image,
                const struct wait *wait, struct error *err)
{
    struct error why = ERROR_INIT;
    bool made, kept_out;
    int tries = 0;
    do {
        why = (struct error)ERROR_INIT;
        if (make_linked(i, spec, image, wait, &why) == 0)
            return 0;
        made = i->container[0] != '\0';
        kept_out = made && is_kept_out(&why);
        if (made || why.code != ERR_EXISTS)
            discard(i, spec, &why);
        /* Engines that are busy refuse this and that. */
    } while (made && !kept_out && is_passing(&why) && ++tries < START_TRIES);
    if (!kept_out)
        return error_set(err, made && why.code == ERR_EXISTS ? ERR_UNAVAILABLE : why.code, "%s%s", why.msg,
                         made && has_entrypoint(i->backend) ? ENTRYPOINT_WORDS : "");
    struct error plain = ERROR_INIT;
    if (make_plain(i, spec, image, wait, &plain) < 0) {
        discard(i, spec, &plain);
        return error_set(err, plain.code, "%s (and before that: %.150s)", plain.msg, why.msg);
    }
    use_exec(i, &why);
    return 0;
}

/* What wasn't found is an image, a network, a volume: no computer. */
static int not_made(struct error *err)
{
    if (err && err->code == ERR_NOT_FOUND)
        err->code = ERR_UNAVAILABLE;
    return -1;
}

static int own_image(const struct computer_spec *spec, struct reference *ret, struct error *err)
{
    if (!spec->options || !(spec->options->given & COMPUTER_IMAGE))
        return 0;
    return reference_parse(spec->options->image, ret, err);
}

int engine_instance_create(struct backend *backend, const struct computer_spec *spec, const struct wait *wait,
                           struct instance **ret, struct error *err)
{
    struct engine_backend *b = engine_of(backend);
    struct engine *e = engine_ready(b, wait, err);
    struct reference name = b->image;
    struct image image;
    if (!e || own_image(spec, &name, err) < 0)
        return -1;
    if (image_ensure(b->images, e, &name, wanted_platform(b), spec->progress, wait, &image, err) < 0)
        return not_made(err);
    struct engine_instance *i = instance_new(b, e, spec->id, spec->temporary);
    snprintf(i->image, sizeof(i->image), "%s", name.text);
    const struct wait rest = wait_at_most(wait, clock_deadline_after(CREATE_SECONDS)); /* pulls may be long */
    if (make(i, spec, &image, &rest, err) < 0) {
        instance_free(i);
        return not_made(err);
    }
    tell_of_no_firewall(i);
    *ret = &i->base;
    return 0;
}

/* --- taking up --- */

/* It has the capability for the firewall alone. */
static bool has_net_admin(const json_t *inspect)
{
    size_t n;
    json_t *capability;
    const json_t *host = json_get_object(inspect, "HostConfig");
    json_array_foreach (json_object_get(host, "CapAdd"), n, capability)
        if (json_is_string(capability) && strstr(json_string_value(capability), "NET_ADMIN"))
            return container_network(host) == CONTAINER_NETWORK_OWN;
    return false;
}

/* Starts a stopped one of ours from its beginning. Podman tidies up after a stop in a process of its own,
 * which may come late and meet the container when it has just been started again: then it is started once
 * more. */
static int start_again(struct engine_instance *i, const struct wait *wait, struct error *err)
{
    struct error why = ERROR_INIT;
    for (int tries = 1;; tries++) {
        why = (struct error)ERROR_INIT;
        if (container_await_stop(i->engine, i->container, wait, err) < 0)
            return -1;
        if (put_guest(i, wait, &why) == 0 && start_attached(i, wait, &why) == 0)
            return 0;
        if (tries == START_TRIES || why.code != ERR_UNAVAILABLE)
            return error_set(err, why.code, "%s", why.msg);
        if (container_stop(i->engine, i->container, wait, err) < 0)
            return -1;
    }
}

int engine_instance_paused(const struct engine_instance *i, struct error *err)
{
    return error_set(err, ERR_UNAVAILABLE, "the container %.12s of computer '%s' is paused: %s unpause %.12s",
                     i->container, i->id, engine_name(i->engine), i->container);
}

int engine_instance_resume(struct engine_instance *i, const struct container_look *look,
                           const struct wait *wait, struct error *err)
{
    struct error why = ERROR_INIT;
    int failed;
    if (look->state == CONTAINER_PAUSED)
        return engine_instance_paused(i, err);
    const bool serves = runs_guest(look->inspect);
    const bool ours = container_label(look->inspect, LABEL_MODE) != NULL;
    enum container_state state = look->state;
    if (state == CONTAINER_RUNNING && ours &&
        !(i->backend->options.keep_running && engine_instance_may_enter(i))) {
        /* Its server died: what still runs ends with it. */
        if (container_stop(i->engine, i->container, wait, err) < 0)
            return -1;
        state = CONTAINER_STOPPED;
    }
    if (state == CONTAINER_STOPPED && serves) {
        failed = start_again(i, wait, &why);
    } else {
        if (state == CONTAINER_STOPPED && container_start(i->engine, i->container, wait, err) < 0)
            return -1;
        failed = engine_instance_enter(i, wait, &i->link, &why);
    }
    if (failed == 0)
        return 0;
    if (serves || !is_kept_out(&why))
        return error_set(err, why.code, "%s", why.msg);
    use_exec(i, &why);
    return 0;
}

/* Another engine than the one that made it has lost nothing. */
static int absent(const struct engine *e, const json_t *data, const char *container, struct error *err)
{
    const char *address = json_get_string(data, "address");
    if (address && strcmp(address, e->address.text) != 0)
        return error_set(
            err, ERR_UNAVAILABLE,
            "it was made by the engine at %.100s, and this server uses the one at %.100s: start it "
            "with that engine, or choose another computer_id",
            address, e->address.text);
    return error_set(err, ERR_GONE, "its container %.12s was removed", container);
}

int engine_instance_attach(struct backend *backend, const struct computer_spec *spec, const json_t *data,
                           const struct wait *wait, struct instance **ret, struct error *err)
{
    struct engine_backend *b = engine_of(backend);
    struct engine *e = engine_ready(b, wait, err);
    const char *container = json_get_string(data, "container");
    struct container_look look;
    _cleanup_(cleanup_free) char *name = container_name(spec->principal, spec->id);
    if (!e || container_look(e, container ? container : name, wait, &look, err) < 0)
        return -1;
    _cleanup_(cleanup_json_decref) json_t *inspect = look.inspect;
    const char *id = json_get_string(inspect, "Id");
    if (look.state == CONTAINER_ABSENT || !container_is_id(id))
        return absent(e, data, container ? container : name, err);
    engine_instance_settle_name(e, spec, inspect, wait);
    struct engine_instance *i = instance_new(b, e, spec->id, spec->temporary);
    snprintf(i->container, sizeof(i->container), "%s", id);
    const char *image = json_get_string(json_get_object(inspect, "Config"), "Image");
    snprintf(i->image, sizeof(i->image), "%s", image ? image : "");
    i->foreign = !runs_guest(inspect);
    note_limits(i, inspect);
    i->firewall_wanted = has_net_admin(inspect);
    if (i->foreign && container_network(json_get_object(inspect, "HostConfig")) != CONTAINER_NETWORK_NONE)
        snprintf(i->firewall, sizeof(i->firewall), "another program made it");
    if (engine_instance_resume(i, &look, wait, err) < 0) {
        instance_free(i);
        return -1;
    }
    tell_of_no_firewall(i);
    *ret = &i->base;
    return 0;
}

/* --- records --- */

json_t *engine_instance_plan(const struct backend *b, const struct computer_spec *spec)
{
    const struct engine_backend *eb = (const struct engine_backend *)b;
    _cleanup_(cleanup_free) char *name = name_of(spec);
    const bool own_image = spec->options && (spec->options->given & COMPUTER_IMAGE);
    json_t *o = json_object();
    json_object_set_new(o, "name", json_string(name));
    json_object_set_new(o, "key", json_string(spec->key));
    json_object_set_new(o, "image", json_string(own_image ? spec->options->image : eb->image.text));
    return o;
}

json_t *engine_instance_record(const struct instance *instance)
{
    const struct engine_instance *i = (const struct engine_instance *)instance;
    json_t *o = json_object();
    json_object_set_new(o, "container", json_string(i->container));
    json_object_set_new(o, "engine", json_string(engine_name(i->engine)));
    json_object_set_new(o, "address", json_string(i->engine->address.text));
    json_object_set_new(o, "image", json_string(i->image));
    json_object_set_new(o, "commands", json_string(i->way == WAY_LINK ? "stream" : "engine exec"));
    if (i->way == WAY_EXEC)
        json_object_set_new(o, "why", json_string(i->way_why));
    if (i->firewall[0])
        json_object_set_new(o, "firewall", json_string(i->firewall));
    return o;
}

/* --- the end --- */

bool engine_instance_alive(const struct instance *instance)
{
    struct engine_instance *i = engine_instance_of(instance);
    pthread_mutex_lock(&i->lock);
    bool alive = !i->ended;
    pthread_mutex_unlock(&i->lock);
    return alive;
}

bool engine_instance_lost(const struct instance *instance)
{
    struct engine_instance *i = engine_instance_of(instance);
    pthread_mutex_lock(&i->lock);
    bool absent = i->absent;
    pthread_mutex_unlock(&i->lock);
    return absent;
}

/* A temporary computer ends with the stream; what else has to be done waits for remove and detach. */
void engine_instance_kill(struct instance *instance)
{
    struct engine_instance *i = engine_instance_of(instance);
    pthread_mutex_lock(&i->lock);
    i->ended = true;
    struct link *link = i->link;
    if (link)
        link_close(link);
    plain_cut_locked(i);
    pthread_mutex_unlock(&i->lock);
}

int engine_instance_detach(struct instance *instance, struct error *err)
{
    struct engine_instance *i = engine_instance_of(instance);
    const struct wait bounded = {.deadline = clock_now() + END_TIMEOUT_NS};
    int r = 0;
    link_unref(TAKE_PTR(i->link));
    if (!i->backend->options.keep_running)
        r = container_stop(i->engine, i->container, &bounded, err);
    instance_free(i);
    return r;
}

int engine_instance_remove(struct instance *instance, struct error *err)
{
    struct engine_instance *i = engine_instance_of(instance);
    const struct wait bounded = {.deadline = clock_now() + END_TIMEOUT_NS};
    link_unref(TAKE_PTR(i->link));
    int r = container_remove(i->engine, i->container, &bounded, err);
    FAULT_POINT("container.removed");
    instance_free(i);
    return r;
}

int engine_reap(struct backend *backend, const struct computer_spec *spec, const json_t *data,
                struct error *err)
{
    const struct wait bounded = {.deadline = clock_now() + END_TIMEOUT_NS};
    struct engine *e = engine_ready(engine_of(backend), &bounded, err);
    const char *container = json_get_string(data, "container");
    if (!e)
        return -1;
    /* One that was to replace it has left nothing under its name, perhaps under the other. */
    struct computer_spec replacing = *spec;
    replacing.replacing = true;
    int r = container ? container_remove(e, container, &bounded, err)
            : remove_of_creation(e, spec, &bounded, err) < 0
                ? -1
                : remove_of_creation(e, &replacing, &bounded, err);
    return r < 0 ? -1 : 0;
}

/* A permanent one whose server died runs on as long as the engine does; it is stopped, unless it is to run.
 */
int engine_settle(struct backend *backend, const struct computer_spec *spec, const json_t *data,
                  struct error *err)
{
    struct engine_backend *b = engine_of(backend);
    const struct wait bounded = {.deadline = clock_now() + END_TIMEOUT_NS};
    const char *container = json_get_string(data, "container");
    struct engine *e = engine_ready(b, &bounded, err);
    if (!e)
        return -1;
    return b->options.keep_running || !container ? 0 : container_stop(e, container, &bounded, err);
}
