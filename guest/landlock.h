/* The kernel's Landlock as one more wall, where there is one. */
#pragma once

#include <stdbool.h>

#include "guest/wire.h"

/* Final, and inherited by all that is started. Needs no_new_privs and the computer's own root. Kernels
 * without it, or with less of it, do less: every wall that this one doubles stands without it. */
int landlock_restrict(struct guest_error *err);

/* The same as the only wall around files: nothing is to be had but what `places` say. */
enum landlock_use { LANDLOCK_READ, LANDLOCK_RUN, LANDLOCK_USE, LANDLOCK_OWN };
struct landlock_place {
    const char *path;
    enum landlock_use use; /* read; that, and run; a device, read and written; all but making devices */
};
bool landlock_shuts_files(void); /* this kernel's does */
int landlock_shut_files(const struct landlock_place *places, unsigned count, struct guest_error *err);
