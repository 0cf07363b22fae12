/* The ladder: what native computers are isolated by depends on who the server is and on what the kernel lets
 * it do. It begins at the highest rung that may hold, and is on the first that does:
 *
 *   RUNG_ROOT     root of the machine: a range of user ids for each computer, everything that the kernel has
 *   RUNG_RANGE    in a user namespace of our own, with more ids than one: each computer has a range of them
 *   RUNG_ONE_ID   in one with nothing but the user's own id: it is root in each computer, and nobody else is
 *
 * Where no user namespace is to be had, no computer is. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "backends/native/ids.h"
#include "base/cancel.h"
#include "base/error.h"

enum rung { RUNG_ROOT, RUNG_RANGE, RUNG_ONE_ID, RUNGS };

/* "root", "range", "one-id": for records. */
const char *rung_name(enum rung rung);
/* What a person and a model should know of it, or NULL. */
const char *rung_words(enum rung rung);

/* Whether RLIMIT_NPROC counts the processes of one computer only. */
bool rung_counts_processes(enum rung rung);

/* Adds what is to be done to a refusal (ERR_DENIED) to make user namespaces. proc: where /proc is, "/proc"
 * but in tests. Returns -1. */
int rung_refused(const char *proc, struct error *err);
/* Whether it is refused for certain, without trying: ERR_DENIED with the words of rung_refused. */
int rung_check(const char *proc, struct error *err);
