/* What one native computer has on disk: FOLDER/native, 0700 and its root's, with
 *   upper, work   the writable layer, and overlayfs' own scratch; or
 *   root          the whole root, where overlayfs can't be used; or
 *   disk          an image (disk.h), whose own root has the ones or the other. The folder is then the host's
 *                 root's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backends/native/disk.h"
#include "base/cancel.h"
#include "base/error.h"

/* Puts into FOLDER what folder_make() would otherwise have to make, as far as it can be made without a name
 * and an owner. */
int folder_prepare(const char *folder, const struct disks *disks, struct error *err);
/* Makes it, empty, for a computer whose root is id_base on the host (ID_OURS: it's us). plain_from: fill
 * `root` with a copy of it. */
int folder_make(const char *folder, uint32_t id_base, const char *plain_from, struct error *err);
/* The same on a new image; ret_disk is that, mounted. */
int folder_make_image(const char *folder, uint32_t id_base, const char *plain_from, const struct disks *disks,
                      const struct wait *wait, struct disk *ret_disk, struct error *err);
/* 1: there is an image, 0: there is none. */
int folder_has_image(const char *folder, struct error *err);
int folder_open_image(const char *folder, const struct wait *wait, struct disk *ret_disk, struct error *err);
/* ERR_GONE unless it is there, complete. */
int folder_check(const char *folder, bool plain, struct error *err);
/* Absent is success. */
int folder_remove(const char *folder, struct error *err);
