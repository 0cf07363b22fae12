/* See remote.h. The connection is an easy handle's that asks for nothing else (CURLOPT_CONNECT_ONLY). */
#include "net/remote.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "net/transfer.h"

struct remote {
    struct transfer transfer;
};
DEFINE_CLEANUP(struct remote *, remote_close)

/* The easy handle stays in the multi handle: taken out, it would lose the connection. */
static int run(struct transfer *t, const struct transfer_peer *peer, const struct wait *wait,
               struct error *err)
{
    CURLcode result = CURLE_FAILED_INIT;
    for (;;) {
        if (wait_check(wait, err) < 0)
            return error_prefix(err, "%s: can't connect", peer->where);
        int more = transfer_step(t, &result, err);
        if (more < 0)
            return -1;
        if (more == 0)
            return result == CURLE_OK ? 0 : transfer_explain(t, peer, result, "can't connect", err);
        if (transfer_wait(t, wait, err) < 0)
            return -1;
    }
}

struct remote *remote_open(const struct http_client *c, const struct wait *wait, int *ret_fd,
                           struct error *err)
{
    const struct transfer_peer peer = {.where = c->where,
                                       .tls = c->tls,
                                       .ca_file = c->ca_file,
                                       .cert_file = c->cert_file,
                                       .key_file = c->key_file,
                                       .insecure = c->insecure};
    _cleanup_(cleanup_remote_close) struct remote *r = xcalloc(1, sizeof(*r));
    struct transfer *t = &r->transfer;
    transfer_init(t, NULL, &peer);
    if (!t->unset) {
        TRANSFER_SET(t, CURLOPT_URL, c->url);
        TRANSFER_SET(t, CURLOPT_CONNECT_ONLY, 1L);
        TRANSFER_SET(t, CURLOPT_HTTP_VERSION,
                     (long)CURL_HTTP_VERSION_1_1); /* nothing else is offered in TLS */
    }
    if (transfer_begin(t, &peer, err) < 0 || run(t, &peer, wait, err) < 0)
        return NULL;
    curl_socket_t fd = CURL_SOCKET_BAD;
    if (libcurl.easy_getinfo(t->easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK || fd == CURL_SOCKET_BAD) {
        error_set(err, ERR_UNAVAILABLE, "%s: the connection was closed at once", c->where);
        return NULL;
    }
    *ret_fd = fd;
    return TAKE_PTR(r);
}

struct remote *remote_close(struct remote *r)
{
    if (!r)
        return NULL;
    CURLM *multi = transfer_end(&r->transfer);
    if (multi)
        libcurl.multi_cleanup(multi);
    free(r);
    return NULL;
}

static ssize_t as_errno(CURLcode code, size_t n)
{
    if (code == CURLE_OK)
        return (ssize_t)n;
    errno = code == CURLE_AGAIN ? EAGAIN : EIO;
    return -1;
}

ssize_t remote_receive(struct remote *r, void *buf, size_t size)
{
    size_t n = 0;
    CURLcode code = libcurl.easy_recv(r->transfer.easy, buf, size, &n);
    return as_errno(code, n);
}

ssize_t remote_send(struct remote *r, const void *bytes, size_t n)
{
    size_t sent = 0;
    CURLcode code = libcurl.easy_send(r->transfer.easy, bytes, n, &sent);
    return as_errno(code, sent);
}
