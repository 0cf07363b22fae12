/* Computers that are containers of Docker or Podman, through the engine's API. */
#pragma once

#include "backends/backend.h"

/* Strings and lists (NULL-ended, or NULL) are borrowed for the call. */
struct engine_options {
    const char *engine;         /* "docker", "podman", or the path of a program of one of these names */
    const char *docker_host;    /* --docker-host or DOCKER_HOST; NULL: not given */
    const char *container_host; /* CONTAINER_HOST */
    const char *context;        /* DOCKER_CONTEXT; NULL: that of docker's configuration */
    bool tls_verify;            /* DOCKER_TLS_VERIFY */
    const char *cert_path;      /* DOCKER_CERT_PATH */
    const char *image;          /* NULL: debian:bookworm-slim */
    const char *platform;       /* "linux/arm64"; NULL: the engine's own */
    const char *shell;          /* NULL: /bin/bash, else /bin/sh */
    double cpus;                /* 0: no limit */
    int64_t memory_bytes;       /* 0: half of the engine's memory */
    int64_t pids;               /* 0: 1024 */
    bool network;
    char *const *run_flags; /* --docker-run-flag */
    bool keep_running;      /* permanent computers run on when the server ends */
    const char *state_dir;
    bool without_guest; /* for tests: as if our program could run in no container */
};

/* Checks what can be checked without an engine (its address, image reference, run flags). Connects to
 * nothing.
 */
struct backend *engine_new(const struct engine_options *options, struct error *err);

/* For the choice of a backend where none was named: true if an engine answers within timeout_ms at an address
 * that users expect. Blocks; a worker's. */
bool engine_answers(const struct engine_options *options, int timeout_ms);
