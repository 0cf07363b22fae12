/* Out of memory: who is to be ended first, and how often it has happened. */
#pragma once

#include <stdint.h>

/* Opens what the others read and write, while nothing hostile runs and /proc/self is not closed to us. What
 * isn't there is done without. */
void oom_open(void);
/* Around the start of a command, which inherits the score: we are to be the last to be chosen. */
void oom_raise_score(void);
void oom_restore_score(void);
/* Processes ended for want of memory in our control group so far; 0 if that isn't to be known. */
uint64_t oom_kills(void);
