/* Peers by address. See http_peers.h. */
#include "transport/http_peers.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"

struct http_peers {
    struct map *by_name;
    int limit;
};

struct http_peer {
    int connections;
    char name[]; /* its key in the map */
};

struct http_peers *http_peers_new(size_t max, int limit)
{
    struct http_peers *p = xcalloc(1, sizeof(*p));
    p->by_name = map_new(max);
    p->limit = limit;
    return p;
}

struct http_peers *http_peers_free(struct http_peers *p)
{
    if (p)
        map_free(p->by_name);
    free(p);
    return NULL;
}

static void name_v4(const void *in, char address[INET6_ADDRSTRLEN], char group[INET6_ADDRSTRLEN])
{
    inet_ntop(AF_INET, in, address, INET6_ADDRSTRLEN);
    memcpy(group, address, INET6_ADDRSTRLEN);
}

static void name_v6(struct in6_addr in6, char address[INET6_ADDRSTRLEN], char group[INET6_ADDRSTRLEN])
{
    inet_ntop(AF_INET6, &in6, address, INET6_ADDRSTRLEN);
    memset(&in6.s6_addr[8], 0, 8);
    inet_ntop(AF_INET6, &in6, group, INET6_ADDRSTRLEN);
}

static void name(const struct sockaddr_storage *a, char address[INET6_ADDRSTRLEN],
                 char group[INET6_ADDRSTRLEN], bool *ret_is_loopback)
{
    const struct in6_addr *in6 = &((const struct sockaddr_in6 *)a)->sin6_addr;
    const void *in = &((const struct sockaddr_in *)a)->sin_addr;
    bool is_v6 = a->ss_family == AF_INET6;
    if (is_v6 && IN6_IS_ADDR_V4MAPPED(in6)) {
        in = &in6->s6_addr[12];
        is_v6 = false;
    }
    if (is_v6)
        name_v6(*in6, address, group);
    else
        name_v4(in, address, group);
    *ret_is_loopback = is_v6 ? IN6_IS_ADDR_LOOPBACK(in6) : *(const uint8_t *)in == 127;
}

struct http_peer *http_peer_take(struct http_peers *p, const struct sockaddr_storage *a,
                                 char ret_address[INET6_ADDRSTRLEN], bool *ret_is_loopback)
{
    char group[INET6_ADDRSTRLEN];
    name(a, ret_address, group, ret_is_loopback);
    struct http_peer *peer = map_get(p->by_name, group);
    if (peer && p->limit > 0 && peer->connections >= p->limit)
        return NULL;
    if (!peer) {
        peer = xcalloc(1, sizeof(*peer) + strlen(group) + 1);
        memcpy(peer->name, group, strlen(group));
        if (map_put(p->by_name, group, peer) < 0) {
            free(peer);
            return NULL;
        }
    }
    peer->connections++;
    return peer;
}

void http_peer_release(struct http_peers *p, struct http_peer *peer)
{
    if (!peer || --peer->connections > 0)
        return;
    map_remove(p->by_name, peer->name);
    free(peer);
}
