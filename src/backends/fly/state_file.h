/* Where the app that was made for this user is recorded: {"app": "NAME"}, as the Python program has it. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/* Malloced; NULL: neither a path nor HOME says where. `path` NULL: the Python program's place. */
char *state_file_place(const char *path);
/* A malloced name that is fit for a path, or NULL where nothing is recorded. -1: there is something that
 * can't be read or isn't understood, which is then not to be overwritten. */
int state_file_read(const char *path, char **ret_app, struct error *err);
/* Replaces it at once; its folder is there. */
int state_file_write(const char *path, const char *app, struct error *err);
/* Whether it can be an app's name: letters, digits and dashes, at most 63. */
bool app_name_is_valid(const char *name);
