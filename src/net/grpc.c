/* See grpc.h. A call is one transfer in a multi handle, which has one connection: none is shared between
 * threads, and what waits for one call waits for nothing else. Handles whose calls ended well are kept for
 * the next call.
 *
 * A handle that isn't asked to go on reads nothing: so a slow reader slows down the peer. */
#include "net/grpc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "net/client.h"
#include "net/exchange.h"
#include "net/grpc_answer.h"
#include "net/transfer.h"

#define IDLE_MAX 8 /* connections; and as many on which a call is left */
#define LEFT_NS (1 * NSEC_PER_SEC)
#define FRAME_BYTES 5
#define TIMEOUT_UNITS_MAX 99999999LL /* eight digits */

struct grpc_channel {
    atomic_int refs;
    char *url, *ca_file;
    struct transfer_peer peer;
    pthread_mutex_t lock; /* of all that follows */
    CURLM *idle[IDLE_MAX];
    int idle_count;
    struct grpc_stream *left[IDLE_MAX]; /* the first was left first */
    int left_count;
};

struct grpc_stream {
    struct grpc_channel *channel;
    struct transfer transfer;
    struct curl_slist *headers;
    struct buf body;
    struct grpc_answer answer;
    struct error failure; /* of what came: why the transfer was ended */
    bool over;            /* the transfer is, as `result` says */
    CURLcode result;
    atomic_bool cut;
    int64_t patience; /* once nobody waits for what still comes: until when it may come; else 0 */
};
DEFINE_CLEANUP(struct grpc_stream *, grpc_close)

/* --- channels --- */

static int check_http2(struct error *err)
{
    if (curl_load(err) < 0)
        return -1;
    if (libcurl.version_info(CURLVERSION_NOW)->features & CURL_VERSION_HTTP2)
        return 0;
    return error_set(err, ERR_UNAVAILABLE,
                     "this libcurl can't do HTTP/2, which is needed here; that of Debian and Ubuntu "
                     "can (apt-get install libcurl3-gnutls)");
}

struct grpc_channel *grpc_channel_new(const char *url, const char *ca_file, struct error *err)
{
    const bool tls = str_has_prefix(url, "https://");
    if (!url_is_base(url)) {
        error_set(err, ERR_INVALID, "%.200s: must be http://HOST[:PORT] or https://HOST[:PORT]", url);
        return NULL;
    }
    if (check_http2(err) < 0)
        return NULL;
    struct grpc_channel *c = xcalloc(1, sizeof(*c));
    c->refs = 1;
    c->url = xstrdup(url);
    c->ca_file = xstrdup(ca_file);
    c->peer = (struct transfer_peer){.where = c->url, .tls = tls, .ca_file = c->ca_file};
    pthread_mutex_init(&c->lock, NULL);
    return c;
}

struct grpc_channel *grpc_channel_ref(struct grpc_channel *c)
{
    atomic_fetch_add(&c->refs, 1);
    return c;
}

/* The connection, where another call can have it. One on which more of an abandoned call may come can't be
 * had. */
static CURLM *dissolve(struct grpc_stream *s)
{
    const bool good = s->over && s->result == CURLE_OK && s->channel->peer.tls;
    CURLM *multi = transfer_end(&s->transfer);
    if (multi && !good)
        libcurl.multi_cleanup(TAKE_PTR(multi));
    libcurl.slist_free_all(s->headers);
    buf_done(&s->body);
    grpc_answer_done(&s->answer);
    free(s);
    return multi;
}

struct grpc_channel *grpc_channel_unref(struct grpc_channel *c)
{
    if (!c || atomic_fetch_sub(&c->refs, 1) > 1)
        return NULL;
    for (int i = 0; i < c->left_count; i++) {
        CURLM *multi = dissolve(c->left[i]);
        if (multi)
            libcurl.multi_cleanup(multi);
    }
    for (int i = 0; i < c->idle_count; i++)
        libcurl.multi_cleanup(c->idle[i]);
    pthread_mutex_destroy(&c->lock);
    free(c->url);
    free(c->ca_file);
    free(c);
    return NULL;
}

