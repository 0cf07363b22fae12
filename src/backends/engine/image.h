/* Images of an engine: is it there, else pull it. Concurrent pulls of one image are one pull. */
#pragma once

#include "backends/engine/api.h"
#include "backends/engine/reference.h"

/* What is known of an image that is there. */
struct image {
    char architecture[32]; /* "amd64" as the image says */
    char os[16];
    char user[128]; /* "" is root */
    char lang[64];  /* "LANG=..." if it sets that; else "" */
};

struct images; /* pulls under way */
struct images *images_new(void);
/* The same with other limits than LIMIT_PULL_SECONDS and LIMIT_PULL_STALL_SECONDS. */
struct images *images_new_limited(double pull_seconds, double stall_seconds);
/* Nobody is in image_ensure() any more. */
struct images *images_free(struct images *i);

/* Makes sure that the image is there, for that platform if one is named ("linux/arm64"), else for the
 * engine's own. Progress goes to `progress` (may be NULL), on the caller's thread; without one, to the log at
 * level info. A pull that others wait for goes on when one of them gives up; it ends when the last one does.
 * Limit: LIMIT_PULL_SECONDS, and LIMIT_PULL_STALL_SECONDS without a byte while there is something to
 * download. Errors name the registry and what it said: ERR_NOT_FOUND (no such image), ERR_DENIED,
 * ERR_UNSUPPORTED (not for that platform), ERR_UNAVAILABLE, ERR_TIMEOUT, the token's codes. */
int image_ensure(struct images *images, struct engine *e, const struct reference *r, const char *platform,
                 const struct progress *progress, const struct wait *wait, struct image *ret,
                 struct error *err);
