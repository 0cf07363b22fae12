/* Calls on a computer while they run: commands, which have a number and can be ended one by one, and whatever
 * else uses the instance. The end of the computer interrupts all of them; a change of it waits for them. */
#include "computers/registry.h"

#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"

void running_call_begin_locked(struct running_call *call, struct computer *c, struct wait *wait)
{
    *call = (struct running_call){.computer = c,
                                  .cancel = wait->cancel ? cancel_ref(wait->cancel) : cancel_new()};
    wait->cancel = call->cancel;
    list_append(&c->calls, &call->node);
}

void running_call_end_locked(struct running_call *call)
{
    list_unlink(&call->node);
    call->cancel = cancel_unref(call->cancel);
    computer_wake_locked(call->computer); /* whoever changes it waits for this */
}

void computer_interrupt_locked(struct computer *c, const struct running_call *own, const struct error *why)
{
    list_for_each (node, &c->calls) {
        struct running_call *call = list_entry(node, struct running_call, node);
        if (call == own)
            continue;
        call->stopped = *why;
        cancel_fire(call->cancel, ERR_DELETED);
    }
}

static bool is_drained(const struct computer *c, const struct running_call *own)
{
    return c->calls.next == c->calls.prev && (list_empty(&c->calls) || c->calls.next == &own->node);
}

int computer_drain_locked(struct computer *c, const struct running_call *own, const struct wait *wait,
                          struct error *err)
{
    while (!is_drained(c, own))
        if (computer_wait_locked(c, wait, err) < 0)
            return -1;
    return 0;
}

/* -- What is told of a command. */

/* The beginning of it, cut where a character ends. */
static void describe(struct computer_command *command, const struct exec_request *request)
{
    _cleanup_(buf_done) struct buf raw = BUF_INIT(sizeof(command->text));
    _cleanup_(buf_done) struct buf text = BUF_INIT(4 * sizeof(command->text));
    const size_t most = sizeof(command->text) - 1;
    if (request->command)
        (void)!buf_append(&raw, request->command, request->command_len < most ? request->command_len : most);
    for (char *const *arg = request->argv; arg && *arg; arg++) {
        const char *blank = arg == request->argv ? "" : " ";
        (void)!buf_printf(&raw, "%s%.*s", blank, (int)(most - raw.len) - (int)strlen(blank), *arg);
        if (raw.len + 1 >= most)
            break;
    }
    if (utf8_append_lossy(&text, buf_str(&raw), utf8_boundary(buf_str(&raw), raw.len)) < 0)
        return;
    const size_t len = utf8_boundary(buf_str(&text), text.len < most ? text.len : most);
    memcpy(command->text, buf_str(&text), len);
    command->text[len] = '\0';
}

static void command_begin_locked(struct running_call *call, struct computer *c,
                                 const struct exec_request *request)
{
    call->command = (struct computer_command){.number = ++c->computers->commands, .began = clock_wall()};
    describe(&call->command, request);
}

static void command_end_locked(const struct running_call *call, struct computer *c, int64_t duration_ns,
                               int exit_code)
{
    c->last = call->command;
    c->last.duration_ns = duration_ns;
    c->last.exit_code = exit_code;
}

/* -- Running one. */

/* The computer ended by itself: what the caller is told, and what everybody else will be. */
static void gone_error(const struct computer *c, struct error *err)
{
    const struct error cause = *err;
    error_set(err, ERR_GONE, "computer '%s' has ended by itself: %.200s; %s", c->id, cause.msg,
              computer_ends_whole(c)
                  ? "its files are lost, and the next call makes a new, empty one"
                  : "its processes are lost, its files are kept, and the next call starts it again");
}

/* Once it can be used; while somebody changes it, that is later. */
static int enter_locked(const struct computer_use *use, const struct wait *wait, struct error *err)
{
    struct computer *c = use->computer;
    while (c->state == COMPUTER_CHANGING)
        if (computer_wait_locked(c, wait, err) < 0)
            return -1;
    if (c->state == COMPUTER_RUNNING)
        return 0;
    if (c->gone)
        session_forget_locked(use->session, c);
    return error_set(err, c->end.code, "%s", c->end.msg);
}

