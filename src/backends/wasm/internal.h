/* The processes of ours that use the engine: what wire.h says they are started as. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/* Each returns 0 or -1, but for the zygote, which returns only if it couldn't begin. */
int internal_check(const char *library, struct error *err);
int internal_compile(const char *library, bool fuel, struct error *err);
int internal_zygote(const char *library, bool fuel, struct error *err);
