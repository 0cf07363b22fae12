/* The host as one who has nothing to do with computers: what it is set to, and what it can still get, while
 * they do their worst. */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/macros.h"

struct bystander;
struct bystander *bystander_remember(void);
struct bystander *bystander_free(struct bystander *b); /* NULL is fine; returns NULL */
DEFINE_CLEANUP(struct bystander *, bystander_free)
/* How many settings, programs or clocks are not what they were, each named in a line of *ret. */
size_t bystander_changes(const struct bystander *b, struct buf *ret);
/* How many kinds of things that are counted by user, or by machine, can't be had any more. */
size_t bystander_lacks(struct buf *ret);
