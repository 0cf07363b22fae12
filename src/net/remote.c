/* See remote.h. Each connection has an easy handle in a multi handle of its own (CURLOPT_CONNECT_ONLY): the
 * easy interface alone can't be woken by a cancel token. */
#include "net/remote.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/mem.h"
#include "net/curl.h"

#define POLL_MAX_MS 3600000 /* libcurl takes no "for ever" */

struct remote {
    CURLM *multi;
    CURL *easy;
    bool unset;                   /* an option couldn't be set */
    char detail[CURL_ERROR_SIZE]; /* libcurl's own words */
};
DEFINE_CLEANUP(struct remote *, remote_close)

#define SET(r, option, value)                                                                                \
    do {                                                                                                     \
        if (libcurl.easy_setopt((r)->easy, option, value) != CURLE_OK)                                       \
            (r)->unset = true;                                                                               \
    } while (0)

static curl_socket_t on_open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *a)
{
    return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static void set_tls(struct remote *r, const struct http_client *c)
{
    if (c->ca_file) { /* alone: not beside what the system trusts */
        SET(r, CURLOPT_CAINFO, c->ca_file);
        SET(r, CURLOPT_CAPATH, NULL);
    }
    if (c->cert_file)
        SET(r, CURLOPT_SSLCERT, c->cert_file);
    if (c->key_file)
        SET(r, CURLOPT_SSLKEY, c->key_file);
    SET(r, CURLOPT_SSL_VERIFYPEER, c->insecure ? 0L : 1L);
    SET(r, CURLOPT_SSL_VERIFYHOST, c->insecure ? 0L : 2L);
}

static void set_options(struct remote *r, const struct http_client *c)
{
    SET(r, CURLOPT_URL, c->url);
    SET(r, CURLOPT_CONNECT_ONLY, 1L);
    SET(r, CURLOPT_NOSIGNAL, 1L);
    SET(r, CURLOPT_PROXY, "");
    SET(r, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1); /* nothing else is offered in TLS */
    SET(r, CURLOPT_TCP_KEEPALIVE, 1L);
    SET(r, CURLOPT_ERRORBUFFER, r->detail);
    SET(r, CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
#if LIBCURL_VERSION_NUM >= 0x075700
    /* A look-up that hangs doesn't outlive the deadline. What an older library doesn't know is no error. */
    libcurl.easy_setopt(r->easy, CURLOPT_QUICK_EXIT, 1L);
#endif
    if (c->tls)
        set_tls(r, c);
}

/* What a failure means, where libcurl's words alone don't say it. */
static const struct {
    CURLcode code;
    const char *meaning;
} meanings[] = {
    {CURLE_COULDNT_RESOLVE_HOST, "can't find this host"},
    {CURLE_PEER_FAILED_VERIFICATION, "its certificate isn't trusted; is the CA file the right one?"},
    {CURLE_SSL_CACERT_BADFILE, "the CA file can't be used"},
    {CURLE_SSL_CERTPROBLEM, "our own certificate or its key can't be used"},
    {CURLE_SSL_CONNECT_ERROR, "no TLS connection"},
};

static int explain(const struct remote *r, const struct http_client *c, CURLcode code, struct error *err)
{
    const char *words = r->detail[0] ? r->detail : libcurl.easy_strerror(code);
    const char *meaning = "can't connect";
    for (size_t i = 0; i < ARRAY_LEN(meanings); i++)
        if (meanings[i].code == code)
            meaning = meanings[i].meaning;
    error_set(err, ERR_UNAVAILABLE, "%s: %s (%s)", c->where, meaning, words);
    long sys = 0;
    if (err && libcurl.easy_getinfo(r->easy, CURLINFO_OS_ERRNO, &sys) == CURLE_OK)
        err->sys = (int)sys;
    return -1;
}

static int poll_limits(struct remote *r, const struct wait *wait, struct error *err)
{
    struct curl_waitfd cancel = {.fd = cancel_fd(wait->cancel), .events = CURL_WAIT_POLLIN};
    if (wait->cancel && cancel.fd < 0) /* waiting would not end before the limits */
        return error_errno(err, ERR_LIMIT, errno, "no descriptor left to wait with");
    int timeout = clock_poll_timeout(wait->deadline);
    if (timeout < 0 || timeout > POLL_MAX_MS)
        timeout = POLL_MAX_MS;
    CURLMcode code = libcurl.multi_poll(r->multi, &cancel, wait->cancel ? 1 : 0, timeout, NULL);
    return code ? error_set(err, ERR_INTERNAL, "libcurl: %s", libcurl.multi_strerror(code)) : 0;
}

/* The easy handle stays in the multi handle: taken out, it would lose the connection. */
static int run(struct remote *r, const struct http_client *c, const struct wait *wait, struct error *err)
{
    CURLMcode code = libcurl.multi_add_handle(r->multi, r->easy);
    for (int running = 1; running;) {
        if (wait_check(wait, err) < 0)
            return error_prefix(err, "%s: can't connect", c->where);
        if (!code)
            code = libcurl.multi_perform(r->multi, &running);
        if (code)
            return error_set(err, ERR_INTERNAL, "libcurl: %s", libcurl.multi_strerror(code));
        if (running && poll_limits(r, wait, err) < 0)
            return -1;
    }
    int left;
    const CURLMsg *done = libcurl.multi_info_read(r->multi, &left);
    CURLcode result = done ? done->data.result : CURLE_FAILED_INIT;
    return result == CURLE_OK ? 0 : explain(r, c, result, err);
}

struct remote *remote_open(const struct http_client *c, const struct wait *wait, int *ret_fd,
                           struct error *err)
{
    _cleanup_(cleanup_remote_close) struct remote *r = xcalloc(1, sizeof(*r));
    r->multi = libcurl.multi_init();
    r->easy = libcurl.easy_init();
    if (r->multi && r->easy)
        set_options(r, c);
    if (!r->multi || !r->easy || r->unset) {
        error_set(err, ERR_LIMIT, "%s: libcurl has no memory or no descriptors left", c->where);
        return NULL;
    }
    if (run(r, c, wait, err) < 0)
        return NULL;
    curl_socket_t fd = CURL_SOCKET_BAD;
    if (libcurl.easy_getinfo(r->easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK || fd == CURL_SOCKET_BAD) {
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
    if (r->multi && r->easy)
        libcurl.multi_remove_handle(r->multi, r->easy);
    if (r->easy)
        libcurl.easy_cleanup(r->easy);
    if (r->multi)
        libcurl.multi_cleanup(r->multi);
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
    CURLcode code = libcurl.easy_recv(r->easy, buf, size, &n);
    return as_errno(code, n);
}

ssize_t remote_send(struct remote *r, const void *bytes, size_t n)
{
    size_t sent = 0;
    CURLcode code = libcurl.easy_send(r->easy, bytes, n, &sent);
    return as_errno(code, sent);
}
