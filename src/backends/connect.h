/* The Connect protocol as a client speaks it over HTTP/1.1, with JSON: calls of one answer, and streams of
 * messages from the server, each in an envelope of a flag byte and a length. Source:
 * connectrpc.com/docs/protocol.
 */
#pragma once

#include "backends/provider.h"

#define CONNECT_MESSAGE_MAX (1 * MIB) /* one message of a stream */

/* path: "/package.Service/Method". ret may be NULL. Errors by the words that Connect has for them.
 * Repeated only where it can't have had an effect, as while it is refused for being too much. */
int connect_call(const struct provider *p, const char *path, const json_t *message, const struct wait *wait,
                 json_t **ret, struct error *err);

struct connect_stream;
/* Likewise; ret_status: 0 if nobody answered. */
int connect_open(const struct provider *p, const char *path, const json_t *message, const struct wait *wait,
                 struct connect_stream **ret, int *ret_status, struct error *err);
/* 1: a message, in *ret; 0: the end, as it should be; -1: the server's error, or one on the way. After
 * ERR_TIMEOUT and a token's code it can be asked again. */
int connect_next(struct connect_stream *s, const struct wait *wait, json_t **ret, struct error *err);
/* Any thread: connect_next() sees the end, or an error, soon. */
void connect_cut(struct connect_stream *s);
struct connect_stream *connect_close(struct connect_stream *s); /* accepts NULL, returns NULL */
