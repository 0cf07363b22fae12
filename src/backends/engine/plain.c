/* A command by one exec of the engine, where our program can't run inside. What that costs:
 *
 * - the stream ends only when everybody who holds it has closed it, so the engine is asked, again and again,
 *   whether the command itself still runs
 * - an exec can't be killed: what carries the mark of this command in its environment is looked for and
 *   killed by a shell inside. Where there is none, the command runs on, and the result says so
 * - what exceeds the output limit is lost; nothing says what runs in the background, or that a signal ended
 *   the command
 * - that a program can't be started is told in the engine's own words, as output of the command
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "backends/command.h"
#include "backends/engine/contact.h"
#include "backends/engine/pieces.h"
#include "backends/engine/podman.h"
#include "backends/engine/private.h"
#include "backends/output.h"
#include "backends/verdict.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/str.h"

#define CHUNK_BYTES (64 * KIB)
#define ASK_FIRST_NS (20 * NSEC_PER_MSEC) /* whether the command still runs; then twice as long each time */
#define ASK_MOST_NS NSEC_PER_SEC
#define KILL_TIMEOUT_NS (2 * NSEC_PER_SEC) /* the caller has waited long enough */
#define MARK_NAME "SANDBOX_COMMAND"
#define WORDS_MAX 1024 /* of an engine that can't start a program */

struct plain {
    struct list node; /* in the instance's list, once there is a stream */
    struct engine_instance *i;
    const struct exec_request *request;
    char exec[CONTAINER_ID_SIZE]; /* the engine's id of it */
    char mark[RANDOM_HEX_SIZE(16)];
    struct http_stream *stream;
    bool open; /* more may come */
    struct pieces pieces;
    struct output *output;
    struct buf words; /* the beginning of the output */
    size_t sent;      /* of the input */
    bool input_open;
};

/* What the engine says of an exec that is over. */
struct ending {
    int code;
    bool had_process; /* false: it never began, or the engine doesn't tell */
};

/* --- making it --- */

/* Engines are spoken to in JSON, which has no other bytes than those of Unicode text. */
static json_t *to_json(const char *text, size_t n, struct error *err)
{
    json_t *string = json_stringn(text, n);
    if (memchr(text, '\0', n))
        error_set(err, ERR_INVALID, "a command, argument or folder can't contain NUL bytes");
    else if (string)
        return string;
    else
        error_set(err, ERR_UNSUPPORTED,
                  "the command has bytes that are no UTF-8, which this computer can't be given");
    json_decref(string);
    return NULL;
}

static int append(json_t *list, const char *text, size_t n, struct error *err)
{
    return json_array_append_new(list, to_json(text, n, err));
}

static int append_command(json_t *list, const struct plain *p, const char *shell, struct error *err)
{
    const struct exec_request *r = p->request;
    if (command_needs_script(r))
        return error_set(
            err, ERR_UNSUPPORTED,
            "a command text of %lu bytes and more needs our program inside this computer, which can't "
            "run there (%.150s): write it to a file first",
            LIMIT_COMMAND_INLINE_BYTES, p->i->way_why);
    if (r->command)
        return append(list, shell, strlen(shell), err) < 0 || append(list, "-c", 2, err) < 0
                   ? -1
                   : append(list, r->command, r->command_len, err);
    for (char *const *a = r->argv; *a; a++)
        if (append(list, *a, strlen(*a), err) < 0)
            return -1;
    return 0;
}

static int append_environment(json_t *list, const struct plain *p, struct error *err)
{
    char mark[sizeof(MARK_NAME "=") + sizeof(p->mark)];
    int n = snprintf(mark, sizeof(mark), MARK_NAME "=%s", p->mark);
    for (char *const *e = p->request->env; e && *e; e++)
        if (append(list, *e, strlen(*e), err) < 0)
            return -1;
    return append(list, mark, (size_t)n, err);
}

static int make_exec(struct plain *p, const json_t *body, struct error *err)
{
    return container_make_exec(p->i->engine, p->i->container, body, &p->request->wait, p->exec, err);
}

