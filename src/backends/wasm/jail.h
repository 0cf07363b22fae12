/* What a process may do once nothing but a stranger's module is left for it to do. It is put on before the
 * engine has made a thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum jail {
    JAIL_RUN,    /* files beneath one folder, its own threads and descriptors; no new code */
    JAIL_COMPILE /* no file at all; code may be made, since that is the work */
};

/* Whether this kernel has Landlock: without it a process that runs code of its own making is held by file
 * descriptors and the filter only. */
bool jail_has_landlock(void);
/* root: JAIL_RUN's folder. What the engine doesn't need isn't there (ENOSYS); what is an attack ends the
 * process by SIGSYS. */
int jail_enter(enum jail kind, int root, struct error *err);
/* Gives up all capabilities, for good. For whoever has any. */
int jail_drop_privileges(struct error *err);
/* What this process has of data now, in bytes; 0: it can't be told. */
uint64_t jail_memory_now(void);
/* How much of it this process may have. */
int jail_limit_memory(uint64_t bytes, struct error *err);
