/* What a server leaves on the machine. Remember the state before the server is started, compare after its
 * end: processes, mounts, control groups. (A namespace lives only as long as a process, a mount or a
 * descriptor that holds it.)
 *
 * Processes are found exactly: this process becomes the reaper of all its descendants, so whatever loses its
 * parent ends up as our child. Groups count only if nobody lives in them, so other programs may run at the
 * same time. */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/macros.h"

struct host;
struct host *host_remember(void);
struct host *host_free(struct host *h); /* NULL is fine; returns NULL */
DEFINE_CLEANUP(struct host *, host_free)
/* From now on only what is of this state directory counts, and of those of earlier calls, whatever else is
 * made on the machine meanwhile: mounts that name it, and groups, lived in or not, that have the key of a
 * computer that it holds now or held at an earlier call. Returns how many such computers there have been. */
size_t host_own(struct host *h, const char *state_dir);
/* How many things there are more than before, each named in a line of *ret. Waits up to `seconds` for them to
 * go. All servers must have been waited for. */
size_t host_leftovers(struct host *h, double seconds, struct buf *ret);
/* How many folders of computers a state directory holds. */
size_t state_dir_computers(const char *state_dir);
