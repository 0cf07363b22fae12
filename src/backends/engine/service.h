/* Podman without a socket: `podman system service` as a child of ours, on a socket in a private folder. It
 * ends with us, however we end. Source: podman-system-service(1). */
#pragma once

#include "base/cancel.h"

struct service;

/* program: the path of podman. Returns once it answers. -1: ERR_UNAVAILABLE with what it said, ERR_TIMEOUT,
 * the token's codes; ERR_INVALID: state_dir can't hold a socket. */
struct service *service_start(const char *program, const char *state_dir, const struct wait *wait,
                              struct error *err);
const char *service_socket(const struct service *s);
struct service *service_stop(struct service *s); /* accepts NULL, returns NULL */
