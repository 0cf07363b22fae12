/* Answers that come bit by bit.
 *
 * A stream may be idle for hours, and there may be ten thousand of them. So its socket is taken from
 * libmicrohttpd, with its buffers of 32 KiB, and with its list of suspended connections, through all of which
 * it goes whenever one is resumed. The price is that the connection ends with the stream.
 *
 * What the kernel doesn't take at once waits in a list of pieces. The first piece is the head; each other is
 * one chunk of `Transfer-Encoding: chunked` (RFC 9112, section 7.1), or plain bytes for HTTP/1.0. */
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "base/limits.h"
#include "base/mem.h"
#include "transport/http_private.h"

#define HEAD_BYTES (16 * KIB) /* our own headers */
#define TURN_BYTES (1 * MIB)  /* at a time; then others get theirs */
#define PIECES_PER_WRITE 16
#define PARTS 3 /* of a piece */

struct piece {
    struct list link;
    char before[20]; /* a chunk's size */
    struct buf bytes;
    const char *after;
    size_t sent; /* of all three */
};

static size_t piece_size(const struct piece *p)
{
    return strlen(p->before) + p->bytes.len + strlen(p->after);
}

static struct piece *first_of(const struct http_request *r)
{
    return list_entry(r->pieces.next, struct piece, link);
}

/* Takes the content of *bytes. */
static void add_piece(struct http_request *r, const char *before, struct buf *bytes, const char *after)
{
    struct piece *p = xcalloc(1, sizeof(*p));
    snprintf(p->before, sizeof(p->before), "%s", before);
    buf_move(&p->bytes, bytes);
    p->after = after;
    list_append(&r->pieces, &p->link);
    r->queued += piece_size(p);
}

/* Small ones of ours, which are always held. */
static void add_own_piece(struct http_request *r, struct buf *bytes, const char *text)
{
    http_hold(r->connection, bytes->len, 0);
    add_piece(r, text, bytes, "");
}

static void drop_piece(struct http_request *r)
{
    struct piece *p = first_of(r);
    r->queued -= piece_size(p) - p->sent;
    http_release(r->connection, p->bytes.len); /* only now: its memory was whole until then */
    list_unlink(&p->link);
    buf_done(&p->bytes);
    free(p);
}

void http_stream_clear(struct http_request *r)
{
    while (!list_empty(&r->pieces))
        drop_piece(r);
}

/* -- Sending. */

/* What is left of a part, of which `skip` bytes or more are gone. */
static void add_part(struct iovec **at, const char *bytes, size_t n, size_t *skip)
{
    size_t gone = *skip < n ? *skip : n;
    *skip -= gone;
    if (n > gone)
        *(*at)++ = (struct iovec){(char *)bytes + gone, n - gone};
}

static ssize_t send_some(struct http_request *r)
{
    struct iovec parts[PIECES_PER_WRITE * PARTS], *at = parts;
    list_for_each (node, &r->pieces) {
        struct piece *p = list_entry(node, struct piece, link);
        size_t skip = p->sent;
        if (at + PARTS > parts + ARRAY_LEN(parts))
            break;
        add_part(&at, p->before, strlen(p->before), &skip);
        add_part(&at, p->bytes.data, p->bytes.len, &skip);
        add_part(&at, p->after, strlen(p->after), &skip);
    }
    const struct msghdr msg = {.msg_iov = parts, .msg_iovlen = (size_t)(at - parts)};
    ssize_t n;
    do {
        n = sendmsg(r->connection->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    return n;
}

static void forget_sent(struct http_request *r, size_t n)
{
    r->queued -= n;
    while (!list_empty(&r->pieces)) {
        struct piece *p = first_of(r);
        size_t left = piece_size(p) - p->sent, part = n < left ? n : left;
        p->sent += part;
        n -= part;
        if (part < left)
            return;
        drop_piece(r);
    }
}

void http_stream_flush(struct http_request *r)
{
    struct http_connection *c = r->connection;
    size_t sent = 0;
    if (c->phase == HTTP_PHASE_ENDED)
        return;
    while (!list_empty(&r->pieces) && sent < TURN_BYTES) {
        ssize_t n = send_some(r);
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) {
            http_cut(c);
            return;
        }
        forget_sent(r, (size_t)n);
        sent += (size_t)n;
    }
    if (!list_empty(&r->pieces)) {
        if (sent > 0 || c->phase != HTTP_PHASE_WRITE)
            http_set_phase(c, HTTP_PHASE_WRITE);
        http_await_room(c);
        return;
    }
    r->is_flushed = r->is_ended;
    http_set_phase(c, r->is_flushed ? HTTP_PHASE_ENDED : HTTP_PHASE_NONE);
}

/* Before, the head waits for the end of the request; or for libmicrohttpd, to give up the socket. */
static void flush_if_taken(struct http_request *r)
{
    if (r->connection->is_taken)
        http_stream_flush(r);
    else if (r->state == HTTP_WAITING)
        http_resume(r->connection);
}

/* -- What the user calls. */

static const char *date(char text[64])
{
    time_t now = time(NULL);
    struct tm tm;
    strftime(text, 64, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &tm));
    return text;
}

static void add_head(struct http_request *r, int status, const struct http_header *headers, size_t count)
{
    struct buf head = BUF_INIT(HEAD_BYTES);
    char now[64];
    int failed = buf_printf(&head, "HTTP/1.1 %d %s\r\nDate: %s\r\nConnection: close\r\n", status,
                            status == 200 ? "OK" : "Status", date(now));
    for (size_t i = 0; i < count && !failed; i++)
        failed = buf_printf(&head, "%s: %s\r\n", headers[i].name, headers[i].value);
    if (!failed)
        failed = buf_append_str(&head, r->is_old ? "\r\n" : "Transfer-Encoding: chunked\r\n\r\n");
    assert(!failed);
    add_own_piece(r, &head, "");
    buf_done(&head);
}

void http_reply_begin(struct http_request *r, int status, const struct http_header *headers, size_t count)
{
    const int on = 1;
    if (r->is_head) {
        http_reply(r, status, headers, count, NULL);
        return;
    }
    assert(!r->answer && !r->is_stream && r->state != HTTP_SENDING && r->state != HTTP_REFUSED);
    setsockopt(r->connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    r->is_stream = true;
    r->status = (unsigned)status;
    add_head(r, status, headers, count);
    flush_if_taken(r);
}

bool http_reply_write(struct http_request *r, struct buf *bytes)
{
    struct http_connection *c = r->connection;
    size_t n = bytes->len, limit = http_options(c->server)->limits.queue_bytes;
    bool is_dropped = n == 0 || r->is_head;
    bool fits = !c->lost && r->queued <= limit && n <= limit - r->queued &&
                (is_dropped || http_hold(c, n, r->queued + n));
    char size[20];
    if (!fits)
        http_cut(c);
    if (!fits || is_dropped) {
        buf_done(bytes);
        return fits;
    }
    r->answered += n;
    snprintf(size, sizeof(size), "%zx\r\n", n);
    add_piece(r, r->is_old ? "" : size, bytes, r->is_old ? "" : "\r\n");
    flush_if_taken(r);
    return true;
}

size_t http_reply_queued(const struct http_request *r)
{
    return r->queued;
}

void http_reply_end(struct http_request *r)
{
    struct buf nothing = BUF_INIT(1);
    if (r->is_ended || r->is_head)
        return;
    r->is_ended = true;
    if (!r->is_old)
        add_own_piece(r, &nothing, "0\r\n\r\n");
    flush_if_taken(r);
}
