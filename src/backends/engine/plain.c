/* A command by one exec of the engine, where our program can't run inside. What that costs:
 *
 * - the stream ends only when everybody who holds it has closed it, so the engine is asked, when nothing
 * comes for a while, whether the command itself still runs
 * - an exec can't be killed: what carries the mark of this command in its environment is looked for and
 * killed by a shell inside. Where there is none, the command runs on, and the result says so
 * - what exceeds the output limit is lost; nothing says what runs in the background
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/command.h"
#include "backends/engine/pieces.h"
#include "backends/engine/private.h"
#include "backends/output.h"
#include "backends/verdict.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/random.h"

#define CHUNK_BYTES (64 * KIB)
#define ASK_AGAIN_MS 200 /* whether the command still runs, while nothing comes */
#define KILL_TIMEOUT_NS (10 * NSEC_PER_SEC)
#define MARK_NAME "SANDBOX_COMMAND"

struct plain {
    struct engine_instance *i;
    const struct exec_request *request;
    char exec[80]; /* the engine's id of it */
    char mark[RANDOM_HEX_SIZE(16)];
    struct http_stream *stream;
    struct pieces pieces;
    struct output *output;
    size_t sent; /* of the input */
    bool input_open;
};

static json_t *command_line(const struct plain *p, struct error *err)
{
    const struct exec_request *r = p->request;
    if (command_needs_script(r)) {
        error_set(
            err, ERR_UNSUPPORTED,
            "a command text of more than %lu bytes needs our program inside this computer, which can't run "
            "there (%.150s): write it to a file first",
            LIMIT_COMMAND_INLINE_BYTES, p->i->way_why);
        return NULL;
    }
    json_t *list = json_array();
    if (r->command) {
        json_array_append_new(list, json_string(engine_shell(p->i)));
        json_array_append_new(list, json_string("-c"));
        json_array_append_new(list, json_stringn(r->command, r->command_len));
    }
    for (char *const *a = r->argv; !r->command && *a; a++)
        json_array_append_new(list, json_string(*a));
    /* Engines are spoken to in JSON, which has no other bytes than those of Unicode text. */
    size_t n = 0;
    for (char *const *a = r->argv; !r->command && *a; a++)
        n++;
    if (json_array_size(list) == (r->command ? 3 : n))
        return list;
    json_decref(list);
    error_set(err, ERR_UNSUPPORTED,
              "the command has bytes that are no UTF-8, which this computer can't be given");
    return NULL;
}

static int make_exec(struct plain *p, struct error *err)
{
    const struct exec_request *r = p->request;
    _cleanup_(cleanup_json_decref) json_t *made = NULL;
    _cleanup_(cleanup_json_decref) json_t *body = json_object();
    _cleanup_(cleanup_free) char *path = xasprintf("/containers/%s/exec", p->i->container);
    _cleanup_(cleanup_free) char *mark = xasprintf(MARK_NAME "=%s", p->mark);
    json_t *line = command_line(p, err);
    if (!line)
        return -1;
    json_t *env = json_array();
    for (char *const *e = r->env; e && *e; e++)
        json_array_append_new(env, json_string(*e));
    json_array_append_new(env, json_string(mark));
    json_object_set_new(body, "Cmd", line);
    json_object_set_new(body, "Env", env);
    json_object_set_new(body, "AttachStdin", json_boolean(r->stdin_bytes != NULL));
    json_object_set_new(body, "AttachStdout", json_true());
    json_object_set_new(body, "AttachStderr", json_true());
    if (r->cwd)
        json_object_set_new(body, "WorkingDir", json_string(r->cwd));
    if (engine_call(p->i->engine, "POST", path, body, &r->wait, &made, err) < 0)
        return -1;
    const char *id = json_get_string(made, "Id");
    if (!id || strlen(id) >= sizeof(p->exec) || strspn(id, "0123456789abcdef") != strlen(id))
        return error_set(err, ERR_UNAVAILABLE, "%s gave no id for the command", engine_name(p->i->engine));
    snprintf(p->exec, sizeof(p->exec), "%s", id);
    return 0;
}

static int start_exec(struct plain *p, struct error *err)
{
    _cleanup_(cleanup_free) char *path = xasprintf("/exec/%s/start", p->exec);
    _cleanup_(cleanup_json_decref) json_t *how = json_pack("{s:b, s:b}", "Detach", 0, "Tty", 0);
    p->input_open = p->request->stdin_bytes != NULL;
    return engine_hijack(p->i->engine, path, how, &p->request->wait, &p->stream, err);
}

