/* What Podman's Docker-compatible API does differently, for versions 4.3 and later. Nothing else in this
 * folder asks which of the two it is, but for words. */
#pragma once

#include <jansson.h>

#include "backends/engine/api.h"

/* Whether the answer to /_ping is Podman's. */
bool podman_is(const struct http_response *ping);
/* Whether a refused removal says that the container is just changing its state by itself. */
bool podman_is_passing(const struct error *why);
/* Whether a refused creation says that the name is taken: it answers 500. */
bool podman_is_taken(const struct engine *e, const struct error *why);
/* Whether a command that ended with that code and those first words never began: what the engine says of that
 * looks like output of the command. */
bool podman_is_refusal(const struct engine *e, int exit_code, const char *words);
/* Whether that is what it says among the command's own output when the command no longer reads its input. */
bool podman_is_noise(const struct engine *e, const char *bytes, size_t n);
/* Makes the body of a container create one that this engine understands. */
void podman_adapt_create(const struct engine *e, json_t *body);
