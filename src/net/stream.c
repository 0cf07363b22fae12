/* Streams: a plain socket is read and written as what it is; TLS goes through libcurl, which knows no two
 * threads: its calls don't block, so a lock around them is held for microseconds. */
#include "net/stream.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/mem.h"

struct http_stream *stream_open(const struct http_client *c, const struct wait *wait, struct error *err)
{
    _cleanup_(cleanup_http_stream_free) struct http_stream *s = xcalloc(1, sizeof(*s));
    *s = (struct http_stream){
        .fd = -1, .tls = c->tls, .early.max = LIMIT_HTTP_HEADERS_BYTES + STREAM_READ_BYTES};
    pthread_mutex_init(&s->lock, NULL);
    if (c->unix_path || c->dial)
        s->fd = client_connect(c, wait, err);
    else
        s->remote = remote_open(c, wait, &s->fd, err);
    return s->fd < 0 ? NULL : TAKE_PTR(s);
}

struct http_stream *http_stream_free(struct http_stream *s)
{
    if (!s)
        return NULL;
    if (s->remote)
        remote_close(s->remote);
    else
        fd_close(s->fd);
    buf_done(&s->early);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return NULL;
}

int http_stream_fd(const struct http_stream *s)
{
    return s->fd;
}

static ssize_t receive(struct http_stream *s, void *buf, size_t size)
{
    ssize_t n;
    if (s->tls) {
        pthread_mutex_lock(&s->lock);
        n = remote_receive(s->remote, buf, size);
        pthread_mutex_unlock(&s->lock);
        return n;
    }
    do {
        n = recv(s->fd, buf, size, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    return n;
}

ssize_t stream_fill(struct http_stream *s)
{
    if (buf_reserve(&s->early, STREAM_READ_BYTES) < 0) {
        errno = ENOBUFS;
        return -1;
    }
    ssize_t n = receive(s, s->early.data + s->early.len, STREAM_READ_BYTES);
    if (n > 0)
        s->early.len += (size_t)n;
    return n;
}

bool stream_is_quiet(struct http_stream *s)
{
    return s->early.len == 0 && stream_fill(s) < 0 && errno == EAGAIN;
}

ssize_t http_stream_read(struct http_stream *s, void *buf, size_t size)
{
    size_t n = s->early.len;
    if (n == 0)
        return receive(s, buf, size);
    if (n > size)
        n = size;
    memcpy(buf, s->early.data, n);
    buf_consume(&s->early, n);
    if (s->early.len == 0)
        buf_done(&s->early);
    return (ssize_t)n;
}

ssize_t http_stream_write(struct http_stream *s, const void *bytes, size_t n)
{
    ssize_t sent;
    if (s->tls) {
        pthread_mutex_lock(&s->lock);
        sent = remote_send(s->remote, bytes, n);
        pthread_mutex_unlock(&s->lock);
        return sent;
    }
    do {
        sent = send(s->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent;
}

int http_stream_end(struct http_stream *s)
{
    if (!s->tls)
        return shutdown(s->fd, SHUT_WR);
    errno = EOPNOTSUPP; /* libcurl can't close one direction of TLS */
    return -1;
}
