/* The engine inside one of our own processes that use it: loaded, and asked. None of this is for the server's
 * process. */
#pragma once

#include <stddef.h>

#include "backends/wasm/wasmtime.h"
#include "base/error.h"

/* Loads the library. ERR_UNAVAILABLE: it can't be, or isn't one of Wasmtime's. */
int runtime_load(const char *library, struct error *err);
/* fuel: code counts its instructions. Aborts if there is no memory. */
struct wasmtime_engine *runtime_new(bool fuel);
/* The major version, by what the engine writes into code that it compiles: it says so nowhere else. */
int runtime_major(struct wasmtime_engine *engine, int *ret, struct error *err);
/* A linker with all of WASI. Its proc_exit is ours, since the engine's own takes a status over 125 for an
 * error: it ends the run by a trap and leaves the status, 0 to 255, in *exited, which must be -1 before. */
int runtime_link(struct wasmtime_engine *engine, int *exited, struct wasmtime_linker **ret,
                 struct error *err);
/* What failed, as the engine says it; returns -1. The code is ERR_INVALID. */
int runtime_failed(const struct wasmtime_error *e, const char *what, struct error *err);
/* The last cause of a trap, in one line without the backtrace. */
void runtime_trap_text(const struct wasmtime_trap *trap, char *ret, size_t size);
void runtime_error_text(const struct wasmtime_error *e, char *ret, size_t size);
