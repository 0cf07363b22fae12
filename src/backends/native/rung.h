/* The ladder: what native computers are isolated by depends on who the server is and on what the kernel lets
 * it do. It begins at the highest rung that may hold, and is on the first that does:
 *
 *   RUNG_ROOT     root of the machine: a range of user ids for each computer, everything that the kernel has
 *   RUNG_RANGE    in a user namespace of our own, with more ids than one: each computer has a range of them
 *   RUNG_ONE_ID   in one with nothing but the user's own id: it is root in each computer, and nobody else is
 *   RUNG_WEAK     without namespaces: Landlock, filters and limits (guest/weak.h). Only for who has said that
 *                 this will do
 *
 * Where no user namespace is to be had, and that wasn't said, no computer is. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "backends/native/ids.h"
#include "base/cancel.h"
#include "base/error.h"

enum rung { RUNG_ROOT, RUNG_RANGE, RUNG_ONE_ID, RUNG_WEAK, RUNGS };

/* "root", "range", "one-id", "weak": for records. */
const char *rung_name(enum rung rung);
/* What a person and a model should know of it, or NULL. */
const char *rung_words(enum rung rung);

/* What RLIMIT_NPROC counts, for whom: "for each of its users"; NULL: nothing that would serve. */
const char *rung_counts_processes(enum rung rung);
/* How many of what it counts there are before the first of a computer. proc: where /proc is. */
uint32_t rung_processes_before(enum rung rung, const char *proc);

/* Adds what is to be done to a refusal (ERR_DENIED) to make user namespaces. proc: where /proc is, "/proc"
 * but in tests. Returns -1. */
int rung_refused(const char *proc, struct error *err);
/* Whether it is refused for certain, to root or to others, without trying: ERR_DENIED with the words of
 * rung_refused. */
int rung_check(const char *proc, bool root, struct error *err);
