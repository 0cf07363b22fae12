/* The zygote's own root: what computers are made from and nothing else, so that a new mount namespace copies
 * a handful of mounts and shows no path of the host. */
#pragma once

#include <stdbool.h>

#include "guest/wire.h"

/* Makes it and pivots into it. Needs a mount namespace of its own. ret_base: a base that the server is to
 * fill; -1: there is none, or it is full. */
int template_make(const struct guest_setup *setup, int *ret_base, struct guest_error *err);

/* A new /proc, attached nowhere, of the processes around us; -1: none may be made. */
int template_open_proc(void);

/* Whether a computer may mount a /proc of its own, found out by doing. */
bool template_shows_proc(void);

/* Attaches the base's ids shifted into those of a user namespace at /lower/SLOT, read-only. An overlay made
 * in a computer's namespace accepts no detached mount as its layer, hence the detour. stage "idmap base" with
 * EINVAL: the base's file system can't do it. */
int template_attach_lower(unsigned slot, int user_namespace, struct guest_error *err);
void template_detach_lower(unsigned slot);

/* Folders at the top of the root that the toolbox binds in this system; ends with NULL. */
extern const char *const template_toolbox[];
