/* The environment of a command. */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

/* Appends NAME=VALUE NUL for the backend's defaults, `own` of the computer and `extra` of the command (both
 * may be NULL), of which a later one of the same name wins over an earlier one: no name comes twice. home:
 * the computer's only folder, with one for temporary files; NULL: it is root's of a tree. */
int environment_append(struct buf *b, const char *hostname, const char *home, char *const *own,
                       char *const *extra, uint32_t *ret_count, struct error *err);
