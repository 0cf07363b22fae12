/* Where the engine's library and the module of go_busybox are looked for. Files of ours (`make wasm`) are
 * libwasmtime.so and busybox.wasm in one of these folders, the first that has them:
 *
 *   $SANDBOX_WASM_DIR                                               and no other, if it is set
 *   ../lib/mcp-sandbox-computer-vm-for-ai/wasm                      beside the folder of this program
 *   $XDG_DATA_HOME/mcp-sandbox-computer-vm-for-ai/wasm              ~/.local/share by default
 *   /usr/local/lib/mcp-sandbox-computer-vm-for-ai/wasm
 *
 * The library may also be what WASMTIME_LIBRARY names, which comes first; the one of the Python package
 * `wasmtime` beside this program (../lib/python3.N/site-packages); or what the loader finds, last. */
#pragma once

#include "base/error.h"

#define PLACES_MEND "run `make wasm`, which installs both"

/* A path, or for the loader a plain name, malloced; NULL if WASMTIME_LIBRARY names what isn't there. */
char *places_library(struct error *err);
/* NULL: ERR_UNAVAILABLE, with what to do. */
char *places_busybox(struct error *err);
