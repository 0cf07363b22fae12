/* ~/.modal.toml as `modal setup` leaves it: a table for each profile, with texts, numbers, true and false in
 * it.
 *
 *     [work]
 *     token_id = "ak-..."
 *     token_secret = "as-..."
 *     active = true
 *
 * Of the profile that is chosen a few names are known; all else is skipped. */
#pragma once

#include <stddef.h>

#include "base/error.h"

struct modal_profile { /* what isn't there is NULL, or -1 */
    char *token_id, *token_secret;
    char *environment, *server_url, *builder_version;
    int sandbox_v2;
};
void modal_profile_done(struct modal_profile *p); /* wipes the secret */

/* The one that is named, else the active one, else "default". A profile that nobody named may be missing,
 * then nothing is in it. -1, ERR_INVALID: with the line, the text is none of these, or there is no such
 * profile. */
int modal_profile_parse(const char *file, const char *text, size_t n, const char *name,
                        struct modal_profile *ret, struct error *err);
/* path NULL: ~/.modal.toml. A file that isn't there has no profiles. */
int modal_profile_read(const char *path, const char *name, struct modal_profile *ret, struct error *err);
