/* The environment of a command. */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

/* Appends NAME=VALUE NUL for the backend's defaults and `extra` (may be NULL), in which a later one of the
 * same name wins over an earlier one and over a default: no name comes twice. */
int environment_append(struct buf *b, const char *hostname, char *const *extra, uint32_t *ret_count,
                       struct error *err);
