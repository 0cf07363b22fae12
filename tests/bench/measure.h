/* What the bench's stages measure with. All times are milliseconds of wall clock. Anything that goes wrong
 * ends the bench: a figure of a run with failed calls is worth nothing. */
#pragma once

#include <stddef.h>

#include "base/macros.h"
#include "client/mcp_client.h"

void die(const char *fmt, ...) _printf_(1, 2) _noreturn_;

struct series {
    double *values;
    size_t count, cap;
};
void series_add(struct series *s, double value);
/* Of values[from .. to). */
double series_median_of(const struct series *s, size_t from, size_t to);
double series_median(const struct series *s);
double series_percentile(const struct series *s, double percent);
void series_done(struct series *s);

/* vfork, exec, wait. capture: standard output goes through a pipe and is read to its end, else it goes to
 * /dev/null. */
double measure_program(const char *const *argv, bool capture);
/* Tries it. NULL if it works, else why it can't be measured here, malloced. */
char *program_why_not(const char *const *argv);
/* `count` of them at once, until all have ended. */
double measure_programs(const char *const *argv, int count);

/* A server under measurement. `folder` holds its state directory and may be shared by servers one after
 * another. */
struct subject {
    struct mcp *mcp;
    long last_id;
    double initialize_ms; /* from spawn to the initialize reply */
};
/* args: NULL-terminated, behind the program's path; then the handshake. */
void subject_start(struct subject *s, const char *program, const char *const *args);
/* The time of one tools/call whose arguments are given as JSON text; the result must be a success, of a
 * command with exit code 0. first: with the `initialized` notification before it, as a client's first call
 * has. */
double subject_call(struct subject *s, const char *tool, const char *arguments, bool first);
/* `count` of the same call at once, until the last reply. */
double subject_calls(struct subject *s, const char *tool, const char *arguments, int count);
/* `true` in each of the computers from computer-FIRST to before computer-END, which are made by it; so many
 * calls are under way at a time. Until the last reply. */
double subject_make_computers(struct subject *s, const char *tool, bool temporary, int first, int end,
                              int at_a_time);
/* A call whose time is of no interest. */
void subject_do(struct subject *s, const char *tool, const char *arguments);
double subject_memory_mib(const struct subject *s, const char *field); /* VmRSS, VmHWM */
/* Of all its threads, so far. */
double subject_cpu_ms(const struct subject *s);
/* Closes its input; the time until it has ended. There may be computers that it had no time to remove. */
double subject_end(struct subject *s, double seconds);

/* Memory of the machine that is free or can be freed at once, when it no longer changes. */
double machine_available_mib(void);
