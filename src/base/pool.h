/* Threads for calls. Each running job has a thread of its own (small stack, kept for a while for the next
 * job); at most max_running run, one principal at most half of them. Beyond that jobs wait, in a queue per
 * principal, served in turn. Jobs are straight-line blocking code.
 *
 * Also for work that belongs to nobody (reaper, warm-up): principal "". */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct pool;
struct pool_job {
    struct pool_job *next;
    void (*run)(struct pool_job *job); /* on a worker; the job may free itself in it */
    /* Instead of run, when it waited past the deadline, was cancelled while waiting, or the pool was closed
     * before its turn (err: ERR_TIMEOUT, the token's code, ERR_UNAVAILABLE). On any thread. */
    void (*refused)(struct pool_job *job, const struct error *err);
    int64_t deadline;      /* for waiting; DEADLINE_NONE */
    struct cancel *cancel; /* borrowed until run or refused; NULL: none */
    char principal[64];
};

/* No thread is made before the first job. */
struct pool *pool_new(int max_running, int max_queued);
/* 0: the job will be run or refused, exactly once. -1 (ERR_LIMIT): the queue is full, nothing will be called.
 * Any thread. */
int pool_submit(struct pool *p, struct pool_job *job, struct error *err);
/* Tells the queue that a waiting job's token has fired (so it needn't poll tokens). Cheap when nothing waits.
 */
void pool_kick(struct pool *p);
/* Refuses what waits, lets run what runs until `deadline`; true when all ended. */
bool pool_close(struct pool *p, int64_t deadline);
struct pool *pool_free(struct pool *p); /* after pool_close was true; returns NULL */
