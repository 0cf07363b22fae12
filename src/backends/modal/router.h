/* The command router of one sandbox. A command is named by a UUID that the caller makes, so that a start that
 * is sent again is one start; its input says where each piece belongs; its output is kept by the router, so
 * that a stream that broke is gone on with. ERR_NOT_FOUND from any call: there is no such command, or the
 * sandbox has ended (modal_api_ended() tells). A token that has ended is replaced without ado. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "backends/modal/api.h"

struct modal_router; /* one for a sandbox, shared by its commands; any thread */
/* Connects to nothing yet. The sandbox is copied. */
struct modal_router *modal_router_new(struct modal_account *a, const struct modal_sandbox *s,
                                      struct error *err);
/* No call runs any more and no output is open. Accepts NULL, returns NULL. */
struct modal_router *modal_router_free(struct modal_router *r);

/* workdir: absolute, or NULL; env: NAME=VALUE, ended by NULL, or NULL; timeout_s: after which the router
 * kills it, 0: never. ret_output may be NULL; else its standard output is asked for at the same time, and
 * *ret_output is NULL all the same where that couldn't be: then it is to be opened as ever. */
struct modal_output;
int modal_router_start(struct modal_router *r, const char *exec_id, const char *const *argv,
                       const char *workdir, char *const *env, uint32_t timeout_s,
                       struct modal_output **ret_output, const struct wait *wait, struct error *err);
/* offset: of the first of these bytes in the command's whole input; eof: there is no more after them. Takes
 * any amount, in pieces. Returns when the router has them. */
int modal_router_write(struct modal_router *r, const char *exec_id, uint64_t offset, const void *bytes,
                       size_t n, bool eof, const struct wait *wait, struct error *err);
/* Until it has ended: its exit code, or 128 + its signal. */
int modal_router_wait(struct modal_router *r, const char *exec_id, const struct wait *wait, int *ret_code,
                      struct error *err);
/* The files of the sandbox as an image, kept until it is deleted. key: of modal_uuid(); one key is one image,
 * however often it is asked for. */
int modal_router_snapshot(struct modal_router *r, const char *key, const struct wait *wait,
                          char ret_image_id[MODAL_ID_SIZE], struct error *err);

/* The standard output (1) or error (2) of one command. One thread at a time reads. */
/* Sends its request, and waits for nothing but the connection (of the pool, or a new one, within `wait`). */
struct modal_output *modal_output_open(struct modal_router *r, const char *exec_id, int fd,
                                       const struct wait *wait, struct error *err);
/* Some bytes, as soon as there are any; 0: its end. After ERR_TIMEOUT and a token's code it can be read on.
 */
ssize_t modal_output_read(struct modal_output *o, void *buf, size_t size, const struct wait *wait,
                          struct error *err);
/* Any thread: whoever reads gets ERR_GONE soon, and from then on. */
void modal_output_cut(struct modal_output *o);
struct modal_output *modal_output_close(struct modal_output *o); /* accepts NULL, returns NULL */
/* Once all that is wanted has come: see grpc_leave(). */
struct modal_output *modal_output_leave(struct modal_output *o);
