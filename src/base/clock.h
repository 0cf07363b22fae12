/* Time. Durations and deadlines use CLOCK_MONOTONIC in nanoseconds; wall clock is for records and logs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define NSEC_PER_MSEC 1000000LL
#define NSEC_PER_SEC 1000000000LL
#define DEADLINE_NONE INT64_MAX

int64_t clock_now(void);                      /* monotonic, ns */
int64_t clock_deadline_after(double seconds); /* saturates */
/* Time left as poll(2)'s timeout: 0 when passed, -1 for DEADLINE_NONE, rounded up to a ms. */
int clock_poll_timeout(int64_t deadline);
int64_t clock_wall(void); /* ns since the epoch */
#define CLOCK_RFC3339_SIZE 32
/* "2026-11-29T12:23:51.034Z" */
const char *clock_rfc3339(int64_t wall_ns, char buf[CLOCK_RFC3339_SIZE]);

/* The kernel's random boot id, 36 characters; "" if unreadable. Cached. */
const char *clock_boot_id(void);
/* Start time of a process in clock ticks since boot (proc(5), stat field 22): with pid and boot id it names a
 * process for good. 0 if there is no such process, it has ended and only waits for its parent, or /proc
 * doesn't show it to us (hidepid). */
uint64_t clock_process_start(pid_t pid);
/* It has not ended, and /proc doesn't show it to us. */
bool clock_process_is_hidden(pid_t pid);
/* What names an open process for good, together with the boot id, whatever /proc shows. 0: the kernel is
 * older than 6.9, and has no such number. */
uint64_t clock_process_serial(int pidfd);
