/* The library's functions as variables, and the one that fills them. See wasmtime.h. */
#include "backends/wasm/wasmtime.h"

#define WASMTIME_DEFINE(result, name, parameters) result(*name) parameters;
WASMTIME_API(WASMTIME_DEFINE)
#undef WASMTIME_DEFINE
