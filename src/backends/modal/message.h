/* Messages of modal.proto on their way. What is read of an answer may take a bounded amount of memory. */
#pragma once

#include "backends/modal.pb-c.h"
#include "base/buf.h"
#include "base/error.h"
#include "net/grpc.h"

/* The struct of a message as the thing that is packed. */
#define MODAL_MESSAGE(m) (&(m)->base)

/* Replaces what is in *ret. */
int modal_pack(const ProtobufCMessage *message, struct buf *ret, struct error *err);
/* A message of that type, for modal_free(). NULL: ERR_UNAVAILABLE, it is none, or more than can be taken. */
void *modal_unpack(const ProtobufCMessageDescriptor *type, const void *bytes, size_t n, struct error *err);
void modal_free(void *message); /* accepts NULL */
static inline void cleanup_modal_free(void *p)
{
    modal_free(*(void **)p);
}

/* Variables as a message has them, from NAME=VALUE; for modal_pairs_free(). */
struct modal_pairs {
    Modal__Pair *each, **all; /* all: as a message wants them */
    char **names;
    size_t count;
};
void modal_pairs_of(char *const *env, struct modal_pairs *ret);
void modal_pairs_free(struct modal_pairs *p);
