/* Clients, their connections and lanes. See client.h. */
#include "net/client.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"

#define IDLE_LANES_MAX 8
#define POLL_MAX_MS 3600000    /* libcurl takes no "for ever" */
#define BACKLOG_SLICE_US 20000 /* between two looks at the limits while a socket's backlog is full */

/* Host and port, nothing else: it goes into the Host header as it is. */
static bool is_host(const char *s)
{
    return *s && !s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]")];
}

struct http_client *http_client_new(const struct http_address *a, struct error *err)
{
    bool tls = str_has_prefix(a->url, "https://");
    size_t scheme = strlen(tls ? "https://" : "http://");
    if ((!tls && !str_has_prefix(a->url, "http://")) || !is_host(a->url + scheme)) {
        error_set(err, ERR_INVALID, "%s: must be http://HOST[:PORT] or https://HOST[:PORT]", a->url);
        return NULL;
    }
    if (curl_load(err) < 0)
        return NULL;

    struct http_client *c = xcalloc(1, sizeof(*c));
    *c = (struct http_client){.url = xstrdup(a->url),
                              .unix_path = xstrdup(a->unix_path),
                              .dial = a->dial,
                              .dial_ctx = a->dial_ctx,
                              .ca_file = xstrdup(a->ca_file),
                              .cert_file = xstrdup(a->cert_file),
                              .key_file = xstrdup(a->key_file),
                              .insecure = a->insecure,
                              .tls = tls,
                              .own_sockets = a->unix_path || a->dial};
    c->host = c->url + scheme;
    c->where = c->unix_path ? c->unix_path : c->url;
    pthread_mutex_init(&c->lock, NULL);
    return c;
}

struct http_client *http_client_free(struct http_client *c)
{
    if (!c)
        return NULL;
    while (c->idle) {
        struct lane *l = c->idle;
        c->idle = l->next;
        lane_free(l);
    }
    pthread_mutex_destroy(&c->lock);
    free(c->url);
    free(c->unix_path);
    free(c->ca_file);
    free(c->cert_file);
    free(c->key_file);
    free(c);
    return NULL;
}

/* A connect(2) to a Unix socket that doesn't block fails when the backlog is full, and poll(2) can't tell
 * when it no longer is. So it blocks, in slices. */
static int connect_unix(const struct http_client *c, const struct wait *wait, struct error *err)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (strlen(c->unix_path) >= sizeof(a.sun_path))
        return error_set(err, ERR_UNAVAILABLE, "%s: the path of a socket has at most %zu bytes", c->where,
                         sizeof(a.sun_path) - 1);
    strcpy(a.sun_path, c->unix_path);

    _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct timeval slice = {.tv_usec = BACKLOG_SLICE_US}, none = {0};
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &slice, sizeof(slice)) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "%s: can't make a socket", c->where);
    while (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
        if (errno != EAGAIN && errno != EINTR)
            return error_errno(err, ERR_UNAVAILABLE, errno, "%s: can't connect", c->where);
        if (wait_check(wait, err) < 0)
            return error_prefix(err, "%s: can't connect", c->where);
    }
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none)) < 0 || fd_set_nonblocking(fd, true) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "%s: can't set up the socket", c->where);
    return TAKE_FD(fd);
}

int client_connect(const struct http_client *c, const struct wait *wait, struct error *err)
{
    if (wait_check(wait, err) < 0)
        return -1;
    if (!c->dial)
        return connect_unix(c, wait, err);
    _cleanup_fd_ int fd = c->dial(c->dial_ctx, wait, err);
    if (fd >= 0 && fd_set_nonblocking(fd, true) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "%s: the connection isn't usable", c->where);
    return TAKE_FD(fd);
}

