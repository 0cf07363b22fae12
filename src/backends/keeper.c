/* See keeper.h. */
#include "backends/keeper.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"

struct keeper {
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t changed;
    struct list all;
    struct tended *current; /* it is being looked after */
    struct cancel *cancel;  /* of that */
    pthread_t thread;
    bool runs, over;
};

/* NULL: nothing is due; ret_next is when something will be. */
static struct tended *due_locked(struct keeper *k, int64_t *ret_next)
{
    const int64_t now = clock_now();
    *ret_next = DEADLINE_NONE;
    list_for_each (node, &k->all) {
        struct tended *t = list_entry(node, struct tended, node);
        if (t->due <= now)
            return t;
        *ret_next = t->due < *ret_next ? t->due : *ret_next;
    }
    return NULL;
}

/* Under the lock, which is left meanwhile. Those that come after it have their turn first when it is due
 * again at once. */
static void look_after_locked(struct keeper *k, struct tended *t)
{
    t->due = DEADLINE_NONE; /* what is asked for meanwhile stays */
    list_unlink(&t->node);
    list_append(&k->all, &t->node);
    k->current = t;
    k->cancel = cancel_new();

    pthread_mutex_unlock(&k->lock);
    const int64_t next = t->tend(t, k->cancel);
    pthread_mutex_lock(&k->lock);

    t->due = next < t->due ? next : t->due;
    k->current = NULL;
    k->cancel = cancel_unref(k->cancel);
    pthread_cond_broadcast(&k->changed);
}

static void *keep(void *arg)
{
    struct keeper *k = arg;
    pthread_mutex_lock(&k->lock);
    while (!k->over) {
        int64_t next;
        struct tended *t = due_locked(k, &next);
        const struct timespec until = {.tv_sec = next / NSEC_PER_SEC, .tv_nsec = next % NSEC_PER_SEC};
        if (t)
            look_after_locked(k, t);
        else if (next == DEADLINE_NONE)
            pthread_cond_wait(&k->changed, &k->lock);
        else
            pthread_cond_timedwait(&k->changed, &k->lock, &until);
    }
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

struct keeper *keeper_new(void)
{
    struct keeper *k = xcalloc(1, sizeof(*k));
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&k->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&k->lock, NULL);
    list_init(&k->all);
    return k;
}

struct keeper *keeper_free(struct keeper *k)
{
    if (!k)
        return NULL;
    pthread_mutex_lock(&k->lock);
    k->over = true;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
    if (k->runs)
        pthread_join(k->thread, NULL);
    pthread_cond_destroy(&k->changed);
    pthread_mutex_destroy(&k->lock);
    free(k);
    return NULL;
}

void keeper_add(struct keeper *k, struct tended *t)
{
    t->due = DEADLINE_NONE;
    pthread_mutex_lock(&k->lock);
    list_append(&k->all, &t->node);
    pthread_mutex_unlock(&k->lock);
}

int keeper_ask(struct keeper *k, struct tended *t, int64_t due)
{
    pthread_mutex_lock(&k->lock);
    t->due = due < t->due ? due : t->due;
    k->runs = k->runs || thread_start(&k->thread, keep, k) == 0;
    pthread_cond_broadcast(&k->changed);
    bool runs = k->runs;
    pthread_mutex_unlock(&k->lock);
    return runs ? 0 : -1;
}

void keeper_remove(struct keeper *k, struct tended *t)
{
    pthread_mutex_lock(&k->lock);
    list_unlink(&t->node);
    while (k->current == t) {
        cancel_fire(k->cancel, ERR_CANCELLED);
        pthread_cond_wait(&k->changed, &k->lock);
    }
    pthread_mutex_unlock(&k->lock);
}

void keepers_init(struct keepers *k)
{
    for (size_t n = 0; n < KEEPERS; n++)
        k->each[n] = keeper_new();
}

void keepers_done(struct keepers *k)
{
    for (size_t n = 0; n < KEEPERS; n++)
        k->each[n] = keeper_free(k->each[n]);
}

struct keeper *keepers_choose(struct keepers *k)
{
    return k->each[atomic_fetch_add(&k->next, 1) % KEEPERS];
}
