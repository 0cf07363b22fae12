/* Closes the way from a container's network to metadata services and to the engine's own machine. */
#pragma once

#include "guest/wire.h"

/* In the network namespace that we are in, which must be the container's own, with CAP_NET_ADMIN, before
 * anything of the container's runs. All of it or nothing; once more replaces it. -1: err says why. */
int firewall_close(struct guest_error *err);
