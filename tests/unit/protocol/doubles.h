/* Stand-ins for tools/ and computers/, so that the protocol is tested alone: a toolset whose tools do what a
 * test needs, and a session of computers that records what happened to it. Linked instead of the real ones.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "computers/computers.h"
#include "tools/tools.h"

/* Tools:
 *   answer     result {"content":[],"isError":false}
 *   repeat     a text of arguments.size times "x"
 *   wait       like answer, after toolset_release(); ends with ERR_CANCELLED when cancelled
 *   stubborn   the same, but doesn't look at its token
 *   fail       a result with isError, of ERR_GONE
 *   break      -1, ERR_INTERNAL "it broke"
 */
struct toolset *toolset_double_new(void);
void toolset_release(struct toolset *t); /* one waiting call, now or later */
void toolset_await_started(struct toolset *t,
                           int calls); /* blocks until that many calls were started since the beginning */
void toolset_set_deadline(struct toolset *t, int64_t deadline);

struct computers_double {
    atomic_bool killed;
    int sessions, leased;  /* how many there were, of both kinds */
    atomic_int ended;      /* how many of them, by workers */
    atomic_int expired;    /* how often, by workers */
    int64_t expires_again; /* when, after the first time; 0: not */
    enum preparing wanted;
    atomic_int prepared;   /* how often, by workers */
    const char *end_error; /* what computer_session_end() fails with, or NULL */
};
struct computers *computers_double_new(struct computers_double *record);
struct computers *computers_double_free(struct computers *c);
