/* Makes the calls of src/backends/modal that it is told to: a line of JSON each, with "do" and what that
 * takes, answered with a line of JSON. Several at once: {"together": [...]}. The account is told by
 * MODAL_SERVER_URL and so on, as the official client's; FAKE_CA is whose certificates are trusted. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/modal/api.h"
#include "backends/modal/router.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/thread.h"

#define TOGETHER_MAX 256
#define OUTPUT_MAX (64 * MIB)
#define SHOWN_MAX (64 * KIB)

static struct modal_account *account;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the map */
static struct map *routers;

/* --- what is told --- */

static json_t *failed(const struct error *err)
{
    return json_pack("{s:s, s:s}", "error", error_code_name(err->code), "message", err->msg);
}

/* A list of texts, ended by NULL; the texts are the list's. */
static const char **texts_of(const json_t *list)
{
    const char **all = xcalloc(json_array_size(list) + 1, sizeof(*all));
    size_t n;
    json_t *one;
    json_array_foreach (list, n, one)
        all[n] = json_string_value(one);
    return all;
}

static uint32_t number_of(const json_t *task, const char *name, uint32_t unless)
{
    const json_t *n = json_object_get(task, name);
    return n ? (uint32_t)json_integer_value(n) : unless;
}

static const char *(*tags_of(const json_t *list))[2]
{
    const char *(*tags)[2] = xcalloc(json_array_size(list) + 1, sizeof(*tags));
    size_t n;
    json_t *one;
    json_array_foreach (list, n, one) {
        tags[n][0] = json_string_value(json_array_get(one, 0));
        tags[n][1] = json_string_value(json_array_get(one, 1));
    }
    return tags;
}

static void keep_router(const struct modal_sandbox *s)
{
    struct error err = ERROR_INIT;
    struct modal_router *r = modal_router_new(account, s, &err);
    pthread_mutex_lock(&lock);
    struct modal_router *before = map_remove(routers, s->id);
    if (r && map_put(routers, s->id, r) < 0)
        abort();
    pthread_mutex_unlock(&lock);
    modal_router_free(before);
    if (!r)
        fprintf(stderr, "%s\n", err.msg);
}

static struct modal_router *router_of(const json_t *task)
{
    const char *id = json_get_string(task, "id");
    pthread_mutex_lock(&lock);
    struct modal_router *r = map_get(routers, id);
    pthread_mutex_unlock(&lock);
    if (!r) {
        fprintf(stderr, "no router of %s\n", id);
        exit(2);
    }
    return r;
}

static json_t *told(struct modal_sandbox *s)
{
    keep_router(s);
    json_t *answer = json_pack("{s:s, s:s, s:s}", "id", s->id, "task", s->task, "url", s->router_url);
    modal_sandbox_done(s);
    return answer;
}

/* --- the control plane --- */

static json_t *do_check(const json_t *task, const struct wait *wait)
{
    struct error err = ERROR_INIT;
    return modal_account_check(account, wait, &err) < 0 ? failed(&err) : json_object();
}

static void on_progress(void *ctx, const char *text, uint64_t done, uint64_t total)
{
    json_array_append_new(ctx, json_string(text));
}

static json_t *do_image(const json_t *task, const struct wait *wait)
{
    struct error err = ERROR_INIT;
    char id[MODAL_ID_SIZE], path[MODAL_GUEST_PATH_SIZE];
    json_t *lines = json_array();
    const struct progress progress = {on_progress, lines};
    const int bad = modal_image_get(account, json_get_string(task, "reference"), &progress, wait, id, &err);
    modal_guest_path(path);
    json_t *answer = bad < 0 ? failed(&err) : json_pack("{s:s, s:s}", "image", id, "program", path);
    json_object_set_new(answer, "progress", lines);
    return answer;
}

