/* One command is one job of our program in the machine: begun by one exec, which waits for its end for a
 * while, and asked for again until that has come. What it says is counted by bytes, so whatever becomes of an
 * answer, the next one goes on where the last that came ended; and a job is begun once, however often that is
 * asked for.
 *
 *   [put ...] -> run ---> END is among what came: one round trip
 *                 |
 *                 +-----> read, again and again ---> END
 *
 * The last exec before the command's time is up is told to end it. One that is to stop sooner is killed, and
 * its END awaited, though not for long. If nobody asks any more, the job's own lease ends it.
 *
 * Not every error is one: execs time out, are refused and lost. They are repeated while the machine runs. */
#include "backends/fly/call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backends/engine/contact.h"
#include "backends/fly/answer.h"
#include "backends/fly/private.h"
#include "backends/once.h"
#include "base/base64.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/str.h"

#define SPOOL_FOLDER "/.sandbox/command-output"
#define ID_BYTES 12                                     /* twice as many letters */
#define EXEC_SLACK_S 10                                 /* beyond what the guest waits */
#define PATIENCE_NS (60 * NSEC_PER_SEC)                 /* with execs that fail one after the other */
#define NONSENSE_MOST 3                                 /* answers that make no sense, one after the other */
#define LATE_NS (4 * NSEC_PER_SEC)                      /* for the answer of an exec that ends the command */
#define STOP_PATIENCE_NS (5 * NSEC_PER_SEC)             /* from kill to END */
#define SAID_MOST(limit) (24 * (uint64_t)(limit) + MIB) /* frames of one byte each, and END */
#define NUMBER_SIZE 24

struct call {
    struct list node; /* in the instance's list */
    struct fly_instance *i;
    const struct exec_request *request;
    struct wait wait; /* the request's, with a token of our own beneath its */
    char id[RANDOM_HEX_SIZE(ID_BYTES)];
    char done[JOB_DONE_MAX][JOB_ID_MAX + 1]; /* what the machine is told of */
    size_t done_count;
    struct once once;
    uint64_t heard;   /* bytes of what it says */
    bool asked;       /* the machine may know of it */
    bool put_back;    /* our program, from the one that runs; it is tried once */
    bool over;        /* the machine says so */
    struct buf bytes; /* of one answer */
};

_Static_assert(RANDOM_HEX_SIZE(ID_BYTES) <= JOB_ID_MAX + 1, "fits");

void fly_calls_init(struct fly_calls *calls)
{
    list_init(&calls->under_way);
    calls->done_count = 0;
}

void fly_calls_cut_locked(struct fly_instance *i)
{
    list_for_each (node, &i->calls.under_way)
        cancel_fire(list_entry(node, struct call, node)->wait.cancel, ERR_GONE);
}

/* --- one exec --- */

struct asking {
    const char *const *argv;
    const char *text;         /* its input; NULL: none */
    uint64_t offset;          /* of what it is answered with */
    int64_t wait_ms;          /* that the guest may take */
    struct wait wait;         /* for all attempts */
    const struct wait *again; /* to begin another one in; NULL: the same */
};

/* What our program there couldn't do. */
static int failed_there(const struct job_answer *a, struct error *err)
{
    if (a->error.sys == EBADMSG) /* what was sent came half: once more */
        return error_set(err, ERR_UNAVAILABLE, "the machine got half of what was sent");
    if (a->error.sys == EAGAIN)
        return error_set(err, ERR_BUSY, "the machine can't run another command now; wait for some to end");
    if (a->error.sys == ENOSPC)
        return error_set(
            err, ERR_LIMIT,
            "the machine has no room to run a command: its disk is full, or what others say that "
            "run in it fills its memory");
    _cleanup_(cleanup_free) char *stage = contact_beginning(a->error.stage, sizeof(a->error.stage));
    _cleanup_(cleanup_free) char *words = contact_beginning(a->error.text, sizeof(a->error.text));
    return error_set(err, ERR_INTERNAL, "our program in the machine can't %s: %s%s%s", stage,
                     strerror(a->error.sys), words[0] ? ": " : "", words);
}

