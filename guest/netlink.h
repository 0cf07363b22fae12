/* Talking to the kernel over netlink: requests are built in place, answers are read until the kernel says
 * that it is done. One socket per exchange. Bounded: what doesn't fit fails the exchange, never a part of it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NETLINK_BYTES_MAX (64U << 10)
#define NETLINK_DEPTH_MAX 8

/* One message or a batch of them. Starts zeroed. */
struct netlink {
    size_t used, message;            /* where the message under way begins */
    size_t nests[NETLINK_DEPTH_MAX]; /* where the attributes under way begin */
    unsigned depth;
    uint32_t sequence; /* of the last message */
    uint32_t acked;    /* of the last one that asks for an answer by NLM_F_ACK; 0: none, so a dump */
    bool full;
    uint8_t bytes[NETLINK_BYTES_MAX];
};

void netlink_begin(struct netlink *request, uint16_t type, uint16_t flags, const void *header, size_t size);
void netlink_end(struct netlink *request);
void netlink_put(struct netlink *request, uint16_t type, const void *bytes, size_t size);
void netlink_put_text(struct netlink *request, uint16_t type, const char *text);
void netlink_put_be32(struct netlink *request, uint16_t type, uint32_t value);
void netlink_nest(struct netlink *request, uint16_t type); /* what is put until the unnest is within it */
void netlink_unnest(struct netlink *request);

/* Bytes of an answer. */
struct netlink_span {
    const uint8_t *at;
    size_t left;
};
/* Cuts the first `size` bytes off, with what pads them; false: there aren't so many. */
bool netlink_cut(struct netlink_span *from, size_t size, struct netlink_span *ret);
/* Cuts the next attribute off; false: there is none. */
bool netlink_next(struct netlink_span *from, uint16_t *ret_type, struct netlink_span *ret);

/* Sends, and hands over each message that isn't an acknowledgement. -1 and errno: the kernel's first refusal,
 * or why it can't be asked; EINTR: what was being listed changed meanwhile. */
typedef void netlink_answer(void *context, uint16_t type, struct netlink_span body);
int netlink_exchange(int protocol, const struct netlink *request, netlink_answer *answer, void *context);