static void keep_idle(struct grpc_channel *c, CURLM *multi)
{
    pthread_mutex_lock(&c->lock);
    const bool keep = c->idle_count < IDLE_MAX;
    if (keep)
        c->idle[c->idle_count++] = multi;
    pthread_mutex_unlock(&c->lock);
    if (!keep)
        libcurl.multi_cleanup(multi);
}

/* --- a request --- */

static void add_header(struct grpc_stream *s, const char *name, const char *value)
{
    _cleanup_(cleanup_free) char *line = xasprintf("%s: %s", name, value);
    struct curl_slist *more = libcurl.slist_append(s->headers, line);
    s->transfer.unset |= !more;
    s->headers = more ? more : s->headers;
}

static void add_headers(struct grpc_stream *s, const struct grpc_request *r)
{
    add_header(s, "content-type", "application/grpc");
    add_header(s, "te", "trailers");
    add_header(s, "expect", ""); /* never waits for a "100 Continue" */
    if (r->timeout_ns > 0) {
        char text[16];
        const int64_t ms = r->timeout_ns / NSEC_PER_MSEC + 1;
        snprintf(text, sizeof(text), "%lldm", (long long)(ms < TIMEOUT_UNITS_MAX ? ms : TIMEOUT_UNITS_MAX));
        add_header(s, "grpc-timeout", text);
    }
    for (size_t i = 0; i < r->header_count; i++)
        add_header(s, r->headers[i].name, r->headers[i].value);
}

/* In the header and body functions: anything but the size ends the transfer. */
static size_t on_line(char *bytes, size_t size, size_t n, void *ctx)
{
    struct grpc_stream *s = ctx;
    return grpc_answer_line(&s->answer, bytes, size * n, &s->failure) < 0 ? 0 : size * n;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *ctx)
{
    struct grpc_stream *s = ctx;
    if (s->patience > 0 || grpc_answer_body(&s->answer, bytes, size * n, &s->failure) < 0)
        return size * n + 1;
    return size * n;
}

static void set_request(struct grpc_stream *s, const struct grpc_request *r)
{
    struct transfer *t = &s->transfer;
    const bool tls = s->channel->peer.tls;
    _cleanup_(cleanup_free) char *url = xasprintf("%s%s", s->channel->url, r->path);
    TRANSFER_SET(t, CURLOPT_URL, url);
    TRANSFER_SET(t, CURLOPT_HTTP_VERSION,
                 (long)(tls ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE));
    if (!tls) { /* libcurl 7.88 fails on such a connection's second request */
        TRANSFER_SET(t, CURLOPT_FRESH_CONNECT, 1L);
        TRANSFER_SET(t, CURLOPT_FORBID_REUSE, 1L);
    }
    TRANSFER_SET(t, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)s->body.len);
    TRANSFER_SET(t, CURLOPT_POSTFIELDS, s->body.data);
    TRANSFER_SET(t, CURLOPT_HTTPHEADER, s->headers);
}

static void set_functions(struct grpc_stream *s)
{
    struct transfer *t = &s->transfer;
    TRANSFER_SET(t, CURLOPT_HEADERFUNCTION, on_line);
    TRANSFER_SET(t, CURLOPT_HEADERDATA, s);
    TRANSFER_SET(t, CURLOPT_WRITEFUNCTION, on_body);
    TRANSFER_SET(t, CURLOPT_WRITEDATA, s);
}

static int frame(const struct grpc_request *r, struct buf *b)
{
    const unsigned char head[FRAME_BYTES] = {0, (unsigned char)(r->size >> 24),
                                             (unsigned char)(r->size >> 16), (unsigned char)(r->size >> 8),
                                             (unsigned char)r->size};
    return buf_append(b, head, sizeof(head)) < 0 || (r->size > 0 && buf_append(b, r->message, r->size) < 0)
               ? -1
               : 0;
}

/* --- the answer --- */

/* As far as it goes without waiting; 1: it isn't over. */
static int step(struct grpc_stream *s, struct error *err)
{
    if (s->over)
        return 0;
    const int more = transfer_step(&s->transfer, &s->result, err);
    s->over = more <= 0;
    return more;
}

