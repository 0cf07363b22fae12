/* See message.h. */
#include "backends/modal/message.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"

/* A message of GRPC_MESSAGE_MAX bytes may say that it is of millions of small ones. */
#define UNPACKED_MAX (8 * GRPC_MESSAGE_MAX)

struct budget {
    size_t left;
};

static void *allocate(void *ctx, size_t size)
{
    struct budget *b = ctx;
    if (size > b->left)
        return NULL;
    b->left -= size;
    return malloc(size);
}

static void release(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

int modal_pack(const ProtobufCMessage *message, struct buf *ret, struct error *err)
{
    const size_t n = protobuf_c_message_get_packed_size(message);
    buf_clear(ret);
    if (n > GRPC_MESSAGE_MAX || buf_reserve(ret, n + 1) < 0)
        return error_set(err, ERR_LIMIT, "what Modal is to be told takes %zu bytes; at most %lu are possible",
                         n, GRPC_MESSAGE_MAX);
    ret->len = protobuf_c_message_pack(message, (uint8_t *)ret->data);
    return 0;
}

void *modal_unpack(const ProtobufCMessageDescriptor *type, const void *bytes, size_t n, struct error *err)
{
    struct budget budget = {UNPACKED_MAX};
    ProtobufCAllocator allocator = {allocate, release, &budget};
    ProtobufCMessage *message = protobuf_c_message_unpack(type, &allocator, n, bytes);
    if (!message)
        error_set(err, ERR_UNAVAILABLE, "Modal's answer of %zu bytes isn't understood", n);
    return message;
}

void modal_free(void *message)
{
    protobuf_c_message_free_unpacked(message, NULL);
}

void modal_pairs_of(char *const *env, struct modal_pairs *ret)
{
    const size_t most = strv_len(env);
    *ret = (struct modal_pairs){.each = xcalloc(most + 1, sizeof(*ret->each)),
                                .all = xcalloc(most + 1, sizeof(*ret->all)),
                                .names = xcalloc(most + 1, sizeof(*ret->names))};
    for (size_t i = 0; i < most; i++) {
        char *equals = strchr(env[i], '=');
        if (!equals)
            continue;
        const size_t n = ret->count++;
        ret->names[n] = xstrndup(env[i], (size_t)(equals - env[i]));
        modal__pair__init(&ret->each[n]);
        ret->each[n].key = ret->names[n];
        ret->each[n].value = equals + 1;
        ret->all[n] = &ret->each[n];
    }
}

void modal_pairs_free(struct modal_pairs *p)
{
    strv_free(p->names);
    free(p->each);
    free(p->all);
    *p = (struct modal_pairs){0};
}
