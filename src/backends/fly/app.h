/* Which app our machines belong to: found, or made. */
#pragma once

#include "backends/provider.h"

struct app_search {
    const struct provider *machines; /* the Machines API */
    const struct provider *graphql;  /* which alone knows organisations */
    const char *name; /* that was asked for; NULL: the recorded one, else a new one is made and recorded */
    const char *organisation; /* that a new one is made in; NULL: the personal one, else the first */
    const char *state_file;   /* where it is recorded; NULL: there is no such place */
};
/* A malloced name. Of a named app that is there nothing more is asked than whether it is, and nothing is
 * made: that is all that a deploy token may. ERR_DENIED: Fly doesn't allow it, *ret_status says whether the
 * token itself is what it doesn't take (401). */
int app_find(const struct app_search *s, const struct wait *wait, char **ret, int *ret_status,
             struct error *err);
