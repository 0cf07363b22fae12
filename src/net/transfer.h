/* One of libcurl's transfers: an easy handle in a multi handle of its own, since the easy interface alone
 * can't be woken by a cancel token. */
#pragma once

#include <stdbool.h>

#include "base/cancel.h"
#include "net/curl.h"

/* Where it goes, and whom it trusts there. Borrowed. */
struct transfer_peer {
    const char *where; /* for people */
    bool tls;
    const char *ca_file; /* alone; NULL: the system's */
    const char *cert_file, *key_file;
    bool insecure;
};

struct transfer {
    CURLM *multi;
    CURL *easy;
    bool unset;                   /* an option couldn't be set */
    char detail[CURL_ERROR_SIZE]; /* libcurl's own words */
};

#define TRANSFER_SET(t, option, value)                                                                       \
    do {                                                                                                     \
        if (libcurl.easy_setopt((t)->easy, option, value) != CURLE_OK)                                       \
            (t)->unset = true;                                                                               \
    } while (0)

/* After curl_load(). Sets what all transfers have, and not yet the URL. multi: one that is free, for its
 * connections, or NULL; it becomes the transfer's. The struct must stay where it is. */
void transfer_init(struct transfer *t, CURLM *multi, const struct transfer_peer *peer);
/* After all options: begins it. -1: ERR_LIMIT. */
int transfer_begin(struct transfer *t, const struct transfer_peer *peer, struct error *err);
/* Goes on as far as that is possible without waiting. 1: it is under way; 0: it is over, *ret tells how; -1.
 */
int transfer_step(struct transfer *t, CURLcode *ret, struct error *err);
/* Waits until there may be something to be done, within the limits. */
int transfer_wait(struct transfer *t, const struct wait *wait, struct error *err);
/* What its end means, as ERR_UNAVAILABLE. `what` is said where libcurl's code has no meaning of its own. */
int transfer_explain(const struct transfer *t, const struct transfer_peer *peer, CURLcode code,
                     const char *what, struct error *err);
/* Ends it. The multi handle, with the connections that can be used again; to be given to the next or to
 * libcurl.multi_cleanup(). NULL: there is none. */
CURLM *transfer_end(struct transfer *t);
