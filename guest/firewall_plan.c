/* The plan of a container's firewall: see firewall_plan.h. The engine's machine is found in what it told the
 * container: the gateways, the broadcast addresses, and its names in /etc/hosts. */
#include "guest/firewall_plan.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "guest/netlink.h"
#include "guest/report.h"
#include "guest/sys.h"

#define LISTING_TRIES 8

static const struct {
    const char *address;
    uint8_t bits;
} always_closed[] = {
    {"169.254.0.0", 16},     /* metadata of most clouds, credentials of AWS tasks; link-local */
    {"100.100.100.200", 32}, /* metadata of Alibaba Cloud */
    {"168.63.129.16", 32},   /* the platform of Azure */
    {"192.0.0.192", 32},     /* metadata of Oracle Cloud */
    {"192.168.65.254", 32},  /* the machine beneath Docker Desktop */
    {"255.255.255.255", 32}, /* broadcast and multicast reach the engine's machine as well */
    {"224.0.0.0", 4},        /* multicast */
    {"ff00::", 8},           /* multicast */
    {"fe80::", 10},          /* link-local, by which a bridge is reached whatever its other addresses */
    {"fd00:ec2::254", 128},  /* metadata of AWS */
    {"fd20:ce::254", 128},   /* metadata of Google Cloud */
};

/* What engines call their machine in /etc/hosts. */
static const char *const host_names[] = {"host.docker.internal", "host.containers.internal",
                                         "gateway.docker.internal"};

static void list_add(struct firewall_list *list, const struct firewall_network *network)
{
    for (unsigned i = 0; i < list->count; i++)
        if (memcmp(&list->networks[i], network, sizeof(*network)) == 0)
            return;
    if (list->count == list->max)
        list->full = true;
    else
        list->networks[list->count++] = *network;
}

static bool network_parse(const char *text, struct firewall_network *ret)
{
    struct firewall_network network = {.family = strchr(text, ':') ? AF_INET6 : AF_INET};
    if (inet_pton(network.family, text, network.address) != 1)
        return false;
    network.bits = (uint8_t)(8 * firewall_address_bytes(network.family));
    *ret = network;
    return true;
}

void firewall_mask(const struct firewall_network *network, uint8_t ret[16])
{
    memset(ret, 0, 16);
    for (unsigned i = 0; i < network->bits; i++)
        ret[i / 8] = (uint8_t)(ret[i / 8] | 0x80U >> i % 8);
}

static bool network_has(const struct firewall_network *network, const struct firewall_network *machine)
{
    uint8_t mask[16];
    firewall_mask(network, mask);
    for (unsigned i = 0; i < sizeof(mask); i++)
        if ((network->address[i] ^ machine->address[i]) & mask[i])
            return false;
    return network->family == machine->family;
}

/* --- files */

/* A file that the engine puts into each container. One that isn't there, or isn't a file, is empty: the image
 * may have made it. */
static void read_file(const char *path, char *ret, size_t size)
{
    struct stat st;
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t got = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? read(fd, ret, size - 1) : 0;
    ret[got > 0 ? got : 0] = 0;
}

/* `nameserver ADDRESS`; and, where that is Docker's own resolver in the namespace, whom it asks in turn:
 * `# ExtServers: [ADDRESS ADDRESS]`. */
static void take_resolver_line(struct firewall_plan *plan, char *line)
{
    char *word, *rest = line;
    size_t label = strncmp(line, "nameserver", 10) == 0      ? 10
                   : strncmp(line, "# ExtServers:", 13) == 0 ? 13
                                                             : 0;
    if (label == 0)
        return;
    rest += label;
    while ((word = strtok_r(NULL, " \t[]", &rest))) {
        struct firewall_network resolver;
        word[strcspn(word, "%")] = 0; /* fe80::1%eth0 */
        if (network_parse(word, &resolver))
            list_add(&plan->resolvers, &resolver);
    }
}

/* `ADDRESS NAME NAME`. */
static void take_hosts_line(struct firewall_plan *plan, char *line)
{
    struct firewall_network host;
    char *rest, *word = strtok_r(line, " \t", &rest);
    if (!word || !network_parse(word, &host))
        return;
    while ((word = strtok_r(NULL, " \t", &rest)))
        for (unsigned i = 0; i < ARRAY_LEN(host_names); i++)
            if (strcmp(word, host_names[i]) == 0)
                list_add(&plan->closed, &host);
}

static void plan_file(struct firewall_plan *plan, const char *path,
                      void (*take)(struct firewall_plan *plan, char *line))
{
    static char text[16 << 10];
    read_file(path, text, sizeof(text));
    char *line, *rest = text;
    while ((line = strsep(&rest, "\n")))
        take(plan, line);
}

/* --- routes */

/* False: no address by its size. */
static bool network_take(struct netlink_span bytes, unsigned bits, struct firewall_network *ret)
{
    if ((bytes.left != 4 && bytes.left != 16) || bits > 8 * bytes.left)
        return false;
    *ret = (struct firewall_network){.family = bytes.left == 4 ? AF_INET : AF_INET6, .bits = (uint8_t)bits};
    memcpy(ret->address, bytes.at, bytes.left);
    return true;
}

static void add_machine(struct firewall_list *list, struct netlink_span bytes)
{
    struct firewall_network machine;
    if (network_take(bytes, (unsigned)(8 * bytes.left), &machine))
        list_add(list, &machine);
}

