/* The second half of an exchange: the answer. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "net/exchange.h"

#define CHUNK_DIGITS_MAX 15 /* of a size in hexadecimal: fits int64_t */

void exchange_init(struct exchange *x, struct http_client *c, const struct http_request *r)
{
    *x = (struct exchange){.client = c, .request = r};
    x->response.body.max = r->max_body ? r->max_body : LIMIT_HTTP_BODY_BYTES;
    head_init(&x->head, &x->response);
}

void exchange_done(struct exchange *x)
{
    http_stream_free(x->stream);
    http_response_done(&x->response);
}

bool exchange_is_harmless(const struct exchange *x)
{
    return strcmp(x->request->method, "GET") == 0 || strcmp(x->request->method, "HEAD") == 0;
}

/* The connection ended, where the answer couldn't be over. */
static int cut_short(struct exchange *x, int sys, struct error *err)
{
    x->lost = x->head.seen == 0 && x->stream->early.len == 0;
    const char *what = "the connection was closed before the answer was complete";
    if (x->lost)
        what =
            exchange_is_harmless(x) || x->sent == 0
                ? "the connection was closed without an answer"
                : "the connection was closed without an answer; whether the request took effect isn't known";
    if (sys)
        return error_errno(err, ERR_UNAVAILABLE, sys, "%s: %s", x->client->where, what);
    return error_set(err, ERR_UNAVAILABLE, "%s: %s", x->client->where, what);
}

static int malformed(const struct exchange *x, const char *what, struct error *err)
{
    return error_set(err, ERR_UNAVAILABLE, "%s: the answer is malformed HTTP: %s", x->client->where, what);
}

int exchange_fill(struct exchange *x, struct error *err)
{
    for (;;) {
        if (wait_check(&x->request->wait, err) < 0)
            return error_prefix(err, "%s", x->client->where);
        ssize_t n = stream_fill(x->stream);
        if (n >= 0)
            return n > 0;
        if (errno == ENOBUFS)
            return error_set(err, ERR_LIMIT, "%s: the answer's headers are longer than %lu bytes",
                             x->client->where, LIMIT_HTTP_HEADERS_BYTES);
        if (errno != EAGAIN)
            return cut_short(x, errno, err);
        if (wait_fd(x->stream->fd, POLLIN, &x->request->wait, NULL, err) < 0)
            return error_prefix(err, "%s", x->client->where);
    }
}

int exchange_fill_more(struct exchange *x, struct error *err)
{
    int r = exchange_fill(x, err);
    return r == 0 ? cut_short(x, 0, err) : r < 0 ? -1 : 0;
}

ssize_t exchange_read_line(struct exchange *x, struct error *err)
{
    const struct buf *early = &x->stream->early;
    for (size_t looked_at = 0;;) {
        const char *end = NULL;
        if (early->len > looked_at)
            end = memchr(early->data + looked_at, '\n', early->len - looked_at);
        if (end)
            return end + 1 - early->data;
        looked_at = early->len;
        if (exchange_fill_more(x, err) < 0)
            return -1;
    }
}

int exchange_take_line(struct exchange *x, bool *ret_empty, struct error *err)
{
    ssize_t n = exchange_read_line(x, err);
    if (n < 0)
        return -1;
    struct buf *early = &x->stream->early;
    if (head_line(&x->head, early->data, (size_t)n, err) < 0)
        return error_prefix(err, "%s", x->client->where);
    *ret_empty = n == 1 || (n == 2 && early->data[0] == '\r');
    buf_consume(early, (size_t)n);
    return 0;
}

int exchange_read_head(struct exchange *x, struct error *err)
{
    bool empty;
    while (!x->head.complete)
        if (exchange_take_line(x, &empty, err) < 0)
            return -1;
    return 0;
}

/* Hands on up to *n bytes of what was read ahead. */
static int take_body(struct exchange *x, int64_t *n, struct error *err)
{
    const struct http_request *r = x->request;
    struct buf *early = &x->stream->early;
    size_t take = (uint64_t)*n < early->len ? (size_t)*n : early->len;
    if (take == 0)
        return 0;
    if (r->sink && x->response.status / 100 == 2) {
        if (r->sink(r->ctx, early->data, take, err) < 0)
            return -1;
    } else if (buf_append(&x->response.body, early->data, take) < 0) {
        return error_set(err, ERR_LIMIT, "%s: the answer is longer than %zu bytes", x->client->where,
                         x->response.body.max);
    }
    buf_consume(early, take);
    *n -= (int64_t)take;
    return 0;
}

static int read_exactly(struct exchange *x, int64_t n, struct error *err)
{
    while (n > 0) {
        if (x->stream->early.len == 0 && exchange_fill_more(x, err) < 0)
            return -1;
        if (take_body(x, &n, err) < 0)
            return -1;
    }
    return 0;
}

static int read_to_end(struct exchange *x, struct error *err)
{
    int r;
    do {
        int64_t all = INT64_MAX;
        if (take_body(x, &all, err) < 0)
            return -1;
        r = exchange_fill(x, err);
    } while (r > 0);
    return r;
}

/* "1a\r\n" or "1a;extension\r\n". -1: it is none. */
static int64_t chunk_size(const char *line)
{
    size_t digits = strspn(line, "0123456789abcdefABCDEF");
    bool ends = line[digits] == '\r' || line[digits] == '\n' || line[digits] == ';';
    return ends && digits > 0 && digits <= CHUNK_DIGITS_MAX ? strtoll(line, NULL, 16) : -1;
}

int exchange_chunk_begin(struct exchange *x, int64_t *ret, struct error *err)
{
    ssize_t n = exchange_read_line(x, err);
    if (n < 0)
        return -1;
    *ret = chunk_size(x->stream->early.data);
    buf_consume(&x->stream->early, (size_t)n);
    return *ret < 0 ? malformed(x, "a chunk has no size", err) : 0;
}

int exchange_chunk_end(struct exchange *x, struct error *err)
{
    ssize_t n = exchange_read_line(x, err);
    if (n < 0)
        return -1;
    if (n != 2 || x->stream->early.data[0] != '\r')
        return malformed(x, "a chunk has no end", err);
    buf_consume(&x->stream->early, 2);
    return 0;
}

static int read_chunks(struct exchange *x, struct error *err)
{
    bool empty = false;
    for (;;) {
        int64_t size;
        if (exchange_chunk_begin(x, &size, err) < 0)
            return -1;
        if (size == 0)
            break;
        if (read_exactly(x, size, err) < 0)
            return -1;
        if (exchange_chunk_end(x, err) < 0)
            return -1;
    }
    while (!empty) /* the trailer */
        if (exchange_take_line(x, &empty, err) < 0)
            return -1;
    return 0;
}

bool exchange_is_endless(const struct exchange *x)
{
    return !x->head.chunked && x->head.length < 0;
}

int exchange_read_body(struct exchange *x, struct error *err)
{
    int status = x->response.status;
    if (status == 204 || status == 304 || strcmp(x->request->method, "HEAD") == 0)
        return 0;
    if (status == 101)
        return malformed(x, "it switches protocols unasked", err);
    if (x->head.chunked)
        return read_chunks(x, err);
    return exchange_is_endless(x) ? read_to_end(x, err) : read_exactly(x, x->head.length, err);
}
