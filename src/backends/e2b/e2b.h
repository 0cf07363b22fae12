/* Computers that are sandboxes of E2B, hosted microVMs, through its control API and the daemon in each of
 * them (envd). */
#pragma once

#include "backends/backend.h"

/* Strings and lists (NULL-ended, or NULL) are borrowed for the call. */
struct e2b_options {
    const char *api_key;     /* NULL: none, which the first use tells */
    const char *domain;      /* E2B_DOMAIN; NULL: e2b.app */
    const char *api_url;     /* E2B_API_URL; NULL: that of the domain */
    const char *sandbox_url; /* E2B_SANDBOX_URL: for all sandboxes; NULL: each has its own */
    const char *template;    /* NULL: base */
    const char *shell;       /* NULL: /bin/bash, else /bin/sh */
    double lifetime_s;       /* that a sandbox lives when nobody renews it; 0: an hour */
    char *const *metadata;   /* KEY=VALUE */
    char *const *env;        /* NAME=VALUE */
    bool network;
    const char *ca_file; /* whose certificates are trusted, alone; NULL: the system's */
};

/* Checks what can be checked without a network. Connects to nothing. */
struct backend *e2b_new(const struct e2b_options *options, struct error *err);
