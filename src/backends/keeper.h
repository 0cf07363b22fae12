/* One thread that looks after many things, one after the other, each when it is due. It is started for the
 * first that is. Any thread may call, but none of this from within `tend`. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/cancel.h"
#include "base/list.h"

/* Embedded in what is looked after. */
struct tended {
    struct list node;
    int64_t due; /* the keeper's */
    /* On the keeper's thread, without a lock. It may block, but not once `cancel` was fired. Returns when it
     * is to be called next, on the clock_now() scale; DEADLINE_NONE: when that is asked for. */
    int64_t (*tend)(struct tended *t, struct cancel *cancel);
};

struct keeper;
struct keeper *keeper_new(void);
struct keeper *keeper_free(struct keeper *k); /* which has nothing to look after any more. Returns NULL */

/* Not due before that is asked for. */
void keeper_add(struct keeper *k, struct tended *t);
/* Due at that time, or before. -1: there is no thread to be had. */
int keeper_ask(struct keeper *k, struct tended *t, int64_t due);
/* It isn't being looked after when this returns, and never again; again is harmless. */
void keeper_remove(struct keeper *k, struct tended *t);

/* Several, for what each may wait long for somebody elsewhere: one that is slow holds up a part of the others
 * only. */
#define KEEPERS 4
struct keepers {
    struct keeper *each[KEEPERS];
    atomic_uint next;
};
void keepers_init(struct keepers *k);
void keepers_done(struct keepers *k); /* accepts what is all zeros */
/* For the next thing to look after: one after the other. */
struct keeper *keepers_choose(struct keepers *k);
