/* The folders that a guest finds open. */
#pragma once

#include "backends/wasm/wasmtime.h"
#include "base/error.h"

/* Gives it `root` as "/". If `cwd` is another folder, also that as ".", and then each folder of the root
 * under its own name: a guest's C library takes "/" and "." for the same, and the last of them wins, so that
 * only longer names still lead beneath the root. One that has a namesake in `cwd` is left to that. The
 * current directory of the process changes. */
int preopen_folders(struct wasmtime_wasi *wasi, int root, int cwd, struct error *err);
