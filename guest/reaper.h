/* The scope of a command where no cgroup2 is to be had: a process of its own that adopts all that the command
 * leaves behind. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "guest/exec.h"
#include "guest/wire.h"

#define REAPER_KILL_SIGNAL SIGTERM /* init -> reaper: end all that you watch over */

/* A socket pair for the records of all reapers: their end becomes descriptor `reapers_end`; returns init's,
 * or -1. */
int reaper_make_reports(int reapers_end);
/* Forks a reaper that runs the command and sends one struct guest_exit to `reports`. -1 with errno: no
 * process to be had. */
pid_t reaper_start(int reports, const struct launch *launch, uint32_t id);
/* Where computers have no /proc of their own: keeps the one that is there now, as FD_PROC, for walks of this
 * process and its reapers. Its numbers are those of another namespace. */
int reaper_open_proc(void);
/* Stops, then kills all descendants of `root`, except the `kept` processes and theirs. False: there were
 * none. */
bool reaper_kill_beneath(pid_t root, const pid_t *kept, unsigned kept_count);
/* Does a descendant of `root` run, other than those? */
bool reaper_finds_beneath(pid_t root, const pid_t *but, unsigned but_count);
