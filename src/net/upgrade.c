/* The way out of HTTP: a request is written by hand, the answer's head read up to its last byte and no
 * further than can be given back, because what follows is the stream. A refusal is read to the end of its
 * body. */
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "net/head.h"
#include "net/stream.h"

#define READ_AHEAD_BYTES (16 * KIB)
#define CHUNK_DIGITS_MAX 15 /* of a size in hexadecimal: fits int64_t */

struct upgrade {
    struct http_client *client;
    const struct http_request *request;
    struct http_stream *stream;
    struct head head;
    struct http_response response;
};

static int build_request(const struct upgrade *u, const char *protocol, struct buf *b)
{
    const struct http_request *r = u->request;
    int failed = buf_printf(b, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: %s\r\n",
                            r->method, r->path, u->client->host, protocol);
    for (size_t i = 0; i < r->header_count; i++)
        failed |= buf_printf(b, "%s: %s\r\n", r->headers[i].name, r->headers[i].value);
    if (r->content_type)
        failed |= buf_printf(b, "Content-Type: %s\r\n", r->content_type);
    failed |= buf_printf(b, "Content-Length: %zu\r\n\r\n", r->body ? r->body_len : 0);
    if (r->body)
        failed |= buf_append(b, r->body, r->body_len);
    return failed;
}

static int broken(const struct upgrade *u, int sys, const char *when, struct error *err)
{
    return error_errno(err, ERR_UNAVAILABLE, sys, "%s: the connection broke %s", u->client->where, when);
}

static int send_request(struct upgrade *u, const char *protocol, struct error *err)
{
    size_t body_len = u->request->body ? u->request->body_len : 0;
    _cleanup_(buf_done) struct buf b = BUF_INIT(LIMIT_HTTP_HEADERS_BYTES + body_len);
    if (build_request(u, protocol, &b) < 0)
        return error_set(err, ERR_LIMIT, "the request's headers are longer than %lu bytes",
                         LIMIT_HTTP_HEADERS_BYTES);
    for (size_t at = 0; at < b.len;) {
        ssize_t n = http_stream_write(u->stream, b.data + at, b.len - at);
        if (n >= 0)
            at += (size_t)n;
        else if (errno != EAGAIN)
            return broken(u, errno, "while the request was sent", err);
        else if (wait_fd(u->stream->fd, POLLOUT, &u->request->wait, NULL, err) < 0)
            return error_prefix(err, "%s", u->client->where);
    }
    return 0;
}

/* Reads more into `early`. 1: something came; 0: it is the end. */
static int fill(struct upgrade *u, struct error *err)
{
    struct buf *early = &u->stream->early;
    if (buf_reserve(early, READ_AHEAD_BYTES) < 0)
        return error_set(err, ERR_LIMIT, "%s: a line of the answer is longer than %lu bytes",
                         u->client->where, LIMIT_HTTP_HEADERS_BYTES);
    for (;;) {
        ssize_t n = stream_receive(u->stream, early->data + early->len, READ_AHEAD_BYTES);
        if (n >= 0) {
            early->len += (size_t)n;
            return n > 0;
        }
        if (errno != EAGAIN)
            return broken(u, errno, "before the answer was complete", err);
        if (wait_fd(u->stream->fd, POLLIN, &u->request->wait, NULL, err) < 0)
            return error_prefix(err, "%s", u->client->where);
    }
}

/* The same, where the answer can't be over yet. */
static int fill_more(struct upgrade *u, struct error *err)
{
    int r = fill(u, err);
    if (r == 0)
        return error_set(err, ERR_UNAVAILABLE, "%s: the connection was closed before the answer was complete",
                         u->client->where);
    return r < 0 ? -1 : 0;
}

/* Makes `early` begin with a whole line; its length, with its end. -1 with the error. */
static ssize_t read_line(struct upgrade *u, struct error *err)
{
    struct buf *early = &u->stream->early;
    for (size_t looked_at = 0;;) {
        const char *end =
            early->len > looked_at ? memchr(early->data + looked_at, '\n', early->len - looked_at) : NULL;
        if (end)
            return end + 1 - early->data;
        looked_at = early->len;
        if (fill_more(u, err) < 0)
            return -1;
    }
}

/* Of the head, or of a chunked body's trailer. *ret_empty (may be NULL): it ended there. */
static int take_head_line(struct upgrade *u, bool *ret_empty, struct error *err)
{
    ssize_t n = read_line(u, err);
    if (n < 0)
        return -1;
    struct buf *early = &u->stream->early;
    if (head_line(&u->head, early->data, (size_t)n, err) < 0)
        return error_prefix(err, "%s", u->client->where);
    if (ret_empty)
        *ret_empty = n == 1 || (n == 2 && early->data[0] == '\r');
    buf_consume(early, (size_t)n);
    return 0;
}

