/* Fuzz: any bytes as the answer to a request, and to one that wants to leave HTTP. Whatever comes, there is
 * an answer within its limits or an error that says something. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "net/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct answer {
    const uint8_t *data;
    size_t size;
};

/* The whole answer waits in the socket, whose other end is closed already but for that. */
static int dial(void *ctx, const struct wait *wait, struct error *err)
{
    const struct answer *a = ctx;
    int pair[2], room = 1 << 20;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        abort();
    setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    if (send(pair[1], a->data, a->size, MSG_DONTWAIT) != (ssize_t)a->size && a->size > 0)
        abort();
    fd_close(pair[1]);
    return pair[0];
}

static void check(int result, const struct http_response *r, const struct error *err)
{
    if (result < 0) {
        assert(err->msg[0] && (err->code == ERR_UNAVAILABLE || err->code == ERR_LIMIT));
        return;
    }
    assert(r->status >= 100 && r->status <= 599);
    assert(r->headers.len <= LIMIT_HTTP_HEADERS_BYTES && r->body.len <= LIMIT_HTTP_BODY_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct answer answer = {data, size < 65536 ? size : 65536};
    const struct http_address a = {.url = "http://peer", .dial = dial, .dial_ctx = &answer};
    const struct http_request r = {.method = "GET", .path = "/", .wait.deadline = DEADLINE_NONE};
    struct error err = ERROR_INIT;
    struct http_client *c = http_client_new(&a, &err);
    struct http_response response = {0}, refusal = {0};
    struct http_stream *s = NULL;

    check(http_do(c, &r, &response, &err), &response, &err);
    check(http_upgrade(c, &r, "tcp", &s, &refusal, &err), &refusal, &err);
    char bytes[100];
    while (s && http_stream_read(s, bytes, sizeof(bytes)) > 0)
        continue;

    http_stream_free(s);
    http_response_done(&response);
    http_response_done(&refusal);
    http_client_free(c);
    return 0;
}
