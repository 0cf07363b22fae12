/* Paths as text. Nothing here touches the disk. */
#pragma once

#include <stdbool.h>

/* A malloced "dir/name". */
char *path_join(const char *dir, const char *name);
bool path_is_absolute(const char *path);
const char *path_basename(const char *path); /* points into path */
