/* The zygote as the server has it: one process that has the module loaded and forks for each command. */
#pragma once

#include <stdbool.h>

#include "backends/wasm/wire.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/macros.h"

struct wasm_zygote;

/* code: the compiled module in memory, borrowed. Waits until it is loaded. ERR_INVALID: the engine refuses
 * the code. */
struct wasm_zygote *wasm_zygote_start(const char *library, bool fuel, int code, const struct wait *wait,
                                      struct error *err);
struct wasm_zygote *wasm_zygote_ref(struct wasm_zygote *z);
/* The last one ends it, and all that it runs. Accepts NULL, returns NULL. */
struct wasm_zygote *wasm_zygote_unref(struct wasm_zygote *z);
DEFINE_CLEANUP(struct wasm_zygote *, wasm_zygote_unref)
bool wasm_zygote_alive(const struct wasm_zygote *z);
/* Any thread. fds are borrowed. ERR_GONE: it has ended. */
int wasm_zygote_send(struct wasm_zygote *z, const struct wasm_request *request, const int fds[WASM_FDS],
                     const struct wait *wait, struct error *err);
