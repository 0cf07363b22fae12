/* One command is one process of our program, which envd starts and which serves just that: its output, and
 * the frames in it, come by the stream that Start opens; what it is to run goes with Start, in its
 * environment, or in by SendInput where that is long. So there is nothing between two commands that could
 * break, or that a pause of the sandbox would have to survive.
 *
 *   Start (CONFIG and RUN) ---> start event, frames ... END ---> end event
 *   Start ---> start event ---> SendInput (CONFIG and RUN, in pieces) ---> frames ... END ---> end event
 *
 * That is one round trip, or two one after the other. One that has to stop early is sent KILL, and its END
 * awaited, though not for long; then all of it has ended. Where nobody knows yet which process it is, it is
 * known by its tag. If nobody speaks to it any more, its lease ends it.
 *
 * Source: envd 0.6.13's process service, as e2b 2.51.0 (npm) speaks it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/e2b/private.h"
#include "backends/engine/contact.h"
#include "backends/native/image.h"
#include "backends/once.h"
#include "base/base64.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/sha256.h"
#include "base/str.h"

#define INPUT_PIECE (512 * KIB) /* of one SendInput */
#define KEEPALIVE_S 50
#define SILENCE_NS (95 * NSEC_PER_SEC)         /* without even a keepalive: the stream is dead */
#define START_TIMEOUT_NS (30 * NSEC_PER_SEC)   /* until the process has begun */
#define END_PATIENCE_NS (5 * NSEC_PER_SEC / 2) /* from KILL to END */
#define READ_OUT_NS (1 * NSEC_PER_SEC)         /* from END to the stream's own end */
#define EARLY_MAX (64 * KIB) /* letters that go with Start; one variable may have twice as many */
#define ASK_TIMEOUT_NS (10 * NSEC_PER_SEC)
#define OUTPUT_PIECE_MAX (1 * MIB)

#define FOLDER ".sandbox"
#define SPOOL_FOLDER FOLDER "/command-output"
#define MEMORY "/dev/shm/"
/* $0: our program, unless it had to be put into memory, as $1, since the disk is full. An upload has no mode;
 * so whoever starts it first makes it a program. */
#define STARTER                                                                                              \
    "[ -f \"$1\" ] || set -- \"$0\" \"$0\"; [ -x \"$1\" ] || chmod 755 \"$1\"; exec \"$1\" " SERVE_COMMAND   \
    " " SERVE_FIRST
#define STATUS_NO_ROOM 507
#define TAG_BYTES 8

struct call {
    struct list node; /* in the instance's list, once there is a stream */
    struct e2b_instance *i;
    const struct exec_request *request;
    struct e2b_envd envd;
    struct connect_stream *stream;
    char tag[RANDOM_HEX_SIZE(TAG_BYTES)]; /* of the process */
    json_int_t pid;                       /* 0: it isn't known to have begun */
    bool repeated;                        /* after our program was put back */
    bool tried;                           /* it may have begun */
    bool asked;                           /* our program there has all of the command, once it has begun */
    struct once once;
    struct buf piece; /* of output */
    bool over;        /* envd says that it has ended */
    int exit_code;
};

/* --- envd --- */

void e2b_envd_of(struct e2b_instance *i, struct e2b_envd *ret)
{
    struct e2b_backend *b = i->backend;
    pthread_mutex_lock(&i->lock);
    ret->sandbox = i->sandbox;
    struct http_client *client = i->own_client ? i->own_client : b->sandbox_client;
    pthread_mutex_unlock(&i->lock);
    ret->provider = (struct provider){
        .name = "E2B's sandbox",
        .client = client,
        .headers = {{"E2b-Sandbox-Id", ret->sandbox.id},
                    {"E2b-Sandbox-Port", "49983"},
                    {"Keepalive-Ping-Interval", "50"},
                    {"X-Access-Token", ret->sandbox.token}},
        .header_count = ret->sandbox.token[0] ? 4 : 3,
        .secret = ret->sandbox.token[0] ? ret->sandbox.token : NULL,
        .pace = i->pace,
    };
    _Static_assert(KEEPALIVE_S == 50, "as the header says it");
}

void e2b_guest_name(char ret[E2B_GUEST_SIZE])
{
    char digest[SHA256_HEX_SIZE];
    sha256_hex(guest_image, guest_image_size, digest);
    snprintf(ret, E2B_GUEST_SIZE, FOLDER "/guest-%.16s", digest);
}