/* ERR_UNAVAILABLE: it is worth another try. */
static int read_answer(struct call *c, const struct asking *asking, const struct fly_exec_answer *exec,
                       struct job_answer *ret, const char **ret_said, struct error *err)
{
    if (exec->exit_code != 0) {
        _cleanup_(cleanup_free) char *words = contact_words(exec->err, strlen(exec->err));
        return error_set(err, ERR_UNAVAILABLE, "our program in the machine ended with exit code %d%s%s",
                         exec->exit_code, words[0] ? ": " : "", words);
    }
    if (fly_answer_parse(exec->out, asking->offset, &c->bytes, ret, ret_said, err) < 0)
        return -1;
    return ret->state == JOB_FAILED ? failed_there(ret, err) : 0;
}

/* Whether an exec that failed so can be better next time; else err says why not. */
static bool may_be_better(struct call *c, const struct asking *asking, int status, const struct error *why,
                          struct error *err)
{
    if ((status == 404 || status == 412) && fly_instance_ask(c->i, &asking->wait, err) < 0 &&
        err->code == ERR_GONE)
        return false;
    if (why->code != ERR_DENIED && why->code != ERR_INVALID && why->code != ERR_GONE && !wait_was_over(why))
        return true;
    error_set(err, why->code == ERR_INVALID ? ERR_INTERNAL : why->code, "%s", why->msg);
    return false;
}

/* Our program was removed there, or another put in its place. The machine's main process is our program, and
 * runs on; it keeps its environment for the jobs by and by, and they may not wait. -1: that can't be done. */
static int put_back(struct call *c, const struct asking *asking, struct error *err)
{
    static const char script[] =
        "umask 022; new=$0.$$; work=${0%/*}/" JOB_PLACE "; "
        "for p in /proc/[0-9]*; do [ -O $p ] || continue; case $(tr '\\0' ' ' <$p/cmdline 2>/dev/null) in "
        "\"$0 " JOB_MAIN " \"*) { mkdir -p \"${0%/*}\" && cat $p/exe >\"$new\" && "
        "chmod 755 \"$new\" && { [ ! -d \"$0\" ] || rm -rf \"$0\"; } && mv -f \"$new\" \"$0\"; "
        "umask 077; mkdir -p \"$work\" && cat $p/environ >\"$work/" JOB_ENVIRONMENT "\"; exit; } >&2;; "
        "esac; done; echo it does not run any more >&2; exit 1";
    const char *const argv[] = {"/bin/sh", "-c", script, FLY_GUEST, NULL};
    _cleanup_(fly_exec_answer_done) struct fly_exec_answer exec = {0};
    int status = 0;
    c->put_back = true;
    if (fly_api_exec(c->i->backend, c->i->machine, argv, NULL, EXEC_SLACK_S, &asking->wait, &exec, &status,
                     NULL) < 0 ||
        exec.exit_code == 0)
        return 0;
    _cleanup_(cleanup_free) char *words = contact_words(exec.err, strlen(exec.err));
    return once_not_put_back(words, err);
}

