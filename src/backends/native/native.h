/* The native backend: computers made of Linux namespaces, cgroups and seccomp by the guest program (guest/),
 * with no daemon and no image. This folder is the server's side: groups, state folders, channels, and the
 * running of commands. */
#pragma once

#include "backends/backend.h"

struct native_options {
    const char *state_dir; /* absolute; shared by several servers */
    const char *rootfs;    /* --rootfs; NULL: the host toolbox */
    const char *shell;     /* --shell if given (never falls back); NULL: /bin/bash, else /bin/sh */
    int64_t memory_bytes;  /* of all processes of one computer; with swap. 0: 512 MiB */
    int64_t pids;          /* 0: 512 */
    double cpus;           /* 0: 1 */
    int64_t disk_bytes;    /* 0: no cap */
    bool keep_running;     /* what runs in permanent computers outlives the server */
    bool allow_weak;       /* --allow-weak-isolation: without namespaces, where there are none to be had */
    bool network_wanted;   /* by default or asked for: described as missing, since this version has none */
};
/* ERR_DENIED or ERR_INVALID if no computer can be made by this user, or from this --rootfs (NULL: none): for
 * refusing to start. */
int native_check(const char *rootfs, bool allow_weak, struct error *err);
/* Only looks at what is there. Strings are copied. The program must ignore SIGPIPE before the first exec:
 * commands needn't read their input. */
struct backend *native_new(const struct native_options *options);
