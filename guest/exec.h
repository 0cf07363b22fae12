/* Starting one command: a child that shares our memory until its execve. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "guest/request.h"

struct launch {
    const struct request_exec *request;
    int in, out, err; /* in -1: ours, which is /dev/null */
    /* -1, or as the next says: a cgroup2 folder to be born in, or a cgroup.procs to write to. */
    int scope;
    bool scope_is_folder;
    int script;          /* -1: none */
    struct rlimit files; /* RLIMIT_NOFILE */
    bool tied;           /* its reaper ends it when we are gone */
    /* What holds the request, mapped for it alone, or NULL: a reaper gives it back when the command runs. */
    void *mapped;
    size_t mapped_size;
};

/* The process, or -1 with *ret_stage (enum guest_stage) and *ret_errno. A child that failed before its execve
 * is left to be reaped as any other. Blocks until the execve: not for long, since nothing inside can make a
 * file system that hangs. */
pid_t exec_launch(const struct launch *launch, uint32_t *ret_stage, int32_t *ret_errno);
/* What it has used, as wait4(2) tells of it, for its record. */
void exec_tell_usage(const struct rusage *usage, struct guest_exit *record);