/* Again and again, within patience: everything may be asked twice. */
static int ask(struct call *c, const struct asking *asking, struct job_answer *ret, const char **ret_said,
               struct error *err)
{
    const int64_t patience = clock_now() + PATIENCE_NS;
    const int seconds = (int)(asking->wait_ms / 1000) + EXEC_SLACK_S;
    int nonsense = 0;
    struct error lost = ERROR_INIT; /* that our program isn't there, and can't be put back */
    for (int n = 0;; n++) {
        _cleanup_(fly_exec_answer_done) struct fly_exec_answer exec = {0};
        struct error why = ERROR_INIT;
        int status = 0;
        if (fly_api_exec(c->i->backend, c->i->machine, asking->argv, asking->text, seconds, &asking->wait,
                         &exec, &status, &why) == 0) {
            fly_touched(c->i);
            if (read_answer(c, asking, &exec, ret, ret_said, &why) == 0)
                return 0;
            if (why.code == ERR_UNAVAILABLE && !c->put_back)
                (void)!put_back(c, asking, &lost);
            if (why.code != ERR_UNAVAILABLE || ++nonsense == NONSENSE_MOST)
                return error_set(err, lost.code ? lost.code : why.code, "%s", lost.code ? lost.msg : why.msg);
        } else if (!may_be_better(c, asking, status, &why, err)) {
            return -1;
        }
        if (clock_now() >= patience)
            return error_set(err, why.code, "%s", why.msg);
        if (wait_pause(asking->again ? asking->again : &asking->wait, pace_delay(n), err) < 0)
            return -1;
    }
}

/* --- what goes --- */

struct number {
    char text[NUMBER_SIZE];
};

static const char *number(struct number *n, uint64_t value)
{
    snprintf(n->text, sizeof(n->text), "%llu", (unsigned long long)value);
    return n->text;
}

/* What all commands of a computer have, beneath what each is given. The strings are borrowed. */
static char **environment(const struct call *c)
{
    static char lang[] = "LANG=C.UTF-8";
    char *const common[] = {lang, c->i->hostname, NULL};
    char *const *const layers[] = {common, c->i->env, c->request->env};
    size_t count = 0;
    for (size_t n = 0; n < ARRAY_LEN(layers); n++)
        for (char *const *env = layers[n]; env && *env; env++)
            count++;
    char **all = xcalloc(count + 1, sizeof(*all));
    count = 0;
    for (size_t n = 0; n < ARRAY_LEN(layers); n++)
        for (char *const *env = layers[n]; env && *env; env++)
            all[count++] = *env;
    return all;
}

static int make_input(const struct call *c, const char *shell, struct buf *ret, struct error *err)
{
    _cleanup_(cleanup_free) char **env = environment(c);
    struct exec_request request = *c->request;
    request.env = env;
    return once_append(ret, SPOOL_FOLDER, &request, shell, err);
}

/* How long the guest may wait for the command's end, and whether it is then to end it. */
static int64_t time_left_ms(const struct call *c, bool *ret_ends)
{
    const int64_t deadline = c->request->wait.deadline;
    const int64_t left = deadline == DEADLINE_NONE ? INT64_MAX : deadline - clock_now();
    *ret_ends = left <= JOB_WAIT_MAX_MS * NSEC_PER_MSEC;
    return !*ret_ends ? JOB_WAIT_MAX_MS : left > 0 ? left / NSEC_PER_MSEC : 0;
}

/* The answer to one that ends the command comes when its time is up, or a little later. */
static struct asking asking_for(const struct call *c, const char *const *argv, uint64_t offset,
                                int64_t wait_ms, bool ends)
{
    struct asking asking = {
        .argv = argv, .offset = offset, .wait_ms = wait_ms, .wait = c->wait, .again = &c->wait};
    if (ends)
        asking.wait.deadline += LATE_NS;
    return asking;
}

/* --- what comes --- */

/* What it says beyond its END is nobody's. */
static int hear(struct call *c, const struct job_answer *a, const char *said, struct error *err)
{
    if (a->state == JOB_ABSENT || a->state == JOB_KEPT)
        return error_set(err, ERR_UNAVAILABLE, "the machine knows nothing of the command any more");
    if (a->size > SAID_MOST(c->request->output_limit) - c->heard)
        return error_set(err, ERR_UNAVAILABLE, "the machine says more of the command than it may");
    c->heard += a->size;
    if (once_feed(&c->once, said, a->size, err) < 0)
        return -1;
    c->over = a->state == JOB_OVER;
    if (c->over && !c->once.answer.ended && a->total == c->heard)
        return error_set(err, ERR_UNAVAILABLE,
                         c->heard > 0
                             ? "our program in the machine was ended before the command, or had no room for "
                               "what that says"
                             : "the command wasn't begun, or was ended from outside");
    return 0;
}

