/* The Machines API, version 1. Source: its documents and fly-go, August 2026. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/fly/private.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"

#define POLL_S 10 /* of one wait: then it is looked whether it still makes sense */
#define AGAIN_MAX 30
#define SEARCH_TIMEOUT_NS (20 * NSEC_PER_SEC)

#define STATUS_TIMEOUT 408
#define STATUS_CONFLICT 409
#define STATUS_PRECONDITION 412
#define STATUS_TOO_MANY 429

/* --- one call --- */

struct request {
    enum fly_action action;
    const char *machine; /* NULL: of the app */
    const char *verb;    /* what the path goes on with: "/start"; "" */
    struct provider_call call;
};

/* Others may have their turns before ours: the same app is used by several servers. What is refused for a
 * lease, as of a `fly` command that is at the machine, is soon fine. */
static bool helps_again(const struct request *r, int status)
{
    return status == STATUS_TOO_MANY || (status == STATUS_CONFLICT && r->machine);
}

static int call_in_turn(struct fly_backend *b, const struct request *r, struct pace *pace,
                        const struct wait *wait, json_t **ret, int *ret_status, struct error *err)
{
    const char *app = fly_account_app(b->account);
    struct provider provider = *fly_account_machines(b->account);
    struct provider_call call = r->call;
    _cleanup_(cleanup_free) char *path = xasprintf("/v1/apps/%s/machines%s%s%s", app, r->machine ? "/" : "",
                                                   r->machine ? r->machine : "", r->verb);
    bool far = false;
    provider.pace = pace;
    call.path = path;
    call.ret_far = &far;
    for (int n = 0;; n++) {
        struct error why = ERROR_INIT;
        if (provider_call(&provider, &call, wait, ret, ret_status, &why) == 0)
            return 0;
        if (n == AGAIN_MAX || far || !helps_again(r, *ret_status) ||
            wait_pause(wait, pace_delay(n), NULL) < 0)
            return error_set(err, why.code, "%s", why.msg);
    }
}

static int call_with_status(struct fly_backend *b, const struct request *r, const struct wait *wait,
                            json_t **ret, int *ret_status, struct error *err)
{
    *ret_status = 0;
    if (fly_account_open(b->account, wait, err) < 0)
        return -1;
    struct fly_queue *queue =
        fly_queue_enter(b->queues, r->action, r->machine ? r->machine : fly_account_app(b->account));
    if (!queue)
        return error_set(err, ERR_LIMIT, "too many calls to Fly at once");
    const int failed = call_in_turn(b, r, fly_queue_pace(queue), wait, ret, ret_status, err);
    fly_queue_leave(b->queues, queue);
    return failed;
}

static int call(struct fly_backend *b, const struct request *r, const struct wait *wait, json_t **ret,
                struct error *err)
{
    int status;
    return call_with_status(b, r, wait, ret, &status, err);
}

/* --- creation --- */

struct search {
    char id[FLY_ID_SIZE];
    struct fly_machine *machine;
};

static int on_first(void *ctx, const json_t *told, struct error *err)
{
    struct search *s = ctx;
    if (!s->id[0] && fly_machine_read(told, s->machine, err) == 0)
        memcpy(s->id, s->machine->id, sizeof(s->id));
    return 0;
}

/* Nobody knows whether a creation without an answer took effect, and one must not be paid for and left: it is
 * looked for by the key of the creation. Also when the call is over, which must leave nothing. */
static int look_for_lost(struct fly_backend *b, const struct computer_spec *spec, const struct wait *wait,
                         struct fly_machine *ret)
{
    struct search s = {.machine = ret};
    const bool is_over = wait_check(wait, NULL) < 0;
    const struct wait bounded = {.deadline = clock_now() + SEARCH_TIMEOUT_NS,
                                 .cancel = is_over ? NULL : wait->cancel};
    if (fly_api_list_made(b, spec->key, &bounded, on_first, &s, NULL) < 0 || !s.id[0])
        return -1;
    if (!is_over)
        return 0;
    fly_machine_done(ret);
    fly_api_destroy(b, s.id, &bounded, NULL);
    return -1;
}

