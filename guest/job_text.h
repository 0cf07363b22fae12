/* The texts that jobs are asked and answered in: base64 on standard input and output. */
#pragma once

#include "guest/job_wire.h"

/* All that comes, if it is exactly so many bytes. Stays with us until our end. NULL: it isn't (EBADMSG). */
char *job_read_input(uint64_t size, struct guest_error *err);
/* Fills in what is the same in all answers, and prints the rest from the file, if head->size > 0. -1: nothing
 * was printed. */
int job_print(const struct job_answer *head, int file, struct guest_error *err);
