/* A computer without namespaces, where none can be had and the user has said that this will do: the rung
 * `weak`. Its processes are processes of the machine, in the machine's tree of files. What shuts them in is
 * Landlock (files, signals, tracing), a second filter of system calls (no sockets, nothing that acts on other
 * processes of the user), limits, and, as root, a user of its own. SECURITY.md says what that doesn't hold.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "guest/wire.h"

/* Of the zygote: enters the state directory, adopts what an init leaves behind. Fails where there is too
 * little to shut anybody in with. */
int weak_prepare(const char *state_dir, struct guest_error *err);
/* As fork(2), with a pidfd. Engines' filters know no clone3. */
pid_t weak_clone(int *ret_pidfd);

/* Of init. Becomes the user `id`, if it is root, and enters the computer's own folder, `upper` in `folder`.
 */
int weak_enter(int folder, uint32_t id, struct guest_error *err);
/* Final, like privileges_drop(). The working directory is what stays to be written to. */
int weak_shut_in(struct guest_error *err);
