/* The ids that a user may give away besides his own: those that the administrator has given to him in
 * /etc/subuid and /etc/subgid, mapped by the helpers newuidmap and newgidmap (package uidmap, or
 * shadow-utils). Root of a container, who can't do what root of the machine can, still has all. */
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

/* False: this user has none, or no helpers, or no home folder to agree in. root_file: where root's servers
 * agree. */
bool subids_find(const char *root_file, struct subids *ret);
/* The largest range of a user in a file like /etc/subuid. Returns how many; 0: none. */
uint32_t subids_read(const char *file, const char *name, uid_t uid, uint32_t *ret_first);
/* As the ids from 1 on of the user namespace that the process is in; 0 is the user. ERR_DENIED if the helpers
 * refuse. */
int subids_map(const struct subids *s, pid_t pid, const struct wait *wait, struct error *err);