/* [{"name": ..., "path": "/home/user/.sandbox/guest-...", "type": ...}] */
static int read_home(struct e2b_instance *i, const json_t *answer, const char *name, struct error *err)
{
    const char *path = json_get_string(json_array_get(answer, 0), "path");
    const size_t n = path ? strlen(path) : 0, tail = strlen(name);
    if (n <= tail + 1 || n - tail - 1 >= sizeof(i->home) || path[0] != '/' ||
        strcmp(path + n - tail, name) != 0 || path[n - tail - 1] != '/')
        return error_set(err, ERR_UNAVAILABLE, "E2B's sandbox doesn't say where it has put a file");
    if (!i->home[0]) /* later commands may be reading it */
        snprintf(i->home, sizeof(i->home), "%.*s", (int)(n - tail - 1), path);
    return 0;
}

static int upload(struct e2b_instance *i, const char *name, const struct wait *wait, json_t **ret,
                  int *ret_status, struct error *err)
{
    struct e2b_envd envd;
    char boundary[RANDOM_HEX_SIZE(16)];
    random_hex(boundary, 16);
    _cleanup_(cleanup_free) char *type = xasprintf("multipart/form-data; boundary=%s", boundary);
    _cleanup_(cleanup_free) char *encoded = http_encode(name);
    _cleanup_(cleanup_free) char *path = xasprintf("/files?path=%s", encoded);
    _cleanup_(buf_done) struct buf body = BUF_INIT(guest_image_size + KIB);
    if (buf_printf(&body,
                   "--%s\r\nContent-Disposition: form-data; name=\"file\"; filename=\"guest\"\r\n"
                   "Content-Type: application/octet-stream\r\n\r\n",
                   boundary) < 0 ||
        buf_append(&body, guest_image, guest_image_size) < 0 ||
        buf_printf(&body, "\r\n--%s--\r\n", boundary) < 0)
        return error_set(err, ERR_LIMIT, "out of memory");
    e2b_envd_of(i, &envd);
    const struct provider_call call = {.method = "POST",
                                       .path = path,
                                       .bytes = body.data,
                                       .byte_count = body.len,
                                       .content_type = type,
                                       .repeatable = true};
    return provider_call(&envd.provider, &call, wait, ret, ret_status, err);
}

/* A computer that is there already may have a full disk, and a program of another server's. */
int e2b_envd_upload(struct e2b_instance *i, const struct wait *wait, struct error *err)
{
    const char *name = i->backend->guest;
    int status = 0;
    _cleanup_(cleanup_free) char *in_memory = xasprintf(MEMORY "%s", name);
    _cleanup_(cleanup_json_decref) json_t *answer = NULL, *unused = NULL;
    if (upload(i, name, wait, &answer, &status, err) == 0)
        return read_home(i, answer, name, err);
    if (status == STATUS_NO_ROOM && i->home[0] && upload(i, in_memory, wait, &unused, NULL, NULL) == 0)
        return 0;
    return error_prefix(err, "put our program into it");
}

int e2b_envd_ask(struct e2b_instance *i, const struct wait *call, struct error *err)
{
    struct e2b_envd envd;
    struct error why = ERROR_INIT;
    int status = 0;
    const struct provider_call health = {.method = "GET", .path = "/health"};
    const bool is_over = wait_check(call, NULL) < 0;
    const struct wait wait = is_over ? (struct wait){.deadline = clock_now() + ASK_TIMEOUT_NS / 4}
                                     : wait_at_most(call, clock_now() + ASK_TIMEOUT_NS);
    e2b_envd_of(i, &envd);
    if (provider_call(&envd.provider, &health, &wait, NULL, &status, &why) == 0)
        return 0;
    if (status != 502 && status != 404)
        return error_set(err, ERR_UNAVAILABLE, "the sandbox of computer '%s' can't be reached: %s", i->id,
                         why.msg);
    pthread_mutex_lock(&i->lock);
    i->ended = true;
    pthread_mutex_unlock(&i->lock);
    return error_set(
        err, ERR_GONE,
        "its sandbox %s doesn't run any more: it was ended from outside, or its lifetime of %lld "
        "s was over",
        envd.sandbox.id, (long long)i->backend->lifetime_s);
}

void e2b_calls_cut_locked(struct e2b_instance *i)
{
    list_for_each (node, &i->calls)
        connect_cut(list_entry(node, struct call, node)->stream);
}

/* --- what goes --- */

