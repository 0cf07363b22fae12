/* What one native computer has on disk: FOLDER/native, 0700 and its root's, with
 *   upper, work   the writable layer, and overlayfs' own scratch; or
 *   root          the whole root, where overlayfs can't be used. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Puts into FOLDER what folder_make() would otherwise have to make, as far as it can be made without a name
 * and an owner. */
int folder_prepare(const char *folder, struct error *err);
/* Makes it, empty, for a computer whose root is id_base. plain_from: fill `root` with a copy of it. */
int folder_make(const char *folder, uint32_t id_base, const char *plain_from, struct error *err);
/* ERR_GONE unless it is there, complete. */
int folder_check(const char *folder, bool plain, struct error *err);
/* Absent is success. */
int folder_remove(const char *folder, struct error *err);
