/* Maxima that modules and their commands meet. Bytes unless a name says otherwise. */
#pragma once

#include "base/limits.h"

#define LIMIT_WASM_MODULE_BYTES (64 * MIB)
#define LIMIT_WASM_CODE_BYTES (512 * MIB) /* compiled */
#define LIMIT_WASM_CACHE_BYTES (1024 * MIB)
#define LIMIT_WASM_CACHE_FILES 32
#define LIMIT_WASM_COMMANDS 512 /* of one zygote, at once */

#define COMPILE_CPU_SECONDS 240
#define COMPILE_SECONDS 300
#define COMPILE_MEMORY_BYTES (2048 * MIB)

/* Beside the memory of the module itself: the engine's own, its threads' stacks, stdin. */
#define RUN_MEMORY_BYTES (64 * MIB)
#define RUN_TABLE_ELEMENTS (1 << 20)
#define RUN_TABLES 16
#define RUN_FILES 1024 /* descriptors */
