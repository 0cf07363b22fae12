/* Clients and their connections. See client.h. */
#include "net/client.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "net/curl.h"
#include "net/stream.h"

#define IDLE_MAX 8
#define BACKLOG_SLICE_US 20000 /* between two looks at the limits while a socket's backlog is full */

bool url_is_base(const char *url)
{
    const size_t scheme = str_has_prefix(url, "https://") ? strlen("https://") : strlen("http://");
    if (scheme == strlen("http://") && !str_has_prefix(url, "http://"))
        return false;
    const char *host = url + scheme;
    return *host &&
           !host[strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]")];
}

static int check_address(const struct http_address *a, struct error *err)
{
    bool tls = str_has_prefix(a->url, "https://");
    bool own_socket = a->unix_path || a->dial;
    if (!url_is_base(a->url))
        return error_set(err, ERR_INVALID, "%s: must be http://HOST[:PORT] or https://HOST[:PORT]", a->url);
    if (tls && own_socket)
        return error_set(err, ERR_INVALID, "%s: TLS is for connections to a host", a->url);
    return own_socket ? 0 : curl_load(err);
}

struct http_client *http_client_new(const struct http_address *a, struct error *err)
{
    if (check_address(a, err) < 0)
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
                              .tls = str_has_prefix(a->url, "https://")};
    c->host = strstr(c->url, "://") + 3;
    c->where = c->unix_path ? c->unix_path : c->url;
    pthread_mutex_init(&c->lock, NULL);
    return c;
}

struct http_client *http_client_free(struct http_client *c)
{
    if (!c)
        return NULL;
    while (c->idle) {
        struct http_stream *s = c->idle;
        c->idle = s->next;
        http_stream_free(s);
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
    const struct timeval slice = {.tv_usec = BACKLOG_SLICE_US};
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &slice, sizeof(slice)) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "%s: can't make a socket", c->where);
    while (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
        if (errno != EAGAIN && errno != EINTR)
            return error_errno(err, ERR_UNAVAILABLE, errno, "%s: can't connect", c->where);
        if (wait_check(wait, err) < 0)
            return error_prefix(err, "%s: can't connect", c->where);
    }
    return TAKE_FD(fd);
}

int client_connect(const struct http_client *c, const struct wait *wait, struct error *err)
{
    if (wait_check(wait, err) < 0)
        return error_prefix(err, "%s: can't connect", c->where);
    _cleanup_fd_ int fd = c->dial ? c->dial(c->dial_ctx, wait, err) : connect_unix(c, wait, err);
    if (fd >= 0 && fd_set_nonblocking(fd, true) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "%s: the connection isn't usable", c->where);
    return TAKE_FD(fd);
}

struct http_stream *client_take(struct http_client *c)
{
    for (;;) {
        pthread_mutex_lock(&c->lock);
        struct http_stream *s = c->idle;
        if (s) {
            c->idle = s->next;
            c->idle_count--;
        }
        pthread_mutex_unlock(&c->lock);
        if (!s || stream_is_quiet(s))
            return s;
        http_stream_free(s);
    }
}

void client_keep(struct http_client *c, struct http_stream *s)
{
    pthread_mutex_lock(&c->lock);
    bool keep = c->idle_count < IDLE_MAX;
    if (keep) {
        s->next = c->idle;
        c->idle = s;
        c->idle_count++;
    }
    pthread_mutex_unlock(&c->lock);
    if (!keep)
        http_stream_free(s);
}
