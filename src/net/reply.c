/* A body that is read on demand:
 *
 *     CHUNK_SIZE -> BYTES -> CHUNK_END -> CHUNK_SIZE ... -> TRAILER -> OVER     (chunked)
 *     BYTES -> OVER                                                             (a length, or none)
 *
 * A step that is interrupted begins anew with the next read. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "net/exchange.h"

enum place { CHUNK_SIZE, BYTES, CHUNK_END, TRAILER, OVER };

struct http_reply {
    struct http_client *client;
    struct http_request request; /* method, and the wait of the read under way */
    struct exchange x;
    enum place at;
    int64_t left; /* bytes, of the chunk or of the body */
};

static int begin(struct exchange *x, bool *ret_kept, struct error *err)
{
    x->stream = client_take(x->client);
    *ret_kept = x->stream != NULL;
    if (!x->stream)
        x->stream = stream_open(x->client, &x->request->wait, err);
    return x->stream && exchange_send(x, NULL, err) == 0 ? exchange_read_head(x, err) : -1;
}

static void read_from(struct http_reply *r)
{
    const int status = r->x.response.status;
    r->left = r->x.head.length < 0 ? INT64_MAX : r->x.head.length;
    r->at = r->x.head.chunked ? CHUNK_SIZE : BYTES;
    if (status == 204 || r->x.head.length == 0)
        r->at = OVER;
}

int http_open(struct http_client *c, const struct http_request *request, struct http_reply **ret,
              struct http_response *ret_response, struct error *err)
{
    bool kept;
    if (request_check(request, err) < 0)
        return -1;
    _cleanup_(exchange_done) struct exchange x;
    exchange_init(&x, c, request);
    if (begin(&x, &kept, err) < 0) {
        /* It wasn't sent at all: see http_do(). */
        if (!kept || !x.lost || x.sent > 0)
            return -1;
        x.stream = http_stream_free(x.stream);
        x.partial = x.lost = false;
        x.stream = stream_open(c, &request->wait, err);
        if (!x.stream || exchange_send(&x, NULL, err) < 0 || exchange_read_head(&x, err) < 0)
            return -1;
    }
    struct http_reply *r = NULL;
    if (x.response.status / 100 == 2) {
        r = xcalloc(1, sizeof(*r));
        *r = (struct http_reply){.client = c, .request = {.method = request->method}, .x = x};
        r->x.request = &r->request;
        r->x.head.response = &r->x.response;
        r->x.response = (struct http_response){.status = x.response.status};
        x.stream = NULL;
        read_from(r);
    } else {
        if (exchange_read_body(&x, err) < 0)
            return -1;
        if (exchange_is_reusable(&x))
            client_keep(c, TAKE_PTR(x.stream));
    }
    *ret = r;
    *ret_response = x.response;
    x.response = (struct http_response){0};
    return 0;
}

/* Moves to where there are bytes, or the end. */
static int advance(struct http_reply *r, struct error *err)
{
    bool empty = false;
    while (r->at != BYTES && r->at != OVER) {
        int failed = 0;
        if (r->at == CHUNK_SIZE) {
            failed = exchange_chunk_begin(&r->x, &r->left, err);
            r->at = failed < 0 ? r->at : r->left > 0 ? BYTES : TRAILER;
        } else if (r->at == CHUNK_END) {
            failed = exchange_chunk_end(&r->x, err);
            r->at = failed < 0 ? r->at : CHUNK_SIZE;
        } else {
            failed = exchange_take_line(&r->x, &empty, err);
            r->at = empty && failed == 0 ? OVER : r->at;
        }
        if (failed < 0)
            return -1;
    }
    return 0;
}

static int await_bytes(struct http_reply *r, struct error *err)
{
    struct exchange *x = &r->x;
    if (x->stream->early.len > 0)
        return 1;
    if (!exchange_is_endless(x))
        return exchange_fill_more(x, err) < 0 ? -1 : 1;
    int more = exchange_fill(x, err);
    r->at = more == 0 ? OVER : r->at;
    return more;
}

ssize_t http_reply_read(struct http_reply *r, void *buf, size_t size, const struct wait *wait,
                        struct error *err)
{
    r->request.wait = *wait;
    if (advance(r, err) < 0)
        return -1;
    int there = r->at == OVER ? 0 : await_bytes(r, err);
    if (there <= 0)
        return there;
    struct buf *early = &r->x.stream->early;
    size_t n = early->len < size ? early->len : size;
    n = (uint64_t)r->left < n ? (size_t)r->left : n;
    memcpy(buf, early->data, n);
    buf_consume(early, n);
    if (exchange_is_endless(&r->x))
        return (ssize_t)n;
    r->left -= (int64_t)n;
    if (r->left == 0)
        r->at = r->x.head.chunked ? CHUNK_END : OVER;
    return (ssize_t)n;
}

void http_reply_cut(struct http_reply *r)
{
    shutdown(http_stream_fd(r->x.stream), SHUT_RDWR);
}

struct http_reply *http_reply_close(struct http_reply *r)
{
    if (!r)
        return NULL;
    if (r->at == OVER && exchange_is_reusable(&r->x))
        client_keep(r->client, TAKE_PTR(r->x.stream));
    exchange_done(&r->x);
    free(r);
    return NULL;
}
