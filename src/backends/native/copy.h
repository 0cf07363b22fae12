/* Copies of small trees of ours: folders, regular files and symbolic links. */
#pragma once

#include <stdint.h>

#include "base/error.h"

/* Copies the content of `from` into the existing folder `name` beneath dirfd; all of it becomes `id`'s, modes
 * are kept. Other kinds of files are left out. */
int copy_tree(const char *from, int dirfd, const char *name, uint32_t id, struct error *err);
/* Copies one regular file's bytes to a new file. max: ERR_LIMIT beyond. */
int copy_file(int from_dirfd, const char *from, int dirfd, const char *name, unsigned mode, uint64_t max,
              struct error *err);
