/* Memory for what comes and goes: each piece a mapping of its own, so that it is back at once when it is
 * given back, and not a child's: a reaper that lives for days would hold on to what we had when it was
 * forked. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* NULL: there is none. */
void *memory_take(size_t size);
/* NULL is harmless; returns NULL. */
void *memory_give(void *memory, size_t size);
/* Keeps what is there, perhaps elsewhere. NULL: there is none, and the old piece stays. */
void *memory_grow(void *memory, size_t size, size_t new_size);
/* Whether children get it too. */
void memory_share(void *memory, size_t size, bool share);
