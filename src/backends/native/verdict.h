/* What the words about a command's end need to know of a native computer. */
#pragma once

#include "backends/native/private.h"
#include "backends/verdict.h"

/* Whether the root that computers are made from has a file. */
bool verdict_base_has(const struct native *n, const char *path);
/* "/bin/sh, /bin/dash": those of it. */
void verdict_list_shells(const struct native *n, char *ret, size_t size);