static int put(struct call *c, const char *text, size_t offset, size_t size, struct error *err)
{
    struct number at, of;
    struct job_answer a;
    const char *said;
    const char *const argv[] = {FLY_GUEST,           JOB_COMMAND,       JOB_PUT, c->id,
                                number(&at, offset), number(&of, size), NULL};
    struct asking asking = asking_for(c, argv, 0, 0, false);
    asking.text = text;
    return ask(c, &asking, &a, &said, err);
}

static int begin(struct call *c, const char *text, size_t offset, size_t size, struct error *err)
{
    enum { GIVEN = 8 };
    struct number at, of, during;
    struct job_answer a;
    const char *said;
    bool ends;
    const int64_t wait_ms = time_left_ms(c, &ends);
    const char *argv[GIVEN + JOB_DONE_MAX + 1] = {FLY_GUEST,
                                                  JOB_COMMAND,
                                                  JOB_RUN,
                                                  c->id,
                                                  number(&at, offset),
                                                  number(&of, size),
                                                  number(&during, (uint64_t)wait_ms),
                                                  ends ? JOB_END : JOB_STAY};
    for (size_t n = 0; n < c->done_count; n++)
        argv[GIVEN + n] = c->done[n];
    struct asking asking = asking_for(c, argv, 0, wait_ms, ends);
    asking.text = text;
    return ask(c, &asking, &a, &said, err) < 0 ? -1 : hear(c, &a, said, err);
}

static int send_command(struct call *c, const char *shell, struct error *err)
{
    _cleanup_(buf_done) struct buf input = BUF_INIT(ONCE_INPUT_MAX);
    if (make_input(c, shell, &input, err) < 0)
        return -1;
    c->asked = true;
    for (size_t at = 0;; at += JOB_PIECE_MAX) {
        const bool last = input.len - at <= JOB_PIECE_MAX;
        const size_t size = last ? input.len - at : JOB_PIECE_MAX;
        _cleanup_(buf_done) struct buf text = BUF_INIT(2 * JOB_PIECE_MAX);
        if (base64_append(&text, input.data + at, size) < 0)
            return error_set(err, ERR_LIMIT, "out of memory");
        if (last)
            return begin(c, buf_str(&text), at, size, err);
        if (put(c, buf_str(&text), at, size, err) < 0)
            return -1;
    }
}

static int read_on(struct call *c, struct error *err)
{
    struct number at, during;
    struct job_answer a;
    const char *said;
    bool ends;
    const int64_t wait_ms = time_left_ms(c, &ends);
    const char *const argv[] = {FLY_GUEST,
                                JOB_COMMAND,
                                JOB_READ,
                                c->id,
                                number(&at, c->heard),
                                number(&during, (uint64_t)wait_ms),
                                ends ? JOB_END : JOB_STAY,
                                NULL};
    const struct asking asking = asking_for(c, argv, c->heard, wait_ms, ends);
    return ask(c, &asking, &a, &said, err) < 0 ? -1 : hear(c, &a, said, err);
}

/* --- one command --- */

static void call_init(struct call *c, struct fly_instance *i, const struct exec_request *request)
{
    *c = (struct call){.i = i, .request = request, .bytes = BUF_INIT(FLY_ANSWER_BYTES)};
    c->wait =
        (struct wait){.deadline = request->wait.deadline, .cancel = cancel_new_beneath(request->wait.cancel)};
    random_hex(c->id, ID_BYTES);
    once_init(&c->once, &i->shells, request->output_limit);
    list_init(&c->node);
    pthread_mutex_lock(&i->lock);
    list_append(&i->calls.under_way, &c->node);
    if (i->ended)
        cancel_fire(c->wait.cancel, ERR_GONE);
    c->done_count = i->calls.done_count;
    memcpy(c->done, i->calls.done, sizeof(c->done));
    i->calls.done_count = 0;
    pthread_mutex_unlock(&i->lock);
}

