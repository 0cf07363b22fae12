/* What the kernel tells of a process in one line: /proc/PID/stat. proc(5). */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct proc_stat {
    char state;
    pid_t parent, session;
    unsigned flags;
};
#define PROC_FLAG_EXITING 0x4U /* PF_EXITING of the kernel's sched.h */

/* process: its folder, from `dir` on, as openat(2) has it. False: there is none any more. */
bool proc_read_stat(int dir, const char *process, struct proc_stat *ret);