static curl_socket_t on_open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *a)
{
    struct lane *l = ctx;
    if (l->client->own_sockets)
        return client_connect(l->client, l->wait, &l->error);
    return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static int on_socket_options(void *ctx, curl_socket_t fd, curlsocktype purpose)
{
    struct lane *l = ctx;
    return l->client->own_sockets ? CURL_SOCKOPT_ALREADY_CONNECTED : CURL_SOCKOPT_OK;
}

static void set_tls(struct lane *l, const struct http_client *c)
{
    if (c->ca_file) { /* alone: not beside what the system trusts */
        LANE_SET(l, CURLOPT_CAINFO, c->ca_file);
        LANE_SET(l, CURLOPT_CAPATH, NULL);
    }
    if (c->cert_file)
        LANE_SET(l, CURLOPT_SSLCERT, c->cert_file);
    if (c->key_file)
        LANE_SET(l, CURLOPT_SSLKEY, c->key_file);
    LANE_SET(l, CURLOPT_SSL_VERIFYPEER, c->insecure ? 0L : 1L);
    LANE_SET(l, CURLOPT_SSL_VERIFYHOST, c->insecure ? 0L : 2L);
}

/* All that is the same for every request. Redirects, cookies, .netrc and authentication are off by default.
 */
static void set_defaults(struct lane *l)
{
    const struct http_client *c = l->client;
    libcurl.easy_reset(l->easy);
    LANE_SET(l, CURLOPT_NOSIGNAL, 1L);
    LANE_SET(l, CURLOPT_PROXY, "");
    LANE_SET(l, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    LANE_SET(l, CURLOPT_PATH_AS_IS, 1L);
    LANE_SET(l, CURLOPT_TCP_KEEPALIVE, 1L);
    LANE_SET(l, CURLOPT_ERRORBUFFER, l->detail);
    LANE_SET(l, CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
    LANE_SET(l, CURLOPT_OPENSOCKETDATA, l);
    LANE_SET(l, CURLOPT_SOCKOPTFUNCTION, on_socket_options);
    LANE_SET(l, CURLOPT_SOCKOPTDATA, l);
    if (c->own_sockets) /* never opened; it keeps libcurl from looking up the host's name */
        LANE_SET(l, CURLOPT_UNIX_SOCKET_PATH, "/connected");
#if LIBCURL_VERSION_NUM >= 0x075700
    /* A look-up that hangs doesn't outlive the deadline. What an older library doesn't know is no error. */
    libcurl.easy_setopt(l->easy, CURLOPT_QUICK_EXIT, 1L);
#endif
    if (c->tls)
        set_tls(l, c);
}

static struct lane *lane_new(struct http_client *c)
{
    struct lane *l = xcalloc(1, sizeof(*l));
    l->client = c;
    l->multi = libcurl.multi_init();
    l->easy = libcurl.easy_init();
    if (!l->multi || !l->easy || libcurl.multi_setopt(l->multi, CURLMOPT_MAXCONNECTS, 1L) != CURLM_OK)
        return lane_free(l);
    return l;
}

struct lane *lane_take(struct http_client *c, struct error *err)
{
    pthread_mutex_lock(&c->lock);
    struct lane *l = c->idle;
    if (l) {
        c->idle = l->next;
        c->idle_count--;
    }
    pthread_mutex_unlock(&c->lock);
    if (!l)
        l = lane_new(c);
    if (!l) {
        error_set(err, ERR_LIMIT, "%s: no memory or no descriptors left for a connection", c->where);
        return NULL;
    }
    l->next = NULL;
    l->error = (struct error)ERROR_INIT;
    set_defaults(l);
    return l;
}

void lane_return(struct lane *l)
{
    struct http_client *c = l->client;
    libcurl.multi_remove_handle(l->multi, l->easy);
    libcurl.easy_reset(l->easy); /* it holds pointers of the request */
    pthread_mutex_lock(&c->lock);
    bool keep = c->idle_count < IDLE_LANES_MAX;
    if (keep) {
        l->next = c->idle;
        c->idle = l;
        c->idle_count++;
    }
    pthread_mutex_unlock(&c->lock);
    if (!keep)
        lane_free(l);
}

struct lane *lane_free(struct lane *l)
{
    if (!l)
        return NULL;
    if (l->multi && l->easy)
        libcurl.multi_remove_handle(l->multi, l->easy);
    if (l->easy)
        libcurl.easy_cleanup(l->easy);
    if (l->multi)
        libcurl.multi_cleanup(l->multi);
    free(l);
    return NULL;
}

/* What a failure means, where libcurl's words alone don't say it. */
static const struct {
    CURLcode code;
    const char *meaning;
} meanings[] = {
    {CURLE_COULDNT_RESOLVE_HOST, "can't find this host"},
    {CURLE_COULDNT_CONNECT, "can't connect"},
    {CURLE_GOT_NOTHING, "the connection was closed without an answer"},
    {CURLE_SEND_ERROR, "the connection was closed while the request was sent"},
    {CURLE_RECV_ERROR, "the connection broke before the answer was complete"},
    {CURLE_PARTIAL_FILE, "the connection was closed before the answer was complete"},
    {CURLE_PEER_FAILED_VERIFICATION, "its certificate isn't trusted; is the CA file the right one"},
    {CURLE_SSL_CACERT_BADFILE, "the CA file can't be used"},
    {CURLE_SSL_CERTPROBLEM, "our own certificate or its key can't be used"},
    {CURLE_SSL_CONNECT_ERROR, "no TLS connection"},
    {CURLE_UNSUPPORTED_PROTOCOL, "the answer is malformed HTTP"},
    {CURLE_WEIRD_SERVER_REPLY, "the answer is malformed HTTP"},
    {CURLE_BAD_CONTENT_ENCODING, "the answer is malformed HTTP"},
};

/* Our callbacks know best why. */
static int explain(const struct lane *l, CURLcode code, struct error *err)
{
    if (l->error.code != ERR_NONE) {
        if (err)
            *err = l->error;
        return -1;
    }
    const char *words = l->detail[0] ? l->detail : libcurl.easy_strerror(code);
    const char *meaning = "the request failed";
    for (size_t i = 0; i < ARRAY_LEN(meanings); i++)
        if (meanings[i].code == code)
            meaning = meanings[i].meaning;
    error_set(err, ERR_UNAVAILABLE, "%s: %s (%s)", l->client->where, meaning, words);
    long sys = 0;
    if (err && code == CURLE_COULDNT_CONNECT && !libcurl.easy_getinfo(l->easy, CURLINFO_OS_ERRNO, &sys))
        err->sys = (int)sys;
    return -1;
}

static int poll_limits(struct lane *l, struct error *err)
{
    const struct wait *wait = l->wait;
    struct curl_waitfd cancel = {.fd = cancel_fd(wait->cancel), .events = CURL_WAIT_POLLIN};
    if (wait->cancel && cancel.fd < 0) /* waiting would not end before the limits */
        return error_errno(err, ERR_LIMIT, errno, "no descriptor left to wait with");
    int timeout = clock_poll_timeout(wait->deadline);
    if (timeout < 0 || timeout > POLL_MAX_MS)
        timeout = POLL_MAX_MS;
    CURLMcode code = libcurl.multi_poll(l->multi, &cancel, wait->cancel ? 1 : 0, timeout, NULL);
    return code ? error_set(err, ERR_INTERNAL, "libcurl: %s", libcurl.multi_strerror(code)) : 0;
}

int lane_run(struct lane *l, const struct wait *wait, struct error *err)
{
    if (l->unset)
        return error_set(err, ERR_INTERNAL, "libcurl refuses an option, or memory is out");
    l->wait = wait;
    l->detail[0] = '\0';
    CURLMcode code = libcurl.multi_add_handle(l->multi, l->easy);
    for (int running = 1; running;) {
        if (wait_check(wait, err) < 0)
            return error_prefix(err, "%s", l->client->where);
        if (!code)
            code = libcurl.multi_perform(l->multi, &running);
        if (code)
            return error_set(err, ERR_INTERNAL, "libcurl: %s", libcurl.multi_strerror(code));
        if (running && poll_limits(l, err) < 0)
            return -1;
    }
    int left;
    const CURLMsg *done = libcurl.multi_info_read(l->multi, &left);
    CURLcode result = done ? done->data.result : CURLE_FAILED_INIT;
    return result == CURLE_OK ? 0 : explain(l, result, err);
}
