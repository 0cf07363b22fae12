/* Fuzz: the headers of a modern POST, against its body. Four lines (version, method, name; then the body,
 * which may have more), where an empty one means an absent header. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/limits.h"
#include "base/mem.h"
#include "protocol/routing.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEADERS 3

/* As the transport hands them on: text without line ends and NUL. */
static const char *take_line(char **rest)
{
    char *line = *rest, *end = strchr(line, '\n');
    *rest = end ? end + 1 : line + strlen(line);
    if (end)
        *end = '\0';
    return *line ? line : NULL;
}

/* A wrapper that was taken stands for bytes that wrap to the same. */
static void decode(const char *value)
{
    _cleanup_(buf_done) struct buf name = BUF_INIT(MIB), again = BUF_INIT(MIB);
    if (routing_decode(value, &name) < 0)
        return;
    if (name.len == strlen(value) && memcmp(buf_str(&name), value, name.len) == 0)
        return;
    if (buf_append_str(&again, "=?base64?") < 0 || base64_append(&again, name.data, name.len) < 0 ||
        buf_append_str(&again, "?=") < 0)
        abort();
    assert(strcmp(buf_str(&again), value) == 0);
}

static void check(const struct exchange_headers *h, const char *body)
{
    struct rpc_error error = RPC_ERROR_INIT;
    struct message m;
    message_parse(&m, body, strlen(body));
    if (m.kind == MESSAGE_REQUEST || m.kind == MESSAGE_NOTIFICATION) {
        bool good = routing_check_version(h, &m, &error) && routing_check_target(h, &m, &error);
        assert(good == (error.code == 0));
        assert(good || error.code == RPC_HEADER_MISMATCH);
        assert(!good || !h->method || strcmp(h->method, m.method) == 0);
    }
    rpc_error_done(&error);
    message_done(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 64 * KIB)
        return 0;
    char *text = xstrndup((const char *)data, size), *rest = text;
    const char *lines[HEADERS];
    for (size_t i = 0; i < HEADERS; i++)
        lines[i] = take_line(&rest);
    const struct exchange_headers h = {.protocol_version = lines[0], .method = lines[1], .name = lines[2]};
    (void)endpoint_is_modern_version(h.protocol_version);
    if (h.name)
        decode(h.name);
    check(&h, rest);
    free(text);
    return 0;
}
