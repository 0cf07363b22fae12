/* The kernel's Landlock as one more wall, where there is one. */
#pragma once

#include "guest/wire.h"

/* Final, and inherited by all that is started. Needs no_new_privs and the computer's own root. Kernels
 * without it, or with less of it, do less: every wall that this one doubles stands without it. */
int landlock_restrict(struct guest_error *err);
