/* The firewall of a container, made from within: see firewall.h. The host's own is never touched, so it works
 * for rootless and remote engines as well.
 *
 * What to close is planned first (firewall_plan.c). Then nf_tables gets it in one transaction, as a chain
 * that sees what leaves:
 *
 *   through lo                              accept
 *   established, related, untracked         accept
 *   to a resolver, TCP or UDP port 53       accept
 *   to a closed address                     reject
 *
 * So the engine's machine may call in and is answered. Untracked are only the neighbour, router and group
 * messages of ICMPv6, without which the gateway itself can't be found.
 *
 * What this can't see: packet sockets, which pass below it (so commands must not have CAP_NET_RAW), other
 * addresses of the engine's machine, and networks that are attached later. */
#include "guest/firewall.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include "guest/firewall_plan.h"
#include "guest/netlink.h"
#include "guest/report.h"

#define TABLE "sandbox"
#define CHAIN "output"
#define PORT_DNS 53

/* <linux/netfilter.h> and <netinet/in.h> can't be included together with every C library. */
#define INET_BOTH 1 /* NFPROTO_INET */
#define HOOK_LOCAL_OUT 3
#define VERDICT_ACCEPT 1
#define LOOPBACK_IFINDEX 1

static void expression_begin(struct netlink *batch, const char *name)
{
    netlink_nest(batch, NFTA_LIST_ELEM);
    netlink_put_text(batch, NFTA_EXPR_NAME, name);
    netlink_nest(batch, NFTA_EXPR_DATA);
}

static void expression_end(struct netlink *batch)
{
    netlink_unnest(batch);
    netlink_unnest(batch);
}

static void put_value(struct netlink *batch, uint16_t type, const void *bytes, size_t size)
{
    netlink_nest(batch, type);
    netlink_put(batch, NFTA_DATA_VALUE, bytes, size);
    netlink_unnest(batch);
}

/* All expressions work on the first register. The rule ends here unless it compares as said. */
static void compare(struct netlink *batch, uint32_t how, const void *bytes, size_t size)
{
    expression_begin(batch, "cmp");
    netlink_put_be32(batch, NFTA_CMP_SREG, NFT_REG_1);
    netlink_put_be32(batch, NFTA_CMP_OP, how);
    put_value(batch, NFTA_CMP_DATA, bytes, size);
    expression_end(batch);
}

static void mask(struct netlink *batch, const void *bits, size_t size)
{
    static const uint8_t zero[16];
    expression_begin(batch, "bitwise");
    netlink_put_be32(batch, NFTA_BITWISE_SREG, NFT_REG_1);
    netlink_put_be32(batch, NFTA_BITWISE_DREG, NFT_REG_1);
    netlink_put_be32(batch, NFTA_BITWISE_LEN, (uint32_t)size);
    put_value(batch, NFTA_BITWISE_MASK, bits, size);
    put_value(batch, NFTA_BITWISE_XOR, zero, size);
    expression_end(batch);
}

static void match_meta(struct netlink *batch, uint32_t key, const void *bytes, size_t size)
{
    expression_begin(batch, "meta");
    netlink_put_be32(batch, NFTA_META_DREG, NFT_REG_1);
    netlink_put_be32(batch, NFTA_META_KEY, key);
    expression_end(batch);
    compare(batch, NFT_CMP_EQ, bytes, size);
}

static void load_payload(struct netlink *batch, uint32_t base, size_t offset, size_t size)
{
    expression_begin(batch, "payload");
    netlink_put_be32(batch, NFTA_PAYLOAD_DREG, NFT_REG_1);
    netlink_put_be32(batch, NFTA_PAYLOAD_BASE, base);
    netlink_put_be32(batch, NFTA_PAYLOAD_OFFSET, (uint32_t)offset);
    netlink_put_be32(batch, NFTA_PAYLOAD_LEN, (uint32_t)size);
    expression_end(batch);
}

static void match_destination(struct netlink *batch, const struct firewall_network *to)
{
    const uint8_t family = to->family; /* NFPROTO_IPV4 and NFPROTO_IPV6 are the same numbers */
    const size_t size = firewall_address_bytes(family);
    uint8_t bits[16];
    firewall_mask(to, bits);
    match_meta(batch, NFT_META_NFPROTO, &family, sizeof(family));
    load_payload(batch, NFT_PAYLOAD_NETWORK_HEADER, family == AF_INET ? 16 : 24, size);
    mask(batch, bits, size);
    compare(batch, NFT_CMP_EQ, to->address, size);
}

static void match_dns(struct netlink *batch, uint8_t protocol)
{
    const uint16_t port = htons(PORT_DNS);
    match_meta(batch, NFT_META_L4PROTO, &protocol, sizeof(protocol));
    load_payload(batch, NFT_PAYLOAD_TRANSPORT_HEADER, 2, sizeof(port));
    compare(batch, NFT_CMP_EQ, &port, sizeof(port));
}

static void match_known(struct netlink *batch)
{
    const uint32_t known =
        NF_CT_STATE_BIT(IP_CT_ESTABLISHED) | NF_CT_STATE_BIT(IP_CT_RELATED) | NF_CT_STATE_UNTRACKED_BIT;
    const uint32_t none = 0;
    expression_begin(batch, "ct");
    netlink_put_be32(batch, NFTA_CT_DREG, NFT_REG_1);
    netlink_put_be32(batch, NFTA_CT_KEY, NFT_CT_STATE);
    expression_end(batch);
    mask(batch, &known, sizeof(known));
    compare(batch, NFT_CMP_NEQ, &none, sizeof(none));
}

