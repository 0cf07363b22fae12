/* Compiled modules, kept in STATE/wasm-cache. That is machine code which the zygote runs, so the folder must
 * be ours alone, and a file is used only if it is whole: its name ends with a checksum of its content. (Who
 * could forge that could replace the server.)
 *
 *   MODULE-MAJOR[-fuel]-CHECKSUM.cwasm    MODULE as in sha256.h */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/sha256.h"

struct cache_key {
    char text[SHA256_HEX_SIZE + 24];
};
struct cache_key cache_key(const char *module_hash, int major, bool fuel);

/* Makes the folder if need be. ERR_DENIED: others may write to it. -1 or its descriptor. */
int cache_open(const char *state_dir, struct error *err);
/* A copy in memory, sealed: nothing that happens to the file matters any more. -1: there is none. */
int cache_find(int cache, const struct cache_key *key);
/* Code that is in memory. What can't be kept is not: the next start compiles again. */
void cache_put(int cache, const struct cache_key *key, int code);
/* There was something wrong with what was found. */
void cache_drop(int cache, const struct cache_key *key);
