/* Calls of a provider's HTTP API, whose answers are hostile: how much, how deep and of what type they are is
 * checked, and its words go into errors on one line, cut, and never with a credential in them. */
#pragma once

#include <jansson.h>

#include "backends/pace.h"
#include "net/http.h"

#define PROVIDER_HEADERS_MAX 8
#define PROVIDER_ENDS_AT_ONCE 64        /* of computers; what a provider takes at once, pace.h finds out */
#define PROVIDER_ANSWER_BYTES (8 * MIB) /* a list of all computers there are may be long */

/* A base address from an option or a variable: https://HOST[:PORT], or http:// for a host that is this
 * machine, so that credentials never travel in the clear. A slash at its end is fine. `what` names it.
 * Malloced; NULL: ERR_INVALID. */
char *provider_base(const char *what, const char *url, struct error *err);

/* One host of a provider, and as whom it is spoken to. Everything is borrowed. */
struct provider {
    const char *name; /* for people: "E2B" */
    struct http_client *client;
    struct http_header headers[PROVIDER_HEADERS_MAX]; /* of every request */
    size_t header_count;
    const char *secret; /* what must not be told; several are separated by commas */
    struct pace *pace;  /* NULL: none, and nothing is repeated */
};

struct provider_call {
    const char *method, *path; /* as of struct http_request */
    const json_t *body;        /* NULL: none, or these bytes */
    const void *bytes;
    size_t byte_count;
    const char *content_type;
    const char *header;  /* to be given to *ret_header, name in lower case; NULL: none */
    char **ret_header;   /* malloced; NULL: there was none */
    const char *without; /* texts of this name are left out of the answer: see strain.h; NULL: nothing is */
    bool repeatable;     /* twice is as good as once; GET and DELETE are in any case */
    struct pace *pace;   /* of calls that are counted apart; NULL: the provider's */
    bool *ret_far;       /* set to true when it was refused for longer than anybody waits; may be NULL */
};

/* Sends it, and again where that may help, within the wait: what was refused for being too much until it is
 * taken, as long as others of its pace are and the provider doesn't say that it takes too long; what may have
 * had an effect only if it is repeatable. ret may be NULL, then the answer may be empty as well; *ret is NULL
 * for 204. ret_status may be NULL; 0: nobody answered. -1: ERR_DENIED (401, 403), ERR_NOT_FOUND,
 * ERR_EXISTS (409), ERR_INVALID (400, 422), ERR_LIMIT (429, and 507), ERR_UNAVAILABLE (anything else),
 * ERR_BUSY (as of pace.h), ERR_TIMEOUT and the token's codes. */
int provider_call(const struct provider *p, const struct provider_call *call, const struct wait *wait,
                  json_t **ret, int *ret_status, struct error *err);

/* Calls take their turns by a pace, and come again where that may help, whatever they are. */
struct provider_turn {
    struct pace *pace; /* NULL: none, and nothing is repeated */
    bool is_harmless;  /* twice is as good as once */
    /* Of the last attempt: */
    int status;    /* 0: nobody answered */
    int64_t after; /* that it wants us to wait, in ns; 0: it didn't say */
    bool is_far;   /* that is longer than anybody waits */
};
/* One attempt, for which provider_note() is called if there is an answer. -1 if it isn't what it should be.
 */
typedef int provider_attempt_fn(void *ctx, struct provider_turn *t, const struct wait *wait,
                                struct error *err);
void provider_note(struct provider_turn *t, const struct http_response *r);
/* As provider_call(). -1: the last attempt's error, or one of the wait or the pace. */
int provider_in_turn(struct provider_turn *t, const struct wait *wait, provider_attempt_fn *attempt,
                     void *ctx, struct error *err);

/* The time was over in the queue: what was refused before (or ERR_NONE) says why. -1. */
int provider_too_late(const struct error *refused, const struct error *why, struct error *err);
/* What was refused, when that is over only after longer than anybody waits; 0: as it is. -1. */
int provider_refused_for(const struct error *refused, int64_t ns, struct error *err);

/* Whether it is what providers call things, so that it can be part of a path, and fits into `size` bytes with
 * its end. NULL is none. */
bool provider_is_id(const char *id, size_t size);

/* What an answer that isn't 2xx means, as an error. */
int provider_refused(const struct provider *p, const struct http_response *r, struct error *err);
