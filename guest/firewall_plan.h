/* What a container's firewall is to close and to leave open, as the namespace's routes and the files say that
 * the engine puts into each container. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <netinet/in.h>

#include "guest/wire.h"

#define FIREWALL_RESOLVERS_MAX 8 /* more are left out: the C library asks three */
#define FIREWALL_CLOSED_MAX 64
#define FIREWALL_GATEWAYS_MAX 32
#define FIREWALL_LINKS_MAX 32

/* With all its bits a machine. */
struct firewall_network {
    uint8_t family; /* AF_INET or AF_INET6 */
    uint8_t bits;
    uint8_t address[16]; /* its own order */
};

struct firewall_list {
    unsigned count, max;
    bool full; /* something was left out */
    struct firewall_network *networks;
};

struct firewall_plan {
    struct firewall_list resolvers;        /* port 53 stays open, whatever is closed */
    struct firewall_list closed, gateways; /* closed too */
    struct firewall_list links;            /* networks that are reached without a gateway */
    struct firewall_network
        room[FIREWALL_RESOLVERS_MAX + FIREWALL_CLOSED_MAX + FIREWALL_GATEWAYS_MAX + FIREWALL_LINKS_MAX];
};

int firewall_plan_make(struct firewall_plan *plan, struct guest_error *err);

static inline unsigned firewall_address_bytes(int family)
{
    return family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr);
}

void firewall_mask(const struct firewall_network *network, uint8_t ret[16]);
