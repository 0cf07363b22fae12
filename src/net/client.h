/* A client from within: where its peer is, and the connections that wait for the next request. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "net/http.h"

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
    pthread_mutex_t lock;
    struct http_stream *idle; /* last used first */
    int idle_count;
};

/* "http://HOST[:PORT]" or "https://HOST[:PORT]", nothing else: the host goes into a header as it is. */
bool url_is_base(const char *url);

/* A connected socket that doesn't block, of a client with unix_path or dial. */
int client_connect(const struct http_client *c, const struct wait *wait, struct error *err);

/* A connection that was kept and looks alive; NULL: there is none. */
struct http_stream *client_take(struct http_client *c);
/* Keeps it for the next request, or closes it if there are many. */
void client_keep(struct http_client *c, struct http_stream *s);
