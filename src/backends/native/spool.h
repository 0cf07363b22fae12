/* Where a native computer's spool (backends/spool.h) gets its files: init makes them. */
#pragma once

#include "backends/native/private.h"
#include "backends/spool.h"

/* ctx: the computer, a struct native_instance. */
spool_open_fn native_spool_open;