/* -1: the limits, or it was cut. Looked at before each wait, so that neither is missed. */
static int check_limits(struct grpc_stream *s, const struct wait *wait, struct error *err)
{
    if (atomic_load(&s->cut))
        return error_set(err, ERR_UNAVAILABLE, "%s: the call was cut", s->channel->url);
    return wait_check(wait, err) < 0 ? error_prefix(err, "%s", s->channel->url) : 0;
}

/* To the end of a call that was left. */
static void see_out(struct grpc_stream *s, const struct wait *wait)
{
    const struct wait bounded = wait_at_most(wait, s->patience);
    while (step(s, NULL) > 0)
        if (check_limits(s, &bounded, NULL) < 0 || transfer_wait(&s->transfer, &bounded, NULL) < 0)
            return;
}

/* Rather the connection of a call that is about to end than a new one. NULL: a new one is needed. */
static CURLM *take_connection(struct grpc_channel *c, const struct wait *wait)
{
    struct grpc_stream *left = NULL;
    pthread_mutex_lock(&c->lock);
    CURLM *multi = c->idle_count > 0 ? c->idle[--c->idle_count] : NULL;
    if (!multi && c->left_count > 0) {
        left = c->left[0];
        memmove(c->left, c->left + 1, (size_t)--c->left_count * sizeof(*c->left));
    }
    pthread_mutex_unlock(&c->lock);
    if (!left)
        return multi;
    see_out(left, wait);
    return dissolve(left);
}

static struct grpc_stream *begin(struct grpc_channel *c, const struct grpc_request *r,
                                 const struct wait *wait, struct error *err)
{
    const struct http_request plain = {
        .method = "POST", .path = r->path, .headers = r->headers, .header_count = r->header_count};
    if (request_check(&plain, err) < 0)
        return NULL;
    _cleanup_(cleanup_grpc_close) struct grpc_stream *s = xcalloc(1, sizeof(*s));
    s->channel = grpc_channel_ref(c);
    s->body = (struct buf)BUF_INIT(GRPC_MESSAGE_MAX + FRAME_BYTES);
    grpc_answer_init(&s->answer, c->url);
    if (frame(r, &s->body) < 0) {
        error_set(err, ERR_LIMIT, "a message of %zu bytes is too long to be sent", r->size);
        return NULL;
    }
    transfer_init(&s->transfer, take_connection(c, wait), &c->peer);
    if (!s->transfer.unset)
        add_headers(s, r);
    if (!s->transfer.unset) {
        set_request(s, r);
        set_functions(s);
    }
    return transfer_begin(&s->transfer, &c->peer, err) < 0 ? NULL : TAKE_PTR(s);
}

/* The peer's own status is told before what happened to the connection meanwhile. */
static int conclude(struct grpc_stream *s, struct grpc_status *ret, struct error *err)
{
    const struct grpc_answer *a = &s->answer;
    const bool refused = a->http_status != 0 && a->http_status != 200;
    if (a->http_status != 0 && !a->http2)
        return error_set(err, ERR_UNAVAILABLE, "%s: what answers there speaks no HTTP/2", s->channel->url);
    if (s->failure.code != ERR_NONE && !refused && a->code < 0)
        return error_set(err, s->failure.code, "%s", s->failure.msg);
    if (s->result != CURLE_OK && !refused && a->code < 0)
        return transfer_explain(&s->transfer, &s->channel->peer, s->result,
                                a->http_status == 0
                                    ? "the connection was closed without an answer"
                                    : "the connection was closed before the answer was complete",
                                err);
    return grpc_answer_end(&s->answer, ret, err);
}

static int end(struct grpc_stream *s, struct grpc_status *ret_status, struct error *err)
{
    struct grpc_status status = GRPC_STATUS_INIT;
    status.code = GRPC_UNAVAILABLE;
    const int failed = conclude(s, &status, err);
    if (ret_status) {
        grpc_status_done(ret_status);
        *ret_status = status;
    } else {
        grpc_status_done(&status);
    }
    return failed;
}