static int make_command(struct plain *p, const char *shell, struct error *err)
{
    const struct exec_request *r = p->request;
    json_t *line = json_array(), *env = json_array();
    _cleanup_(cleanup_json_decref) json_t *body =
        json_pack("{s:o, s:o, s:b, s:b, s:b}", "Cmd", line, "Env", env, "AttachStdin", r->stdin_len > 0,
                  "AttachStdout", 1, "AttachStderr", 1);
    if (append_command(line, p, shell, err) < 0 || append_environment(env, p, err) < 0)
        return -1;
    if (r->cwd && json_object_set_new(body, "WorkingDir", to_json(r->cwd, strlen(r->cwd), err)) < 0)
        return -1;
    return make_exec(p, body, err);
}

static int start_exec(struct plain *p, struct error *err)
{
    if (container_start_exec(p->i->engine, p->exec, &p->request->wait, &p->stream, err) < 0)
        return -1;
    p->open = true;
    p->input_open = p->request->stdin_len > 0;
    pthread_mutex_lock(&p->i->lock);
    list_append(&p->i->plains, &p->node);
    pthread_mutex_unlock(&p->i->lock);
    return 0;
}

static void plain_init(struct plain *p, struct engine_instance *i, const struct exec_request *request)
{
    *p = (struct plain){.i = i,
                        .request = request,
                        .output = output_new(request->output_limit, NULL, NULL),
                        .words = BUF_INIT(WORDS_MAX)};
    list_init(&p->node);
    random_hex(p->mark, 16);
}

static void plain_done(struct plain *p)
{
    pthread_mutex_lock(&p->i->lock);
    list_unlink(&p->node);
    pthread_mutex_unlock(&p->i->lock);
    http_stream_free(p->stream);
    output_free(p->output);
    buf_done(&p->words);
}

void plain_cut_locked(struct engine_instance *i)
{
    list_for_each (node, &i->plains)
        shutdown(http_stream_fd(list_entry(node, struct plain, node)->stream), SHUT_RDWR);
}

/* --- while it runs --- */

/* A command that reads no further is no error. */
static int write_input(struct plain *p, struct error *err)
{
    const char *bytes = p->request->stdin_bytes;
    while (p->input_open && p->sent < p->request->stdin_len) {
        ssize_t n = http_stream_write(p->stream, bytes + p->sent, p->request->stdin_len - p->sent);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        p->input_open = n >= 0;
        p->sent += n > 0 ? (size_t)n : 0;
    }
    if (!p->input_open)
        return 0;
    p->input_open = false;
    if (http_stream_end(p->stream) < 0 && errno == EOPNOTSUPP)
        return error_set(
            err, ERR_UNSUPPORTED,
            "this computer's commands can't be given input: its engine is reached in a way that has no "
            "end of input, and our program can't run inside (%.150s)",
            p->i->way_why);
    return 0;
}

static int on_output(void *ctx, enum piece_stream stream, const char *bytes, size_t n, struct error *err)
{
    struct plain *p = ctx;
    if (stream == PIECE_STDERR && podman_is_noise(p->i->engine, bytes, n))
        return 0;
    size_t room = p->words.max - p->words.len;
    if (buf_append(&p->words, bytes, n < room ? n : room) < 0)
        p->words.max = p->words.len; /* out of memory: only words are lost */
    output_add(p->output, stream == PIECE_STDERR ? OUTPUT_STDERR : OUTPUT_STDOUT, bytes, n);
    return 0;
}

/* The number of bytes; 0: nothing there now, or never any more. */
static ssize_t read_output(struct plain *p, struct error *err)
{
    char chunk[CHUNK_BYTES];
    ssize_t n = http_stream_read(p->stream, chunk, sizeof(chunk));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    p->open = n > 0;
    if (n <= 0)
        return 0;
    return pieces_feed(&p->pieces, chunk, (size_t)n, on_output, p, err) < 0 ? -1 : n;
}

