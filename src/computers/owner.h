/* Who a computer's record belongs to: one server process, named so that it can be told for good whether it
 * still lives. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "backends/backend.h"
#include "base/error.h"

#define OWNER_MACHINE_SIZE 33
#define OWNER_BOOT_SIZE 37

struct owner {
    char machine[OWNER_MACHINE_SIZE]; /* 32 hex digits */
    char boot[OWNER_BOOT_SIZE];
    pid_t pid;      /* 0: nobody */
    uint64_t start; /* clock_process_start(pid) */
};

/* This process. The machine's id is /etc/machine-id, or one of our own that is kept in the state directory.
 */
int owner_self(const char *state_dir, struct owner *ret, struct error *err);
/* True only when it is certain: same machine, and another boot, no such process, or another process under its
 * number. */
bool owner_is_dead(const struct owner *self, const struct owner *owner);
/* As labels say it, and back. state_dir: which is named by a digest. False: the words name nobody. */
void owner_words(const struct owner *o, const char *state_dir, struct computer_owner *ret);
bool owner_of_words(const struct computer_owner *words, struct owner *ret);
bool owner_equal(const struct owner *a, const struct owner *b);
