/* What lets a permanent computer outlive its server, two files of its folder, which nothing inside can see:
 *
 *   init        a socket, on which init listens for the next server; open to the user who runs servers
 *   init.lock   locked while init lives, wherever that can be seen from, and until the computer's groups are
 *               removed: no second init is started on the same files */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/cancel.h"
#include "base/error.h"

/* Takes the lock, to be passed on. ERR_BUSY: processes of the computer run where we can't reach them. */
int keep_lock(const char *folder, const struct wait *wait, int *ret_lock, struct error *err);
/* Makes the socket, for init to listen on. */
int keep_bind(const char *folder, int *ret_socket, struct error *err);
/* Connects to init. ret_pid, ret_uid: who listens, as the kernel tells; pid 0 if we can't see it. ERR_GONE:
 * nobody does. */
int keep_connect(const char *folder, int *ret_channel, pid_t *ret_pid, uid_t *ret_uid, struct error *err);
/* Is there a socket? */
bool keep_has_socket(const char *folder);
void keep_remove(const char *folder);