static void set_env(json_t *envs, char *const *env)
{
    for (; env && *env; env++) {
        const char *equals = strchr(*env, '=');
        if (!equals)
            continue;
        _cleanup_(cleanup_free) char *name = xstrndup(*env, (size_t)(equals - *env));
        json_object_set_new(envs, name, json_string(equals + 1));
    }
}

/* What all commands of a computer have, beneath what each is given; and what is for our program alone. */
static json_t *environment(const struct e2b_instance *i, const char *early)
{
    json_t *envs = json_pack("{s:s, s:s}", "LANG", "C.UTF-8", "HOSTNAME", i->id);
    set_env(envs, i->backend->env);
    set_env(envs, i->env);
    if (early)
        json_object_set_new(envs, SERVE_EARLY, json_string(early));
    return envs;
}

/* early: NULL, or what it is to run. */
static int start(struct call *c, const char *early, const struct wait *wait, struct error *err)
{
    int status;
    const char *name = c->i->backend->guest;
    _cleanup_(cleanup_free) char *path = xasprintf("%s/%s", c->i->home, name);
    _cleanup_(cleanup_free) char *in_memory = xasprintf(MEMORY "%s", name);
    _cleanup_(cleanup_json_decref) json_t *message = json_pack(
        "{s:{s:s, s:[s,s,s,s], s:o, s:s}, s:b, s:s}", "process", "cmd", "/bin/sh", "args", "-c", STARTER,
        path, in_memory, "envs", environment(c->i, early), "cwd", c->i->home, "stdin", 1, "tag", c->tag);
    if (!message)
        return error_set(err, ERR_INTERNAL, "the sandbox's home folder is no text");
    c->tried = true;
    c->asked = early != NULL;
    if (connect_open(&c->envd.provider, "/process.Process/Start", message, wait, &c->stream, &status, err) <
        0) {
        c->tried = status == 0;
        return -1;
    }
    pthread_mutex_lock(&c->i->lock);
    const bool ended = c->i->ended;
    if (!ended)
        list_append(&c->i->calls, &c->node);
    pthread_mutex_unlock(&c->i->lock);
    return ended ? error_set(err, ERR_GONE, "it was ended") : 0;
}

static int send_input(struct call *c, const void *bytes, size_t n, const struct wait *wait, struct error *err)
{
    for (size_t at = 0; at < n; at += INPUT_PIECE) {
        const size_t piece = n - at < INPUT_PIECE ? n - at : INPUT_PIECE;
        _cleanup_(buf_done) struct buf text = BUF_INIT(2 * INPUT_PIECE);
        if (base64_append(&text, (const char *)bytes + at, piece) < 0)
            return error_set(err, ERR_LIMIT, "out of memory");
        _cleanup_(cleanup_json_decref) json_t *message =
            json_pack("{s:{s:I}, s:{s:s}}", "process", "pid", c->pid, "input", "stdin", buf_str(&text));
        if (connect_call(&c->envd.provider, "/process.Process/SendInput", message, wait, NULL, err) < 0)
            return -1;
    }
    return 0;
}

/* --- what comes --- */

/* Base64 of the process's output. */
static int on_output(struct call *c, const char *text, bool is_error, struct error *err)
{
    buf_clear(&c->piece);
    if (base64_decode(text, strlen(text), &c->piece, err) < 0)
        return error_recast(err, ERR_UNAVAILABLE, "E2B's sandbox sends what is no base64");
    if (is_error)
        frames_keep_noise(&c->once.frames, c->piece.data, c->piece.len);
    else
        return once_feed(&c->once, c->piece.data, c->piece.len, err);
    return 0;
}

/* The exit code is absent when it is 0; -1 is a signal. */
static void on_end(struct call *c, const json_t *end)
{
    c->over = true;
    c->exit_code = (int)json_integer_value(json_object_get(end, "exitCode"));
}

static int on_event(struct call *c, const json_t *message, struct error *err)
{
    const json_t *event = json_get_object(message, "event");
    const json_t *begun = json_get_object(event, "start"), *data = json_get_object(event, "data");
    const json_t *end = json_get_object(event, "end");
    if (begun)
        c->pid = json_integer_value(json_object_get(begun, "pid"));
    if (begun && c->pid <= 0)
        return error_set(err, ERR_UNAVAILABLE, "E2B's sandbox started a process without a number");
    if (end)
        on_end(c, end);
    const char *out = json_get_string(data, "stdout"), *errors = json_get_string(data, "stderr");
    if (out && on_output(c, out, false, err) < 0)
        return -1;
    return errors ? on_output(c, errors, true, err) : 0;
}

