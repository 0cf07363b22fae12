/* The mount tree of one computer. */
#pragma once

#include "guest/wire.h"

/* In a new mount namespace that is a copy of the zygote's, with the computer's folder as working directory:
 * builds the tree and makes it the root. `slot` as of template_attach_lower(). */
int tree_make(uint32_t root_flags, unsigned slot, uint64_t shm_bytes, struct guest_error *err);
