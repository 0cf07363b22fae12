/* One computer's life: its states, who is using it, and its end. The picture is in registry.h. */
#include "computers/registry.h"

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"

static const char *const STATE_NAMES[COMPUTER_STATE_COUNT] = {"creating", "running", "changing", "ending",
                                                              "ended"};

static const bool MAY_CHANGE[COMPUTER_STATE_COUNT][COMPUTER_STATE_COUNT] = {
    [COMPUTER_CREATING] = {[COMPUTER_RUNNING] = true, [COMPUTER_CHANGING] = true, [COMPUTER_ENDING] = true},
    [COMPUTER_RUNNING] = {[COMPUTER_CHANGING] = true, [COMPUTER_ENDING] = true},
    [COMPUTER_CHANGING] = {[COMPUTER_RUNNING] = true, [COMPUTER_ENDING] = true},
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
    c->number = ++computers->births;
    c->born = clock_wall();
    c->used_at = clock_now();
    c->refs = 1;
    list_init(&c->calls);
    list_init(&c->lease);
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

void computer_wake_locked(struct computer *c)
{
    if (c->change) {
        cancel_fire(c->change, ERR_BUSY);
        c->change = cancel_unref(c->change);
    }
}

void computer_set_state_locked(struct computer *c, enum computer_state state)
{
    assert(computer_may_change(c->state, state));
    log_debug("computer %s/%s: %s -> %s", c->principal, c->id, STATE_NAMES[c->state], STATE_NAMES[state]);
    c->state = state;
    c->state_since = clock_now();
    if (state == COMPUTER_RUNNING)
        terms_note_running_locked(c);
    computer_wake_locked(c);
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
    if (c->stopping)
        c->instance->ops->kill(c->instance);
    int r = c->instance->ops->detach(TAKE_PTR(c->instance), err);
    FAULT_POINT("put-down.stopped");
    record_touch(&c->record);
    if (r == 0)
        c->record.owner.pid = 0; /* nobody runs it, so nothing of it can be left; else its processes go on */
    if (store_write(&c->folder, &c->record, r < 0 ? NULL : err) < 0)
        r = -1;
    FAULT_POINT("put-down.recorded");
    folder_close(&c->folder);
    return r;
}

/* Says first that it is to be removed, so that what a death in the middle leaves is no computer with half its
 * files. A temporary one is that in any case; as is one that has lost its name. */
static int mark_dying(struct computer *c, struct error *err)
{
    if (c->temporary || !c->folder.path || store_is_debris(path_basename(c->folder.path)))
        return 0;
    return store_mark_dying(&c->folder, &c->record, err);
}

static int remove_instance(struct computer *c, struct error *err)
{
    struct backend *b = c->computers->backend;
    const struct computer_spec spec = spec_of_record(&c->record, c->folder.path);
    return c->instance ? c->instance->ops->remove(TAKE_PTR(c->instance), err)
                       : b->ops->reap(b, &spec, c->record.data, err);
}

static int remove_all(struct computer *c, struct error *err)
{
    if (mark_dying(c, err) < 0) {
        if (c->instance) /* its files stay: better than half of them */
            c->instance->ops->detach(TAKE_PTR(c->instance), NULL);
        folder_close(&c->folder);
        return -1;
    }
    FAULT_POINT("delete.marked");
    if (remove_instance(c, err) < 0) {
        folder_close(&c->folder); /* with its record, which the reaper needs */
        return -1;
    }
    FAULT_POINT("delete.instance-removed");
    return c->folder.path ? store_remove(&c->folder, err) : 0;
}

bool computer_ends_whole(const struct computer *c)
{
    const struct backend_ops *ops = c->instance ? c->instance->ops : NULL;
    return c->doomed || (ops && (c->temporary || (ops->lost && ops->lost(c->instance))));
}

void computer_clean(struct computer *c)
{
    struct error left = ERROR_INIT;
    const bool whole = computer_ends_whole(c);
    int r = 0;
    if (whole && (c->instance || (c->stands_in && c->record.id[0])))
        r = remove_all(c, &left);
    else if (c->instance)
        r = put_down(c, &left);
    else
        folder_close(&c->folder);
    if (r < 0)
        log_debug("computer %s/%s: %s", c->principal, c->id, left.msg);
    struct computers *computers = c->computers;
    char name[COMPUTER_NAME_SIZE];
    if (r < 0 && whole)
        reaper_note_left(computers);
    pthread_mutex_lock(&computers->lock);
    c->left = left;
    if (!whole)
        terms_note_stored_locked(computers, &c->record);
    computer_set_state_locked(c, COMPUTER_ENDED);
    computer_name(c->principal, c->id, name);
    if (map_get(computers->by_name, name) == c)
        map_remove(computers->by_name, name);
    computer_unref_locked(c);
    pthread_mutex_unlock(&computers->lock);
}

void computer_use_end_locked(struct computer *c)
{
    pthread_mutex_t *lock = &c->computers->lock;
    c->uses--;
    if (!computer_claim_locked(c))
        return;
    pthread_mutex_unlock(lock);
    computer_clean(c);
    pthread_mutex_lock(lock);
}

const char *computer_id(const struct computer *c)
{
    return c->id;
}

bool computer_is_temporary(const struct computer *c)
{
    return c->temporary;
}
