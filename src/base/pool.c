/* Threads and queues for calls.
 *
 * One lock guards everything; it is held for a few instructions, never while a job or a callback runs. A
 * principal with waiting or running jobs has a queue. A queue from which a job may start now, because jobs
 * wait and its principal runs fewer than its share, is `ready`; ready queues take turns. A worker that ends a
 * job takes the next one itself; pool_submit() hands a job to an idle worker, the one that was idle for the
 * shortest time, or makes one.
 *
 * A waiting job is over when its deadline passes or its token fires. Whoever notices refuses it: the worker
 * whose turn it would be, pool_kick(), pool_close(), or the watcher, a thread that exists only while jobs
 * with deadlines wait (all workers may be busy for long). */
#include "base/pool.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/thread.h"

#define IDLE_KEPT 2 /* idle workers that stay for good */
#define IDLE_MAX 8  /* more end at once */
#define IDLE_TIME (10 * NSEC_PER_SEC)

struct queue {
    struct list node;  /* in pool.queues */
    struct list ready; /* in pool.ready, or unlinked */
    char principal[sizeof(((struct pool_job *)0)->principal)];
    struct pool_job *first, **last;
    int running;
    int running_max;
};

struct worker {
    struct list node; /* in pool.idle, or unlinked */
    pthread_cond_t wake;
    struct pool *pool;
    struct pool_job *job; /* what it is to run next */
    struct queue *queue;  /* of that job */
};

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t ended;   /* a thread has ended */
    pthread_cond_t watcher; /* something changed for the watcher */
    struct list queues;
    struct list ready;
    struct list idle; /* workers, the latest last */
    int idle_count;
    int threads; /* workers and the watcher */
    int running;
    int running_max;
    atomic_int waiting; /* written under the lock */
    int waiting_max;
    bool has_watcher;
    int64_t watched_until; /* the watcher sleeps until then */
    bool closed;
};

static void init_cond(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

/* False when the deadline has passed. */
static bool cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t deadline)
{
    if (deadline == DEADLINE_NONE)
        return pthread_cond_wait(cond, lock) == 0;
    struct timespec t = {.tv_sec = deadline / NSEC_PER_SEC, .tv_nsec = deadline % NSEC_PER_SEC};
    return pthread_cond_timedwait(cond, lock, &t) == 0;
}

/* ---- queues; all with the lock held ---- */

static struct queue *queue_of(struct pool *p, const char *principal)
{
    list_for_each (node, &p->queues) {
        struct queue *q = list_entry(node, struct queue, node);
        if (strcmp(q->principal, principal) == 0)
            return q;
    }
    struct queue *q = xcalloc(1, sizeof(*q));
    list_append(&p->queues, &q->node);
    list_init(&q->ready);
    memcpy(q->principal, principal, strlen(principal) + 1);
    q->last = &q->first;
    q->running_max = *principal && p->running_max > 1 ? p->running_max / 2 : p->running_max;
    return q;
}

/* Brings a queue to where it belongs after a change; frees it when nothing is left in it. */
static void queue_update(struct pool *p, struct queue *q)
{
    bool is_ready = q->first && q->running < q->running_max;
    if (!is_ready)
        list_unlink(&q->ready);
    else if (list_empty(&q->ready))
        list_append(&p->ready, &q->ready);
    if (!q->first && q->running == 0) {
        list_unlink(&q->node);
        free(q);
    }
}

static void queue_append(struct pool *p, struct queue *q, struct pool_job *job)
{
    job->next = NULL;
    *q->last = job;
    q->last = &job->next;
    atomic_fetch_add(&p->waiting, 1);
    queue_update(p, q);
}

/* Unlinks the job that *link points to. */
static struct pool_job *queue_take(struct pool *p, struct queue *q, struct pool_job **link)
{
    struct pool_job *job = *link;
    *link = job->next;
    if (q->last == &job->next)
        q->last = link;
    job->next = NULL;
    atomic_fetch_sub(&p->waiting, 1);
    return job;
}

/* The next job whose turn it is, counted as running; NULL if none may start. */
static struct pool_job *take_next(struct pool *p, struct queue **ret_queue)
{
    if (p->running >= p->running_max || list_empty(&p->ready))
        return NULL;
    struct queue *q = list_entry(p->ready.next, struct queue, ready);
    struct pool_job *job = queue_take(p, q, &q->first);
    q->running++;
    p->running++;
    list_unlink(&q->ready); /* to the end of the line */
    queue_update(p, q);
    *ret_queue = q;
    return job;
}

