/* The folder that the program lies in, and works in where it is started again and again (job_wire.h). Code in
 * the machine is hostile, and may be of our own user: nothing is opened through a symbolic link, and no
 * folder used that others may write to. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "guest/wire.h"

/* program: as argv[0] has it, with a slash. -1. */
int place_open(const char *program, struct guest_error *err);
/* A folder in it that is for us alone; make: it is made if it isn't there. -1: ENOENT and others. */
int place_open_folder(int at, const char *name, bool make, struct guest_error *err);
/* An ordinary file, never waiting for it. -1 with errno. */
int place_open_file(int at, const char *name, int flags);

/* Says that somebody was here. */
void place_touch(int place);
/* Whether that was said since the last call with this stat; of no clock. */
bool place_was_touched(int place, struct stat *seen);
