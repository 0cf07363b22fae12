/* The headers of a modern POST, by which proxies route: they must say what the body says (MCP 2026-07-28,
 * basic/transports). Any thread. */
#pragma once

#include <stdbool.h>

#include "protocol/endpoint.h"
#include "protocol/jsonrpc.h"

/* False with -32020: header and body both name a version, and not the same. */
bool routing_check_version(const struct exchange_headers *h, const struct message *m,
                           struct rpc_error *error);
/* The same for method and name; and none of them may be missing for a request. */
bool routing_check_target(const struct exchange_headers *h, const struct message *m, struct rpc_error *error);
/* What a header value stands for: itself, or the bytes in =?base64?...?=. -1: those are no base64, or too
 * many. */
int routing_decode(const char *value, struct buf *ret) _must_use_;
