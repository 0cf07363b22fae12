/* Getting what a URL leads to, over redirects: each is https, or http of this machine itself. Whoever answers
 * is not trusted. */
#pragma once

#include "base/buf.h"
#include "base/cancel.h"

/* What a download may be. */
struct download {
    const char *url;
    const char *ca_file; /* whose certificates are trusted, alone; NULL: the system's */
    size_t max;          /* bytes; more is ERR_LIMIT */
};
/* The whole of it into an open, empty file. */
int download_to_file(const struct download *d, int fd, const struct wait *wait, struct error *err);
/* As a malloced text, without white space at its ends. */
int download_text(const struct download *d, const struct wait *wait, char **ret, struct error *err);
