/* A connection that libcurl makes: to a host by its name, with TLS or without. libcurl sends and reads
 * nothing of its own on it. */
#pragma once

#include "net/client.h"

struct remote;
/* NULL with the error. ret_fd: to poll, and to use where there is no TLS; remote_close() closes it. */
struct remote *remote_open(const struct http_client *c, const struct wait *wait, int *ret_fd,
                           struct error *err);
struct remote *remote_close(struct remote *r);
/* As recv(2) and send(2) on a socket that doesn't block; one thread at a time. */
ssize_t remote_receive(struct remote *r, void *buf, size_t size);
ssize_t remote_send(struct remote *r, const void *bytes, size_t n);
