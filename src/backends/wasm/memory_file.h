/* Files in memory that nobody can change any more. */
#pragma once

#include <stddef.h>

#include "base/error.h"

/* An empty one, to be written to; -1: ERR_LIMIT. */
int memory_file_new(const char *name, struct error *err);
/* From now on it stays as it is, and is read from its beginning. */
int memory_file_seal(int fd, struct error *err);
