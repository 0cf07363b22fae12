/* The account from within, and calls of the control plane. */
#pragma once

#include <pthread.h>

#include "backends/modal/account.h"
#include "backends/modal/message.h"
#include "backends/pace.h"
#include "base/attempt.h"
#include "net/grpc.h"

#define MODAL_SERVICE "/modal.client.ModalClient/"
#define MODAL_HEADERS_MAX 12
#define MODAL_IMAGES_MAX 64 /* that are remembered */
#define MODAL_CREATE_IF_MISSING 1
#define MODAL_EPHEMERAL 5

/* Something that is found out once, by whoever needs it first; the others wait for that. */
struct modal_known {
    struct attempt attempt;
    char text[MODAL_ID_SIZE]; /* "": it isn't known */
};

struct modal_image {
    char *reference; /* NULL: free */
    unsigned users;  /* who look at it: it can't become another's */
    struct modal_known id;
};

struct modal_account {
    char *token_id, *token_secret; /* NULL: none */
    char *server_url, *host, *environment, *app_name, *ca_file;
    bool plain; /* the server is of this machine and speaks without TLS, and so do its routers */
    bool v2;
    struct grpc_channel *channel;
    struct pace *pace;
    struct pace *creating; /* of sandboxes: who makes too many can still end them */

    pthread_mutex_t lock; /* of all that follows */
    char *auth_token;
    int64_t refresh_at, expires_at; /* of that */
    struct attempt refreshing;
    struct modal_known app, builder;
    struct modal_image images[MODAL_IMAGES_MAX];
    unsigned next_image; /* to be replaced when all are in use */
};

/* --- account.c --- */

/* *k, by find() if need be. */
int modal_know(struct modal_account *a, struct modal_known *k,
               int (*find)(struct modal_account *a, void *ctx, const struct wait *wait,
                           char ret[MODAL_ID_SIZE], struct error *err),
               void *ctx, const struct wait *wait, char ret[MODAL_ID_SIZE], struct error *err);
int modal_app_id(struct modal_account *a, const struct wait *wait, char ret[MODAL_ID_SIZE],
                 struct error *err);
int modal_builder_version(struct modal_account *a, const struct wait *wait, char ret[MODAL_ID_SIZE],
                          struct error *err);
/* Apps and images may have been deleted: they are asked for anew. */
void modal_account_forget(struct modal_account *a);
/* ERR_DENIED: it has none. */
int modal_check_token(const struct modal_account *a, struct error *err);
/* Malloced. */
char *modal_auth_token(struct modal_account *a, const struct wait *wait, struct error *err);
/* That one was refused. */
void modal_auth_token_forget(struct modal_account *a, const char *token);
/* Printable, so that it can be a header's value. */
bool modal_is_token(const char *text);

/* --- control.c --- */

struct modal_call {
    const char *name; /* "SandboxCreateV2" */
    const ProtobufCMessage *request;
    const ProtobufCMessageDescriptor *answer;
    bool without_auth; /* the call that gets the auth token */
    struct pace *pace; /* of calls that are counted apart; NULL: the account's */
};
/* Sends it, and again where that may help. The answer, for modal_free(). NULL as of grpc_call(). */
void *modal_control(struct modal_account *a, const struct modal_call *call, const struct wait *wait,
                    struct error *err);
/* A stream of messages from the control plane. */
struct grpc_stream *modal_control_open(struct modal_account *a, const char *name,
                                       const ProtobufCMessage *request, const struct wait *wait,
                                       struct error *err);

/* What failed, in the peer's words if it has some, on one line; never with a credential in it. */
int modal_told(const struct modal_account *a, const char *who, const struct grpc_status *status,
               const struct error *why, struct error *err);

/* What became of one call so far. */
struct modal_retry {
    int most; /* failures that are borne; 0: as many as usual */
    int failures, throttles;
    int refusals;       /* for being too much, without a word when to come again, while nobody got through */
    uint64_t successes; /* of all calls of the pace, as of the last such refusal */
    int64_t delay_ns;   /* before the attempt that comes */
    int64_t pause_ns;   /* of that, what isn't waited for in the queue */
    int64_t after_ns;   /* that Modal wants to be left alone, and that is too long; else 0 */
    struct error why;   /* of the last failure */
};
/* After a failure: whether it is to be sent once more, after the pause. */
bool modal_retry_helps(struct pace *pace, struct modal_retry *r, const struct grpc_status *status,
                       const struct error *why, const struct wait *wait);
/* The same, and the pause. */
bool modal_retry(struct pace *pace, struct modal_retry *r, const struct grpc_status *status,
                 const struct error *why, const struct wait *wait);
/* A wait for one attempt was over, and the call's own isn't: that is a failure that may pass. */
void modal_attempt_over(const struct wait *call, struct grpc_status *status, struct error *why);
