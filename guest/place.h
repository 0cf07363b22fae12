/* Where the program works when it is started again and again (job_wire.h): a folder beside it. Its main
 * process lays memory over that, so that what is kept there needs no room on a disk that may be full. Code in
 * the machine is hostile, and may be of our own user: nothing is opened through a symbolic link, and no
 * folder used that others may write to. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "guest/wire.h"

/* program: as argv[0] has it, with a slash. The folder is made if it isn't there. -1. */
int place_open(const char *program, struct guest_error *err);
/* Lays memory over it, unless something lies there already, and opens that. -1: it can't be had, and the
 * place on the disk does as well while there is room. Leaves the working directory. */
int place_open_in_memory(const char *program, int place);
/* A folder in it that is for us alone; make: it is made if it isn't there. -1: ENOENT and others. */
int place_open_folder(int at, const char *name, bool make, struct guest_error *err);
/* An ordinary file, never waiting for it. -1 with errno. */
int place_open_file(int at, const char *name, int flags);

/* Says that somebody was here. */
void place_touch(int place);
/* Whether that was said since the last call with this stat; of no clock. */
bool place_was_touched(int place, struct stat *seen);
