/* What our program in a machine answers (guest/job_wire.h). Pure, so that a fuzzer can drive it: whoever is
 * in the machine may have written it. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "guest/job_wire.h"

#define FLY_ANSWER_BYTES (sizeof(struct job_answer) + JOB_ANSWER_MAX) /* decoded */

/* bytes: a buf with that as its maximum, which is replaced; *ret_said points into it, at ret->size bytes of
 * what the job says, from `offset` on. ERR_UNAVAILABLE: it is none, or half of one; ERR_LIMIT: no memory. */
int fly_answer_parse(const char *text, uint64_t offset, struct buf *bytes, struct job_answer *ret,
                     const char **ret_said, struct error *err);