int grpc_next(struct grpc_stream *s, const struct wait *wait, struct buf *ret, struct grpc_status *ret_status,
              struct error *err)
{
    if (ret_status)
        ret_status->code = GRPC_OK;
    for (;;) {
        if (check_limits(s, wait, err) < 0)
            return -1;
        int there = grpc_answer_take(&s->answer, ret, err);
        if (there != 0)
            return there;
        const int more = step(s, err);
        if (more < 0)
            return -1;
        there = grpc_answer_take(&s->answer, ret, err);
        if (there != 0)
            return there;
        if (more == 0)
            return end(s, ret_status, err);
        if (check_limits(s, wait, err) < 0 || transfer_wait(&s->transfer, wait, err) < 0)
            return -1;
    }
}

/* Until a connection is there, with what of the request it takes at once. */
static int send_request(struct grpc_stream *s, const struct wait *wait, struct error *err)
{
    for (curl_off_t begun = 0; !s->over;) {
        if (check_limits(s, wait, err) < 0 || step(s, err) < 0)
            return -1;
        if (begun > 0)
            return 0;
        if (libcurl.easy_getinfo(s->transfer.easy, CURLINFO_PRETRANSFER_TIME_T, &begun) == CURLE_OK &&
            begun > 0)
            continue;
        if (!s->over && transfer_wait(&s->transfer, wait, err) < 0)
            return -1;
    }
    return 0;
}

struct grpc_stream *grpc_open(struct grpc_channel *c, const struct grpc_request *r, const struct wait *wait,
                              struct error *err)
{
    if (wait_check(wait, err) < 0)
        return NULL;
    _cleanup_(cleanup_grpc_close) struct grpc_stream *s = begin(c, r, wait, err);
    return s && send_request(s, wait, err) == 0 ? TAKE_PTR(s) : NULL;
}

void grpc_cut(struct grpc_stream *s)
{
    atomic_store(&s->cut, true);
    libcurl.multi_wakeup(s->transfer.multi);
}

struct grpc_stream *grpc_close(struct grpc_stream *s)
{
    if (!s)
        return NULL;
    struct grpc_channel *c = s->channel;
    CURLM *multi = dissolve(s);
    if (multi)
        keep_idle(c, multi);
    grpc_channel_unref(c);
    return NULL;
}

struct grpc_stream *grpc_leave(struct grpc_stream *s)
{
    if (!s || s->over || atomic_load(&s->cut))
        return grpc_close(s);
    struct grpc_channel *c = s->channel;
    s->patience = clock_now() + LEFT_NS;
    pthread_mutex_lock(&c->lock);
    const bool kept = c->left_count < IDLE_MAX;
    if (kept)
        c->left[c->left_count++] = s;
    pthread_mutex_unlock(&c->lock);
    if (!kept)
        return grpc_close(s);
    grpc_channel_unref(c); /* which has the stream, not the other way round */
    return NULL;
}

int grpc_finish(struct grpc_stream *s, const struct wait *wait, struct buf *ret,
                struct grpc_status *ret_status, struct error *err)
{
    _cleanup_(buf_done) struct buf more = BUF_INIT(GRPC_MESSAGE_MAX);
    const int there = grpc_next(s, wait, ret, ret_status, err);
    if (there < 0)
        return -1;
    const int second = there == 0 ? 0 : grpc_next(s, wait, &more, ret_status, err);
    if (second < 0)
        return -1;
    if (there == 1 && second == 0)
        return 0;
    if (ret_status)
        ret_status->code = GRPC_INTERNAL;
    return error_set(err, ERR_UNAVAILABLE, "%s: answered with %s message", s->channel->url,
                     there == 0 ? "no" : "more than one");
}

int grpc_call(struct grpc_channel *c, const struct grpc_request *r, const struct wait *wait, struct buf *ret,
              struct grpc_status *ret_status, struct error *err)
{
    if (ret_status)
        ret_status->code = GRPC_OK;
    if (wait_check(wait, err) < 0)
        return -1;
    _cleanup_(cleanup_grpc_close) struct grpc_stream *s = begin(c, r, wait, err);
    return s ? grpc_finish(s, wait, ret, ret_status, err) : -1;
}
