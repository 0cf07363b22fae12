/* The sockets that engines are known to make. */
#pragma once

#include "backends/engine/address.h"

/* The first that answers a connect(2), malloced. NULL: none does; *ret_tried (may be NULL, malloced) says of
 * each what was found, *ret_unusable (may be NULL, set only if there are any) of those that are there. */
char *usual_places_find(enum engine_kind kind, char **ret_tried, char **ret_unusable);
