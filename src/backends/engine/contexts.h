/* Docker's contexts: a name for an engine, kept by `docker context` in ~/.docker. Source: docker's
 * cli/context/store: contexts/meta/ID/meta.json and contexts/tls/ID/docker/{ca,cert,key}.pem, ID being the
 * SHA-256 of the name. */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "base/mem.h"

/* An engine as somebody named it. */
struct endpoint {
    char *host;       /* "tcp://host:2376"; NULL: nobody named any */
    char *origin;     /* for people: who named it */
    char *tls_folder; /* where ca.pem, cert.pem and key.pem may be, or NULL */
    bool tls;
    bool insecure;   /* any certificate of the engine will do */
    bool tls_needed; /* the folder was named by the user: there must be something in it */
};
void endpoint_done(struct endpoint *e);

/* DOCKER_CONFIG, else ~/.docker; NULL without HOME. Malloced. */
char *contexts_folder(void);
/* The context in use: the named one (may be NULL), else that of `docker context use`. ret->host stays NULL if
 * there is none ("default"). ERR_INVALID: it isn't there or can't be read, so what is meant can't be known.
 */
int contexts_current(const char *named, struct endpoint *ret, struct error *err);
