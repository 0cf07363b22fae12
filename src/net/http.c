/* The two ways to use a connection: for a request and its answer, after which it serves the next one, or to
 * leave HTTP behind on it. */
#include "net/http.h"

#include <string.h>

#include "base/mem.h"
#include "net/exchange.h"

static int transfer(struct exchange *x, struct error *err)
{
    if (exchange_send(x, NULL, err) < 0 || exchange_read_head(x, err) < 0)
        return -1;
    return exchange_read_body(x, err);
}

/* A connection that was kept may have been closed by the peer when the request was already on its way. Nobody
 * knows whether that had any effect; so only what has none may be sent again, or what wasn't sent at all. */
static bool is_repeatable(const struct exchange *x)
{
    return x->lost && !x->request->source && (exchange_is_harmless(x) || x->sent == 0);
}

bool exchange_is_reusable(const struct exchange *x)
{
    bool has_end = !exchange_is_endless(x) || x->response.status == 204 || x->response.status == 304 ||
                   strcmp(x->request->method, "HEAD") == 0;
    return !x->partial && !x->head.closes && has_end && x->stream->early.len == 0;
}

static int start_over(struct exchange *x, struct error *err)
{
    http_stream_free(x->stream);
    x->sent = 0;
    x->partial = x->lost = false;
    x->stream = stream_open(x->client, &x->request->wait, err);
    return x->stream ? transfer(x, err) : -1;
}

int http_do(struct http_client *c, const struct http_request *request, struct http_response *ret,
            struct error *err)
{
    if (request_check(request, err) < 0)
        return -1;
    _cleanup_(exchange_done) struct exchange x;
    exchange_init(&x, c, request);
    x.stream = client_take(c);
    bool kept = x.stream != NULL;
    int r = kept ? transfer(&x, err) : start_over(&x, err);
    if (r < 0 && kept && is_repeatable(&x))
        r = start_over(&x, err);
    if (r < 0)
        return -1;
    if (exchange_is_reusable(&x))
        client_keep(c, TAKE_PTR(x.stream));
    *ret = x.response;
    x.response = (struct http_response){0};
    return 0;
}

int http_upgrade(struct http_client *c, const struct http_request *request, const char *protocol,
                 struct http_stream **ret, struct http_response *ret_response, struct error *err)
{
    if (request_check(request, err) < 0)
        return -1;
    _cleanup_(exchange_done) struct exchange x;
    exchange_init(&x, c, request);
    x.stream = stream_open(c, &request->wait, err);
    if (!x.stream || exchange_send(&x, protocol, err) < 0 || exchange_read_head(&x, err) < 0)
        return -1;

    int status = x.response.status;
    bool agreed = status == 101 || (status == 200 && exchange_is_endless(&x));
    if (!agreed && exchange_read_body(&x, err) < 0)
        return -1;
    if (agreed && x.stream->early.len == 0)
        buf_done(&x.stream->early);
    *ret = agreed ? TAKE_PTR(x.stream) : NULL;
    *ret_response = x.response;
    x.response = (struct http_response){0};
    return 0;
}
