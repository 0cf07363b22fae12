/* One computer's life: its states, who is using it, and its end. The picture is in registry.h. */
#include "computers/registry.h"

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

static const char *const STATE_NAMES[COMPUTER_STATE_COUNT] = {"creating", "running", "ending", "ended"};

static const bool MAY_CHANGE[COMPUTER_STATE_COUNT][COMPUTER_STATE_COUNT] = {
    [COMPUTER_CREATING] = {[COMPUTER_RUNNING] = true, [COMPUTER_ENDING] = true},
    [COMPUTER_RUNNING] = {[COMPUTER_ENDING] = true},
    [COMPUTER_ENDING] = {[COMPUTER_ENDED] = true},
};

bool computer_may_change(enum computer_state from, enum computer_state to)
{
    return MAY_CHANGE[from][to];
}

const char *computer_name(const char *principal, const char *id, char ret[COMPUTER_NAME_SIZE])
{
    snprintf(ret, COMPUTER_NAME_SIZE, "%s/%s", principal, id);
    return ret;
}

struct computer *computer_new_locked(struct computers *computers, const char *principal, const char *id)
{
    struct computer *c = xcalloc(1, sizeof(*c));
    c->computers = computers;
    snprintf(c->id, sizeof(c->id), "%s", id);
    snprintf(c->principal, sizeof(c->principal), "%s", principal);
    c->folder = (struct folder)FOLDER_NONE;
    c->refs = 1;
    list_init(&c->calls);
    return c;
}

void computer_unref_locked(struct computer *c)
{
    if (--c->refs > 0)
        return;
    assert(list_empty(&c->calls) && c->uses == 0 && !c->instance);
    cancel_unref(c->change);
    record_done(&c->record);
    free(c);
}

void computer_set_state_locked(struct computer *c, enum computer_state state)
{
    assert(computer_may_change(c->state, state));
    log_debug("computer %s/%s: %s -> %s", c->principal, c->id, STATE_NAMES[c->state], STATE_NAMES[state]);
    c->state = state;
    if (c->change) {
        cancel_fire(c->change, ERR_BUSY);
        c->change = cancel_unref(c->change);
    }
}

int computer_wait_locked(struct computer *c, const struct wait *wait, struct error *err)
{
    if (!c->change)
        c->change = cancel_new();
    _cleanup_(cleanup_cancel_unref) struct cancel *change = cancel_ref(c->change);
    int fd = cancel_fd(change);
    if (fd < 0) /* waiting would not end before the limits */
        return error_set(err, ERR_LIMIT, "the server has no descriptor left to wait with: try again later");
    pthread_mutex_t *lock = &c->computers->lock;
    pthread_mutex_unlock(lock);
    int r = wait_fd(fd, POLLIN, wait, NULL, err);
    pthread_mutex_lock(lock);
    return r;
}

void running_call_begin_locked(struct running_call *call, struct computer *c, struct wait *wait)
{
    call->cancel = wait->cancel ? cancel_ref(wait->cancel) : cancel_new();
    wait->cancel = call->cancel;
    list_append(&c->calls, &call->node);
}

void running_call_end_locked(struct running_call *call)
{
    list_unlink(&call->node);
    call->cancel = cancel_unref(call->cancel);
}

bool computer_end_locked(struct computer *c, const struct error *why)
{
    if (c->state == COMPUTER_ENDING || c->state == COMPUTER_ENDED)
        return false;
    c->end = *why;
    c->gone = why->code == ERR_GONE;
    c->ended_at = clock_now();
    computer_set_state_locked(c, COMPUTER_ENDING);
    list_for_each (node, &c->calls)
        cancel_fire(list_entry(node, struct running_call, node)->cancel, why->code);
    return true;
}

bool computer_claim_locked(struct computer *c)
{
    if (c->state != COMPUTER_ENDING || c->uses > 0 || c->cleaning)
        return false;
    c->cleaning = true;
    return true;
}

/* A permanent computer is put down, not removed: its files are the user's until they delete them. */
static int put_down(struct computer *c, struct error *err)
{
    int r = c->instance->ops->detach(TAKE_PTR(c->instance), err);
    clock_rfc3339(clock_wall(), c->record.last_used);
    if (r == 0)
        c->record.owner.pid = 0; /* nobody runs it, so nothing of it can be left */
    if (store_write(&c->folder, &c->record, r < 0 ? NULL : err) < 0)
        r = -1;
    folder_close(&c->folder);
    return r;
}

static int remove_all(struct computer *c, struct error *err)
{
    if (c->instance->ops->remove(TAKE_PTR(c->instance), err) < 0) {
        folder_close(&c->folder); /* with its record, which the reaper needs */
        return -1;
    }
    return store_remove(&c->folder, err);
}

/* Nothing of it is to be kept, or can be. */
static bool has_nothing(const struct computer *c)
{
    const struct backend_ops *ops = c->instance->ops;
    return c->temporary || (ops->lost && ops->lost(c->instance));
}

void computer_clean(struct computer *c)
{
    struct error left = ERROR_INIT;
    if (c->instance) {
        int r = has_nothing(c) ? remove_all(c, &left) : put_down(c, &left);
        if (r < 0)
            log_debug("computer %s/%s: %s", c->principal, c->id, left.msg);
    }
    struct computers *computers = c->computers;
    char name[COMPUTER_NAME_SIZE];
    pthread_mutex_lock(&computers->lock);
    c->left = left;
    computer_set_state_locked(c, COMPUTER_ENDED);
    map_remove(computers->by_name, computer_name(c->principal, c->id, name));
    computer_unref_locked(c);
    pthread_mutex_unlock(&computers->lock);
}

/* The computer ended by itself: what the caller is told, and what everybody else will be. */
static void gone_error(const struct computer *c, struct error *err)
{
    const struct error cause = *err;
    error_set(err, ERR_GONE, "computer '%s' has ended by itself: %.200s; %s", c->id, cause.msg,
              has_nothing(c)
                  ? "its files are lost, and the next call makes a new, empty one"
                  : "its processes are lost, its files are kept, and the next call starts it again");
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
    if (c->state != COMPUTER_RUNNING) {
        why = c->end;
        if (c->gone)
            session_forget_locked(use->session, c);
        pthread_mutex_unlock(lock);
        return error_set(err, why.code, "%s", why.msg);
    }
    running_call_begin_locked(&call, c, &ours.wait);
    pthread_mutex_unlock(lock);

    int r = c->instance->ops->exec(c->instance, &ours, ret, &why);

    pthread_mutex_lock(lock);
    running_call_end_locked(&call);
    if (r < 0 && why.code == ERR_GONE) {
        gone_error(c, &why);
        if (!computer_end_locked(c, &why) && !c->gone)
            why = c->end; /* it was ended by wish; that the backend found it dead is only how */
        session_forget_locked(use->session, c);
    }
    pthread_mutex_unlock(lock);
    return r < 0 ? error_set(err, why.code, "%s", why.msg) : 0;
}

const char *computer_id(const struct computer *c)
{
    return c->id;
}

bool computer_is_temporary(const struct computer *c)
{
    return c->temporary;
}