/* Moves up to n bytes of what was read ahead into the body. */
static int take_bytes(struct upgrade *u, int64_t *n, struct error *err)
{
    struct buf *early = &u->stream->early;
    size_t take = (uint64_t)*n < early->len ? (size_t)*n : early->len;
    if (buf_append(&u->response.body, early->data, take) < 0)
        return request_body_too_long(u->client, u->request, err);
    buf_consume(early, take);
    *n -= (int64_t)take;
    return 0;
}

static int read_exactly(struct upgrade *u, int64_t n, struct error *err)
{
    while (n > 0) {
        if (u->stream->early.len == 0 && fill_more(u, err) < 0)
            return -1;
        if (take_bytes(u, &n, err) < 0)
            return -1;
    }
    return 0;
}

static int read_to_end(struct upgrade *u, struct error *err)
{
    int r;
    do {
        int64_t all = INT64_MAX;
        if (take_bytes(u, &all, err) < 0)
            return -1;
        r = fill(u, err);
    } while (r > 0);
    return r;
}

/* "1a\r\n" or "1a;extension\r\n". -1: it is none. */
static int64_t chunk_size(const char *line)
{
    int64_t size = 0;
    int i = 0;
    for (; isxdigit((unsigned char)line[i]); i++) {
        if (i == CHUNK_DIGITS_MAX)
            return -1;
        int digit = isdigit((unsigned char)line[i]) ? line[i] - '0' : tolower(line[i]) - 'a' + 10;
        size = size * 16 + digit;
    }
    bool ends = line[i] == '\r' || line[i] == '\n' || line[i] == ';';
    return i > 0 && ends ? size : -1;
}

static int read_chunks(struct upgrade *u, struct error *err)
{
    struct buf *early = &u->stream->early;
    for (;;) {
        ssize_t n = read_line(u, err);
        if (n < 0)
            return -1;
        int64_t size = chunk_size(early->data);
        if (size < 0)
            return error_set(err, ERR_UNAVAILABLE, "%s: the answer is malformed HTTP: a chunk has no size",
                             u->client->where);
        buf_consume(early, (size_t)n);
        if (size == 0)
            break;
        bool empty = false;
        if (read_exactly(u, size, err) < 0 || take_head_line(u, &empty, err) < 0)
            return -1;
        if (!empty)
            return error_set(err, ERR_UNAVAILABLE, "%s: the answer is malformed HTTP: a chunk has no end",
                             u->client->where);
    }
    for (bool empty = false; !empty;)
        if (take_head_line(u, &empty, err) < 0)
            return -1;
    return 0;
}

static int read_refusal(struct upgrade *u, struct error *err)
{
    int status = u->response.status;
    if (status == 204 || status == 304)
        return 0;
    if (u->head.chunked)
        return read_chunks(u, err);
    return u->head.length >= 0 ? read_exactly(u, u->head.length, err) : read_to_end(u, err);
}

static int run(struct upgrade *u, const char *protocol, struct error *err)
{
    if (send_request(u, protocol, err) < 0)
        return -1;
    while (!u->head.complete)
        if (take_head_line(u, NULL, err) < 0)
            return -1;
    bool endless = !u->head.chunked && u->head.length < 0;
    if (u->response.status == 101 || (u->response.status == 200 && endless))
        return 0;
    if (read_refusal(u, err) < 0)
        return -1;
    u->stream = http_stream_free(u->stream);
    return 0;
}

int http_upgrade(struct http_client *c, const struct http_request *request, const char *protocol,
                 struct http_stream **ret, struct http_response *ret_response, struct error *err)
{
    if (request_check(request, err) < 0)
        return -1;
    if (request->source)
        return error_set(err, ERR_INVALID, "an upgrade takes its body whole");
    struct upgrade u = {.client = c, .request = request, .response.body.max = request_max_body(request)};
    head_init(&u.head, &u.response);
    u.stream = stream_open(c, LIMIT_HTTP_HEADERS_BYTES + READ_AHEAD_BYTES, &request->wait, err);
    if (!u.stream || run(&u, protocol, err) < 0) {
        http_stream_free(u.stream);
        http_response_done(&u.response);
        return -1;
    }
    *ret = u.stream;
    *ret_response = u.response;
    return 0;
}