/* 1: there was an event; 0: the stream's end; -1. Silence is no way to go on. */
static int next(struct call *c, const struct wait *wait, struct error *err)
{
    const struct wait patient = wait_at_most(wait, clock_now() + SILENCE_NS);
    _cleanup_(cleanup_json_decref) json_t *message = NULL;
    struct error why = ERROR_INIT;
    int more = connect_next(c->stream, &patient, &message, &why);
    if (more < 0 && why.code == ERR_TIMEOUT && wait_check(wait, NULL) == 0)
        error_set(&why, ERR_UNAVAILABLE, "nothing came from the sandbox any more");
    if (more < 0)
        return error_set(err, why.code, "%s", why.msg);
    return more > 0 && on_event(c, message, err) < 0 ? -1 : more;
}

static int await_start(struct call *c, const struct wait *wait, struct error *err)
{
    while (c->pid == 0 && !c->over) {
        const int more = next(c, wait, err);
        if (more < 0)
            return -1;
        if (more == 0)
            break;
    }
    return c->pid > 0 ? 0 : error_set(err, ERR_UNAVAILABLE, "E2B's sandbox started nothing");
}

static int await_end(struct call *c, const struct wait *wait, struct error *err)
{
    while (!c->once.answer.ended) {
        const int more = c->over ? 0 : next(c, wait, err);
        if (more < 0)
            return -1;
        if (more > 0)
            continue;
        _cleanup_(cleanup_free) char *words =
            contact_words(buf_str(&c->once.frames.noise), c->once.frames.noise.len);
        return error_set(err, ERR_UNAVAILABLE, "our program in the sandbox ended with exit code %d%s%s",
                         c->exit_code, words[0] ? ": " : "", words);
    }
    return 0;
}

/* So that the connection can serve the next call. The guest is ending. */
static void read_out(struct call *c)
{
    const struct wait brief = {.deadline = clock_now() + READ_OUT_NS, .cancel = c->request->wait.cancel};
    while (next(c, &brief, NULL) > 0)
        continue;
}

/* --- one command --- */

static void call_init(struct call *c, struct e2b_instance *i, const struct exec_request *request)
{
    *c = (struct call){.i = i, .request = request, .piece = BUF_INIT(OUTPUT_PIECE_MAX)};
    list_init(&c->node);
    random_hex(c->tag, TAG_BYTES);
    once_init(&c->once, &i->shells, request->output_limit);
    e2b_envd_of(i, &c->envd);
}

static void call_done(struct call *c)
{
    pthread_mutex_lock(&c->i->lock);
    list_unlink(&c->node);
    pthread_mutex_unlock(&c->i->lock);
    connect_close(c->stream);
    once_done(&c->once);
    buf_done(&c->piece);
}

static int send_command(struct call *c, const struct buf *frames, struct error *err)
{
    if (send_input(c, frames->data, frames->len, &c->request->wait, err) < 0)
        return -1;
    c->asked = true;
    return 0;
}

static int begin(struct call *c, const char *shell, struct error *err)
{
    const struct wait bounded = wait_at_most(&c->request->wait, clock_now() + START_TIMEOUT_NS);
    struct error why = ERROR_INIT;
    _cleanup_(buf_done) struct buf frames = BUF_INIT(ONCE_INPUT_MAX);
    _cleanup_(cleanup_free) char *spool = xasprintf("%s/" SPOOL_FOLDER, c->i->home);
    if (once_append(&frames, spool, c->request, shell, err) < 0)
        return -1;
    _cleanup_(cleanup_free) char *early = c->repeated ? NULL : once_early(&frames, EARLY_MAX);
    if (start(c, early, &bounded, &why) == 0 && await_start(c, &bounded, &why) == 0)
        return c->asked ? 0 : send_command(c, &frames, err);
    if (why.code == ERR_TIMEOUT && wait_check(&c->request->wait, NULL) == 0)
        why.code = ERR_UNAVAILABLE;
    return error_set(err, why.code, "%s", why.msg);
}

