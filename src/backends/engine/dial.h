/* Connections to an engine over ssh: each is a child, `ssh DESTINATION docker system dial-stdio`, whose
 * standard input and output are the far end of a socket pair. Source: docker's cli/connhelper; Podman has the
 * same command since 4.0. */
#pragma once

#include "backends/engine/address.h"

/* For an address with ssh set. */
struct dialer *dialer_new(const struct engine_address *a);
/* Ends all children; their connections see the end of their input. Returns NULL. */
struct dialer *dialer_free(struct dialer *d);

/* http_address.dial; ctx: the dialer. The connection has been tried by a ping, so that what ssh has to say
 * (no such host, permission denied, no docker there) is in this error. The child ends when it is closed. */
int dialer_dial(void *ctx, const struct wait *wait, struct error *err);