/* ---- refusing ---- */

static bool is_over(const struct pool_job *job, int64_t now)
{
    return cancel_why(job->cancel) != ERR_NONE || now >= job->deadline;
}

/* Takes all jobs that are over, or just all, out of the queues. Lock held. */
static struct pool_job *take_refused(struct pool *p, bool all)
{
    struct pool_job *refused = NULL, **end = &refused;
    int64_t now = clock_now();
    list_for_each (node, &p->queues) {
        struct queue *q = list_entry(node, struct queue, node);
        for (struct pool_job **link = &q->first; *link;) {
            if (!all && !is_over(*link, now)) {
                link = &(*link)->next;
                continue;
            }
            *end = queue_take(p, q, link);
            end = &(*end)->next;
        }
        queue_update(p, q);
    }
    return refused;
}

static void refuse(struct pool_job *job)
{
    struct error err;
    struct wait wait = {.deadline = DEADLINE_NONE, .cancel = job->cancel};
    if (wait_check(&wait, &err) == 0) {
        if (clock_now() >= job->deadline)
            error_set(&err, ERR_TIMEOUT,
                      "the time limit was reached while the call waited for a free thread");
        else
            error_set(&err, ERR_UNAVAILABLE, "the server is shutting down");
    }
    job->refused(job, &err);
}

/* Lock not held. */
static void refuse_all(struct pool_job *job)
{
    while (job) {
        struct pool_job *next = job->next;
        refuse(job);
        job = next;
    }
}

/* ---- the watcher ---- */

static int64_t earliest_deadline(const struct pool *p)
{
    int64_t earliest = DEADLINE_NONE;
    list_for_each (node, &p->queues) {
        const struct queue *q = list_entry(node, struct queue, node);
        for (const struct pool_job *job = q->first; job; job = job->next)
            if (job->deadline < earliest)
                earliest = job->deadline;
    }
    return earliest;
}

static void thread_ended(struct pool *p)
{
    p->threads--;
    pthread_cond_broadcast(&p->ended);
    pthread_mutex_unlock(&p->lock); /* the pool may be gone from here on */
}

static void *watcher_main(void *arg)
{
    struct pool *p = arg;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        struct pool_job *refused = take_refused(p, false);
        if (refused) {
            pthread_mutex_unlock(&p->lock);
            refuse_all(refused);
            pthread_mutex_lock(&p->lock);
            continue;
        }
        p->watched_until = earliest_deadline(p);
        if (p->watched_until == DEADLINE_NONE)
            break;
        cond_wait(&p->watcher, &p->lock, p->watched_until);
    }
    p->has_watcher = false;
    thread_ended(p);
    return NULL;
}

/* Lock held. Without a watcher, if the system has no thread left, deadlines of waiting jobs are seen late,
 * not never. */
static void need_watcher(struct pool *p, int64_t deadline)
{
    if (deadline == DEADLINE_NONE)
        return;
    if (p->has_watcher) {
        if (deadline < p->watched_until)
            pthread_cond_signal(&p->watcher);
    } else if (thread_start(NULL, watcher_main, p) == 0) {
        p->has_watcher = true;
        p->threads++;
    }
}

/* ---- workers ---- */

static void run_job(struct pool_job *job)
{
    if (is_over(job, clock_now()))
        refuse(job);
    else
        job->run(job);
}

/* Waits for a job; false when the worker is to end. Lock held. */
static bool be_idle(struct worker *w)
{
    struct pool *p = w->pool;
    if (p->closed || p->idle_count >= IDLE_MAX)
        return false;
    int64_t until = p->idle_count < IDLE_KEPT ? DEADLINE_NONE : clock_now() + IDLE_TIME;
    list_append(&p->idle, &w->node);
    p->idle_count++;
    while (!w->job && !p->closed)
        if (!cond_wait(&w->wake, &p->lock, until) && !w->job)
            break;
    if (!list_empty(&w->node)) {
        list_unlink(&w->node);
        p->idle_count--;
    }
    return w->job;
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct pool *p = w->pool;
    for (;;) {
        run_job(w->job);
        pthread_mutex_lock(&p->lock);
        p->running--;
        w->queue->running--;
        queue_update(p, w->queue);
        w->job = take_next(p, &w->queue);
        if (!w->job && !be_idle(w))
            break;
        pthread_mutex_unlock(&p->lock);
    }
    pthread_cond_destroy(&w->wake);
    free(w);
    thread_ended(p);
    return NULL;
}

