/* A file that holds an ext4 file system, mounted. */
#pragma once

#define LOOP_CONTROL "/dev/loop-control"

#include "base/cancel.h"
#include "base/error.h"

/* Locks the open file `image` for whoever mounts it; waits for one who still has it, but not for long.
 * ERR_BUSY: it stays in use. */
int loop_lock(int image, const struct wait *wait, struct error *err);
/* Mounts it. Returns the mount, attached nowhere: a descriptor that may be passed on, and attached by whoever
 * gets it. -1: ERR_UNAVAILABLE.
 *
 * All goes by itself, whoever is killed: with the last of these descriptors and of the namespaces that it was
 * attached in, the file system is unmounted; with that, the loop device is free; and with that, the lock is
 * gone, if no descriptor that locked the file is left. */
int loop_mount(int image, struct error *err);