/* Reads and writes what is ready, until the limits, the stream's end or so many bytes read. */
static int move_bytes(struct plain *p, const struct wait *wait, size_t budget, struct error *err)
{
    bool goes_on = true;
    while (p->open && goes_on && budget > 0) {
        if (write_input(p, err) < 0)
            return -1;
        ssize_t n = read_output(p, err);
        if (n < 0)
            return -1;
        budget -= (size_t)n < budget ? (size_t)n : budget;
        short events = p->input_open ? POLLIN | POLLOUT : POLLIN;
        goes_on = n > 0 || !p->open ? wait_check(wait, NULL) == 0
                                    : wait_fd(http_stream_fd(p->stream), events, wait, NULL, NULL) == 0;
    }
    return 0;
}

/* 1: it still runs; 0: it has ended, with ret; -1. */
static int ask(const struct plain *p, const struct wait *wait, struct ending *ret, struct error *err)
{
    _cleanup_(cleanup_json_decref) json_t *info = NULL;
    _cleanup_(cleanup_free) char *path = xasprintf("/exec/%s/json", p->exec);
    if (engine_call(p->i->engine, "GET", path, NULL, wait, &info, err) < 0)
        return -1;
    if (json_is_true(json_object_get(info, "Running")))
        return 1;
    ret->code = (int)json_integer_value(json_object_get(info, "ExitCode"));
    ret->had_process = json_integer_value(json_object_get(info, "Pid")) > 0;
    return 0;
}

/* -1: it is to stop. */
static int check(struct plain *p, struct error *err)
{
    pthread_mutex_lock(&p->i->lock);
    bool ended = p->i->ended;
    pthread_mutex_unlock(&p->i->lock);
    return ended ? error_set(err, ERR_GONE, "it was ended") : wait_check(&p->request->wait, err);
}

/* Others may hold the stream: what is in it is read for a short grace. */
static void drain(struct plain *p)
{
    const struct wait grace = {.deadline = clock_now() + DRAIN_GRACE_MS * NSEC_PER_MSEC};
    struct error ignored = ERROR_INIT;
    p->input_open = false;
    (void)!move_bytes(p, &grace, LIMIT_DRAIN_BYTES, &ignored);
}

/* Until the engine says that the command has ended. */
static int pump(struct plain *p, struct ending *ret, struct error *err)
{
    const struct wait *wait = &p->request->wait;
    int running = 1;
    for (int64_t interval = ASK_FIRST_NS; running > 0;
         interval = interval < ASK_MOST_NS ? 2 * interval : interval) {
        const bool was_open = p->open;
        struct wait pause = wait_at_most(wait, clock_now() + interval);
        if (move_bytes(p, &pause, SIZE_MAX, err) < 0 || check(p, err) < 0)
            return -1;
        running = ask(p, wait, ret, err);
        if (p->open || running <= 0)
            continue;
        interval = was_open ? ASK_FIRST_NS : interval;
        wait_pause(wait, interval, NULL); /* the next round looks at the limits */
    }
    if (running == 0)
        drain(p);
    return running;
}

/* --- the end of one that has to stop --- */

/* Looks for the mark until nobody has it any more, with nothing but what every shell has in itself: `read`
 * drops the NULs that environments are full of. */
static const char KILLER[] = "for round in 1 2 3 4 5 6 7 8; do found=; for p in /proc/[0-9]*; do "
                             "while IFS= read -r line || [ -n \"$line\" ]; do case $line in "
                             "*" MARK_NAME "=$1*) kill -9 \"${p#/proc/}\" && found=1; break;; esac; done "
                             "<\"$p/environ\"; done 2>/dev/null; [ -n \"$found\" ] || exit 0; done; exit 1";

static bool kill_marked(const struct plain *p)
{
    struct plain killer;
    struct ending ending;
    struct error why = ERROR_INIT;
    const struct exec_request request = {.wait.deadline = clock_now() + KILL_TIMEOUT_NS};
    _cleanup_(cleanup_json_decref) json_t *body =
        json_pack("{s:[s,s,s,s,s], s:b, s:b}", "Cmd", "/bin/sh", "-c", KILLER, "killer", p->mark,
                  "AttachStdout", 1, "AttachStderr", 1);
    plain_init(&killer, p->i, &request);
    bool done = make_exec(&killer, body, &why) == 0 && start_exec(&killer, &why) == 0 &&
                pump(&killer, &ending, &why) == 0 && ending.code == 0;
    plain_done(&killer);
    return done;
}

/* An engine that is still starting it has nobody with the mark yet, and says that it runs. False: it may go
 * on. */
