/* What a command and all that it starts are ended by: one cgroup2 folder per running command, in the
 * computer's group. A process can't leave it, whatever session or parent it gives itself.
 *
 * A scope outlives its command while background processes are in it, then goes away by itself: at the next
 * chance. One or two empty ones are kept open for the commands to come. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cancel.h"
#include "base/error.h"
#include "base/list.h"

struct scope {
    struct list node; /* in scopes.idle or scopes.background while no command has it */
    uint32_t number;
    int folder;  /* both -1 in the background list */
    int procs;   /* cgroup.procs, for reading and writing */
    bool killed; /* not to be used again */
};

struct scopes {
    char *group; /* the computer's cgroup2 folder */
    uint32_t id_base;
    pthread_mutex_t lock;
    struct list idle, background;
    unsigned idle_count, background_count;
    uint32_t next;
};

void scopes_init(struct scopes *s, const char *group, uint32_t id_base);
void scopes_done(struct scopes *s); /* closes; the folders go with the computer's group */

/* Of a computer that runs already: what another server has left running in it is background; what is empty is
 * removed. */
void scopes_resume(struct scopes *s);
/* Makes the scope of the first command ahead of it; if that fails, the command will tell. */
void scopes_warm(struct scopes *s);
struct scope *scope_take(struct scopes *s, struct error *err);
void scope_give_back(struct scopes *s, struct scope *scope);

bool scope_is_empty(const struct scope *scope);
/* Kills everything in it; what is being born at this very moment may need another call. */
void scope_kill(struct scope *scope);
/* Waits until nothing is in it, killing again and again. -1: something didn't die in time. */
int scope_end(struct scope *scope, int64_t deadline);
/* What is in it, as the computer numbers it. Returns how many were listed, at most max. */
size_t scope_pids(const struct scope *scope, int *pids, size_t max, bool *ret_more);