static bool take_gateways(struct firewall_plan *plan, struct netlink_span attributes);

/* One route by several gateways: each is a struct rtnexthop and attributes. */
static bool take_hops(struct firewall_plan *plan, struct netlink_span hops)
{
    struct rtnexthop header;
    struct netlink_span hop, ignored;
    bool found = false;
    while (hops.left >= sizeof(header)) {
        memcpy(&header, hops.at, sizeof(header));
        if (header.rtnh_len < sizeof(header) || !netlink_cut(&hops, header.rtnh_len, &hop))
            break;
        netlink_cut(&hop, sizeof(header), &ignored);
        found |= take_gateways(plan, hop);
    }
    return found;
}

static bool take_gateways(struct firewall_plan *plan, struct netlink_span attributes)
{
    const size_t via_head = sizeof(struct rtvia);
    struct netlink_span value;
    uint16_t type;
    bool found = false;
    while (netlink_next(&attributes, &type, &value)) {
        if (type == RTA_MULTIPATH) {
            found |= take_hops(plan, value);
        } else if (type == RTA_GATEWAY) {
            add_machine(&plan->gateways, value);
            found = true;
        } else if (type == RTA_VIA && value.left > via_head) { /* a gateway of another family */
            add_machine(&plan->gateways, (struct netlink_span){value.at + via_head, value.left - via_head});
            found = true;
        }
    }
    return found;
}

static void take_route(void *context, uint16_t message, struct netlink_span body)
{
    struct firewall_plan *plan = context;
    struct netlink_span head, attributes, value;
    struct firewall_network to = {0};
    struct rtmsg route;
    uint16_t type;
    if (message != RTM_NEWROUTE || !netlink_cut(&body, sizeof(route), &head))
        return;
    memcpy(&route, head.at, sizeof(route));
    if (route.rtm_family != AF_INET && route.rtm_family != AF_INET6)
        return;
    attributes = body;
    while (netlink_next(&attributes, &type, &value))
        if (type == RTA_DST)
            network_take(value, route.rtm_dst_len, &to);
    bool by_gateway = take_gateways(plan, body);
    if (route.rtm_type == RTN_BROADCAST && to.bits > 0)
        list_add(&plan->closed, &to);
    if (route.rtm_type == RTN_UNICAST && !by_gateway && to.bits > 0)
        list_add(&plan->links, &to);
}

/* An internal network has no gateway, but the engine's machine is on its bridge all the same, by default with
 * the first address. The one before is that of all routers of an IPv6 network. */
static void close_links(struct firewall_plan *plan)
{
    for (unsigned i = 0; i < plan->links.count; i++) {
        struct firewall_network first = plan->links.networks[i];
        unsigned bytes = firewall_address_bytes(first.family);
        if (first.bits > 8 * bytes - 2) /* a machine or a pair: no bridge */
            continue;
        bool has_gateway = false;
        for (unsigned j = 0; j < plan->gateways.count; j++)
            has_gateway |= network_has(&first, &plan->gateways.networks[j]);
        first.bits = (uint8_t)(8 * bytes);
        if (first.family == AF_INET6)
            list_add(&plan->closed, &first);
        first.address[bytes - 1] |= 1;
        if (!has_gateway)
            list_add(&plan->closed, &first);
    }
}

static int plan_routes(struct firewall_plan *plan, struct guest_error *err)
{
    static struct netlink request;
    const struct rtmsg all = {.rtm_family = AF_UNSPEC};
    memset(&request, 0, sizeof(request));
    netlink_begin(&request, RTM_GETROUTE, NLM_F_DUMP, &all, sizeof(all));
    netlink_end(&request);
    int done = -1;
    for (unsigned i = 0; i < LISTING_TRIES && done < 0; i++) {
        done = netlink_exchange(NETLINK_ROUTE, &request, take_route, plan);
        if (done < 0 && errno != EINTR)
            break;
    }
    return done < 0 ? report(err, "list routes") : 0;
}

int firewall_plan_make(struct firewall_plan *plan, struct guest_error *err)
{
    *plan = (struct firewall_plan){
        .resolvers = {.max = FIREWALL_RESOLVERS_MAX, .networks = plan->room},
        .closed = {.max = FIREWALL_CLOSED_MAX, .networks = plan->room + FIREWALL_RESOLVERS_MAX},
        .gateways = {.max = FIREWALL_GATEWAYS_MAX,
                     .networks = plan->room + FIREWALL_RESOLVERS_MAX + FIREWALL_CLOSED_MAX},
        .links = {.max = FIREWALL_LINKS_MAX,
                  .networks =
                      plan->room + FIREWALL_RESOLVERS_MAX + FIREWALL_CLOSED_MAX + FIREWALL_GATEWAYS_MAX},
    };
    for (unsigned i = 0; i < ARRAY_LEN(always_closed); i++) {
        struct firewall_network network;
        network_parse(always_closed[i].address, &network);
        network.bits = always_closed[i].bits;
        list_add(&plan->closed, &network);
    }
    plan_file(plan, "/etc/resolv.conf", take_resolver_line);
    plan_file(plan, "/etc/hosts", take_hosts_line);
    if (plan_routes(plan, err) < 0)
        return -1;
    close_links(plan);
    if (plan->closed.full || plan->gateways.full || plan->links.full)
        return report_text(err, E2BIG, "list routes", "more networks than a container has");
    return 0;
}
