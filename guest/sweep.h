/* The end of everything in a machine that must not stop, since it would be destroyed: what a restart is to
 * it. */
#pragma once

#include "guest/wire.h"

/* Whatever is left is ours, of the machine's first processes, or the kernel's. -1: something could not be
 * ended. */
int sweep_all(struct guest_error *err);
