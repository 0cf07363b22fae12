/* Commands as jobs: see job_wire.h. */
#pragma once

/* argv as the program was given it. Returns the exit code. */
int job_run(char **argv);