int fly_api_create(struct fly_backend *b, const struct computer_spec *spec, const struct fly_shape *shape,
                   const struct wait *wait, struct fly_machine *ret, struct error *err)
{
    int status = 0;
    struct error why = ERROR_INIT;
    _cleanup_(cleanup_json_decref) json_t *body = fly_machine_creation(b, spec, shape);
    _cleanup_(cleanup_json_decref) json_t *answer = NULL;
    /* Repeatable: of two with one name, Fly takes the first only. */
    const struct request r = {
        .action = FLY_CREATE, .verb = "", .call = {.method = "POST", .body = body, .repeatable = true}};
    if (!body)
        return error_set(err, ERR_INVALID, "the image or the region has bytes that are no UTF-8");
    if (wait_check(wait, err) < 0)
        return -1;
    const bool answered = call_with_status(b, &r, wait, &answer, &status, &why) == 0;
    if (answered && fly_machine_read(answer, ret, &why) == 0)
        return 0;
    const bool unknown = answered || status == 0 || status == STATUS_CONFLICT || status >= 500;
    if (unknown && why.code != ERR_DENIED && why.code != ERR_BUSY && look_for_lost(b, spec, wait, ret) == 0)
        return 0;
    if (why.code == ERR_INVALID || why.code == ERR_NOT_FOUND)
        return error_set(
            err, ERR_INVALID,
            "Fly can't make a machine of the image '%.80s' (--fly-image) with %lld %s CPUs and %lld MB: "
            "%.200s",
            shape->image, (long long)shape->cpus, b->performance ? "performance" : "shared",
            (long long)shape->memory_mb, why.msg);
    return error_set(err, why.code, "%s", why.msg);
}

/* --- one machine --- */

int fly_api_look(struct fly_backend *b, const char *id, const struct wait *wait, struct fly_machine *ret,
                 struct error *err)
{
    _cleanup_(cleanup_json_decref) json_t *answer = NULL;
    const struct request r = {.action = FLY_GET, .machine = id, .verb = "", .call = {.method = "GET"}};
    return call(b, &r, wait, &answer, err) < 0 ? -1 : fly_machine_read(answer, ret, err);
}

static bool is_one_of(const char *state, const char *const *states)
{
    for (; *states; states++)
        if (strcmp(state, *states) == 0)
            return true;
    return false;
}

/* Whether a machine that is awaited, and hasn't come yet, still may. */
static int check_hope(struct fly_backend *b, const char *id, const char *state, const struct wait *wait,
                      struct error *err)
{
    static const char *const over[] = {"destroying", "destroyed", "failed", NULL};
    static const char *const down[] = {"stopped", "suspended", NULL}, *const up[] = {"started", NULL};
    struct fly_machine m;
    if (fly_api_look(b, id, wait, &m, err) < 0)
        return -1;
    const bool hopeless =
        is_one_of(m.state, over) || is_one_of(m.state, strcmp(state, "started") == 0 ? down : up);
    fly_machine_done(&m);
    if (!hopeless)
        return 0;
    return error_set(err, ERR_GONE, "Fly's machine %s is %s instead of %s", id, m.state, state);
}

int fly_api_await(struct fly_backend *b, const char *id, const char *state, const char *version,
                  const struct wait *wait, struct error *err)
{
    for (;;) {
        int status;
        struct error why = ERROR_INIT;
        const int64_t left = wait->deadline == DEADLINE_NONE ? INT64_MAX : wait->deadline - clock_now();
        const int64_t seconds = left / NSEC_PER_SEC < POLL_S ? left / NSEC_PER_SEC : POLL_S;
        _cleanup_(cleanup_free) char *verb =
            xasprintf("/wait?state=%s&timeout=%d%s%s", state, seconds < 1 ? 1 : (int)seconds,
                      version ? "&instance_id=" : "", version ? version : "");
        const struct request r = {.action = FLY_WAIT, .machine = id, .verb = verb, .call = {.method = "GET"}};
        if (call_with_status(b, &r, wait, NULL, &status, &why) == 0)
            return 0;
        if (status != STATUS_TIMEOUT)
            return error_set(err, why.code, "%s", why.msg);
        if (check_hope(b, id, state, wait, err) < 0)
            return -1;
    }
}

