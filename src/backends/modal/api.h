/* The control plane: sandboxes of both generations, and their images. All calls are repeated where that may
 * help, within their wait; those that make something carry a key by which a repeated one is known. */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/backend.h"
#include "backends/modal/account.h"

/* A sandbox that runs, and how its command router is spoken to. */
struct modal_sandbox {
    char id[MODAL_ID_SIZE], task[MODAL_ID_SIZE];
    char *router_url, *router_jwt; /* malloced; the url is https:// */
};
void modal_sandbox_done(struct modal_sandbox *s);

/* Borrowed for the call. */
struct modal_creation {
    const char *image_id;
    double cpus;        /* 0: Modal's own choice */
    int64_t memory_mib; /* 0: likewise */
    const char *gpu;    /* "H100", "A100-80GB:2"; NULL: none */
    const char *region; /* one or several, "eu,us-east"; NULL: any */
    uint32_t timeout_s; /* that it lives, at most MODAL_LIFETIME_MAX_S */
    bool network;
    char *const *env;             /* NAME=VALUE, ended by NULL; or NULL */
    const char *const (*tags)[2]; /* names and texts, one of which is of this creation only */
    size_t tag_count;
};
#define MODAL_LIFETIME_MAX_S 86400

/* On failure nothing is left: one that was made although no answer came is looked for by its tags.
 * ERR_INVALID: Modal can't make such a one; ERR_LIMIT: no more of them; ERR_NOT_FOUND: the image (or the app)
 * isn't there any more. */
int modal_api_create(struct modal_account *a, const struct modal_creation *c, const struct wait *wait,
                     struct modal_sandbox *ret, struct error *err);
/* One that runs already, after a restart: its task, and a router's token. ERR_NOT_FOUND: it has ended. */
int modal_api_reach(struct modal_account *a, const char *id, const struct wait *wait,
                    struct modal_sandbox *ret, struct error *err);
/* 1: it has ended, *ret_why (malloced) has the words; 0: it runs; -1. One that Modal doesn't know has ended.
 */
int modal_api_ended(struct modal_account *a, const char *id, const struct wait *wait, char **ret_why,
                    struct error *err);
/* Absent is fine. Returns once it has ended. */
int modal_api_terminate(struct modal_account *a, const char *id, const struct wait *wait, struct error *err);
/* Those of our app in both generations that run and have all these tags, newest first in each generation:
 * {"id", "created" (seconds since the epoch), "tags": {...}, "image"}. fn: -1 ends it. */
int modal_api_list(struct modal_account *a, const char *const (*tags)[2], size_t count,
                   const struct wait *wait, int (*fn)(void *ctx, const json_t *sandbox, struct error *err),
                   void *ctx, struct error *err);

/* --- image.c --- */

/* Where our program is in every image of modal_image_get(), executable. */
#define MODAL_GUEST_PATH_SIZE 48
void modal_guest_path(char ret[MODAL_GUEST_PATH_SIZE]);
/* An image with our program in it as its last layer: of a reference of a registry ("debian:bookworm-slim"),
 * or of one that Modal has already ("im-...", a snapshot among them, which is then another image). Built by
 * Modal when it is first wanted, which is told to `progress` (may be NULL) and may take minutes; known
 * afterwards, and after ERR_NOT_FOUND of a creation asked for anew. ERR_INVALID: it can't be built, with the
 * words why. */
int modal_image_get(struct modal_account *a, const char *reference, const struct progress *progress,
                    const struct wait *wait, char ret_id[MODAL_ID_SIZE], struct error *err);
/* Absent is fine. No other image is deleted, neither those that it was made of nor those made of it. */
int modal_image_delete(struct modal_account *a, const char *id, const struct wait *wait, struct error *err);
