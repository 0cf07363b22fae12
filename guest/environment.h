/* The environment of a machine's main process, for its jobs: what an image has to say (its PATH) comes to
 * that one only. */
#pragma once

void environment_keep(int place);
/* That which was kept, above our own. */
void environment_take(int place);
