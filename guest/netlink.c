/* Building and reading of netlink messages: see netlink.h. Everything is padded to four bytes. */
#include "guest/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <linux/netlink.h>

#include "guest/sys.h"

/* The kernel answers within the call that asks. This bounds what only looks like such a kernel. */
#define ANSWER_WITHIN_S 5

static void append(struct netlink *request, const void *bytes, size_t size)
{
    size_t padded = NLMSG_ALIGN(size);
    if (request->full || padded > sizeof(request->bytes) - request->used) {
        request->full = true;
        return;
    }
    memset(request->bytes + request->used, 0, padded);
    if (size > 0)
        memcpy(request->bytes + request->used, bytes, size);
    request->used += padded;
}

void netlink_begin(struct netlink *request, uint16_t type, uint16_t flags, const void *header, size_t size)
{
    const struct nlmsghdr message = {
        .nlmsg_type = type,
        .nlmsg_flags = NLM_F_REQUEST | flags,
        .nlmsg_seq = ++request->sequence,
    };
    if (flags & NLM_F_ACK)
        request->acked = request->sequence;
    request->message = request->used;
    append(request, &message, sizeof(message));
    append(request, header, size);
}

void netlink_end(struct netlink *request)
{
    uint32_t size = (uint32_t)(request->used - request->message);
    if (!request->full)
        memcpy(request->bytes + request->message + offsetof(struct nlmsghdr, nlmsg_len), &size, sizeof(size));
}

void netlink_put(struct netlink *request, uint16_t type, const void *bytes, size_t size)
{
    const struct nlattr header = {.nla_len = (uint16_t)(sizeof(header) + size), .nla_type = type};
    append(request, &header, sizeof(header));
    append(request, bytes, size);
}

void netlink_put_text(struct netlink *request, uint16_t type, const char *text)
{
    netlink_put(request, type, text, strlen(text) + 1);
}

void netlink_put_be32(struct netlink *request, uint16_t type, uint32_t value)
{
    value = htonl(value);
    netlink_put(request, type, &value, sizeof(value));
}

void netlink_nest(struct netlink *request, uint16_t type)
{
    if (request->depth == NETLINK_DEPTH_MAX)
        __builtin_trap(); /* a mistake of ours, whatever the input */
    request->nests[request->depth++] = request->used;
    netlink_put(request, type | NLA_F_NESTED, NULL, 0);
}

void netlink_unnest(struct netlink *request)
{
    size_t start = request->nests[--request->depth];
    uint16_t size = (uint16_t)(request->used - start);
    if (!request->full)
        memcpy(request->bytes + start + offsetof(struct nlattr, nla_len), &size, sizeof(size));
}

bool netlink_cut(struct netlink_span *from, size_t size, struct netlink_span *ret)
{
    if (size > from->left)
        return false;
    *ret = (struct netlink_span){.at = from->at, .left = size};
    size_t padded = NLMSG_ALIGN(size) < from->left ? NLMSG_ALIGN(size) : from->left;
    *from = (struct netlink_span){.at = from->at + padded, .left = from->left - padded};
    return true;
}

bool netlink_next(struct netlink_span *from, uint16_t *ret_type, struct netlink_span *ret)
{
    struct nlattr header;
    struct netlink_span whole, ignored;
    if (from->left < sizeof(header))
        return false;
    memcpy(&header, from->at, sizeof(header));
    if (header.nla_len < sizeof(header) || !netlink_cut(from, header.nla_len, &whole))
        return false;
    netlink_cut(&whole, sizeof(header), &ignored);
    *ret = whole;
    *ret_type = header.nla_type & NLA_TYPE_MASK;
    return true;
}

static int open_socket(int protocol)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
    const struct timeval patience = {.tv_sec = ANSWER_WITHIN_S};
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return fd;
}

/* One message of an answer. 1: it was the last; -1: a refusal. */
static int take_message(const struct netlink *request, const struct nlmsghdr *header,
                        struct netlink_span body, netlink_answer *answer, void *context)
{
    if (header->nlmsg_flags & NLM_F_DUMP_INTR) {
        errno = EINTR;
        return -1;
    }
    if (header->nlmsg_type == NLMSG_DONE)
        return 1;
    if (header->nlmsg_type != NLMSG_ERROR) {
        if (answer)
            answer(context, header->nlmsg_type, body);
        return 0;
    }
    int error = -EBADMSG;
    if (body.left >= sizeof(error))
        memcpy(&error, body.at, sizeof(error));
    if (error == 0)
        return header->nlmsg_seq == request->acked;
    errno = -error;
    return -1;
}

static int take_packet(const struct netlink *request, struct netlink_span packet, netlink_answer *answer,
                       void *context)
{
    while (packet.left > 0) {
        struct nlmsghdr header = {0};
        struct netlink_span body, ignored;
        if (packet.left >= sizeof(header))
            memcpy(&header, packet.at, sizeof(header));
        if (header.nlmsg_len < sizeof(header) || !netlink_cut(&packet, header.nlmsg_len, &body)) {
            errno = EBADMSG;
            return -1;
        }
        netlink_cut(&body, sizeof(header), &ignored);
        int done = take_message(request, &header, body, answer, context);
        if (done != 0)
            return done;
    }
    return 0;
}

int netlink_exchange(int protocol, const struct netlink *request, netlink_answer *answer, void *context)
{
    static uint8_t packet[NETLINK_BYTES_MAX];
    if (request->full) {
        errno = E2BIG;
        return -1;
    }
    _cleanup_fd_ int fd = open_socket(protocol);
    if (fd < 0 || send(fd, request->bytes, request->used, 0) < 0)
        return -1;
    int done = 0;
    while (done == 0) {
        ssize_t size = recv(fd, packet, sizeof(packet), MSG_TRUNC);
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0)
            return -1;
        if (size == 0 || (size_t)size > sizeof(packet)) {
            errno = EMSGSIZE;
            return -1;
        }
        done = take_packet(request, (struct netlink_span){packet, (size_t)size}, answer, context);
    }
    return done < 0 ? -1 : 0;
}
