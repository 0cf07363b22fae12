/* Files for output that is too long to be kept. */
#pragma once

#include "guest/wire.h"

/* A new file for writing, mode 0600: nothing that is there is opened, and no link at its end followed.
 * Parents are made (0755). The path is absolute, and written to meanwhile. Returns the descriptor, or -1. */
int file_make(char *path, struct guest_error *err);