/* Gives a job that take_next() returned to a worker; -1 if there is none and none can be made. Lock held:
 * making a thread takes some 20 microseconds and waits for nobody. */
static int hand_over(struct pool *p, struct pool_job *job, struct queue *q)
{
    if (!list_empty(&p->idle)) {
        struct worker *w = list_entry(p->idle.prev, struct worker, node);
        list_unlink(&w->node);
        p->idle_count--;
        w->job = job;
        w->queue = q;
        pthread_cond_signal(&w->wake);
        return 0;
    }
    struct worker *w = xcalloc(1, sizeof(*w));
    list_init(&w->node);
    init_cond(&w->wake);
    w->pool = p;
    w->job = job;
    w->queue = q;
    if (thread_start(NULL, worker_main, w) == 0) {
        p->threads++;
        return 0;
    }
    pthread_cond_destroy(&w->wake);
    free(w);
    return -1;
}

/* Starts the job whose turn it is, if one may start. -1: nobody will ever come by to run it. Lock held. */
static int dispatch(struct pool *p)
{
    struct queue *q;
    struct pool_job *job = take_next(p, &q);
    if (!job || hand_over(p, job, q) == 0)
        return 0;
    /* Back to the front: a worker that ends its job will take it. */
    p->running--;
    q->running--;
    job->next = q->first;
    if (!q->first)
        q->last = &job->next;
    q->first = job;
    atomic_fetch_add(&p->waiting, 1);
    queue_update(p, q);
    return p->running > 0 ? 0 : -1;
}

int pool_submit(struct pool *p, struct pool_job *job, struct error *err)
{
    int result = 0;
    int64_t deadline = job->deadline; /* once handed over, the job may be gone */
    pthread_mutex_lock(&p->lock);
    struct queue *q = queue_of(p, job->principal);
    bool starts = list_empty(&p->ready) && p->running < p->running_max && q->running < q->running_max;
    if (p->closed) {
        queue_update(p, q);
        result = error_set(err, ERR_UNAVAILABLE, "the server is shutting down");
    } else if (!starts && atomic_load(&p->waiting) >= p->waiting_max) {
        queue_update(p, q);
        result = error_set(err, ERR_LIMIT, "%d calls are waiting already; try again when some have ended",
                           p->waiting_max);
    } else {
        queue_append(p, q, job);
        if (dispatch(p) < 0) {
            /* Nothing runs, so nothing else waits: it is this job. */
            queue_take(p, q, &q->first);
            queue_update(p, q);
            result = error_set(err, ERR_LIMIT, "the system has no thread left; try again later");
        } else if (atomic_load(&p->waiting) > 0) {
            need_watcher(p, deadline);
        }
    }
    pthread_mutex_unlock(&p->lock);
    return result;
}

/* ---- the pool ---- */

struct pool *pool_new(int max_running, int max_queued)
{
    assert(max_running > 0 && max_queued >= 0);
    struct pool *p = xcalloc(1, sizeof(*p));
    pthread_mutex_init(&p->lock, NULL);
    init_cond(&p->ended);
    init_cond(&p->watcher);
    list_init(&p->queues);
    list_init(&p->ready);
    list_init(&p->idle);
    p->running_max = max_running;
    p->waiting_max = max_queued;
    return p;
}

void pool_kick(struct pool *p)
{
    if (atomic_load(&p->waiting) == 0)
        return;
    pthread_mutex_lock(&p->lock);
    struct pool_job *refused = take_refused(p, false);
    pthread_mutex_unlock(&p->lock);
    refuse_all(refused);
}

bool pool_close(struct pool *p, int64_t deadline)
{
    pthread_mutex_lock(&p->lock);
    p->closed = true;
    struct pool_job *refused = take_refused(p, true);
    list_for_each (node, &p->idle)
        pthread_cond_signal(&list_entry(node, struct worker, node)->wake);
    pthread_cond_signal(&p->watcher);
    pthread_mutex_unlock(&p->lock);
    refuse_all(refused);

    pthread_mutex_lock(&p->lock);
    while (p->threads > 0 && cond_wait(&p->ended, &p->lock, deadline))
        continue;
    bool all_ended = p->threads == 0;
    pthread_mutex_unlock(&p->lock);
    return all_ended;
}

struct pool *pool_free(struct pool *p)
{
    if (!p)
        return NULL;
    assert(p->threads == 0 && list_empty(&p->queues));
    pthread_cond_destroy(&p->ended);
    pthread_cond_destroy(&p->watcher);
    pthread_mutex_destroy(&p->lock);
    free(p);
    return NULL;
}
