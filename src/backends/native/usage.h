/* How much lies in a tree that hostile code may change meanwhile. */
#pragma once

#include <stdint.h>

#include "base/error.h"

struct usage {
    int64_t bytes, files; /* of the disk; folders and links are files too */
};
#define USAGE_UNKNOWN INT64_MAX /* bytes of a tree that goes deeper than anything sane */

/* Counts at most that many files. */
int usage_measure(int dirfd, const char *name, int64_t max_files, struct usage *ret, struct error *err);