static json_t *do_create(const json_t *task, const struct wait *wait)
{
    struct error err = ERROR_INIT;
    struct modal_sandbox s;
    _cleanup_(cleanup_free) const char **env = texts_of(json_object_get(task, "env"));
    const json_t *pairs = json_object_get(task, "tags");
    _cleanup_(cleanup_free) const char *(*tags)[2] = tags_of(pairs);
    const struct modal_creation c = {
        .image_id = json_get_string(task, "image"),
        .cpus = json_number_value(json_object_get(task, "cpus")),
        .memory_mib = number_of(task, "memory", 0),
        .gpu = json_get_string(task, "gpu"),
        .region = json_get_string(task, "region"),
        .timeout_s = number_of(task, "lifetime", 600),
        .network = json_is_true(json_object_get(task, "network")),
        .env = (char *const *)(void *)env,
        .tags = (const char *const(*)[2])tags,
        .tag_count = json_array_size(pairs),
    };
    return modal_api_create(account, &c, wait, &s, &err) < 0 ? failed(&err) : told(&s);
}

static json_t *do_reach(const json_t *task, const struct wait *wait)
{
    struct error err = ERROR_INIT;
    struct modal_sandbox s;
    return modal_api_reach(account, json_get_string(task, "id"), wait, &s, &err) < 0 ? failed(&err)
                                                                                     : told(&s);
}

static json_t *do_ended(const json_t *task, const struct wait *wait)
{
    struct error err = ERROR_INIT;
    _cleanup_(cleanup_free) char *why = NULL;
    const int ended = modal_api_ended(account, json_get_string(task, "id"), wait, &why, &err);
    return ended < 0 ? failed(&err) : json_pack("{s:b, s:s?}", "ended", ended, "why", why);
}

static json_t *do_terminate(const json_t *task, const struct wait *wait)
{
    struct error err = ERROR_INIT;
    return modal_api_terminate(account, json_get_string(task, "id"), wait, &err) < 0 ? failed(&err)
                                                                                     : json_object();
}

static int on_sandbox(void *ctx, const json_t *sandbox, struct error *err)
{
    return json_array_append(ctx, (json_t *)(uintptr_t)sandbox);
}

static json_t *do_list(const json_t *task, const struct wait *wait)
{
    struct error err = ERROR_INIT;
    const json_t *pairs = json_object_get(task, "tags");
    _cleanup_(cleanup_free) const char *(*tags)[2] = tags_of(pairs);
    json_t *all = json_array();
    if (modal_api_list(account, (const char *const(*)[2])tags, json_array_size(pairs), wait, on_sandbox, all,
                       &err) == 0)
        return json_pack("{s:o}", "sandboxes", all);
    json_decref(all);
    return failed(&err);
}

/* --- the router --- */

static int read_all(struct modal_output *o, const struct wait *wait, struct buf *ret, struct error *err)
{
    char piece[4096];
    ssize_t n;
    while ((n = modal_output_read(o, piece, sizeof(piece), wait, err)) > 0)
        if (buf_append(ret, piece, (size_t)n) < 0)
            return error_set(err, ERR_LIMIT, "too much output");
    return (int)n;
}

/* The text, or of a long one its size and digest. */
static json_t *shown(const struct buf *b)
{
    char digest[SHA256_HEX_SIZE];
    if (b->len <= SHOWN_MAX)
        return json_stringn(buf_str(b), b->len);
    sha256_hex(b->data, b->len, digest);
    return json_pack("{s:I, s:s}", "size", (json_int_t)b->len, "sha256", digest);
}

static int feed(struct modal_router *r, const char *exec, const json_t *task, const struct wait *wait,
                struct error *err)
{
    const json_t *text = json_object_get(task, "stdin");
    const size_t zeros = number_of(task, "zeros", 0);
    _cleanup_(cleanup_free) char *all = xcalloc(zeros + 1, 1);
    if (text)
        return modal_router_write(r, exec, 0, json_string_value(text), json_string_length(text), true, wait,
                                  err);
    return modal_router_write(r, exec, 0, all, zeros, true, wait, err);
}

static int start(struct modal_router *r, const char *exec, const json_t *task,
                 struct modal_output **ret_output, const struct wait *wait, struct error *err)
{
    _cleanup_(cleanup_free) const char **argv = texts_of(json_object_get(task, "argv"));
    _cleanup_(cleanup_free) const char **env = texts_of(json_object_get(task, "env"));
    return modal_router_start(r, exec, argv, json_get_string(task, "workdir"), (char *const *)(void *)env,
                              number_of(task, "limit", 0), ret_output, wait, err);
}

