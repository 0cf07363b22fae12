/* Snapshots: the files of a computer as an image, of which the next sandbox is made. The last one holds; one
 * before it is deleted as soon as no sandbox was made of it any more. That those made of later ones don't
 * need it is taken from this: by default snapshots of Modal's own clients end after 30 days, whatever was
 * made of them. */
#include <stdio.h>
#include <string.h>

#include "backends/modal/private.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

struct modal_state modal_state_of(struct modal_instance *i)
{
    pthread_mutex_lock(&i->lock);
    const struct modal_state state = i->state;
    pthread_mutex_unlock(&i->lock);
    return state;
}

static int write_state(struct modal_instance *i, struct error *err)
{
    pthread_mutex_lock(&i->lock);
    const struct modal_state state = i->state;
    _cleanup_(cleanup_free) char *folder = xstrdup(i->folder);
    pthread_mutex_unlock(&i->lock);
    return modal_state_write(folder, &state, err);
}

/* Under the key that its state has, of which Modal makes one snapshot. 1: there is no sandbox. */
static int take(struct modal_instance *i, struct modal_router *router, const struct wait *wait,
                char ret_image[MODAL_ID_SIZE], struct error *err)
{
    const struct modal_state state = modal_state_of(i);
    struct error why = ERROR_INIT;
    if (modal_router_snapshot(router, state.asked, wait, ret_image, &why) == 0)
        return 0;
    return why.code == ERR_NOT_FOUND ? 1 : error_set(err, why.code, "%s", why.msg);
}

static void note(struct modal_instance *i, const char *image, bool holds)
{
    char before[MODAL_ID_SIZE];
    pthread_mutex_lock(&i->lock);
    i->state.asked[0] = '\0';
    snprintf(before, sizeof(before), "%s", holds ? i->state.image : image);
    if (holds) {
        snprintf(i->state.image, sizeof(i->state.image), "%s", image);
        snprintf(i->state.guest, sizeof(i->state.guest), "%s", i->backend->guest);
    }
    modal_state_spend(&i->state, before);
    pthread_mutex_unlock(&i->lock);
}

/* The answer to the last one never came, as when the server died: the same is asked for once more, and is
 * nobody's. 1: there is no sandbox. */
static int claim(struct modal_instance *i, struct modal_router *router, const struct wait *wait,
                 struct error *err)
{
    char image[MODAL_ID_SIZE];
    if (!modal_state_of(i).asked[0])
        return 0;
    const int lost = take(i, router, wait, image, err);
    if (lost == 0)
        note(i, image, false);
    return lost;
}

void modal_claim(struct modal_instance *i, const struct wait *wait)
{
    struct error why = ERROR_INIT;
    pthread_mutex_lock(&i->lock);
    struct modal_router *router = i->router;
    pthread_mutex_unlock(&i->lock);
    if (router && claim(i, router, wait, &why) < 0)
        log_warning("a snapshot of computer %s may be left behind at Modal: %s", i->id, why.msg);
}

/* A new one, whose key is written down before. */
static int save_anew(struct modal_instance *i, struct modal_router *router, const struct wait *wait,
                     struct error *err)
{
    char image[MODAL_ID_SIZE];
    const int lost = claim(i, router, wait, err);
    if (lost != 0)
        return lost;
    pthread_mutex_lock(&i->lock);
    modal_uuid(i->state.asked);
    pthread_mutex_unlock(&i->lock);
    if (write_state(i, err) < 0)
        return -1;
    const int taken = take(i, router, wait, image, err);
    if (taken != 0)
        return taken;
    note(i, image, true);
    return write_state(i, err);
}

int modal_save(struct modal_instance *i, const struct wait *wait, struct error *err)
{
    pthread_mutex_lock(&i->lock);
    struct modal_router *router = i->router;
    const bool needed = i->used || !i->state.image[0] || strcmp(i->state.guest, i->backend->guest) != 0;
    const int64_t dirty_since = i->dirty_since;
    i->dirty_since = list_empty(&i->calls) ? 0 : clock_now(); /* what comes from here on may not be in it */
    pthread_mutex_unlock(&i->lock);
    if (!router)
        return 1;
    const int failed = needed ? save_anew(i, router, wait, err) : 0;
    if (failed < 0 && dirty_since > 0) {
        pthread_mutex_lock(&i->lock);
        i->dirty_since = dirty_since;
        pthread_mutex_unlock(&i->lock);
    }
    return failed;
}

/* --- those that are spent --- */

/* -1: later, perhaps. What Modal refuses once it refuses for ever. */
static int delete_one(struct modal_account *a, const char *image, const struct wait *wait, struct error *err)
{
    struct error why = ERROR_INIT;
    if (!image[0] || modal_image_delete(a, image, wait, &why) == 0)
        return 0;
    if (why.code == ERR_UNAVAILABLE || why.code == ERR_LIMIT || wait_was_over(&why))
        return error_set(err, why.code, "%s", why.msg);
    log_warning("the image %s is left behind at Modal: %s", image, why.msg);
    return 0;
}

void modal_tidy(struct modal_instance *i, const struct wait *wait)
{
    const struct modal_state state = modal_state_of(i);
    struct error why = ERROR_INIT;
    size_t done = 0;
    for (size_t n = 0; n < MODAL_SPENT_MAX; n++) {
        if (!state.spent[n][0])
            continue;
        if (delete_one(i->backend->account, state.spent[n], wait, &why) < 0) {
            log_debug("computer %s: the image %s isn't deleted yet: %s", i->id, state.spent[n], why.msg);
            break;
        }
        pthread_mutex_lock(&i->lock);
        i->state.spent[n][0] = '\0';
        pthread_mutex_unlock(&i->lock);
        done++;
    }
    if (done > 0 && write_state(i, &why) < 0) /* then they are asked for once more, and absent */
        log_debug("computer %s: %s", i->id, why.msg);
}

int modal_images_delete(struct modal_account *a, const struct modal_state *s, const struct wait *wait,
                        struct error *err)
{
    if (delete_one(a, s->image, wait, err) < 0 ||
        (strcmp(s->own, s->image) != 0 && delete_one(a, s->own, wait, err) < 0))
        return -1;
    for (size_t n = 0; n < MODAL_SPENT_MAX; n++)
        if (delete_one(a, s->spent[n], wait, err) < 0)
            return -1;
    return 0;
}
