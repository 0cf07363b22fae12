/* Where the engine is: --docker-host, DOCKER_HOST or CONTAINER_HOST, docker's contexts, and the sockets that
 * engines are known to make; how to reach it (unix, TCP, TLS, ssh); and, for Podman without a socket, a
 * service of its own. Sources: docker-context(1), docker's cli/context documentation,
 * podman-system-service(1).
 */
#pragma once

#include <stdbool.h>

#include "backends/engine/engine.h"
#include "net/http.h"

enum engine_kind { ENGINE_DOCKER, ENGINE_PODMAN };

struct engine_address {
    enum engine_kind kind; /* as asked for; what answers is found out later */
    char *text;            /* for people: "unix:///var/run/docker.sock" */
    char *origin;          /* for people: "DOCKER_HOST", "the docker context 'colima'", "a usual place" */
    char *unix_path;       /* unix:// */
    char *url;             /* always: "http://docker", "https://host:2376" */
    char *ssh;             /* ssh://: destination as ssh(1) takes it; NULL otherwise */
    char *ssh_port;        /* or NULL */
    char *ssh_socket;      /* path on the far side, or NULL: as its own client finds it */
    char *ca_file, *cert_file, *key_file;
    bool insecure;
    struct dialer *dialer;   /* ssh:// */
    struct service *service; /* `podman system service` that we started, or NULL */
};
void engine_address_done(struct engine_address *a); /* ends the service and what dials, too */

/* Finds the one that is meant. An address that was named is taken without asking whether anybody is there;
 * among the usual places the first that answers a connect(2) is. -1, ERR_UNAVAILABLE: nothing was found; the
 * message lists all that was tried and what to do. ERR_INVALID: the named one can't be understood. Starts
 * Podman's service if that is what is left, within `wait`. state_dir: for its socket. */
int engine_address_find(const struct engine_options *o, const struct wait *wait, struct engine_address *ret,
                        struct error *err);
/* Whether what was named can be understood, and its keys be read. Connects to nothing. */
int engine_address_check(const struct engine_options *o, struct error *err);
/* As above, without starting anything, and only sockets and named addresses: whether it is worth asking. */
bool engine_address_likely(const struct engine_options *o);
/* What is at a usual place and can't be used, why, and what to do, for people who may have expected it. NULL:
 * nothing. Malloced. */
char *engine_address_hindrance(const struct engine_options *o);

/* A client of it. ssh: one child per connection, `ssh ... docker system dial-stdio` or the like, whose
 * standard input and output are the connection; what it says on standard error is in the error. `a` outlives
 * it. */
struct http_client *engine_address_client(const struct engine_address *a, struct error *err);