static json_t *do_run(const json_t *task, const struct wait *wait)
{
    struct error err = ERROR_INIT;
    struct modal_router *r = router_of(task);
    char exec[MODAL_UUID_SIZE];
    int code = -1;
    _cleanup_(buf_done) struct buf out = BUF_INIT(OUTPUT_MAX), errors = BUF_INIT(OUTPUT_MAX);
    modal_uuid(exec);
    if (start(r, exec, task, NULL, wait, &err) < 0)
        return failed(&err);
    struct modal_output *first = modal_output_open(r, exec, 1, wait, &err);
    struct modal_output *second = first ? modal_output_open(r, exec, 2, wait, &err) : NULL;
    const bool good = second && feed(r, exec, task, wait, &err) == 0 &&
                      read_all(first, wait, &out, &err) == 0 && read_all(second, wait, &errors, &err) == 0 &&
                      modal_router_wait(r, exec, wait, &code, &err) == 0;
    modal_output_close(first);
    modal_output_close(second);
    return good ? json_pack("{s:i, s:o, s:o}", "code", code, "out", shown(&out), "err", shown(&errors))
                : failed(&err);
}

/* Only what a warm command needs: one start, and at the same time its output, to the end. */
static json_t *do_quick(const json_t *task, const struct wait *wait)
{
    struct error err = ERROR_INIT;
    struct modal_router *r = router_of(task);
    char exec[MODAL_UUID_SIZE];
    _cleanup_(buf_done) struct buf out = BUF_INIT(OUTPUT_MAX);
    modal_uuid(exec);
    struct modal_output *o = NULL;
    if (start(r, exec, task, &o, wait, &err) < 0)
        return failed(&err);
    if (!o)
        o = modal_output_open(r, exec, 1, wait, &err);
    const bool good = o && read_all(o, wait, &out, &err) == 0;
    modal_output_close(o);
    return good ? json_pack("{s:o}", "out", shown(&out)) : failed(&err);
}

static void *cut_it(void *arg)
{
    modal_output_cut(arg);
    return NULL;
}

/* Its output is cut from another thread once a byte of it has come. */
static json_t *do_cut(const json_t *task, const struct wait *wait)
{
    struct error err = ERROR_INIT;
    struct modal_router *r = router_of(task);
    char exec[MODAL_UUID_SIZE], byte;
    pthread_t thread;
    modal_uuid(exec);
    if (start(r, exec, task, NULL, wait, &err) < 0)
        return failed(&err);
    struct modal_output *o = modal_output_open(r, exec, 1, wait, &err);
    if (!o || modal_output_read(o, &byte, 1, wait, &err) != 1 || thread_start(&thread, cut_it, o) != 0)
        return failed(&err);
    ssize_t n;
    do {
        n = modal_output_read(o, &byte, 1, wait, &err);
    } while (n > 0);
    pthread_join(thread, NULL);
    modal_output_close(o);
    return n < 0 ? failed(&err) : json_pack("{s:i}", "read", (int)n);
}

static json_t *do_snapshot(const json_t *task, const struct wait *wait)
{
    struct error err = ERROR_INIT;
    char key[MODAL_UUID_SIZE], image[MODAL_ID_SIZE];
    modal_uuid(key);
    return modal_router_snapshot(router_of(task), key, wait, image, &err) < 0
               ? failed(&err)
               : json_pack("{s:s}", "image", image);
}

/* --- all of them --- */

static const struct {
    const char *name;
    json_t *(*run)(const json_t *task, const struct wait *wait);
} calls[] = {{"check", do_check},         {"image", do_image}, {"create", do_create},    {"reach", do_reach},
             {"ended", do_ended},         {"list", do_list},   {"run", do_run},          {"quick", do_quick},
             {"terminate", do_terminate}, {"cut", do_cut},     {"snapshot", do_snapshot}};

struct timer {
    struct cancel *cancel, *done;
    int64_t after;
};