static void call_done(struct call *c)
{
    struct fly_calls *calls = &c->i->calls;
    pthread_mutex_lock(&c->i->lock);
    list_unlink(&c->node);
    if (c->over && calls->done_count < JOB_DONE_MAX) /* those that aren't named are kept for a while */
        memcpy(calls->done[calls->done_count++], c->id, sizeof(c->id));
    pthread_mutex_unlock(&c->i->lock);
    cancel_unref(c->wait.cancel);
    once_done(&c->once);
    buf_done(&c->bytes);
}

static int run(void *call, const char *shell, struct error *err)
{
    struct call *c = call;
    if (wait_check(&c->wait, err) < 0 || send_command(c, shell, err) < 0)
        return -1;
    while (!c->once.answer.ended)
        if (wait_check(&c->wait, err) < 0 || read_on(c, err) < 0)
            return -1;
    if (c->once.answer.end.killed) /* nobody asks for that but we */
        return error_set(err, ERR_TIMEOUT, "the time limit was reached");
    return 0;
}

/* Whatever is left to say of it, once it is told to end. */
static int kill_job(struct call *c, const struct wait *wait)
{
    struct number at;
    struct job_answer a;
    const char *said;
    while (!c->over && !c->once.answer.ended) {
        const char *const argv[] = {FLY_GUEST, JOB_COMMAND, JOB_KILL, c->id, number(&at, c->heard), NULL};
        const struct asking asking = {
            .argv = argv, .offset = c->heard, .wait_ms = JOB_END_WAIT_MS, .wait = *wait};
        if (ask(c, &asking, &a, &said, NULL) < 0)
            return -1;
        if (hear(c, &a, said, NULL) < 0)
            return a.state == JOB_OVER ? 0 : -1;
    }
    return 0;
}

/* The call is over before its command. NULL: nothing of that is left. */
static char *stop(void *call)
{
    struct call *c = call;
    const struct wait bounded = {.deadline = clock_now() + STOP_PATIENCE_NS};
    if (!c->asked || c->once.answer.ended || kill_job(c, &bounded) == 0)
        return NULL;
    return once_unknown("machine");
}

/* It didn't come to its end, and not because the call was over. */
static int broken(void *call, const struct error *why, struct error *err)
{
    struct call *c = call;
    if (cancel_why(c->wait.cancel) == ERR_GONE)
        return error_set(err, ERR_GONE, "it was ended");
    if (why->code != ERR_UNAVAILABLE && why->code != ERR_NOT_FOUND)
        return error_set(err, why->code, "%s", why->msg);
    if (fly_instance_ask(c->i, &c->request->wait, err) < 0)
        return -1;
    free(stop(c));
    return once_unclear(why, err);
}

static const struct once_way way = {.run = run, .stop = stop, .broken = broken};

int fly_call(void *computer, const struct exec_request *request, const char *shell, struct exec_result *ret,
             struct guest_exit *ret_exit, struct error *err)
{
    struct call c;
    call_init(&c, computer, request);
    const int failed = once_run(&c.once, &way, &c, shell, ret, ret_exit, err);
    call_done(&c);
    return failed;
}

int fly_tell(struct fly_instance *i, const char *verb, int seconds, const struct wait *wait,
             struct error *err)
{
    const char *const argv[] = {FLY_GUEST, JOB_COMMAND, verb, NULL};
    const struct asking asking = {.argv = argv, .wait_ms = seconds * 1000, .wait = *wait};
    struct call c = {.i = i, .bytes = BUF_INIT(FLY_ANSWER_BYTES)};
    struct job_answer answer;
    const char *said;
    const int failed = ask(&c, &asking, &answer, &said, err);
    buf_done(&c.bytes);
    return failed;
}
