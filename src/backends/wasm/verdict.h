/* What the packets on a command's line mean for who asked for it. */
#pragma once

#include "backends/wasm/private.h"

/* A result (0), or the error that it comes to (-1). Both packets may have any content, since a guest may have
 * taken over its process; verdict NULL: there was none. */
int wasm_verdict(const struct wasm *w, const struct wasm_verdict *verdict, const struct wasm_over *over,
                 struct exec_result *ret, struct error *err);
