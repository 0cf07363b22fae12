/* One request and its whole answer, by libcurl. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "net/client.h"
#include "net/head.h"

struct call {
    const struct http_request *request;
    struct lane *lane;
    struct http_response response;
    struct head head;
    struct curl_slist *headers;
    int attempts; /* connections that the request was to be sent over */
};

static void call_done(struct call *call)
{
    http_response_done(&call->response);
    libcurl.slist_free_all(call->headers);
}

static bool is_clean(const char *s, bool blanks)
{
    for (; *s; s++)
        if ((unsigned char)*s < ' ' || *s == 0x7f || (*s == ' ' && !blanks))
            return false;
    return true;
}

int request_check(const struct http_request *r, struct error *err)
{
    if (!*r->method || !is_clean(r->method, false) || r->path[0] != '/' || !is_clean(r->path, false))
        return error_set(err, ERR_INVALID, "a request needs a method and an encoded path");
    if (r->content_type && !is_clean(r->content_type, true))
        return error_set(err, ERR_INVALID, "a content type may not have control characters");
    for (size_t i = 0; i < r->header_count; i++) {
        const char *name = r->headers[i].name;
        if (!*name || !is_clean(name, false) || strchr(name, ':') || !is_clean(r->headers[i].value, true))
            return error_set(err, ERR_INVALID, "the header %s may not have control characters", name);
    }
    return 0;
}

size_t request_max_body(const struct http_request *r)
{
    return r->max_body ? r->max_body : LIMIT_HTTP_BODY_BYTES;
}

int request_body_too_long(const struct http_client *c, const struct http_request *r, struct error *err)
{
    return error_set(err, ERR_LIMIT, "%s: the answer is longer than %zu bytes", c->where,
                     request_max_body(r));
}

/* A connection that was kept may have been closed by the peer, unnoticed until the request was on its way.
 * libcurl then tries another one, whatever the request. Nobody knows whether the first try had any effect, so
 * only what has none is repeated, once. */
static int on_connected(void *ctx, char *peer, char *own, int peer_port, int own_port)
{
    struct call *call = ctx;
    const char *method = call->request->method;
    bool harmless = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    long sent = 0;
    libcurl.easy_getinfo(call->lane->easy, CURLINFO_REQUEST_SIZE, &sent);
    call->attempts++;
    if (call->attempts == 1 || (call->attempts == 2 && (harmless || sent == 0)))
        return CURL_PREREQFUNC_OK;
    error_set(&call->lane->error, ERR_UNAVAILABLE,
              "%s: the connection was closed without an answer; whether the request took effect isn't known",
              call->lane->client->where);
    return CURL_PREREQFUNC_ABORT;
}

static size_t on_header(char *line, size_t size, size_t count, void *ctx)
{
    struct call *call = ctx;
    struct error *err = &call->lane->error;
    if (head_line(&call->head, line, size * count, err) == 0)
        return size * count;
    error_prefix(err, "%s", call->lane->client->where);
    return 0;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *ctx)
{
    struct call *call = ctx;
    const struct http_request *r = call->request;
    struct error *err = &call->lane->error;
    size_t n = size * count;
    if (r->sink && call->response.status / 100 == 2)
        return r->sink(r->ctx, bytes, n, err) < 0 ? 0 : n;
    if (buf_append(&call->response.body, bytes, n) == 0)
        return n;
    request_body_too_long(call->lane->client, r, err);
    return 0;
}

static size_t on_source(char *buf, size_t size, size_t count, void *ctx)
{
    struct call *call = ctx;
    ssize_t n = call->request->source(call->request->ctx, buf, size * count, &call->lane->error);
    return n < 0 ? CURL_READFUNC_ABORT : (size_t)n;
}

/* "Name:" takes away a header of libcurl's own, "Name;" is one without a value. */
static void add_header(struct call *call, const char *name, const char *value)
{
    _cleanup_(cleanup_free) char *line = !value   ? xasprintf("%s:", name)
                                         : *value ? xasprintf("%s: %s", name, value)
                                                  : xasprintf("%s;", name);
    struct curl_slist *longer = libcurl.slist_append(call->headers, line);
    if (longer)
        call->headers = longer;
    else
        call->lane->unset = true;
}

static void set_headers(struct call *call)
{
    const struct http_request *r = call->request;
    for (size_t i = 0; i < r->header_count; i++)
        add_header(call, r->headers[i].name, r->headers[i].value);
    add_header(call, "Content-Type", r->content_type);
    add_header(call, "Expect", NULL); /* or a large body would wait a second for leave */
    if (r->source)
        add_header(call, "Transfer-Encoding", "chunked");
    LANE_SET(call->lane, CURLOPT_HTTPHEADER, call->headers);
}

static void set_body(struct call *call)
{
    const struct http_request *r = call->request;
    struct lane *l = call->lane;
    bool bodiless = strcmp(r->method, "GET") == 0 || strcmp(r->method, "DELETE") == 0;
    if (strcmp(r->method, "HEAD") == 0) {
        LANE_SET(l, CURLOPT_NOBODY, 1L);
    } else if (r->source) {
        LANE_SET(l, CURLOPT_UPLOAD, 1L);
        LANE_SET(l, CURLOPT_READFUNCTION, on_source);
        LANE_SET(l, CURLOPT_READDATA, call);
    } else if (r->body || !bodiless) { /* "Content-Length: 0" for a POST without one */
        LANE_SET(l, CURLOPT_POSTFIELDS, r->body ? r->body : "");
        LANE_SET(l, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)(r->body ? r->body_len : 0));
    }
    LANE_SET(l, CURLOPT_CUSTOMREQUEST, r->method);
}

static void set_callbacks(struct call *call)
{
    struct lane *l = call->lane;
    LANE_SET(l, CURLOPT_PREREQFUNCTION, on_connected);
    LANE_SET(l, CURLOPT_PREREQDATA, call);
    LANE_SET(l, CURLOPT_HEADERFUNCTION, on_header);
    LANE_SET(l, CURLOPT_HEADERDATA, call);
    LANE_SET(l, CURLOPT_WRITEFUNCTION, on_body);
    LANE_SET(l, CURLOPT_WRITEDATA, call);
}

int http_do(struct http_client *c, const struct http_request *request, struct http_response *ret,
            struct error *err)
{
    if (request_check(request, err) < 0)
        return -1;
    _cleanup_(cleanup_lane_free) struct lane *lane = lane_take(c, err);
    if (!lane)
        return -1;
    _cleanup_(call_done) struct call call = {
        .request = request, .lane = lane, .response.body.max = request_max_body(request)};
    head_init(&call.head, &call.response);

    _cleanup_(cleanup_free) char *url = xasprintf("%s%s", c->url, request->path);
    LANE_SET(lane, CURLOPT_URL, url);
    set_headers(&call);
    set_body(&call);
    set_callbacks(&call);
    if (lane_run(lane, &request->wait, err) < 0)
        return -1;
    if (!call.head.complete)
        return error_set(err, ERR_UNAVAILABLE, "%s: the answer is malformed HTTP: it has no end", c->where);
    lane_return(TAKE_PTR(lane));
    *ret = call.response;
    call.response = (struct http_response){0};
    return 0;
}
