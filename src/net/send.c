/* The first half of an exchange: the request. */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "net/exchange.h"

#define PIECE_BYTES (16 * KIB)   /* of a source, at once */
#define JOINED_BYTES PIECE_BYTES /* a body that goes out with its head: one packet, one record of TLS */

static bool is_clean(const char *s, bool blanks)
{
    for (; *s; s++)
        if ((unsigned char)*s < ' ' || *s == 0x7f || (*s == ' ' && !blanks))
            return false;
    return true;
}

int request_check(const struct http_request *r, struct error *err)
{
    if (!*r->method || !is_clean(r->method, false) || r->path[0] != '/' || !is_clean(r->path, false))
        return error_set(err, ERR_INVALID, "a request needs a method and an encoded path");
    if (r->content_type && !is_clean(r->content_type, true))
        return error_set(err, ERR_INVALID, "a content type may not have control characters");
    for (size_t i = 0; i < r->header_count; i++) {
        const char *name = r->headers[i].name;
        if (!*name || !is_clean(name, false) || strchr(name, ':') || !is_clean(r->headers[i].value, true))
            return error_set(err, ERR_INVALID, "a header may not have control characters: %s", name);
    }
    return 0;
}

static int add_framing(const struct http_request *r, struct buf *b)
{
    bool bodiless =
        strcmp(r->method, "GET") == 0 || strcmp(r->method, "HEAD") == 0 || strcmp(r->method, "DELETE") == 0;
    if (r->source)
        return buf_append_str(b, "Transfer-Encoding: chunked\r\n");
    if (!r->body && bodiless)
        return 0;
    return buf_printf(b, "Content-Length: %zu\r\n", r->body ? r->body_len : 0);
}

static int build_head(const struct exchange *x, const char *protocol, struct buf *b)
{
    const struct http_request *r = x->request;
    int failed = buf_printf(b, "%s %s HTTP/1.1\r\nHost: %s\r\n", r->method, r->path, x->client->host);
    if (protocol)
        failed |= buf_printf(b, "Connection: Upgrade\r\nUpgrade: %s\r\n", protocol);
    for (size_t i = 0; i < r->header_count; i++)
        failed |= buf_printf(b, "%s: %s\r\n", r->headers[i].name, r->headers[i].value);
    if (r->content_type)
        failed |= buf_printf(b, "Content-Type: %s\r\n", r->content_type);
    failed |= add_framing(r, b);
    return failed | buf_append_str(b, "\r\n");
}

/* The peer has said something, or hung up. It may also have been something of TLS. */
static bool has_spoken(struct exchange *x)
{
    return stream_fill(x->stream) >= 0 || errno != EAGAIN;
}

/* A peer that hangs up may have told why before: what is left isn't sent, and the answer read. */
static int send_bytes(struct exchange *x, const void *bytes, size_t n, struct error *err)
{
    for (size_t at = 0; at < n && !x->partial;) {
        if (wait_check(&x->request->wait, err) < 0)
            return error_prefix(err, "%s", x->client->where);
        ssize_t sent = http_stream_write(x->stream, (const char *)bytes + at, n - at);
        if (sent >= 0) {
            at += (size_t)sent;
            x->sent += (size_t)sent;
            continue;
        }
        short revents = 0;
        bool broken = errno != EAGAIN;
        if (!broken && wait_fd(x->stream->fd, POLLIN | POLLOUT, &x->request->wait, &revents, err) < 0)
            return error_prefix(err, "%s", x->client->where);
        x->partial = broken || (revents & ~POLLOUT && has_spoken(x));
    }
    return 0;
}

static int send_source(struct exchange *x, struct error *err)
{
    const struct http_request *r = x->request;
    _cleanup_(buf_done) struct buf piece = BUF_INIT(PIECE_BYTES + 32);
    char bytes[PIECE_BYTES];
    ssize_t n;
    do {
        n = r->source(r->ctx, bytes, sizeof(bytes), err);
        if (n < 0)
            return -1;
        buf_clear(&piece);
        /* The piece of no bytes is the end. */
        if (buf_printf(&piece, "%zx\r\n", (size_t)n) < 0 || buf_append(&piece, bytes, (size_t)n) < 0 ||
            buf_append_str(&piece, "\r\n") < 0)
            return error_set(err, ERR_LIMIT, "no memory for a piece of the request");
        if (send_bytes(x, piece.data, piece.len, err) < 0)
            return -1;
    } while (n > 0 && !x->partial);
    return 0;
}

int exchange_send(struct exchange *x, const char *protocol, struct error *err)
{
    const struct http_request *r = x->request;
    const bool joined = r->body && r->body_len <= JOINED_BYTES;
    _cleanup_(buf_done) struct buf head = BUF_INIT(LIMIT_HTTP_HEADERS_BYTES);
    int failed = build_head(x, protocol, &head);
    head.max += JOINED_BYTES;
    if (joined && failed == 0)
        failed = buf_append(&head, r->body, r->body_len);
    if (failed < 0)
        return error_set(err, ERR_LIMIT, "the request's headers are longer than %lu bytes",
                         LIMIT_HTTP_HEADERS_BYTES);
    if (send_bytes(x, head.data, head.len, err) < 0)
        return -1;
    if (r->source)
        return send_source(x, err);
    return r->body && !joined ? send_bytes(x, r->body, r->body_len, err) : 0;
}
