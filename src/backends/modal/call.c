/* A command is a process of our program (once.h), which the command router starts: its output, and the frames
 * in it, come by a stream of their own; what it is to run goes with the start, in its environment, or in by
 * writes where that is long.
 *
 *   TaskExecStart (CONFIG and RUN), and TaskExecStdioRead with it ---> frames ... END
 *   TaskExecStart, and TaskExecStdioRead with it ---> TaskExecStdinWrite (CONFIG and RUN) ---> frames ... END
 *
 * That is one round trip, or two one after the other. Both go out together since it is us who name the
 * command; should the router look for it before it knows of it, the output is asked for once more. One that
 * has to stop early is sent KILL, and its END awaited. The end of its input is the end of all that it runs.
 */
#include <stdio.h>
#include <string.h>

#include "backends/engine/contact.h"
#include "backends/modal/private.h"
#include "backends/native/image.h"
#include "backends/once.h"
#include "backends/pace.h"
#include "base/clock.h"
#include "base/mem.h"

#define START_TIMEOUT_NS (30 * NSEC_PER_SEC)   /* until the process has begun */
#define END_PATIENCE_NS (5 * NSEC_PER_SEC / 2) /* from KILL to END */
#define READ_OUT_NS (1 * NSEC_PER_SEC)         /* for what a process said that takes no input any more */
#define READ_BYTES (16 * KIB)
/* Letters that go with the start. Modal's clients allow a command 64 KiB of arguments, and say nothing of
 * variables. */
#define EARLY_MAX (24 * KIB)

#define SPOOL_FOLDER "/.sandbox/command-output"
#define PUT_S 30 /* for our program, where it isn't any more */

/* Puts it back. Others may do it at the same time. A folder may be in its place. */
static const char put_script[] =
    "umask 022; new=$0.$$; mkdir -p \"${0%/*}\" && cat >\"$new\" && chmod 755 \"$new\" && "
    "{ [ ! -d \"$0\" ] || rm -rf \"$0\"; } && mv -f \"$new\" \"$0\"";

struct call {
    struct list node; /* in the instance's list */
    struct modal_instance *i;
    const struct exec_request *request;
    struct modal_router *router;
    char exec_id[MODAL_UUID_SIZE];
    struct modal_output *output; /* under the instance's lock */
    uint64_t sent;
    struct once once;
    bool cut, moved; /* likewise */
    bool repeated;   /* after our program was put back */
    bool tried;      /* it may have begun */
    bool begun;      /* it has */
    bool asked;      /* our program there has all of the command, once it has begun */
    bool over;
    bool refused; /* Modal started nothing */
};

void modal_calls_cut_locked(struct modal_instance *i, bool moved)
{
    list_for_each (node, &i->calls) {
        struct call *c = list_entry(node, struct call, node);
        c->cut = true;
        c->moved |= moved;
        if (c->output)
            modal_output_cut(c->output);
    }
}

/* Once the computer isn't on the move. */
static int enter(struct call *c, struct error *err)
{
    struct modal_instance *i = c->i;
    int failed = 0;
    pthread_mutex_lock(&i->lock);
    while (failed == 0 && i->moving.over) {
        struct error why = ERROR_INIT;
        if (attempt_join(&i->moving, &i->lock, &c->request->wait, &why) < 0 && wait_was_over(&why))
            failed = error_set(err, why.code, "%s", why.msg);
    }
    if (failed == 0 && (i->ended || !i->router))
        failed = error_set(err, ERR_GONE, "it has ended");
    if (failed == 0) {
        c->router = i->router;
        list_append(&i->calls, &c->node);
        i->used = true;
        i->dirty_since = i->dirty_since > 0 ? i->dirty_since : clock_now();
    }
    pthread_mutex_unlock(&i->lock);
    if (failed == 0)
        modal_keep_used(i);
    return failed;
}

static void leave(struct call *c)
{
    struct modal_instance *i = c->i;
    pthread_mutex_lock(&i->lock);
    struct modal_output *output = TAKE_PTR(c->output);
    pthread_mutex_unlock(&i->lock);
    if (c->once.answer.ended) /* the guest is ending, and with it the stream */
        modal_output_leave(output);
    else
        modal_output_close(output);
    pthread_mutex_lock(&i->lock);
    list_unlink(&c->node);
    i->ran_at = clock_now();
    i->dirty_since =
        i->dirty_since > 0 ? i->dirty_since : i->ran_at; /* it may have written during a snapshot */
    pthread_cond_broadcast(&i->quiet);
    pthread_mutex_unlock(&i->lock);
    modal_keep_used(i);
}

/* What all commands of a computer have, beneath what each is given; and what is for our program alone. */
static char **environment(const struct modal_instance *i, const char *early)
{
    const size_t own = i->env ? strv_len(i->env) : 0;
    char **all = xcalloc(own + 4, sizeof(*all));
    all[0] = xstrdup("LANG=C.UTF-8");
    all[1] = xasprintf("HOSTNAME=%s", i->id);
    for (size_t n = 0; n < own; n++)
        all[n + 2] = xstrdup(i->env[n]);
    if (early)
        all[own + 2] = xasprintf(SERVE_EARLY "=%s", early);
    return all;
}

