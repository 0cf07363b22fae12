/* Giving up what a computer's processes never need, in the order that lets each step still work. */
#pragma once

#include <stdint.h>

#include "guest/wire.h"

/* Core dumps off, no priority over others, not dumpable, umask, limits of descriptors and of the size of a
 * file (0: none). *ret_nofile: what a command may get of `nofile`. */
int privileges_limit(uint32_t nofile, uint64_t file_bytes, unsigned *ret_nofile, struct guest_error *err);
/* Capabilities, no_new_privs, Landlock, the system call filter. Final. */
int privileges_drop(struct guest_error *err);
/* The last of these alone. Needs no_new_privs. */
int privileges_load_filter(struct guest_error *err);
/* Gives up one capability for good, in all sets. */
int privileges_give_up(unsigned capability, struct guest_error *err);
/* What clone3 must carry under the filter. */
const uint64_t *privileges_token(void);