/* What was asked for before, and whose answer was lost, is refused where it has been done. */
static bool is_done(struct fly_backend *b, const char *id, int status, const char *const *states,
                    const struct wait *wait)
{
    struct fly_machine m;
    if (status != STATUS_PRECONDITION || fly_api_look(b, id, wait, &m, NULL) < 0)
        return false;
    const bool is = is_one_of(m.state, states);
    fly_machine_done(&m);
    return is;
}

int fly_api_start(struct fly_backend *b, const char *id, const struct wait *wait, struct error *err)
{
    static const char *const up[] = {"starting", "started", NULL};
    int status;
    struct error why = ERROR_INIT;
    _cleanup_(cleanup_json_decref) json_t *answer = NULL; /* what makes no sense may not have started it */
    const struct request r = {
        .action = FLY_START, .machine = id, .verb = "/start", .call = {.method = "POST", .repeatable = true}};
    if (call_with_status(b, &r, wait, &answer, &status, &why) == 0 || is_done(b, id, status, up, wait))
        return 0;
    return error_set(err, why.code, "%s", why.msg);
}

int fly_api_stop(struct fly_backend *b, const char *id, const struct wait *wait, struct error *err)
{
    static const char *const down[] = {"created",    "stopping",  "stopped", "suspended",
                                       "destroying", "destroyed", "failed",  NULL};
    int status;
    struct error why = ERROR_INIT;
    _cleanup_(cleanup_json_decref) json_t *body = json_pack("{s:s}", "signal", "SIGKILL");
    const struct request r = {.action = FLY_STOP,
                              .machine = id,
                              .verb = "/stop",
                              .call = {.method = "POST", .body = body, .repeatable = true}};
    if (call_with_status(b, &r, wait, NULL, &status, &why) == 0 || is_done(b, id, status, down, wait))
        return 0;
    return error_set(err, why.code, "%s", why.msg);
}

int fly_api_destroy(struct fly_backend *b, const char *id, const struct wait *wait, struct error *err)
{
    struct error why = ERROR_INIT;
    const struct request r = {
        .action = FLY_DESTROY, .machine = id, .verb = "?force=true", .call = {.method = "DELETE"}};
    if (call(b, &r, wait, NULL, &why) == 0 || why.code == ERR_NOT_FOUND)
        return 0;
    return error_set(err, why.code, "%s", why.msg);
}

int fly_api_update(struct fly_backend *b, const char *id, const json_t *config, const struct wait *wait,
                   struct fly_machine *ret, struct error *err)
{
    _cleanup_(cleanup_json_decref) json_t *answer = NULL;
    _cleanup_(cleanup_json_decref) json_t *body = json_pack("{s:O}", "config", config);
    const struct request r = {.action = FLY_UPDATE,
                              .machine = id,
                              .verb = "",
                              .call = {.method = "POST", .body = body, .repeatable = true}};
    return call(b, &r, wait, &answer, err) < 0 ? -1 : fly_machine_read(answer, ret, err);
}

/* --- lists --- */

/* `more`: of the query. */
static int list(struct fly_backend *b, const char *name, const char *value, const char *more,
                const struct wait *wait, fly_listing_fn *fn, void *ctx, struct error *err)
{
    _cleanup_(cleanup_json_decref) json_t *list = NULL;
    _cleanup_(cleanup_free) char *encoded = http_encode(value);
    _cleanup_(cleanup_free) char *verb = xasprintf("?metadata.%s=%s%s", name, encoded, more);
    /* Each machine's configuration has our program in it. */
    const struct request r = {
        .action = FLY_LIST, .verb = verb, .call = {.method = "GET", .without = "raw_value"}};
    size_t n;
    json_t *machine;
    if (call(b, &r, wait, &list, err) < 0)
        return -1;
    if (!json_is_array(list))
        return error_set(err, ERR_UNAVAILABLE, "Fly answered with no list of machines");
    json_array_foreach (list, n, machine)
        if (fn(ctx, machine, err) < 0)
            return -1;
    return 0;
}

