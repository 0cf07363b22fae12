/* The environment of a machine's main process, for its jobs: what an image has to say (its PATH) comes to
 * that one only. */
#pragma once

#include <stdbool.h>

/* anew: also where one is kept already. */
void environment_keep(int place, bool anew);
/* That which was kept, above our own. */
void environment_take(int place);
