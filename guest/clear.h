/* The end of everything in a container but its first process: what a restart is to one that must not stop,
 * since its engine would remove it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A CLEAR of this id came. While it is on, nothing new is to be started. */
void clear_begin(uint32_t id, bool first_process);
bool clear_is_on(void);
/* When, in ns of the monotonic clock, something is to be done anyway; INT64_MAX: never. */
int64_t clear_due(void);
/* To be called when children may have ended, and those that had were collected. */
void clear_go_on(int64_t now);
