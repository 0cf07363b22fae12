/* The WASM backend: a WebAssembly module (WASI preview 1) as a computer. Each computer is a folder; each
 * command is one run of the module in a process of its own, jailed, with that folder as its `/`.
 *
 * The engine is Wasmtime's C library, which the server itself never loads: all that uses it are processes of
 * this same program, started with the word below (internal.h). */
#pragma once

#include "backends/backend.h"

#define WASM_INTERNAL "internal-wasm"

/* For whoever looks for the library and the module of go_busybox: see places.h. */
#define WASM_DIR_VARIABLE "SANDBOX_WASM_DIR"

struct wasm_options {
    bool go_busybox;       /* that backend, with its own module; else `wasm`, with the one at `module` */
    const char *state_dir; /* absolute; shared by several servers */
    const char *module;    /* --wasm-path; NULL: go_busybox's, where `make wasm` has put it */
    const char *shell;     /* --shell: what of the module runs a `command`; NULL: it has no shell */
    int64_t memory_bytes;  /* of each command. 0: 256 MiB */
    int64_t fuel;          /* of each command. 0: no limit */
    int64_t disk_bytes;    /* of a computer. 0: no cap */
    bool network_wanted;   /* described as missing: there is none */
};
/* Only looks at what is there. Strings are copied. */
struct backend *wasm_new(const struct wasm_options *options);
/* ERR_INVALID if the file is no module, ERR_UNAVAILABLE if module or library aren't there: for refusing to
 * start. */
int wasm_check(const struct wasm_options *options, struct error *err);

/* For main(), before all else: if the first argument is WASM_INTERNAL, does what the rest says and returns
 * the exit code; else -1. */
int wasm_internal(int argc, char *const *argv);
