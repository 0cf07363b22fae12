/* The skeleton of the host toolbox: a small synthesized root that is the same for all computers of this
 * machine. The guest lays it under each computer's writable layer and binds the host's /usr onto it. Nothing
 * of the host's /etc is taken but what is listed in toolbox.c. */
#pragma once

#include "base/error.h"

struct toolbox {
    char *path;  /* STATE/toolbox-FINGERPRINT */
    int lock_fd; /* shared lock on the folder: in use */
};

/* host_root: "/" but in tests. Builds the skeleton if there is none yet for what the host has now; removes
 * older ones that nobody uses. Safe beside other servers. */
int toolbox_open(const char *state_dir, const char *host_root, struct toolbox *ret, struct error *err);
void toolbox_done(struct toolbox *t);
