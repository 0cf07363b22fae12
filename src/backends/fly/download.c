/* See download.h. */
#include "backends/fly/download.h"

#include <errno.h>
#include <string.h>

#include "backends/provider.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "net/http.h"

#define REDIRECTS_MAX 5
#define USER_AGENT "mcp-sandbox-computer-vm-for-ai" /* where releases are, who has none is turned away */

/* Where the bytes go: one of the two. */
struct target {
    const struct download *what;
    int fd;
    struct buf *text; /* NULL: into fd */
    size_t taken;
};

static int take(void *ctx, const void *bytes, size_t n, struct error *err)
{
    struct target *t = ctx;
    if (n > t->what->max - t->taken)
        return error_set(err, ERR_LIMIT, "%.200s is longer than %zu bytes", t->what->url, t->what->max);
    t->taken += n;
    if (t->text ? buf_append(t->text, bytes, n) < 0 : fd_write_all(t->fd, bytes, n) < 0)
        return error_errno(err, ERR_UNAVAILABLE, t->text ? ENOMEM : errno, "keep %.200s", t->what->url);
    return 0;
}

/* The place in the URL where its path begins, which may be its end. */
static const char *path_of(const char *url)
{
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    return host + strcspn(host, "/?#");
}

static int get(const struct download *d, const char *url, struct target *target, const struct wait *wait,
               struct http_response *ret, struct error *err)
{
    const char *rest = path_of(url);
    _cleanup_(cleanup_free) char *origin = xstrndup(url, (size_t)(rest - url));
    _cleanup_(cleanup_free) char *base = provider_base(origin, origin, err);
    _cleanup_(cleanup_free) char *path =
        xasprintf("%s%.*s", *rest == '/' ? "" : "/", (int)strcspn(rest, "#"), rest);
    if (!base)
        return -1;
    struct http_client *client =
        http_client_new(&(struct http_address){.url = base, .ca_file = d->ca_file}, err);
    const struct http_header header = {"User-Agent", USER_AGENT};
    const struct http_request request = {.method = "GET",
                                         .path = path,
                                         .headers = &header,
                                         .header_count = 1,
                                         .sink = take,
                                         .ctx = target,
                                         .wait = *wait};
    const int failed = client ? http_do(client, &request, ret, err) : -1;
    http_client_free(client);
    return failed;
}

/* Where a redirect leads; NULL: the answer is none. */
static char *next_of(const char *url, const struct http_response *r)
{
    _cleanup_(cleanup_free) char *to = r->status / 100 == 3 ? http_response_header(r, "location") : NULL;
    if (to && to[0] == '/' && to[1] != '/')
        return xasprintf("%.*s%s", (int)(path_of(url) - url), url, to);
    return TAKE_PTR(to);
}

static int download(struct target *target, const struct wait *wait, struct error *err)
{
    const struct download *d = target->what;
    _cleanup_(cleanup_free) char *url = xstrdup(d->url);
    for (int n = 0; n <= REDIRECTS_MAX; n++) {
        _cleanup_(http_response_done) struct http_response r = {0};
        if (get(d, url, target, wait, &r, err) < 0)
            return -1;
        if (r.status == 200)
            return 0;
        char *next = next_of(url, &r);
        if (!next)
            return error_set(err, ERR_UNAVAILABLE, "%.200s: the answer is %d", url, r.status);
        free(url);
        url = next;
    }
    return error_set(err, ERR_UNAVAILABLE, "%.200s: more than %d redirects", d->url, REDIRECTS_MAX);
}

int download_to_file(const struct download *d, int fd, const struct wait *wait, struct error *err)
{
    struct target target = {.what = d, .fd = fd};
    return download(&target, wait, err);
}

int download_text(const struct download *d, const struct wait *wait, char **ret, struct error *err)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT(d->max);
    struct target target = {.what = d, .fd = -1, .text = &text};
    if (download(&target, wait, err) < 0)
        return -1;
    *ret = str_trim(buf_str(&text));
    return 0;
}
