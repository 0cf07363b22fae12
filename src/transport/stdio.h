/* MCP over stdin and stdout: one message per line. The descriptors are made private first: stdin's and
 * stdout's numbers then lead to /dev/null and stderr, so that nothing else can read or write the protocol.
 * Loop thread only. */
#pragma once

#include "base/error.h"
#include "base/loop.h"
#include "protocol/protocol.h"

struct stdio;
/* on_end: end of input, a failed or closed output; once. The session still runs then: the owner closes it. */
struct stdio *stdio_new(struct loop *loop, struct protocol *protocol, int in, int out,
                        void (*on_end)(void *ctx), void *ctx, struct error *err);
struct session *stdio_session(struct stdio *s);
/* Replies couldn't be written, though nobody had closed the output: a file on a full disk, say. */
bool stdio_has_lost(const struct stdio *s);
/* After its session is gone. Unsent output is dropped. Returns NULL. */
struct stdio *stdio_free(struct stdio *s);