static bool kill_command(const struct plain *p)
{
    const struct wait patience = {.deadline = clock_now() + KILL_TIMEOUT_NS};
    struct ending ignored;
    struct error why = ERROR_INIT;
    int running;
    do {
        if (!kill_marked(p))
            return false;
        running = ask(p, &patience, &ignored, &why);
    } while (running > 0 && wait_pause(&patience, ASK_FIRST_NS, NULL) == 0);
    return running == 0 || (running < 0 && why.code == ERR_NOT_FOUND);
}

/* --- one command --- */

/* Whether that is how an engine says that it couldn't start the program. The words may be the command's own,
 * so they alone prove nothing. */
static bool is_refusal(const struct plain *p, const struct ending *ending)
{
    const char *words = buf_str(&p->words);
    bool dockers = !ending->had_process && (ending->code == 126 || ending->code == 127) &&
                   str_has_prefix(words, "OCI runtime exec failed: ");
    return dockers || podman_is_refusal(p->i->engine, ending->code, words);
}

/* As our guest would have said it. False: for another reason. */
static bool read_refusal(const char *words, struct guest_exit *ret)
{
    static const struct {
        const char *words;
        int sys;
    } table[] = {
        {"not found in $PATH", ENOENT}, {"no such file or directory", ENOENT},
        {"permission denied", EACCES},  {"exec format error", ENOEXEC},
        {"is a directory", EACCES},     {"not a directory", ENOTDIR},
        {"too many levels of", ELOOP},  {"argument list too long", E2BIG},
    };
    bool chdir =
        !strstr(words, ": exec: \"") && (strstr(words, "chdir") || strstr(words, "working directory"));
    for (size_t n = 0; n < ARRAY_LEN(table); n++)
        if (strcasestr(words, table[n].words)) {
            *ret = (struct guest_exit){.stage = chdir ? GUEST_STAGE_CHDIR : GUEST_STAGE_EXEC,
                                       .sys = table[n].sys};
            return true;
        }
    return false;
}

static int conclude(struct plain *p, const struct ending *ending, struct exec_result *ret,
                    struct guest_exit *ret_exit, struct error *err)
{
    if (!is_refusal(p, ending)) {
        output_finish(p->output, ret);
        *ret_exit = (struct guest_exit){.wait_status = (ending->code & 0xff) << 8};
        return 0;
    }
    if (read_refusal(buf_str(&p->words), ret_exit))
        return 0;
    _cleanup_(cleanup_free) char *words = contact_words(p->words.data, p->words.len);
    return error_set(err, ERR_UNAVAILABLE, "%s can't start the command: %s", engine_name(p->i->engine),
                     words);
}

/* It didn't come to its end. */
static int fail(struct plain *p, const struct error *why, struct exec_result *ret, struct error *err)
{
    const bool stopped = wait_was_over(why);
    output_finish(p->output, ret);
    if (p->exec[0] && (stopped || why->code == ERR_UNSUPPORTED) && !kill_command(p))
        ret->note =
            xasprintf("the command may still run: nothing in this computer could end it (%s)", p->i->way_why);
    if (stopped || why->code == ERR_UNSUPPORTED || why->code == ERR_INVALID || why->code == ERR_GONE)
        return error_set(err, why->code, "%s", why->msg);
    return engine_instance_ask(p->i, &p->request->wait, err) < 0
               ? -1
               : error_set(err, ERR_UNAVAILABLE, "%s", why->msg);
}

int plain_exec(struct engine_instance *i, const struct exec_request *request, const char *shell,
               struct exec_result *ret, struct guest_exit *ret_exit, struct error *err)
{
    struct plain p;
    struct ending ending;
    struct error why = ERROR_INIT;
    int64_t began = clock_now();
    plain_init(&p, i, request);
    bool ended =
        make_command(&p, shell, &why) == 0 && start_exec(&p, &why) == 0 && pump(&p, &ending, &why) == 0;
    int failed = ended ? conclude(&p, &ending, ret, ret_exit, err) : fail(&p, &why, ret, err);
    ret->duration_ns = clock_now() - began;
    plain_done(&p);
    return failed;
}
