/* Credentials for a registry as users have them: ~/.docker/config.json (DOCKER_CONFIG), Podman's auth.json
 * (REGISTRY_AUTH_FILE, XDG_RUNTIME_DIR/containers/auth.json, ~/.config/containers/auth.json), and credential
 * helpers (docker-credential-NAME get). Source: docker-login(1), containers-auth.json(5). They appear in no
 * log, no error, and no argument list. */
#pragma once

#include "backends/engine/address.h"
#include "backends/engine/reference.h"
#include "base/buf.h"
#include "base/cancel.h"
#include "base/error.h"

/* The value of X-Registry-Auth for an image of that name, base64url of JSON; empty when nobody has any. The
 * files of the engine's own kind are asked first. -1 if a helper or a file can't be read (says which). The
 * caller ends `ret` with buf_wipe(). */
int credentials_find(enum engine_kind kind, const struct reference *r, const struct wait *wait,
                     struct buf *ret, struct error *err);
