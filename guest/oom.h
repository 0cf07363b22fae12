/* Out of memory: who is to be ended first, and how often it has happened. */
#pragma once

#include <stdint.h>

/* What the others write and read; to be opened while nothing hostile runs, and the score while /proc/self
 * isn't closed to us. -1 with errno: it isn't there, and is done without. */
int oom_open_score(void);
int oom_open_count(void);
/* Around the start of a command, which inherits the score: we are to be the last to be chosen. */
void oom_raise_score(void);
void oom_restore_score(void);
/* Processes ended for want of memory in our control group so far; 0 if that isn't to be known. */
uint64_t oom_kills(void);
