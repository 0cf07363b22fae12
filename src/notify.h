/* What systemd wants to know of a service (sd_notify(3)), by its own environment; without one nothing is
 * told. Loop thread only. */
#pragma once

#include "base/loop.h"

struct notify;
/* NULL if nobody asked. Takes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. With a watchdog, the loop tells
 * that it lives, twice per period. */
struct notify *notify_new(struct loop *loop);
void notify_tell(struct notify *n, const char *state); /* "READY=1", "STOPPING=1"; n may be NULL */
struct notify *notify_free(struct notify *n);          /* returns NULL */
