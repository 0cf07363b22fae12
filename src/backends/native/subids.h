/* The ids that the administrator has given to a user besides his own: /etc/subuid and /etc/subgid, and the
 * helpers that map them, newuidmap and newgidmap (package uidmap, or shadow-utils). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cancel.h"
#include "base/error.h"

struct subids {
    uint32_t users, groups; /* the first of each */
    uint32_t count;         /* of both */
    char *file;             /* where the user's servers agree on who has which; malloced */
};

/* False: this user has none, or no helpers, or no home folder to agree in. */
bool subids_find(const char *users, const char *groups, struct subids *ret);
/* As the ids from 1 on of the user namespace that the process is in; 0 is the user. ERR_DENIED if the helpers
 * refuse. */
int subids_map(const struct subids *s, pid_t pid, const struct wait *wait, struct error *err);
