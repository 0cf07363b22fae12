/* Fuzz: the answer to a call of gRPC. The first byte says in which pieces its body comes, then come its lines
 * up to an empty one, then its body. However that is cut, the same messages come out of it, within their
 * limits. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "net/grpc_answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A sum over all that came. */
struct seen {
    uint64_t hash;
    size_t count;
    int result;
    enum grpc_code code;
};

/* Where the body begins. */
static size_t feed_lines(struct grpc_answer *a, const char *data, size_t size, int *ret)
{
    size_t at = 0;
    *ret = 0;
    while (at < size && *ret == 0) {
        const char *end = memchr(data + at, '\n', size - at);
        const size_t n = end ? (size_t)(end - data) + 1 - at : size - at;
        if (n == 1)
            return at + 1;
        *ret = grpc_answer_line(a, data + at, n, NULL);
        at += n;
    }
    return at;
}

static int take_all(struct grpc_answer *a, struct seen *seen, struct error *err)
{
    _cleanup_(buf_done) struct buf message = BUF_INIT(GRPC_MESSAGE_MAX);
    int there;
    while ((there = grpc_answer_take(a, &message, err)) > 0) {
        for (size_t i = 0; i < message.len; i++)
            seen->hash = seen->hash * 31 + (uint8_t)message.data[i];
        seen->hash = seen->hash * 31 + message.len;
        seen->count++;
    }
    return there;
}

static struct seen feed(const char *data, size_t size, size_t cut)
{
    struct grpc_answer a;
    struct seen seen = {0};
    struct error err = ERROR_INIT;
    _cleanup_(grpc_status_done) struct grpc_status status = GRPC_STATUS_INIT;
    grpc_answer_init(&a, "peer");
    for (size_t at = feed_lines(&a, data, size, &seen.result); at < size && seen.result == 0; at += cut) {
        seen.result = grpc_answer_body(&a, data + at, size - at < cut ? size - at : cut, &err);
        if (seen.result == 0)
            seen.result = take_all(&a, &seen, &err);
    }
    if (seen.result == 0)
        seen.result = grpc_answer_end(&a, &status, &err);
    seen.code = status.code;
    assert(status.code < GRPC_CODE_COUNT && strlen(status.message) < GRPC_WORDS_MAX);
    assert(status.details.len <= GRPC_DETAILS_MAX);
    grpc_answer_done(&a);
    return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const struct seen whole = feed((const char *)data + 1, size - 1, size);
    const struct seen pieces = feed((const char *)data + 1, size - 1, data[0] + 1U);
    assert(whole.result == pieces.result);
    if (whole.result == 0)
        assert(whole.hash == pieces.hash && whole.count == pieces.count && whole.code == pieces.code);
    return 0;
}