static void *fire_later(void *arg)
{
    struct timer *t = arg;
    const struct wait wait = {.deadline = clock_now() + t->after, .cancel = t->done};
    if (wait_fd(-1, 0, &wait, NULL, NULL) < 0 && cancel_why(t->done) == ERR_NONE)
        cancel_fire(t->cancel, ERR_CANCELLED);
    return NULL;
}

static json_t *perform(const json_t *task)
{
    const char *what = json_get_string(task, "do");
    struct timer timer = {cancel_new(), cancel_new(), number_of(task, "cancel_ms", 0) * NSEC_PER_MSEC};
    const json_t *seconds = json_object_get(task, "timeout");
    const struct wait wait = {.deadline = clock_deadline_after(seconds ? json_number_value(seconds) : 60),
                              .cancel = timer.cancel};
    pthread_t thread;
    json_t *answer = NULL;
    const bool timed = timer.after > 0 && thread_start(&thread, fire_later, &timer) == 0;
    for (size_t i = 0; i < ARRAY_LEN(calls); i++)
        if (what && strcmp(calls[i].name, what) == 0)
            answer = calls[i].run(task, &wait);
    cancel_fire(timer.done, ERR_CANCELLED);
    if (timed)
        pthread_join(thread, NULL);
    cancel_unref(timer.cancel);
    cancel_unref(timer.done);
    return answer ? answer : json_pack("{s:s}", "error", "no such call");
}

struct job {
    const json_t *task;
    json_t *answer;
};

static void *perform_job(void *arg)
{
    struct job *j = arg;
    j->answer = perform(j->task);
    return NULL;
}

static json_t *perform_together(const json_t *tasks)
{
    struct job jobs[TOGETHER_MAX] = {0};
    pthread_t threads[TOGETHER_MAX];
    const size_t n = json_array_size(tasks) < TOGETHER_MAX ? json_array_size(tasks) : TOGETHER_MAX;
    json_t *answers = json_array();
    for (size_t i = 0; i < n; i++) {
        jobs[i].task = json_array_get(tasks, i);
        if (thread_start(&threads[i], perform_job, &jobs[i]) != 0)
            abort();
    }
    for (size_t i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
        json_array_append_new(answers, jobs[i].answer);
    }
    return json_pack("{s:o}", "together", answers);
}

static int make_account(void)
{
    struct error err = ERROR_INIT;
    const char *v2 = getenv("MODAL_SANDBOX_V2");
    const struct modal_account_options options = {
        .token_id = getenv("MODAL_TOKEN_ID"),
        .token_secret = getenv("MODAL_TOKEN_SECRET"),
        .profile = getenv("MODAL_PROFILE"),
        .config_path = getenv("MODAL_CONFIG_PATH"),
        .server_url = getenv("MODAL_SERVER_URL"),
        .environment = getenv("MODAL_ENVIRONMENT"),
        .builder_version = getenv("MODAL_IMAGE_BUILDER_VERSION"),
        .app_name = "calls",
        .ca_file = getenv("FAKE_CA"),
        .generation_2 = v2 ? atoi(v2) : -1,
    };
    account = modal_account_new(&options, &err);
    if (!account)
        printf("{\"error\": \"%s\", \"message\": \"%s\"}\n", error_code_name(err.code), err.msg);
    return account ? 0 : -1;
}

int main(void)
{
    char *line = NULL;
    size_t size = 0;
    const char *id;
    void *router;
    if (make_account() < 0)
        return 1;
    routers = map_new(TOGETHER_MAX * 16);
    while (getline(&line, &size, stdin) > 0) {
        struct error err = ERROR_INIT;
        _cleanup_(cleanup_json_decref) json_t *task = json_parse(line, strlen(line), &err);
        const json_t *together = json_object_get(task, "together");
        _cleanup_(cleanup_json_decref) json_t *answer = together ? perform_together(together) : perform(task);
        _cleanup_(cleanup_free) char *text = json_dumps(answer, JSON_COMPACT);
        printf("%s\n", text);
        fflush(stdout);
    }
    for (size_t at = 0; map_next(routers, &at, &id, &router);) {
        map_remove(routers, id);
        modal_router_free(router);
    }
    map_free(routers);
    modal_account_free(account);
    free(line);
    return 0;
}
