/* What the files of this folder share: a client, and its lanes.
 *
 * A lane is an easy handle of libcurl with a multi handle of its own, and so with at most one connection. A
 * request takes an idle lane, or makes one, and is the only one to use it; afterwards the lane waits, with
 * its connection, for the next one. Lanes that failed are thrown away: what their connection is in the middle
 * of, nobody knows. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "net/curl.h"
#include "net/http.h"

struct lane {
    struct lane *next; /* while idle */
    struct http_client *client;
    CURLM *multi;
    CURL *easy;
    bool unset;                   /* an option couldn't be set */
    const struct wait *wait;      /* of the request under way */
    struct error error;           /* why a callback of ours stopped it */
    char detail[CURL_ERROR_SIZE]; /* libcurl's own words */
};

struct http_client {
    char *url;
    const char *host;  /* its part behind the scheme */
    const char *where; /* for people */
    char *unix_path;
    int (*dial)(void *ctx, const struct wait *wait, struct error *err);
    void *dial_ctx;
    char *ca_file, *cert_file, *key_file;
    bool insecure;
    bool tls;
    bool own_sockets; /* we connect, not libcurl */
    pthread_mutex_t lock;
    struct lane *idle; /* last used first */
    int idle_count;
};

/* A connected socket, of a client with own_sockets. */
int client_connect(const struct http_client *c, const struct wait *wait, struct error *err);

/* An idle lane or a new one, with all options that are the client's. NULL with the error. */
struct lane *lane_take(struct http_client *c, struct error *err);
struct lane *lane_free(struct lane *l);
DEFINE_CLEANUP(struct lane *, lane_free)
/* It did well: for the next request. */
void lane_return(struct lane *l);

#define LANE_SET(l, option, value)                                                                           \
    do {                                                                                                     \
        if (libcurl.easy_setopt((l)->easy, option, value) != CURLE_OK)                                       \
            (l)->unset = true;                                                                               \
    } while (0)

/* Does what the options say, within `wait`. -1 with the error: of a callback, of libcurl, or of the wait. The
 * easy handle is part of the multi handle afterwards. */
int lane_run(struct lane *l, const struct wait *wait, struct error *err);

/* -1, ERR_INVALID: part of it would end the line that it belongs to. */
int request_check(const struct http_request *r, struct error *err);
/* The limit of response.body. */
size_t request_max_body(const struct http_request *r);
/* Says that it was reached. */
int request_body_too_long(const struct http_client *c, const struct http_request *r, struct error *err);
