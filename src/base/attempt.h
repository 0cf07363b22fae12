/* Something that one thread does and others wait for: connecting, starting a helper. It can be done again.
 * The owner's lock guards it and is held in all calls; no lock is held while anything is waited for. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "base/cancel.h"
#include "base/error.h"

struct attempt {
    struct cancel *over;  /* while somebody is at it: fired when it is over */
    struct error failure; /* of the last one; code ERR_NONE if it worked */
    pthread_t thread;     /* of attempt_by_thread() */
    bool has_thread;
};

/* 0: nobody was at it, and the caller is now: it does its part without the lock, then takes that again and
 * calls attempt_end(). 1: somebody was, and it has worked: look again. -1: it has failed, with that error, or
 * the wait is over. */
int attempt_join(struct attempt *a, pthread_mutex_t *lock, const struct wait *wait, struct error *err);
/* failure: as in the struct; NULL is success. */
void attempt_end(struct attempt *a, const struct error *failure);

/* Instead of the first who comes, who waits like the others then, a thread does it, which outlasts whoever
 * waits: `run` takes the lock and calls attempt_end() as its last. 0: it has worked: look again. -1: as
 * above, or there is no thread to be had. */
int attempt_by_thread(struct attempt *a, pthread_mutex_t *lock, void *(*run)(void *arg), void *arg,
                      const struct wait *wait, struct error *err);
/* Without the lock: waits for the end of that thread, if there is one. Nobody begins another. */
void attempt_finish(struct attempt *a);
