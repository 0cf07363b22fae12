/* The user namespace of a zygote that isn't root of the machine, and the ids of computers. */
#pragma once

#include "guest/packet.h"
#include "guest/wire.h"

/* Enters one, as GUEST_USERS and GUEST_ONE_ID say, and becomes its root. `packet` is used. */
int users_enter(uint32_t flags, struct packet *packet, struct guest_error *err);
/* Writes the maps of a computer's first process; `process` is its folder in /proc. A range that doesn't reach
 * as far as 65534 gives its last id to that one, nobody. */
int users_map(int process, const struct guest_create *create, struct guest_error *err);
/* With one id: changing owners or users seems to work and does nothing, since it couldn't, and packages
 * would not install. A seccomp filter, besides the one of privileges.c. */
int users_fake(struct guest_error *err);
