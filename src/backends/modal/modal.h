/* Computers that are sandboxes of Modal, through its control plane and the command router of each. */
#pragma once

#include "backends/backend.h"
#include "backends/modal/account.h"

/* Strings are borrowed for the call. */
struct modal_options {
    struct modal_account_options account;
    const char *image;  /* NULL: debian:bookworm-slim */
    const char *shell;  /* NULL: /bin/bash, else /bin/sh */
    const char *gpu;    /* NULL: none */
    const char *region; /* NULL: any */
    double cpus;
    int64_t memory_mib;
    double lifetime_s; /* of a sandbox, at most a day; 0: an hour */
    bool network;
};

/* Checks what can be checked without a network. Connects to nothing. */
struct backend *modal_new(const struct modal_options *options, struct error *err);