static int take_output(struct call *c, struct modal_output *output, struct error *err)
{
    pthread_mutex_lock(&c->i->lock);
    c->output = output;
    const bool cut = c->cut;
    pthread_mutex_unlock(&c->i->lock);
    return cut ? error_set(err, ERR_GONE, "it was ended") : 0;
}

/* early: NULL, or what it is to run. */
static int start(struct call *c, const char *early, const struct wait *wait, struct error *err)
{
    const char *const argv[] = {c->i->backend->guest, SERVE_COMMAND, SERVE_FIRST, NULL};
    _cleanup_(cleanup_strv_free) char **env = environment(c->i, early);
    struct modal_output *output = NULL;
    struct error why = ERROR_INIT;
    modal_uuid(c->exec_id);
    c->tried = true;
    c->asked = early != NULL;
    if (modal_router_start(c->router, c->exec_id, argv, NULL, env, 0, &output, wait, &why) < 0) {
        c->refused = why.code == ERR_NOT_FOUND || why.code == ERR_INVALID;
        c->tried = why.code == ERR_UNAVAILABLE || wait_was_over(&why);
        return error_set(err, why.code, "%s", why.msg);
    }
    c->begun = true;
    if (!output)
        output = modal_output_open(c->router, c->exec_id, 1, wait, err);
    return output ? take_output(c, output, err) : -1;
}

static int send_input(struct call *c, const void *bytes, size_t n, const struct wait *wait, struct error *err)
{
    if (modal_router_write(c->router, c->exec_id, c->sent, bytes, n, false, wait, err) < 0)
        return -1;
    c->sent += n;
    return 0;
}

static int begin(struct call *c, const char *shell, struct error *err)
{
    const struct wait bounded = wait_at_most(&c->request->wait, clock_now() + START_TIMEOUT_NS);
    struct error why = ERROR_INIT;
    _cleanup_(buf_done) struct buf frames = BUF_INIT(ONCE_INPUT_MAX);
    if (once_append(&frames, SPOOL_FOLDER, c->request, shell, err) < 0)
        return -1;
    _cleanup_(cleanup_free) char *early = c->repeated ? NULL : once_early(&frames, EARLY_MAX);
    if (start(c, early, &bounded, &why) < 0) {
        if (why.code == ERR_TIMEOUT && wait_check(&c->request->wait, NULL) == 0)
            why.code = ERR_UNAVAILABLE;
        return error_set(err, why.code, "%s", why.msg);
    }
    if (!c->asked && send_input(c, frames.data, frames.len, &c->request->wait, err) < 0)
        return -1;
    c->asked = true;
    return 0;
}

/* The end of a process, and in `ret_words` (malloced) what it said on its standard error. */
static int end_of(struct call *c, const char *exec_id, const struct wait *wait, int *ret_code,
                  char **ret_words, struct error *err)
{
    char text[FRAMES_NOISE_MAX] = "";
    ssize_t n = 0;
    if (modal_router_wait(c->router, exec_id, wait, ret_code, err) < 0)
        return -1;
    struct modal_output *errors = modal_output_open(c->router, exec_id, 2, wait, NULL);
    if (errors)
        n = modal_output_read(errors, text, sizeof(text), wait, NULL);
    modal_output_close(errors);
    *ret_words = contact_words(text, n > 0 ? (size_t)n : 0);
    return 0;
}

/* Why our program ended before its command did. */
static int tell_end(struct call *c, struct error *err)
{
    const struct wait brief = {.deadline = clock_now() + END_PATIENCE_NS};
    _cleanup_(cleanup_free) char *words = NULL;
    int code = -1;
    c->over = true;
    if (end_of(c, c->exec_id, &brief, &code, &words, err) < 0)
        return -1;
    return error_set(err, ERR_UNAVAILABLE, "our program in the sandbox ended with exit code %d%s%s", code,
                     words[0] ? ": " : "", words);
}

static int await_end(struct call *c, const struct wait *wait, struct error *err)
{
    char bytes[READ_BYTES];
    while (!c->once.answer.ended) {
        const ssize_t n = modal_output_read(c->output, bytes, sizeof(bytes), wait, err);
        if (n < 0)
            return -1;
        if (n == 0)
            return tell_end(c, err);
        if (once_feed(&c->once, bytes, (size_t)n, err) < 0)
            return -1;
    }
    return 0;
}

static int run(void *call, const char *shell, struct error *err)
{
    struct call *c = call;
    struct error why = ERROR_INIT;
    if (begin(c, shell, &why) == 0)
        return await_end(c, &c->request->wait, err);
    /* Input that nobody took, since the process had ended: its output tells. */
    if (c->output && !wait_was_over(&why))
        (void)!await_end(c, &(struct wait){.deadline = clock_now() + READ_OUT_NS}, NULL);
    return c->once.answer.ended ? 0 : error_set(err, why.code, "%s", why.msg);
}

/* Its input ends, and with it whatever it has begun. */
static int terminate(struct call *c, const struct wait *wait, struct error *err)
{
    return modal_router_write(c->router, c->exec_id, c->sent, "", 0, true, wait, err);
}

