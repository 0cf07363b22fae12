/* Sandboxes of both generations through the control plane. The second one's creation answers with all that
 * its commands need; of the first, whatever is next is asked for. Which generation an id is of, it tells
 * itself. */
#include "backends/modal/api.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/engine/contact.h"
#include "backends/modal/control.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#define OLD_ID_LETTERS 22 /* after "sb-" */
#define PAGES_MAX 400
#define FOUND_MAX 20000 /* sandboxes in one list, of one generation */
#define TASK_POLL_NS (500 * NSEC_PER_MSEC)
#define TASK_WAIT_S 10.0F /* that Modal is asked to wait with its answer */
#define END_WAIT_S 10.0F
#define SEARCH_TIMEOUT_NS (20 * NSEC_PER_SEC)
#define REGIONS_MAX 16
#define GPUS_MAX 64
#define NETWORK_OPEN 1
#define NETWORK_BLOCKED 2
#define WORDS_MAX 200

void modal_sandbox_done(struct modal_sandbox *s)
{
    free(s->router_url);
    if (s->router_jwt)
        explicit_bzero(s->router_jwt, strlen(s->router_jwt));
    free(s->router_jwt);
    *s = (struct modal_sandbox){0};
}

static bool is_v2(const char *id)
{
    const size_t letters = strspn(str_has_prefix(id, "sb-") ? id + 3 : "",
                                  "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
    return letters != OLD_ID_LETTERS || id[3 + letters];
}

/* --- what comes --- */

static int check_id(const char *id, const char *what, struct error *err)
{
    return modal_is_id(id) ? 0 : error_set(err, ERR_UNAVAILABLE, "Modal answered without the id of %s", what);
}

static int read_router(const Modal__RouterAccess *r, struct modal_sandbox *ret, struct error *err)
{
    if (!r || !modal_is_token(r->jwt) || !str_has_prefix(r->url, "https://") || strlen(r->url) > 300)
        return error_set(err, ERR_UNAVAILABLE,
                         "Modal doesn't say how the sandbox's command router is reached");
    ret->router_url = xstrdup(r->url);
    ret->router_jwt = xstrdup(r->jwt);
    return 0;
}

/* Words on how a sandbox ended; NULL: it runs. Malloced. */
static char *ended_how(const Modal__Outcome *o)
{
    static const char *const how[] = {[1] = "its main program ended",   [2] = "its main program failed",
                                      [3] = "it was terminated",        [4] = "its lifetime was over",
                                      [5] = "it couldn't be started",   [6] = "Modal had an internal failure",
                                      [7] = "it was idle for too long", [8] = "Modal took its machine back"};
    if (!o || o->status == 0)
        return NULL;
    const bool known = o->status > 0 && (size_t)o->status < ARRAY_LEN(how);
    _cleanup_(cleanup_free) char *words = contact_beginning(o->exception, WORDS_MAX);
    return xasprintf("%s%s%s", known ? how[o->status] : "it has ended", words[0] ? ": " : "", words);
}

/* --- calls that both generations have --- */

static void *twin(struct modal_account *a, const char *name, const char *id, const ProtobufCMessage *request,
                  const ProtobufCMessageDescriptor *answer, const struct wait *wait, struct error *err)
{
    _cleanup_(cleanup_free) char *full = xasprintf("%s%s", name, is_v2(id) ? "V2" : "");
    const struct modal_call call = {.name = full, .request = request, .answer = answer};
    return modal_control(a, &call, wait, err);
}

/* 0: *ret is its task; -1, ERR_NOT_FOUND: it has ended. A sandbox that has just been made may have none yet.
 */
static int find_task(struct modal_account *a, const char *id, const struct wait *wait,
                     char ret[MODAL_ID_SIZE], struct error *err)
{
    Modal__TaskWanted wanted = MODAL__TASK_WANTED__INIT;
    wanted.sandbox = (char *)(uintptr_t)id;
    wanted.timeout = TASK_WAIT_S;
    for (;;) {
        _cleanup_(cleanup_modal_free) Modal__Task *task =
            twin(a, "SandboxGetTaskId", id, MODAL_MESSAGE(&wanted), &modal__task__descriptor, wait, err);
        if (!task)
            return -1;
        _cleanup_(cleanup_free) char *ended = ended_how(task->outcome);
        if (ended)
            return error_set(err, ERR_NOT_FOUND, "the sandbox %s has ended: %s", id, ended);
        if (task->id[0] && check_id(task->id, "a task", err) < 0)
            return -1;
        if (task->id[0]) {
            strcpy(ret, task->id);
            return 0;
        }
        if (wait_pause(wait, TASK_POLL_NS, err) < 0)
            return error_prefix(err, "wait for the sandbox %s to start", id);
    }
}

static int find_router(struct modal_account *a, const struct wait *wait, struct modal_sandbox *s,
                       struct error *err)
{
    Modal__TaskRouterWanted of_task = MODAL__TASK_ROUTER_WANTED__INIT;
    Modal__SandboxRouterWanted of_sandbox = MODAL__SANDBOX_ROUTER_WANTED__INIT;
    of_task.task = s->task;
    of_sandbox.sandbox = s->id;
    const bool v2 = is_v2(s->id);
    const struct modal_call call = {
        .name = v2 ? "SandboxGetCommandRouterAccess" : "TaskGetCommandRouterAccess",
        .request = v2 ? MODAL_MESSAGE(&of_sandbox) : MODAL_MESSAGE(&of_task),
        .answer = &modal__router_access__descriptor,
    };
    _cleanup_(cleanup_modal_free) Modal__RouterAccess *r = modal_control(a, &call, wait, err);
    return r ? read_router(r, s, err) : -1;
}

int modal_api_reach(struct modal_account *a, const char *id, const struct wait *wait,
                    struct modal_sandbox *ret, struct error *err)
{
    struct modal_sandbox s = {0};
    snprintf(s.id, sizeof(s.id), "%s", id);
    if (find_task(a, id, wait, s.task, err) < 0 || find_router(a, wait, &s, err) < 0)
        return -1;
    *ret = s;
    return 0;
}

/* timeout 0: doesn't wait. */
static int ask_end(struct modal_account *a, const char *id, float timeout, const struct wait *wait,
                   char **ret_why, struct error *err)
{
    struct error why = ERROR_INIT;
    Modal__SandboxWait asked = MODAL__SANDBOX_WAIT__INIT;
    asked.sandbox = (char *)(uintptr_t)id;
    asked.timeout = timeout;
    _cleanup_(cleanup_modal_free) Modal__SandboxEnd *end =
        twin(a, "SandboxWait", id, MODAL_MESSAGE(&asked), &modal__sandbox_end__descriptor, wait, &why);
    if (!end && why.code != ERR_NOT_FOUND)
        return error_set(err, why.code, "%s", why.msg);
    *ret_why = end ? ended_how(end->outcome) : xstrdup("Modal has no such sandbox any more");
    return *ret_why != NULL;
}

int modal_api_ended(struct modal_account *a, const char *id, const struct wait *wait, char **ret_why,
                    struct error *err)
{
    *ret_why = NULL;
    return ask_end(a, id, 0, wait, ret_why, err);
}

int modal_api_terminate(struct modal_account *a, const char *id, const struct wait *wait, struct error *err)
{
    struct error why = ERROR_INIT;
    Modal__SandboxTerminate asked = MODAL__SANDBOX_TERMINATE__INIT;
    asked.sandbox = (char *)(uintptr_t)id;
    _cleanup_(cleanup_modal_free) Modal__SandboxEnd *before =
        twin(a, "SandboxTerminate", id, MODAL_MESSAGE(&asked), &modal__sandbox_end__descriptor, wait, &why);
    if (!before)
        return why.code == ERR_NOT_FOUND ? 0 : error_set(err, why.code, "%s", why.msg);
    int ended = before->outcome && before->outcome->status != 0;
    while (ended == 0) {
        _cleanup_(cleanup_free) char *how = NULL;
        ended = ask_end(a, id, END_WAIT_S, wait, &how, err);
    }
    return ended < 0 ? -1 : 0;
}

/* --- lists --- */

/* Tags as a message has them; for tags_free(). */
struct tags {
    Modal__Tag *each, **all;
};

static struct tags tags_of(const char *const (*tags)[2], size_t count)
{
    const struct tags t = {xcalloc(count + 1, sizeof(*t.each)), xcalloc(count + 1, sizeof(*t.all))};
    for (size_t i = 0; i < count; i++) {
        modal__tag__init(&t.each[i]);
        t.each[i].name = (char *)(uintptr_t)tags[i][0];
        t.each[i].text = (char *)(uintptr_t)tags[i][1];
        t.all[i] = &t.each[i];
    }
    return t;
}

static void tags_free(struct tags *t)
{
    free(t->each);
    free(t->all);
}

static int tell(const Modal__Listed *one, int (*fn)(void *ctx, const json_t *sandbox, struct error *err),
                void *ctx, struct error *err)
{
    _cleanup_(cleanup_json_decref) json_t *tags = json_object();
    for (size_t i = 0; i < one->n_tags; i++) /* what is no UTF-8 is left out */
        json_object_set_new(tags, one->tags[i]->name, json_string(one->tags[i]->text));
    _cleanup_(cleanup_json_decref) json_t *sandbox = json_pack(
        "{s:s, s:f, s:O, s:s}", "id", one->id, "created", isfinite(one->created) ? one->created : 0.0, "tags",
        tags, "image", modal_is_id(one->image) ? one->image : "");
    return fn(ctx, sandbox, err);
}

/* 1: there may be more, before *before; 0: this was the last page. */
static int one_page(struct modal_account *a, const Modal__ListWanted *wanted, bool v2,
                    const struct wait *wait, int (*fn)(void *ctx, const json_t *sandbox, struct error *err),
                    void *ctx, double *before, size_t *count, struct error *err)
{
    const struct modal_call call = {.name = v2 ? "SandboxListV2" : "SandboxList",
                                    .request = MODAL_MESSAGE(wanted),
                                    .answer = &modal__list__descriptor};
    _cleanup_(cleanup_modal_free) Modal__List *list = modal_control(a, &call, wait, err);
    if (!list)
        return -1;
    double last = *before;
    for (size_t i = 0; i < list->n_sandboxes; i++) {
        const Modal__Listed *one = list->sandboxes[i];
        last = one->created;
        if (modal_is_id(one->id) && tell(one, fn, ctx, err) < 0)
            return -1;
    }
    *count += list->n_sandboxes;
    const bool goes_on = list->n_sandboxes > 0 && last > 0 && (*before == 0 || last < *before);
    *before = last;
    return goes_on;
}

static int list_generation(struct modal_account *a, Modal__ListWanted *wanted, bool v2,
                           const struct wait *wait,
                           int (*fn)(void *ctx, const json_t *sandbox, struct error *err), void *ctx,
                           struct error *err)
{
    size_t count = 0;
    wanted->before = 0;
    for (int page = 0; page < PAGES_MAX && count <= FOUND_MAX; page++) {
        const int more = one_page(a, wanted, v2, wait, fn, ctx, &wanted->before, &count, err);
        if (more <= 0)
            return more;
    }
    return error_set(err, ERR_LIMIT, "Modal has more than %zu sandboxes of ours", count);
}

int modal_api_list(struct modal_account *a, const char *const (*tags)[2], size_t count,
                   const struct wait *wait, int (*fn)(void *ctx, const json_t *sandbox, struct error *err),
                   void *ctx, struct error *err)
{
    char app[MODAL_ID_SIZE];
    if (modal_app_id(a, wait, app, err) < 0)
        return -1;
    _cleanup_(tags_free) struct tags t = tags_of(tags, count);
    Modal__ListWanted wanted = MODAL__LIST_WANTED__INIT;
    wanted.app = app;
    wanted.environment = a->environment ? a->environment : wanted.environment;
    wanted.tags = t.all;
    wanted.n_tags = count;
    return list_generation(a, &wanted, true, wait, fn, ctx, err) < 0
               ? -1
               : list_generation(a, &wanted, false, wait, fn, ctx, err);
}

/* --- creation --- */

/* What a definition is made of. */
struct parts {
    Modal__Definition definition;
    Modal__Resources resources;
    Modal__Gpu gpu;
    Modal__Placement placement;
    Modal__Network network;
    char gpu_type[64];
    char *regions_text, *regions[REGIONS_MAX];
    char app[MODAL_ID_SIZE];
    struct tags tags;
    struct modal_pairs env;
};

static void parts_done(struct parts *p)
{
    free(p->regions_text);
    tags_free(&p->tags);
    modal_pairs_free(&p->env);
}

/* "h100:2" */
static int set_gpu(struct parts *p, const char *text, struct error *err)
{
    const size_t n = strcspn(text, ":");
    int64_t count = 1;
    if (n == 0 || n >= sizeof(p->gpu_type) ||
        (text[n] && (!str_parse_i64(text + n + 1, &count) || count < 1)) || count > GPUS_MAX)
        return error_set(err, ERR_INVALID, "a GPU is named like H100, or H100:2 for two of them, not '%.60s'",
                         text);
    for (size_t i = 0; i < n; i++)
        p->gpu_type[i] = (char)(text[i] >= 'a' && text[i] <= 'z' ? text[i] - 'a' + 'A' : text[i]);
    p->gpu.type = p->gpu_type;
    p->gpu.count = (uint32_t)count;
    p->resources.gpu = &p->gpu;
    return 0;
}

static int set_regions(struct parts *p, const char *text, struct error *err)
{
    char *left = NULL;
    p->regions_text = xstrdup(text);
    for (char *one = strtok_r(p->regions_text, ", ", &left); one; one = strtok_r(NULL, ", ", &left)) {
        if (p->placement.n_regions == REGIONS_MAX)
            return error_set(err, ERR_INVALID, "more than %d regions of Modal", REGIONS_MAX);
        p->regions[p->placement.n_regions++] = one;
    }
    p->placement.regions = p->regions;
    p->definition.placement = &p->placement;
    return 0;
}

static int set_parts(struct parts *p, const struct modal_creation *c, struct error *err)
{
    modal__definition__init(&p->definition);
    modal__resources__init(&p->resources);
    modal__gpu__init(&p->gpu);
    modal__placement__init(&p->placement);
    modal__network__init(&p->network);
    p->tags = tags_of(c->tags, c->tag_count);
    modal_pairs_of(c->env, &p->env);
    p->definition.image = (char *)(uintptr_t)c->image_id;
    p->definition.timeout_s = c->timeout_s;
    p->network.access = c->network ? NETWORK_OPEN : NETWORK_BLOCKED;
    p->definition.network = &p->network;
    p->resources.milli_cpus = (uint32_t)(c->cpus * 1000 + 0.5);
    p->resources.memory_mib = (uint32_t)c->memory_mib;
    if (c->cpus > 0 || c->memory_mib > 0 || c->gpu)
        p->definition.resources = &p->resources;
    if (c->gpu && set_gpu(p, c->gpu, err) < 0)
        return -1;
    return c->region ? set_regions(p, c->region, err) : 0;
}

/* The second generation says at once where commands go to; the first has to be asked. */
static int make_sandbox(struct modal_account *a, const char *name, const ProtobufCMessage *request,
                        const struct wait *wait, struct modal_sandbox *ret, struct error *err)
{
    const struct modal_call call = {
        .name = name, .pace = a->creating, .request = request, .answer = &modal__sandbox_made__descriptor};
    _cleanup_(cleanup_modal_free) Modal__SandboxMade *made = modal_control(a, &call, wait, err);
    if (!made || check_id(made->id, "a sandbox", err) < 0)
        return -1;
    strcpy(ret->id, made->id);
    if (modal_is_id(made->task) && made->router) {
        strcpy(ret->task, made->task);
        return read_router(made->router, ret, err);
    }
    return find_task(a, ret->id, wait, ret->task, err) < 0 ? -1 : find_router(a, wait, ret, err);
}

static int create_v2(struct modal_account *a, struct parts *p, size_t tag_count, const struct wait *wait,
                     struct modal_sandbox *ret, struct error *err)
{
    Modal__SandboxWanted wanted = MODAL__SANDBOX_WANTED__INIT;
    Modal__SecretSource source = MODAL__SECRET_SOURCE__INIT, *sources[] = {&source};
    Modal__Texts texts = MODAL__TEXTS__INIT;
    texts.contents = p->env.all;
    texts.n_contents = p->env.count;
    source.env = &texts;
    wanted.app = p->app;
    wanted.definition = &p->definition;
    wanted.tags = p->tags.all;
    wanted.n_tags = tag_count;
    wanted.sources = sources;
    wanted.n_sources = p->env.count > 0;
    return make_sandbox(a, "SandboxCreateV2", MODAL_MESSAGE(&wanted), wait, ret, err);
}

/* The first generation has variables as a secret only. */
static int make_secret(struct modal_account *a, struct parts *p, const struct wait *wait,
                       char ret[MODAL_ID_SIZE], struct error *err)
{
    Modal__SecretWanted wanted = MODAL__SECRET_WANTED__INIT;
    wanted.environment = a->environment ? a->environment : wanted.environment;
    wanted.creation = MODAL_EPHEMERAL;
    wanted.env = p->env.all;
    wanted.n_env = p->env.count;
    const struct modal_call call = {
        .name = "SecretGetOrCreate", .request = MODAL_MESSAGE(&wanted), .answer = &modal__secret__descriptor};
    _cleanup_(cleanup_modal_free) Modal__Secret *secret = modal_control(a, &call, wait, err);
    if (!secret || check_id(secret->id, "a secret", err) < 0)
        return -1;
    strcpy(ret, secret->id);
    return 0;
}

static int create_v1(struct modal_account *a, struct parts *p, size_t tag_count, const struct wait *wait,
                     struct modal_sandbox *ret, struct error *err)
{
    char secret[MODAL_ID_SIZE], *secrets[] = {secret};
    Modal__OldSandboxWanted wanted = MODAL__OLD_SANDBOX_WANTED__INIT;
    if (p->env.count > 0) {
        if (make_secret(a, p, wait, secret, err) < 0)
            return -1;
        p->definition.secrets = secrets;
        p->definition.n_secrets = 1;
    }
    wanted.app = p->app;
    wanted.definition = &p->definition;
    wanted.environment = a->environment ? a->environment : wanted.environment;
    wanted.tags = p->tags.all;
    wanted.n_tags = tag_count;
    return make_sandbox(a, "SandboxCreate", MODAL_MESSAGE(&wanted), wait, ret, err);
}

static int on_first(void *ctx, const json_t *sandbox, struct error *err)
{
    (void)err;
    snprintf(ctx, MODAL_ID_SIZE, "%s", json_string_value(json_object_get(sandbox, "id")));
    return 0;
}

/* Nobody knows whether a creation without an answer took effect, and one must not be paid for twice, or left:
 * it is looked for by its tags. Also when the call is over, which must leave nothing. 0: *ret is that one. */
static int look_for_lost(struct modal_account *a, const struct modal_creation *c, const struct wait *wait,
                         struct modal_sandbox *ret)
{
    const bool is_over = wait_check(wait, NULL) < 0;
    const struct wait bounded = {.deadline = clock_now() + SEARCH_TIMEOUT_NS,
                                 .cancel = is_over ? NULL : wait->cancel};
    if (!ret->id[0] && (c->tag_count == 0 ||
                        modal_api_list(a, c->tags, c->tag_count, &bounded, on_first, ret->id, NULL) < 0))
        return -1;
    if (!ret->id[0])
        return -1;
    struct modal_sandbox found;
    if (!is_over && modal_api_reach(a, ret->id, &bounded, &found, NULL) == 0) {
        modal_sandbox_done(ret);
        *ret = found;
        return 0;
    }
    modal_api_terminate(a, ret->id, &bounded, NULL);
    return -1;
}

int modal_api_create(struct modal_account *a, const struct modal_creation *c, const struct wait *wait,
                     struct modal_sandbox *ret, struct error *err)
{
    struct error why = ERROR_INIT;
    _cleanup_(parts_done) struct parts p = {0};
    _cleanup_(modal_sandbox_done) struct modal_sandbox s = {0};
    if (set_parts(&p, c, err) < 0 || modal_app_id(a, wait, p.app, err) < 0)
        return -1;
    const bool v2 = a->v2 && !c->gpu;
    int failed =
        v2 ? create_v2(a, &p, c->tag_count, wait, &s, &why) : create_v1(a, &p, c->tag_count, wait, &s, &why);
    const bool unknown = why.code == ERR_UNAVAILABLE || wait_was_over(&why) || s.id[0];
    if (failed < 0 && unknown)
        failed = look_for_lost(a, c, wait, &s);
    if (failed < 0) {
        if (why.code == ERR_NOT_FOUND && s.id[0]) /* it ended at once */
            why.code = ERR_UNAVAILABLE;
        else if (why.code == ERR_NOT_FOUND)
            modal_account_forget(a);
        return error_set(err, why.code, "%s", why.msg);
    }
    *ret = s;
    s = (struct modal_sandbox){0};
    return 0;
}