static void accept_packet(struct netlink *batch)
{
    expression_begin(batch, "immediate");
    netlink_put_be32(batch, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
    netlink_nest(batch, NFTA_IMMEDIATE_DATA);
    netlink_nest(batch, NFTA_DATA_VERDICT);
    netlink_put_be32(batch, NFTA_VERDICT_CODE, VERDICT_ACCEPT);
    netlink_unnest(batch);
    netlink_unnest(batch);
    expression_end(batch);
}

/* A program learns it at once: a TCP connection is refused, any other sending is not permitted. (The ICMP
 * error would come while connect(2) holds its socket, and be lost until the SYN is sent again.) */
static void reject_packet(struct netlink *batch)
{
    expression_begin(batch, "reject");
    netlink_put_be32(batch, NFTA_REJECT_TYPE, NFT_REJECT_TCP_RST);
    expression_end(batch);
}

static void message_begin(struct netlink *batch, uint16_t type, uint16_t flags)
{
    const struct nfgenmsg header = {.nfgen_family = INET_BOTH, .version = NFNETLINK_V0};
    netlink_begin(batch, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), flags, &header, sizeof(header));
}

static void rule_begin(struct netlink *batch)
{
    message_begin(batch, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
    netlink_put_text(batch, NFTA_RULE_TABLE, TABLE);
    netlink_put_text(batch, NFTA_RULE_CHAIN, CHAIN);
    netlink_nest(batch, NFTA_RULE_EXPRESSIONS);
}

static void rule_end(struct netlink *batch, void (*verdict)(struct netlink *batch))
{
    verdict(batch);
    netlink_unnest(batch);
    netlink_end(batch);
}

static void put_rules(struct netlink *batch, const struct firewall_plan *plan)
{
    const uint32_t loopback = LOOPBACK_IFINDEX;
    const uint8_t protocols[] = {IPPROTO_UDP, IPPROTO_TCP};
    rule_begin(batch);
    match_meta(batch, NFT_META_OIF, &loopback, sizeof(loopback));
    rule_end(batch, accept_packet);
    rule_begin(batch);
    match_known(batch);
    rule_end(batch, accept_packet);
    for (unsigned i = 0; i < 2 * plan->resolvers.count; i++) {
        rule_begin(batch);
        match_destination(batch, &plan->resolvers.networks[i / 2]);
        match_dns(batch, protocols[i % 2]);
        rule_end(batch, accept_packet);
    }
    for (unsigned i = 0; i < plan->closed.count + plan->gateways.count; i++) {
        rule_begin(batch);
        match_destination(batch, i < plan->closed.count ? &plan->closed.networks[i]
                                                        : &plan->gateways.networks[i - plan->closed.count]);
        rule_end(batch, reject_packet);
    }
}

static void put_table(struct netlink *batch, uint16_t message, uint16_t flags)
{
    message_begin(batch, message, flags);
    netlink_put_text(batch, NFTA_TABLE_NAME, TABLE);
    netlink_end(batch);
}

static void put_chain(struct netlink *batch)
{
    message_begin(batch, NFT_MSG_NEWCHAIN, NLM_F_CREATE);
    netlink_put_text(batch, NFTA_CHAIN_TABLE, TABLE);
    netlink_put_text(batch, NFTA_CHAIN_NAME, CHAIN);
    netlink_put_text(batch, NFTA_CHAIN_TYPE, "filter");
    netlink_put_be32(batch, NFTA_CHAIN_POLICY, VERDICT_ACCEPT);
    netlink_nest(batch, NFTA_CHAIN_HOOK);
    netlink_put_be32(batch, NFTA_HOOK_HOOKNUM, HOOK_LOCAL_OUT);
    netlink_put_be32(batch, NFTA_HOOK_PRIORITY, 0); /* after addresses are translated */
    netlink_unnest(batch);
    netlink_end(batch);
}

static void put_edge(struct netlink *batch, uint16_t type)
{
    const struct nfgenmsg header = {.version = NFNETLINK_V0, .res_id = htons(NFNL_SUBSYS_NFTABLES)};
    netlink_begin(batch, type, 0, &header, sizeof(header));
    netlink_end(batch);
}

int firewall_close(struct guest_error *err)
{
    static struct netlink batch;
    static struct firewall_plan plan;
    if (firewall_plan_make(&plan, err) < 0)
        return -1;
    memset(&batch, 0, sizeof(batch));
    put_edge(&batch, NFNL_MSG_BATCH_BEGIN);
    put_table(&batch, NFT_MSG_NEWTABLE, NLM_F_CREATE); /* so that there is one to delete */
    put_table(&batch, NFT_MSG_DELTABLE, 0);
    put_table(&batch, NFT_MSG_NEWTABLE, NLM_F_CREATE);
    put_chain(&batch);
    put_rules(&batch, &plan);
    put_table(&batch, NFT_MSG_NEWTABLE, NLM_F_ACK); /* changes nothing, but is acknowledged after all else */
    put_edge(&batch, NFNL_MSG_BATCH_END);
    if (netlink_exchange(NETLINK_NETFILTER, &batch, NULL, NULL) < 0)
        return report(err, "set firewall rules");
    return 0;
}
