/* Credentials for a registry as users have them: ~/.docker/config.json (DOCKER_CONFIG), Podman's auth.json
 * (REGISTRY_AUTH_FILE, XDG_RUNTIME_DIR/containers/auth.json, ~/.config/containers/auth.json), and credential
 * helpers (docker-credential-NAME get). Source: docker-login(1), containers-auth.json(5). They appear in no
 * log, no error, and no argument list. */
#pragma once

#include "base/cancel.h"
#include "base/error.h"
#include "base/buf.h"

/* The value of X-Registry-Auth for the registry ("docker.io", "localhost:5000"), base64url of JSON; empty
 * when nobody has any. -1 if a helper or a file can't be read (says which). */
int credentials_find(const char *registry, const struct wait *wait, struct buf *ret, struct error *err);