static void terminate_soon(struct call *c)
{
    const struct wait bounded = {.deadline = clock_now() + END_PATIENCE_NS};
    if (c->tried && !c->over && !c->once.answer.ended)
        (void)!terminate(c, &bounded, NULL);
}

/* One whose start wasn't answered, and that may begin yet. True: it has begun, and has ended. */
static bool end_unseen(struct call *c, const struct wait *wait)
{
    struct error why = ERROR_INIT;
    int code;
    while (terminate(c, wait, &why) < 0)
        if (why.code != ERR_NOT_FOUND || !pace_pause(wait, pace_delay(0)))
            return false;
    return modal_router_wait(c->router, c->exec_id, wait, &code, NULL) == 0;
}

/* The call is over before its command. NULL: nothing of that is left. */
static char *stop(void *call)
{
    struct call *c = call;
    const struct wait bounded = {.deadline = clock_now() + END_PATIENCE_NS};
    if (!c->asked || !c->tried || c->over || c->once.answer.ended) {
        terminate_soon(c);
        return NULL;
    }
    if (!c->output)
        return end_unseen(c, &bounded) ? NULL : once_unknown("sandbox");
    if (send_input(c, &once_kill, sizeof(once_kill), &bounded, NULL) == 0 &&
        await_end(c, &bounded, NULL) == 0)
        return NULL;
    return once_unknown("sandbox");
}

/* It didn't come to its end, and not because the call was over. */
static int broken(void *call, const struct error *why, struct error *err)
{
    struct call *c = call;
    pthread_mutex_lock(&c->i->lock);
    const bool ended = c->i->ended, moved = c->moved;
    pthread_mutex_unlock(&c->i->lock);
    if (ended)
        return error_set(err, ERR_GONE, "it was ended");
    terminate_soon(c);
    if (moved)
        return error_set(err, ERR_UNAVAILABLE,
                         "the lifetime of its sandbox at Modal (--sandbox-timeout, %u s) is over, and the "
                         "command was ended by that; the computer goes on in a new one, with its files",
                         (unsigned)c->i->backend->lifetime_s);
    if (why->code != ERR_UNAVAILABLE && why->code != ERR_NOT_FOUND)
        return error_set(err, why->code, "%s", why->msg);
    if (modal_ask(c->i, &c->request->wait, err) < 0)
        return -1;
    return once_unclear(why, err);
}

static const struct once_way way = {.run = run, .stop = stop, .broken = broken};

static int put_program(struct call *c, struct error *err)
{
    const char *const argv[] = {"/bin/sh", "-c", put_script, c->i->backend->guest, NULL};
    const struct wait bounded = wait_at_most(&c->request->wait, clock_now() + PUT_S * NSEC_PER_SEC);
    _cleanup_(cleanup_free) char *words = NULL;
    char id[MODAL_UUID_SIZE];
    struct error why = ERROR_INIT;
    int code = -1;
    modal_uuid(id);
    if (modal_router_start(c->router, id, argv, NULL, NULL, PUT_S, NULL, &bounded, &why) == 0 &&
        modal_router_write(c->router, id, 0, guest_image, guest_image_size, true, &bounded, &why) == 0 &&
        end_of(c, id, &bounded, &code, &words, &why) == 0 && code == 0)
        return 0;
    if (wait_was_over(&why))
        return error_set(err, why.code, "%s", why.msg);
    return once_not_put_back(words && words[0] ? words : why.msg, err);
}

/* 1: it lacks our program, which is there again; err says what it was. */
static int run_once(struct modal_instance *i, const struct exec_request *request, const char *shell,
                    struct exec_result *ret, struct guest_exit *ret_exit, bool put_back, struct error *err)
{
    struct call c = {.i = i, .request = request, .repeated = !put_back};
    once_init(&c.once, &i->shells, request->output_limit);
    int failed = enter(&c, err);
    if (failed == 0) {
        failed = once_run(&c.once, &way, &c, shell, ret, ret_exit, err);
        if (failed < 0 && put_back && !wait_was_over(err) && err->code != ERR_GONE && !c.moved &&
            once_lacks_program(&c.once, c.over || c.refused))
            failed = put_program(&c, err) == 0 ? 1 : -1;
        leave(&c);
    }
    once_done(&c.once);
    return failed;
}

int modal_call(void *computer, const struct exec_request *request, const char *shell, struct exec_result *ret,
               struct guest_exit *ret_exit, struct error *err)
{
    const int done = run_once(computer, request, shell, ret, ret_exit, true, err);
    if (done <= 0)
        return done;
    exec_result_done(ret);
    return run_once(computer, request, shell, ret, ret_exit, false, err);
}

int modal_instance_exec(struct instance *instance, const struct exec_request *request,
                        struct exec_result *ret, struct error *err)
{
    struct modal_instance *i = modal_instance_of(instance);
    if (!modal_instance_alive(instance))
        return error_set(err, ERR_GONE, "it has ended");
    return shells_exec(&i->shells, modal_call, i, request, ret, err);
}
