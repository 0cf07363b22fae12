/* The main process of a machine, whose end is that of the machine. */
#pragma once

/* Lives until it is told to end, or, unless lease_s is 0, until nobody has touched the place for so long.
 * Returns the exit code. */
int machine_run(const char *program, unsigned lease_s);
