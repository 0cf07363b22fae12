/* A folder with the guest program in it, started there as a machine's API would: short execs of text.
 * Whatever a test leaves running ends with it. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/macros.h"

#define JOB_TEXT_MAX (8UL << 20)

extern char job_place[64];
extern bool job_place_is_ours; /* a small disk of its own, and what is mounted there ends with the test */
/* Of cmocka's form. */
int job_place_make(void **state);
int job_place_remove(void **state);
/* Malloced. */
char *job_place_path(const char *fmt, ...) _printf_(1, 2);
/* A file that leaves no room on the disk. */
void job_place_fill(const char *path);

struct job_exec {
    pid_t pid;
    int out; /* what it prints */
};
/* args: NULL-ended, behind the program's own name. */
struct job_exec job_exec_begin(const char *const *args, const char *text);
/* Everything it prints, up to JOB_TEXT_MAX; its wait status. */
int job_exec_end(struct job_exec *e, struct buf *ret);
