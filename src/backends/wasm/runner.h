/* One run of the module, in a process made for it: the zygote's child. */
#pragma once

#include "backends/wasm/wasmtime.h"
#include "backends/wasm/wire.h"
#include "base/macros.h"

/* What the zygote has loaded. */
struct runner {
    struct wasmtime_engine *engine;
    struct wasmtime_module *module;
    struct wasmtime_linker *linker;
    struct wasmtime_pre *pre; /* linked */
    int exited;               /* see runtime_link() */
    uint64_t memory_bytes;    /* that it has before any command */
};

/* Becomes the command, and says on its line how that ended. */
_noreturn_ void runner_run(struct runner *runner, const struct wasm_request *request,
                           const int fds[WASM_FDS]);
