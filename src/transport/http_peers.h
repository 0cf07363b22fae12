/* Who connects over TCP, and how often at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <netinet/in.h>

struct http_peers;
struct http_peer; /* the connections of one address */

/* max: of all connections; limit: of one address, 0 is none. */
struct http_peers *http_peers_new(size_t max, int limit);
struct http_peers *http_peers_free(struct http_peers *p); /* must be empty; returns NULL */

/* Counts one connection more of an address of IPv4 or IPv6; NULL: it has as many as it may. Who has an
 * address of IPv6 has all of its /64, so that is counted; an address of IPv4 within IPv6 is the former. */
struct http_peer *http_peer_take(struct http_peers *p, const struct sockaddr_storage *a,
                                 char ret_address[INET6_ADDRSTRLEN], bool *ret_is_loopback);
void http_peer_release(struct http_peers *p, struct http_peer *peer); /* NULL is fine */
