/* The zygote: one small process of the guest program that forks the first process of each computer, so that
 * nothing of the server's memory is ever in one. Its death ends no computer. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/cancel.h"
#include "base/error.h"
#include "base/list.h"
#include "guest/wire.h"

#include "backends/native/subids.h"

struct zygote;

/* Starts one and waits until it is set up. subids: for GUEST_USERS without GUEST_ONE_ID. parents: as wire.h
 * says. ERR_DENIED: we may not have such a one. */
struct zygote *zygote_start(const struct guest_setup *setup, const struct subids *subids, const int *parents,
                            size_t parent_count, const struct wait *wait, struct error *err);
struct zygote *zygote_ref(struct zygote *z);
/* The last one ends it. Accepts NULL, returns NULL. */
struct zygote *zygote_unref(struct zygote *z);
DEFINE_CLEANUP(struct zygote *, zygote_unref)
/* See GUEST_REPLY_PROC_HIDDEN. */
bool zygote_hides_proc(const struct zygote *z);
bool zygote_alive(struct zygote *z);
/* One of its computers outlives us, and it does: nobody is to wait for its end. */
void zygote_outlives(struct zygote *z);

/* A computer under way; made by zygote_ask(), gone after zygote_await() or zygote_forget(). */
struct zygote_asker {
    struct list node;
    uint32_t request;
    bool waits;
    bool done; /* reply and pidfd hold */
    struct guest_reply reply;
    int pidfd;
    struct cancel *event; /* a descriptor to wait for: fired when done, made the reader, or in vain */
};

/* Has a computer made; several threads may ask at once. The request's type and number are filled in here. fds
 * as wire.h says, borrowed. On success the asker goes on to exactly one of the other two. */
int zygote_ask(struct zygote *z, struct guest_create *request, const int *fds, size_t fd_count,
               const struct wait *wait, struct zygote_asker *a, struct error *err);
int zygote_await(struct zygote *z, struct zygote_asker *a, const struct wait *wait, pid_t *ret_pid,
                 int *ret_pidfd, struct error *err);
/* The computer whose first process has this number gets its host name, and if it is to outlive us its lock
 * (-1: not); then zygote_await_name() or zygote_forget(). */
int zygote_ask_name(struct zygote *z, pid_t pid, const char *hostname, int lock, const struct wait *wait,
                    struct zygote_asker *a, struct error *err);
int zygote_await_name(struct zygote *z, struct zygote_asker *a, const struct wait *wait, struct error *err);
/* With GUEST_USERS: a folder beneath the state directory, and all in it, becomes that id's, as the zygote
 * counts. */
int zygote_own(struct zygote *z, const char *folder, uint32_t id, const struct wait *wait, struct error *err);
/* Nobody wants it any more: if it comes to life it is killed. */
void zygote_forget(struct zygote *z, struct zygote_asker *a);
