/* What one computer has on disk: FOLDER/wasm, 0700, which is its "/". Its content is hostile: whatever is
 * opened in it is resolved by the kernel beneath it. */
#pragma once

#include "base/error.h"

#define WASM_FOLDER "wasm"

/* Makes it, with a /tmp in it; what an earlier computer left goes. Returns it, open, or -1. */
int wasm_folder_make(const char *folder, struct error *err);
/* ERR_GONE if it isn't there. */
int wasm_folder_open(const char *folder, struct error *err);
/* Absent is success. */
int wasm_folder_remove(const char *folder, struct error *err);

/* A folder in the computer, by its absolute path there; links lead where they would lead inside. What isn't
 * there is made, since a module may have no other way to make it. -1: ERR_CWD_NOT_FOUND. */
int wasm_folder_enter(int root, const char *path, struct error *err);
/* A spool_open_fn; ctx is an int, the root. */
int wasm_folder_open_spool(void *ctx, const char *name, char **ret_path);
