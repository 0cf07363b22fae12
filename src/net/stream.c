/* Streams: a plain socket is read and written as what it is; TLS goes through libcurl, which knows no two
 * threads: its calls don't block, so a lock around them is held for microseconds. */
#include "net/stream.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/mem.h"

/* libcurl looks up the host, connects, and does TLS, but sends nothing. */
static int connect_lane(struct http_stream *s, const struct wait *wait, struct error *err)
{
    struct lane *l = s->lane;
    LANE_SET(l, CURLOPT_URL, l->client->url);
    LANE_SET(l, CURLOPT_CONNECT_ONLY, 1L);
    if (lane_run(l, wait, err) < 0)
        return -1;
    curl_socket_t fd = CURL_SOCKET_BAD;
    if (libcurl.easy_getinfo(l->easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK || fd == CURL_SOCKET_BAD)
        return error_set(err, ERR_UNAVAILABLE, "%s: the connection was closed at once", l->client->where);
    s->fd = fd;
    return 0;
}

struct http_stream *stream_open(struct http_client *c, size_t early_max, const struct wait *wait,
                                struct error *err)
{
    struct http_stream *s = xcalloc(1, sizeof(*s));
    *s = (struct http_stream){.fd = -1, .tls = c->tls, .early.max = early_max};
    pthread_mutex_init(&s->lock, NULL);
    if (c->own_sockets && !c->tls) {
        s->fd = client_connect(c, wait, err);
        return s->fd < 0 ? http_stream_free(s) : s;
    }
    s->lane = lane_take(c, err);
    return s->lane && connect_lane(s, wait, err) == 0 ? s : http_stream_free(s);
}

struct http_stream *http_stream_free(struct http_stream *s)
{
    if (!s)
        return NULL;
    if (s->lane)
        lane_free(s->lane);
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

/* What libcurl says as read(2) and write(2) would. */
static ssize_t as_errno(CURLcode code, size_t n)
{
    if (code == CURLE_OK)
        return (ssize_t)n;
    errno = code == CURLE_AGAIN ? EAGAIN : EIO;
    return -1;
}

ssize_t stream_receive(struct http_stream *s, void *buf, size_t size)
{
    if (!s->tls) {
        ssize_t n;
        do {
            n = recv(s->fd, buf, size, MSG_DONTWAIT);
        } while (n < 0 && errno == EINTR);
        return n;
    }
    size_t n = 0;
    pthread_mutex_lock(&s->lock);
    CURLcode code = libcurl.easy_recv(s->lane->easy, buf, size, &n);
    pthread_mutex_unlock(&s->lock);
    return as_errno(code, n);
}

ssize_t http_stream_read(struct http_stream *s, void *buf, size_t size)
{
    size_t n = s->early.len;
    if (n == 0)
        return stream_receive(s, buf, size);
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
    if (!s->tls) {
        ssize_t sent;
        do {
            sent = send(s->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        } while (sent < 0 && errno == EINTR);
        return sent;
    }
    size_t sent = 0;
    pthread_mutex_lock(&s->lock);
    CURLcode code = libcurl.easy_send(s->lane->easy, bytes, n, &sent);
    pthread_mutex_unlock(&s->lock);
    return as_errno(code, sent);
}

int http_stream_end(struct http_stream *s)
{
    if (!s->tls)
        return shutdown(s->fd, SHUT_WR);
    errno = EOPNOTSUPP; /* libcurl can't close one direction of TLS */
    return -1;
}