static int run(void *call, const char *shell, struct error *err)
{
    struct call *c = call;
    struct error why = ERROR_INIT, late = ERROR_INIT;
    if (begin(c, shell, &why) == 0 && await_end(c, &c->request->wait, &why) == 0) {
        read_out(c);
        return 0;
    }
    /* Input that nobody took, since the process had ended: the stream tells how. */
    if (c->pid > 0 && !wait_was_over(&why) && !c->over && why.code != ERR_GONE)
        (void)!await_end(c, &(struct wait){.deadline = clock_now() + READ_OUT_NS}, &late);
    return c->once.answer.ended ? 0 : error_set(err, why.code, "%s", why.msg);
}

/* Our program there ends, and with it whatever it has begun. */
static int terminate(struct call *c, const struct wait *wait, struct error *err)
{
    _cleanup_(cleanup_json_decref) json_t *message =
        json_pack("{s:{s:s}, s:s}", "process", "tag", c->tag, "signal", "SIGNAL_SIGTERM");
    return connect_call(&c->envd.provider, "/process.Process/SendSignal", message, wait, NULL, err);
}

/* One whose start nobody has told us of, and that may begin yet. True: it has begun, and has ended. */
static bool end_unseen(struct call *c, const struct wait *wait)
{
    for (bool told = false;;) {
        struct error why = ERROR_INIT;
        const bool there = terminate(c, wait, &why) == 0;
        if (!there && (told || why.code != ERR_NOT_FOUND))
            return why.code == ERR_NOT_FOUND;
        told |= there;
        if (!pace_pause(wait, pace_delay(0)))
            return false;
    }
}

/* The call is over before its command. NULL: nothing of that is left. */
static char *stop(void *call)
{
    struct call *c = call;
    const struct wait bounded = {.deadline = clock_now() + END_PATIENCE_NS};
    if (!c->tried || c->over || c->once.answer.ended)
        return NULL;
    if (!c->asked) {
        (void)!terminate(c, &bounded, NULL);
        return NULL;
    }
    if (c->pid == 0 && (!c->stream || await_start(c, &bounded, NULL) < 0))
        return end_unseen(c, &bounded) ? NULL : once_unknown("sandbox");
    if (send_input(c, &once_kill, sizeof(once_kill), &bounded, NULL) == 0 &&
        await_end(c, &bounded, NULL) == 0) {
        read_out(c);
        return NULL;
    }
    return once_unknown("sandbox");
}

/* It didn't come to its end, and not because the call was over. */
static int broken(void *call, const struct error *why, struct error *err)
{
    struct call *c = call;
    const struct wait bounded = {.deadline = clock_now() + END_PATIENCE_NS};
    pthread_mutex_lock(&c->i->lock);
    const bool ended = c->i->ended;
    pthread_mutex_unlock(&c->i->lock);
    if (ended)
        return error_set(err, ERR_GONE, "it was ended");
    if (c->pid > 0 && !c->over)
        (void)!terminate(c, &bounded, NULL);
    if (why->code != ERR_UNAVAILABLE && why->code != ERR_NOT_FOUND)
        return error_set(err, why->code, "%s", why->msg);
    if (e2b_envd_ask(c->i, &c->request->wait, err) < 0)
        return -1;
    if (c->tried && c->pid == 0 && !c->over)
        (void)!terminate(c, &bounded, NULL);
    return once_unclear(why, err);
}

static const struct once_way way = {.run = run, .stop = stop, .broken = broken};

static int run_once(struct e2b_instance *i, const struct exec_request *request, const char *shell,
                    struct exec_result *ret, struct guest_exit *ret_exit, bool repeated, bool *ret_lacks,
                    struct error *err)
{
    struct call c;
    call_init(&c, i, request);
    c.repeated = repeated;
    const int failed = once_run(&c.once, &way, &c, shell, ret, ret_exit, err);
    *ret_lacks = failed < 0 && once_lacks_program(&c.once, c.over);
    call_done(&c);
    return failed;
}

int e2b_call(void *computer, const struct exec_request *request, const char *shell, struct exec_result *ret,
             struct guest_exit *ret_exit, struct error *err)
{
    struct e2b_instance *i = computer;
    bool lacks;
    int failed = run_once(i, request, shell, ret, ret_exit, false, &lacks, err);
    if (failed == 0 || !lacks)
        return failed;
    exec_result_done(ret);
    struct error why = ERROR_INIT;
    if (e2b_envd_upload(i, &request->wait, &why) < 0)
        return wait_was_over(&why) ? error_set(err, why.code, "%s", why.msg)
                                   : once_not_put_back(why.msg, err);
    return run_once(i, request, shell, ret, ret_exit, true, &lacks, err);
}