int fly_api_list(struct fly_backend *b, const char *name, const char *value, const struct wait *wait,
                 fly_listing_fn *fn, void *ctx, struct error *err)
{
    return list(b, name, value, "", wait, fn, ctx, err);
}

struct made {
    const char *name;
    fly_listing_fn *fn;
    void *ctx;
};

static int on_made(void *ctx, const json_t *machine, struct error *err)
{
    const struct made *m = ctx;
    const char *name = json_get_string(machine, "name");
    return name && strcmp(name, m->name) == 0 ? m->fn(m->ctx, machine, err) : 0;
}

/* Without their configurations, that is, without our program in each, but without their metadata, too: the
 * name says that they are the ones. */
int fly_api_list_made(struct fly_backend *b, const char *key, const struct wait *wait, fly_listing_fn *fn,
                      void *ctx, struct error *err)
{
    _cleanup_(cleanup_free) char *name = fly_machine_name(key);
    struct made m = {.name = name, .fn = fn, .ctx = ctx};
    return list(b, LABEL_KEY, key, "&summary=true", wait, on_made, &m, err);
}

bool fly_api_list_is_free(struct fly_backend *b)
{
    struct fly_queue *queue = fly_queue_enter(b->queues, FLY_LIST, fly_account_app(b->account));
    const bool is_free = queue && pace_is_free(fly_queue_pace(queue));
    if (queue)
        fly_queue_leave(b->queues, queue);
    return is_free;
}

/* --- exec --- */

void fly_exec_answer_done(struct fly_exec_answer *a)
{
    free(a->out);
    free(a->err);
    *a = (struct fly_exec_answer){0};
}

/* What is zero is left out of the answer. */
static void read_exec(const json_t *answer, struct fly_exec_answer *ret)
{
    const char *out = json_string_value(json_object_get(answer, "stdout"));
    const char *errors = json_string_value(json_object_get(answer, "stderr"));
    const bool signalled = json_integer_value(json_object_get(answer, "exit_signal")) != 0;
    const json_int_t code = json_integer_value(json_object_get(answer, "exit_code"));
    *ret = (struct fly_exec_answer){
        .exit_code = signalled || code < 0 || code > 255 ? -1 : (int)code,
        .out = xstrdup(out ? out : ""),
        .err = xstrdup(errors ? errors : ""),
    };
}

int fly_api_exec(struct fly_backend *b, const char *machine, const char *const *argv, const char *stdin_text,
                 int seconds, const struct wait *wait, struct fly_exec_answer *ret, int *ret_status,
                 struct error *err)
{
    _cleanup_(cleanup_json_decref) json_t *answer = NULL;
    _cleanup_(cleanup_json_decref) json_t *command = json_array();
    for (; *argv; argv++)
        json_array_append_new(command, json_string(*argv));
    _cleanup_(cleanup_json_decref) json_t *body =
        json_pack("{s:O, s:i}", "command", command, "timeout", seconds);
    if (stdin_text)
        json_object_set_new(body, "stdin", json_string(stdin_text));
    const struct request r = {.action = FLY_EXEC,
                              .machine = machine,
                              .verb = "/exec",
                              .call = {.method = "POST", .body = body, .repeatable = true}};
    if (call_with_status(b, &r, wait, &answer, ret_status, err) < 0)
        return -1;
    if (!json_is_object(answer))
        return error_set(err, ERR_UNAVAILABLE, "Fly answered an exec with no object");
    read_exec(answer, ret);
    return 0;
}