/* Why a call has failed, in the end. */
static void explain_locked(const struct computer_use *use, const struct running_call *call, struct error *why)
{
    struct computer *c = use->computer;
    const bool interrupted = wait_was_over(why) || why->code == ERR_GONE;
    if (call->stopped.code != ERR_NONE && interrupted && c->state < COMPUTER_ENDING) {
        *why = call->stopped;
        return;
    }
    if (why->code == ERR_GONE) {
        gone_error(c, why);
        if (!computer_end_locked(c, why))
            *why = c->end; /* that the backend found it dead is only how it ended */
    } else if (c->state >= COMPUTER_ENDING && why->code == c->end.code) {
        *why = c->end;
    }
    if (c->gone && c->state >= COMPUTER_ENDING && why->code == c->end.code)
        session_forget_locked(use->session, c);
}

int computer_exec(const struct computer_use *use, const struct exec_request *request, struct exec_result *ret,
                  struct error *err)
{
    struct computer *c = use->computer;
    pthread_mutex_t *lock = &c->computers->lock;
    struct exec_request ours = *request;
    struct running_call call;
    struct error why = ERROR_INIT;
    pthread_mutex_lock(lock);
    if (enter_locked(use, &ours.wait, &why) < 0) {
        pthread_mutex_unlock(lock);
        return error_set(err, why.code, "%s", why.msg);
    }
    running_call_begin_locked(&call, c, &ours.wait);
    command_begin_locked(&call, c, request);
    pthread_mutex_unlock(lock);

    const int64_t began = clock_now();
    int r = c->instance->ops->exec(c->instance, &ours, ret, &why);
    FAULT_POINT("exec.done");
    if (r == 0)
        log_debug("computer %s/%s: a command took %lld us, %llu of a processor, and %llu KiB at most",
                  c->principal, c->id, (long long)(ret->duration_ns / 1000),
                  (unsigned long long)ret->usage.cpu_us, (unsigned long long)ret->usage.peak_bytes / KIB);

    pthread_mutex_lock(lock);
    command_end_locked(&call, c, r == 0 ? ret->duration_ns : clock_now() - began,
                       r == 0 ? ret->exit_code : -1);
    running_call_end_locked(&call);
    if (r < 0)
        explain_locked(use, &call, &why);
    pthread_mutex_unlock(lock);
    return r < 0 ? error_set(err, why.code, "%s", why.msg) : 0;
}

static struct running_call *find_locked(struct computer *c, uint64_t number)
{
    list_for_each (node, &c->calls) {
        struct running_call *call = list_entry(node, struct running_call, node);
        if (number != 0 && call->command.number == number)
            return call;
    }
    return NULL;
}

static bool is_stored(const struct computer_session *s, const char *id)
{
    _cleanup_(cleanup_free) char *path = xasprintf("%s/%s/%s", s->computers->dir, s->principal, id);
    return store_exists(&(struct folder){.path = path, .lock = -1});
}

int computer_cancel_command(struct computer_session *s, const char *id, uint64_t number, bool *ret_cancelled,
                            struct error *err)
{
    static const struct error CANCELLED = {
        .code = ERR_CANCELLED, .msg = "the command was cancelled by somebody else than its caller"};
    char name[COMPUTER_NAME_SIZE];
    if (slug_check(id, err) < 0)
        return -1;
    pthread_mutex_lock(&s->computers->lock);
    struct computer *c = map_get(s->computers->by_name, computer_name(s->principal, id, name));
    struct running_call *call = c ? find_locked(c, number) : NULL;
    const bool is_first = call && cancel_fire(call->cancel, ERR_DELETED);
    if (is_first)
        call->stopped = CANCELLED;
    pthread_mutex_unlock(&s->computers->lock);
    if (!c && !is_stored(s, id))
        return computer_not_found(id, err);
    *ret_cancelled = is_first;
    return 0;
}
