/* Signals of the guest's long-lived processes: all blocked, and read from FD_SIGNALS. */
#pragma once

#include <signal.h>

/* FD_SIGNALS (init.h) yields SIGCHLD, REAPER_KILL_SIGNAL, and `more` (NULL: none). -1 with errno. */
int signals_take(const sigset_t *more);
