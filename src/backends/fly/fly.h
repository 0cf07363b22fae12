/* Computers that are Fly Machines, hosted microVMs, through Fly's Machines API. */
#pragma once

#include "backends/backend.h"
#include "backends/fly/account.h"

/* Strings are borrowed for the call. */
struct fly_options {
    struct fly_account_options account;
    const char *image;   /* NULL: debian:bookworm-slim */
    const char *region;  /* NULL: Fly chooses */
    const char *shell;   /* NULL: /bin/bash, else /bin/sh */
    bool performance;    /* whole processors instead of shared ones */
    int64_t cpus;        /* 0: 1 */
    int64_t memory_mb;   /* 0: 512 */
    int64_t rootfs_gb;   /* 0: Fly chooses */
    double lease_s;      /* that a temporary machine lives when nobody speaks to it; 0: half an hour */
    double calls_each_s; /* that Fly takes of one kind for one machine; 0: what Fly documents */
};

/* Checks what can be checked without a network. Connects to nothing. */
struct backend *fly_new(const struct fly_options *options, struct error *err);