/* What the engine says when it can't start a program, as our guest would have said it. False: something else.
 */
static bool read_refusal(const char *words, struct guest_exit *ret)
{
    static const struct {
        const char *words;
        enum guest_stage stage;
        int sys;
    } table[] = {
        {"chdir to cwd", GUEST_STAGE_CHDIR, ENOENT},
        {"mkdir /", GUEST_STAGE_CHDIR, ENOENT},
        {"current working directory", GUEST_STAGE_CHDIR, ENOENT},
        {"executable file not found", GUEST_STAGE_EXEC, ENOENT},
        {"executable file `", GUEST_STAGE_EXEC, ENOENT},
        {"no such file or directory", GUEST_STAGE_EXEC, ENOENT},
        {"permission denied", GUEST_STAGE_EXEC, EACCES},
        {"exec format error", GUEST_STAGE_EXEC, ENOEXEC},
        {"is a directory", GUEST_STAGE_EXEC, EACCES},
    };
    for (size_t n = 0; n < ARRAY_LEN(table); n++)
        if (strstr(words, table[n].words)) {
            *ret = (struct guest_exit){.stage = table[n].stage, .sys = table[n].sys};
            return true;
        }
    return false;
}

/* 1: it still runs; 0: it has ended, with ret; -1. */
static int ask(struct plain *p, const struct wait *wait, int *ret_code, struct error *err)
{
    _cleanup_(cleanup_json_decref) json_t *info = NULL;
    _cleanup_(cleanup_free) char *path = xasprintf("/exec/%s/json", p->exec);
    if (engine_call(p->i->engine, "GET", path, NULL, wait, &info, err) < 0)
        return -1;
    if (json_is_true(json_object_get(info, "Running")))
        return 1;
    *ret_code = (int)json_integer_value(json_object_get(info, "ExitCode"));
    return 0;
}

static void write_input(struct plain *p)
{
    const char *bytes = p->request->stdin_bytes;
    while (p->input_open && p->sent < p->request->stdin_len) {
        ssize_t n = http_stream_write(p->stream, bytes + p->sent, p->request->stdin_len - p->sent);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0) /* it reads no further, which is no error */
            p->input_open = false;
        else
            p->sent += (size_t)n;
    }
    if (p->input_open && p->sent == p->request->stdin_len) {
        p->input_open = false;
        http_stream_end(p->stream);
    }
}

static int on_output(void *ctx, enum piece_stream stream, const char *bytes, size_t n, struct error *err)
{
    struct plain *p = ctx;
    output_add(p->output, stream == PIECE_STDERR ? OUTPUT_STDERR : OUTPUT_STDOUT, bytes, n);
    return 0;
}

/* 1: something came; 0: nothing there now; -1: the end, or an error if err says so. */
static int read_output(struct plain *p, struct error *err)
{
    char chunk[CHUNK_BYTES];
    ssize_t n = http_stream_read(p->stream, chunk, sizeof(chunk));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return -1;
    return pieces_feed(&p->pieces, chunk, (size_t)n, on_output, p, err) < 0 ? -1 : 1;
}

/* Reads and writes what is ready. False: nothing comes any more, ever. */
static bool move_bytes(struct plain *p, const struct wait *pause, struct error *err)
{
    int got;
    write_input(p);
    while ((got = read_output(p, err)) > 0 && wait_check(&p->request->wait, NULL) == 0)
        write_input(p);
    if (got < 0)
        return false;
    wait_fd(http_stream_fd(p->stream), p->input_open ? POLLIN | POLLOUT : POLLIN, pause, NULL, NULL);
    return true;
}

/* Until the engine says that the command has ended. The stream may end before, or be held by others after:
 * what is in it is read for a short grace more. */
static int pump(struct plain *p, int *ret_code, struct error *err)
{
    const struct wait *wait = &p->request->wait;
    bool open = true;
    for (int64_t grace = DEADLINE_NONE;;) {
        int64_t began = clock_now();
        struct wait pause = wait_at_most(wait, began + ASK_AGAIN_MS * NSEC_PER_MSEC);
        bool was_open = open;
        open = open && move_bytes(p, &pause, err);
        if (err->code != ERR_NONE || wait_check(wait, err) < 0)
            return -1;
        if (clock_now() >= grace || (!open && grace != DEADLINE_NONE))
            return 0;
        bool quiet = clock_now() - began >= ASK_AGAIN_MS * NSEC_PER_MSEC;
        if (grace != DEADLINE_NONE || (open && !quiet))
            continue;
        int running = ask(p, wait, ret_code, err);
        if (running < 0)
            return -1;
        if (running == 0)
            grace = open ? clock_now() + DRAIN_GRACE_MS * NSEC_PER_MSEC : 0;
        else if (!was_open)
            wait_fd(-1, 0, &pause, NULL, NULL);
    }
}

