/* The module that a backend runs: a file of the user's. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"

struct module {
    struct buf bytes;
    char hash[SHA256_HEX_SIZE];
};
/* ERR_INVALID: it is something else than a module, and the message says what. ERR_UNAVAILABLE: it can't be
 * read. The first 8 bytes decide, so that machine code is never taken for a module. */
int module_read(const char *path, struct module *ret, struct error *err);
void module_done(struct module *m);
/* Looks at those bytes only. */
int module_check(const char *path, struct error *err);
/* What the module is called by itself: the file's name without folder and ".wasm"; malloced. */
char *module_stem(const char *path);
