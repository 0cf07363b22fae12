/* See transfer.h. */
#include "net/transfer.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/clock.h"

/* Bytes of HTTP/2 that libcurl 7.88 has read ahead with others wake nobody: it is given a turn now and then.
 */
#define POLL_MAX_MS 250

static curl_socket_t on_open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *a)
{
    return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static void set_tls(struct transfer *t, const struct transfer_peer *p)
{
    if (p->ca_file) { /* alone: not beside what the system trusts */
        TRANSFER_SET(t, CURLOPT_CAINFO, p->ca_file);
        TRANSFER_SET(t, CURLOPT_CAPATH, NULL);
    }
    if (p->cert_file)
        TRANSFER_SET(t, CURLOPT_SSLCERT, p->cert_file);
    if (p->key_file)
        TRANSFER_SET(t, CURLOPT_SSLKEY, p->key_file);
    TRANSFER_SET(t, CURLOPT_SSL_VERIFYPEER, p->insecure ? 0L : 1L);
    TRANSFER_SET(t, CURLOPT_SSL_VERIFYHOST, p->insecure ? 0L : 2L);
}

void transfer_init(struct transfer *t, CURLM *multi, const struct transfer_peer *p)
{
    *t = (struct transfer){.multi = multi ? multi : libcurl.multi_init(), .easy = libcurl.easy_init()};
    t->unset = !t->multi || !t->easy;
    if (t->unset)
        return;
    TRANSFER_SET(t, CURLOPT_NOSIGNAL, 1L);
    TRANSFER_SET(t, CURLOPT_PROXY, "");
    TRANSFER_SET(t, CURLOPT_TCP_KEEPALIVE, 1L);
    TRANSFER_SET(t, CURLOPT_ERRORBUFFER, t->detail);
    TRANSFER_SET(t, CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
#if LIBCURL_VERSION_NUM >= 0x075700
    /* A look-up that hangs doesn't outlive the deadline. What an older library doesn't know is no error. */
    libcurl.easy_setopt(t->easy, CURLOPT_QUICK_EXIT, 1L);
#endif
    if (p->tls)
        set_tls(t, p);
}

int transfer_begin(struct transfer *t, const struct transfer_peer *p, struct error *err)
{
    if (t->unset)
        return error_set(err, ERR_LIMIT, "%s: libcurl has no memory or no descriptors left", p->where);
    CURLMcode code = libcurl.multi_add_handle(t->multi, t->easy);
    return code ? error_set(err, ERR_INTERNAL, "libcurl: %s", libcurl.multi_strerror(code)) : 0;
}

int transfer_step(struct transfer *t, CURLcode *ret, struct error *err)
{
    int running = 0, left;
    CURLMcode code = libcurl.multi_perform(t->multi, &running);
    if (code)
        return error_set(err, ERR_INTERNAL, "libcurl: %s", libcurl.multi_strerror(code));
    if (running)
        return 1;
    const CURLMsg *done = libcurl.multi_info_read(t->multi, &left);
    *ret = done ? done->data.result : CURLE_FAILED_INIT;
    return 0;
}

int transfer_wait(struct transfer *t, const struct wait *wait, struct error *err)
{
    struct curl_waitfd cancel = {.fd = cancel_fd(wait->cancel), .events = CURL_WAIT_POLLIN};
    if (wait->cancel && cancel.fd < 0) /* waiting would not end before the limits */
        return error_errno(err, ERR_LIMIT, errno, "no descriptor left to wait with");
    int timeout = clock_poll_timeout(wait->deadline);
    if (timeout < 0 || timeout > POLL_MAX_MS)
        timeout = POLL_MAX_MS;
    CURLMcode code = libcurl.multi_poll(t->multi, &cancel, wait->cancel ? 1 : 0, timeout, NULL);
    return code ? error_set(err, ERR_INTERNAL, "libcurl: %s", libcurl.multi_strerror(code)) : 0;
}

/* What a failure means, where libcurl's words alone don't say it. */
static const struct {
    CURLcode code;
    const char *meaning;
} meanings[] = {
    {CURLE_COULDNT_CONNECT, "can't connect"},
    {CURLE_COULDNT_RESOLVE_HOST, "can't find this host"},
    {CURLE_PEER_FAILED_VERIFICATION, "its certificate isn't trusted; is the CA file the right one?"},
    {CURLE_SSL_CACERT_BADFILE, "the CA file can't be used"},
    {CURLE_SSL_CERTPROBLEM, "our own certificate or its key can't be used"},
    {CURLE_SSL_CONNECT_ERROR, "no TLS connection"},
};

int transfer_explain(const struct transfer *t, const struct transfer_peer *p, CURLcode code, const char *what,
                     struct error *err)
{
    const char *words = t->detail[0] ? t->detail : libcurl.easy_strerror(code);
    for (size_t i = 0; i < ARRAY_LEN(meanings); i++)
        if (meanings[i].code == code)
            what = meanings[i].meaning;
    error_set(err, ERR_UNAVAILABLE, "%s: %s (%s)", p->where, what, words);
    long sys = 0;
    if (err && libcurl.easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &sys) == CURLE_OK)
        err->sys = (int)sys;
    return -1;
}

CURLM *transfer_end(struct transfer *t)
{
    CURLM *multi = t->multi;
    if (t->multi && t->easy)
        libcurl.multi_remove_handle(t->multi, t->easy);
    if (t->easy)
        libcurl.easy_cleanup(t->easy);
    t->multi = NULL;
    t->easy = NULL;
    return multi;
}