/* --- the end of one that has to stop --- */

/* Looks for the mark until nobody has it any more. */
static const char KILLER[] = "for round in 1 2 3 4 5 6 7 8; do found=; for p in /proc/[0-9]*; do "
                             "if tr '\\0' '\\n' <$p/environ 2>/dev/null | grep -q \"^" MARK_NAME
                             "=$1\\$\"; then kill -9 ${p#/proc/} 2>/dev/null && found=1; fi; done; "
                             "[ -n \"$found\" ] || exit 0; done; exit 1";

static bool kill_marked(struct plain *p)
{
    struct engine_instance *i = p->i;
    const struct wait wait = {.deadline = clock_now() + KILL_TIMEOUT_NS};
    _cleanup_(cleanup_json_decref) json_t *made = NULL;
    _cleanup_(cleanup_free) char *path = xasprintf("/containers/%s/exec", i->container);
    _cleanup_(cleanup_json_decref) json_t *body =
        json_pack("{s:[s,s,s,s,s], s:b, s:b}", "Cmd", "/bin/sh", "-c", KILLER, "killer", p->mark,
                  "AttachStdout", 1, "AttachStderr", 1);
    if (engine_call(i->engine, "POST", path, body, &wait, &made, NULL) < 0 || !json_get_string(made, "Id"))
        return false;
    struct plain killer = {.i = i};
    int code = -1;
    snprintf(killer.exec, sizeof(killer.exec), "%s", json_get_string(made, "Id"));
    const struct exec_request request = {.wait = wait};
    killer.request = &request;
    killer.output = output_new(1, NULL, NULL);
    struct error why = ERROR_INIT;
    bool done = start_exec(&killer, &why) == 0 && pump(&killer, &code, &why) == 0 && code == 0;
    http_stream_free(killer.stream);
    output_free(killer.output);
    return done;
}

static int stopped(struct plain *p, const struct error *why, struct exec_result *ret, struct error *err)
{
    if (!kill_marked(p))
        ret->note = xasprintf("the command may still run: this computer has no shell to end it with (%s)",
                              p->i->way_why);
    return verdict_stopped(why, ret, err);
}

/* --- one command --- */

static int lost(struct plain *p, const struct error *why, struct error *err)
{
    return engine_instance_ask(p->i, err) < 0 ? -1 : error_set(err, ERR_UNAVAILABLE, "%s", why->msg);
}

static int run(struct plain *p, struct exec_result *ret, struct error *err)
{
    struct error why = ERROR_INIT;
    struct guest_exit refusal;
    int code = 0;
    if (make_exec(p, &why) < 0 || start_exec(p, &why) < 0) {
        const struct verdict_about about = {
            .shell = engine_shell(p->i), .other_shells = "", .pids = p->i->pids};
        if (why.code == ERR_TIMEOUT)
            return verdict_stopped(&why, ret, err);
        if (why.code != ERR_CANCELLED && read_refusal(why.msg, &refusal))
            return verdict(&about, p->request, &refusal, ret, err);
        return why.code == ERR_CANCELLED || why.code == ERR_DELETED || why.code == ERR_UNSUPPORTED
                   ? error_set(err, why.code, "%s", why.msg)
                   : lost(p, &why, err);
    }
    int failed = pump(p, &code, &why);
    if (failed == 0) {
        ret->exit_code = code & 0xff; /* a signal is told in no other way */
        return 0;
    }
    if (why.code == ERR_TIMEOUT || why.code == ERR_CANCELLED || why.code == ERR_DELETED)
        return stopped(p, &why, ret, err);
    return lost(p, &why, err);
}

int plain_exec(struct engine_instance *i, const struct exec_request *request, struct exec_result *ret,
               struct error *err)
{
    struct plain p = {.i = i, .request = request, .output = output_new(request->output_limit, NULL, NULL)};
    int64_t began = clock_now();
    random_hex(p.mark, 16);
    int failed = run(&p, ret, err);
    ret->duration_ns = clock_now() - began;
    http_stream_free(p.stream);
    output_finish(p.output, ret);
    output_free(p.output);
    return failed;
}
