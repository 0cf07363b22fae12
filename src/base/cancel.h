/* A cancel token: set once, by anybody, for a reason; every blocking wait polls its descriptor. Counted
 * references, any thread. The eventfd is made lazily, by the first cancel_fd(). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/macros.h"

struct cancel;
struct cancel *cancel_new(void);
/* One that is also fired, for the same reason, when `above` is; with NULL just another one. */
struct cancel *cancel_new_beneath(struct cancel *above);
struct cancel *cancel_ref(struct cancel *c);
struct cancel *cancel_unref(struct cancel *c); /* accepts NULL, returns NULL */
DEFINE_CLEANUP(struct cancel *, cancel_unref)

/* The first code wins (ERR_CANCELLED, ERR_DELETED, ...). True if this call was the first. */
bool cancel_fire(struct cancel *c, enum error_code why);
enum error_code cancel_why(const struct cancel *c); /* ERR_NONE while not cancelled; c may be NULL */
int cancel_fd(struct cancel *c);                    /* readable once cancelled; -1 for NULL */

/* What every call that may block takes: until when, and who may stop it. */
struct wait {
    int64_t deadline;      /* clock_now() scale, or DEADLINE_NONE */
    struct cancel *cancel; /* borrowed; NULL: nobody */
};
/* The same, but until `latest` at most. */
struct wait wait_at_most(const struct wait *wait, int64_t latest);
/* Waits until fd has one of poll(2)'s `events` (fd may be -1: only the limits). 0: ready (ret_revents, may be
 * NULL, is set); -1: ERR_TIMEOUT or the token's code. */
int wait_fd(int fd, short events, const struct wait *wait, short *ret_revents, struct error *err);
/* Lets so much time pass, in nanoseconds. -1 with the error if the wait is over. */
int wait_pause(const struct wait *wait, int64_t ns, struct error *err);
/* -1 with the error if the wait is over already. */
int wait_check(const struct wait *wait, struct error *err);
/* Whether an error says that a wait was over, by the clock or by its token. */
bool wait_was_over(const struct error *why);
