/* Who may speak to the HTTP listener, and as whom. Host and Origin keep out web pages that reach us through
 * somebody's browser (DNS rebinding); a token keeps out everybody else. Loop thread only.
 *
 * Tokens are kept as SHA-256 and compared as such: in the same time whatever was sent, and nothing of a token
 * is left in memory. A later OAuth resource server would check its tokens in access_identify(). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct access_options {
    const char *host;               /* what we listen on, as given; "*": anything; NULL: only this machine
                                     * gets there */
    const char *token;              /* of the principal "local"; or NULL */
    const char *token_file;         /* lines `NAME TOKEN` or `NAME sha256:HEX`; or NULL */
    const char *metrics_token_file; /* one token; or NULL */
    char *const *allowed_hosts, *const *allowed_origins; /* NULL-terminated; NULL: none */
};
struct access;
/* ERR_INVALID, ERR_NOT_FOUND and others: a file of tokens that can't be understood. The options may go away.
 */
struct access *access_new(const struct access_options *options, struct error *err);
/* Reads the file of tokens anew. -1: nothing has changed. */
int access_reload(struct access *a, struct error *err);
struct access *access_free(struct access *a); /* returns NULL */
bool access_needs_token(const struct access *a);

/* Header values as they came; NULL: absent. */
struct access_request {
    const char *host, *origin, *authorization;
    bool unix_socket;
    uid_t peer_uid;   /* of a unix socket's peer */
    bool is_loopback; /* the peer is on this machine */
};
/* Whether Host and Origin are those of somebody who means us. *ret_why: a sentence, when false. */
bool access_admit(const struct access *a, const struct access_request *r, const char **ret_why);
/* The principal; NULL: nobody we know, *ret_why then says why. */
const char *access_identify(const struct access *a, const struct access_request *r, const char **ret_why);
/* Whether it may see how the server is: by the token for that; without such a token from this machine, as
 * long as there is no other token either. */
bool access_may_watch(const struct access *a, const struct access_request *r);
/* Whether answers may name this origin to a browser: it is allowed by option. */
bool access_is_listed_origin(const struct access *a, const char *origin);

/* An address that has sent a wrong token waits for its next refusal: ms; doubles up to ACCESS_DELAY_MAX_MS.
 */
#define ACCESS_DELAY_MAX_MS 4000
int64_t access_refusal_delay(struct access *a, const char *peer);
