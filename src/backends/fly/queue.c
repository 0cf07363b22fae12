/* See queue.h. A queue in which nobody was of late is as good as a new one, and is dropped. */
#include "backends/fly/queue.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/mem.h"

/* Source: fly.io/docs/machines/api, "Rate limits", August 2026: one a second and three at once, of Get
 * Machine five and ten. */
#define BURST 3
#define GET_TIMES 5 /* as many a second */
#define GET_BURST 10
#define QUEUES_MAX (4 * LIMIT_COMPUTERS)
#define KEY_SIZE 96

struct fly_queue {
    char key[KEY_SIZE];
    struct pace *pace;
    int users;
};

struct fly_queues {
    double calls_each_s;
    pthread_mutex_t lock; /* of all that follows */
    struct map *all;
};

struct fly_queues *fly_queues_new(double calls_each_s)
{
    struct fly_queues *q = xcalloc(1, sizeof(*q));
    q->calls_each_s = calls_each_s > 0 ? calls_each_s : 1;
    q->all = map_new(QUEUES_MAX);
    pthread_mutex_init(&q->lock, NULL);
    return q;
}

static void drop_locked(struct fly_queues *all, struct fly_queue *q)
{
    map_remove(all->all, q->key);
    pace_free(q->pace);
    free(q);
}

static void drop_idle_locked(struct fly_queues *all)
{
    size_t cursor = 0;
    void *value;
    while (map_next(all->all, &cursor, NULL, &value)) {
        struct fly_queue *q = value;
        if (q->users == 0 && pace_is_idle(q->pace))
            drop_locked(all, q);
    }
}

struct fly_queues *fly_queues_free(struct fly_queues *all)
{
    if (!all)
        return NULL;
    size_t cursor = 0;
    void *value;
    while (map_next(all->all, &cursor, NULL, &value))
        drop_locked(all, value);
    map_free(all->all);
    pthread_mutex_destroy(&all->lock);
    free(all);
    return NULL;
}

static struct fly_queue *queue_new_locked(struct fly_queues *all, enum fly_action action, const char *key)
{
    const int times = action == FLY_GET ? GET_TIMES : 1;
    struct fly_queue *q = xcalloc(1, sizeof(*q));
    snprintf(q->key, sizeof(q->key), "%s", key);
    q->pace = pace_new_limited((int64_t)((double)NSEC_PER_SEC / (all->calls_each_s * times)),
                               action == FLY_GET ? GET_BURST : BURST);
    if (map_put(all->all, q->key, q) == 0)
        return q;
    pace_free(q->pace);
    free(q);
    return NULL;
}

struct fly_queue *fly_queue_enter(struct fly_queues *all, enum fly_action action, const char *identifier)
{
    char key[KEY_SIZE];
    snprintf(key, sizeof(key), "%d %s", (int)action, identifier);
    pthread_mutex_lock(&all->lock);
    drop_idle_locked(all);
    struct fly_queue *q = map_get(all->all, key);
    if (!q)
        q = queue_new_locked(all, action, key);
    if (q)
        q->users++;
    pthread_mutex_unlock(&all->lock);
    return q;
}

struct pace *fly_queue_pace(struct fly_queue *q)
{
    return q->pace;
}

void fly_queue_leave(struct fly_queues *all, struct fly_queue *q)
{
    pthread_mutex_lock(&all->lock);
    q->users--;
    pthread_mutex_unlock(&all->lock);
}
