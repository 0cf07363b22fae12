/* One request: its head, its body, and the answer.
 *
 * libmicrohttpd calls http_on_part() when the head is there, for each part of the body, and at the end, until
 * an answer is queued. An answer that is given before the end is kept until the body has been read away:
 * closing on a peer that still sends would reset the connection, and the answer with it. What is refused on
 * the way, where libmicrohttpd takes no answer any more, is answered past it, and a bounded rest is read
 * away.
 *
 * While the answer isn't there the connection is suspended: libmicrohttpd forgets it, and the server watches
 * only whether the peer goes away. Whoever changes that resumes it; then http_on_part() is called again. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "transport/http_guard.h"
#include "transport/http_private.h"

#define DRAIN_BYTES (8 * MIB)  /* read away for a peer that was refused, so that it hears it */
#define PROGRESS_BYTES 4096    /* of a body; fewer don't renew its deadline */
#define PIECE_BYTES (64 * KIB) /* of a long answer, at a time */

static struct http_connection *connection_of(struct MHD_Connection *m)
{
    return mhd.get_connection_info(m, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static const struct http_server_options *options_of(const struct http_request *r)
{
    return http_options(r->connection->server);
}

static struct http_server_counts *counts_of(const struct http_request *r)
{
    return http_counts(r->connection->server);
}

/* -- Beginning and end. */

static size_t scheme_of(const char *target)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
        if (strncasecmp(target, schemes[i], strlen(schemes[i])) == 0)
            return strlen(schemes[i]);
    return 0;
}

/* An absolute one has a host before its path (RFC 9112, section 3.2.2), which moves back to make room for its
 * end. */
static void split_target(struct http_request *r)
{
    const size_t scheme = scheme_of(r->target);
    r->path = r->target;
    r->query = strchr(r->target, '?');
    if (r->query)
        *r->query++ = '\0';
    if (scheme == 0)
        return;
    const size_t n = strcspn(r->target + scheme, "/");
    if (r->target[scheme + n])
        r->path = r->target + scheme + n;
    else
        r->path = "/";
    memmove(r->target, r->target + scheme, n);
    r->target[n] = '\0';
    r->authority = r->target;
}

void *http_on_line(void *server, const char *target, struct MHD_Connection *m)
{
    struct http_connection *c = connection_of(m);
    size_t len = strlen(target);
    struct http_request *r = xcalloc(1, sizeof(*r) + len + 1);
    r->connection = c;
    r->began = clock_now();
    r->body.max = options_of(r)->limits.body_bytes;
    list_init(&r->pieces);
    r->raw_target = target;
    r->target_len = len;
    r->is_malformed = !http_guard_target(target, len);
    memcpy(r->target, target, len);
    split_target(r);
    c->request = r;
    if (c->phase != HTTP_PHASE_HEAD)
        http_set_phase(c, HTTP_PHASE_HEAD);
    http_note(server);
    return r;
}

static struct http_request *request_free(struct http_request *r)
{
    http_stream_clear(r);
    http_release(r->connection, r->content.len);
    if (r->answer)
        mhd.destroy_response(r->answer);
    buf_done(&r->body);
    buf_done(&r->content);
    free(r->own_method);
    free(r);
    return NULL;
}

static void tell_gone(struct http_request *r, bool sent)
{
    if (r->is_told)
        options_of(r)->on_gone(options_of(r)->ctx, r, sent);
    r->is_told = false;
}

void http_on_completed(void *server, struct MHD_Connection *m, void **request,
                       enum MHD_RequestTerminationCode why)
{
    struct http_request *r = *request;
    if (!r)
        return;
    *request = NULL;
    r->connection->request = NULL;
    http_set_phase(r->connection, HTTP_PHASE_IDLE);
    tell_gone(r, why == MHD_REQUEST_TERMINATED_COMPLETED_OK && r->state == HTTP_SENDING);
    request_free(r);
    http_note(server);
}

void http_end_request(struct http_request *r)
{
    r->connection->request = NULL;
    tell_gone(r, r->is_flushed);
    request_free(r);
}

/* -- Refusals. */

static const char *reason_of(unsigned status)
{
    return status == 408 ? "Request Timeout" : status == 413 ? "Content Too Large" : "Bad Request";
}

void http_answer_directly(struct http_connection *c, unsigned status)
{
    char text[128];
    int n = snprintf(text, sizeof(text), "HTTP/1.1 %u %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
                     status, reason_of(status));
    if (send(c->fd, text, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL) == n)
        shutdown(c->fd, SHUT_WR);
}

static void refuse(struct http_request *r, unsigned status)
{
    http_answer_directly(r->connection, status);
    r->state = HTTP_REFUSED;
    r->arrived = 0;
    buf_done(&r->body);
    http_set_phase(r->connection, HTTP_PHASE_LINGER);
    tell_gone(r, false);
}

static void refuse_length(struct http_request *r)
{
    counts_of(r)->refused_limit++;
    refuse(r, 413);
}

/* -- The request comes in. */

static bool has_answer(const struct http_request *r)
{
    return r->answer || r->is_stream;
}

/* From here on libmicrohttpd knows nothing of it. */
static enum MHD_Result take_stream(struct http_request *r, void **request)
{
    if (!http_take_socket(r->connection))
        return MHD_NO;
    *request = NULL;
    r->state = HTTP_SENDING;
    r->own_method = xstrdup(r->method);
    r->method = r->own_method;
    http_stream_flush(r);
    return MHD_NO;
}

/* With the answer, or to wait for it. */
static enum MHD_Result proceed(struct http_request *r, void **request)
{
    struct http_connection *c = r->connection;
    if (c->lost || http_is_stopping(c->server))
        return MHD_NO;
    if (r->is_stream)
        return take_stream(r, request);
    if (!r->answer)
        return http_suspend(c) ? MHD_YES : MHD_NO;
    r->state = HTTP_SENDING;
    http_set_phase(c, HTTP_PHASE_WRITE);
    struct MHD_Response *answer = TAKE_PTR(r->answer);
    enum MHD_Result queued = mhd.queue_response(c->mhd, r->status, answer);
    mhd.destroy_response(answer); /* our reference */
    return queued;
}

static enum MHD_Result guard_header(void *guard, enum MHD_ValueKind kind, const char *name, size_t name_len,
                                    const char *value, size_t value_len)
{
    /* The value lies in the connection's own buffer. */
    http_guard_header(guard, name, name_len, value ? (char *)value : (char[]){""}, value_len);
    return MHD_YES;
}

static void guard_head(const struct http_request *r, const char *version, struct http_guard *g)
{
    struct MHD_Connection *m = r->connection->mhd;
    const union MHD_ConnectionInfo *size =
        mhd.get_connection_info(m, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    *g = (struct http_guard){
        .method = r->method,
        .target = r->raw_target,
        .target_len = r->target_len,
        .version = version,
        .size = size ? size->header_size : 0,
        .is_opaque = mhd_is_opaque(),
        .why = r->is_malformed ? "malformed target" : NULL,
    };
    http_guard_line(g);
    mhd.get_connection_values_n(m, MHD_HEADER_KIND, guard_header, g);
    http_guard_end(g);
}

static enum MHD_Result take_head(struct http_request *r, const char *version, void **request)
{
    const struct http_server_options *o = options_of(r);
    struct http_guard g;
    guard_head(r, version, &g);
    if (g.why) {
        counts_of(r)->refused_framing++;
        refuse(r, 400);
        return MHD_YES;
    }
    counts_of(r)->requests++;
    r->is_head = strcmp(r->method, "HEAD") == 0;
    r->is_old = strcmp(version, "HTTP/1.0") == 0;
    r->state = HTTP_BODY;
    r->is_told = true;
    if (g.has_body)
        http_set_phase(r->connection, HTTP_PHASE_BODY);
    o->on_head(o->ctx, r);

    bool too_long = g.length > o->limits.body_bytes;
    bool waits = g.has_body && g.expects_continue && !r->is_old;
    if (too_long && !has_answer(r) && waits) {
        counts_of(r)->refused_limit++;
        http_reply(r, 413, NULL, 0, NULL);
    }
    /* The peer won't send the body then. */
    if (has_answer(r) && waits)
        return proceed(r, request);
    if (too_long)
        refuse_length(r);
    return MHD_YES;
}

static void count_progress(struct http_request *r, size_t n)
{
    r->arrived += n;
    r->counted += n;
    if (r->counted < PROGRESS_BYTES || r->state == HTTP_REFUSED)
        return;
    r->counted = 0;
    http_set_phase(r->connection, HTTP_PHASE_BODY);
}

static enum MHD_Result take_body(struct http_request *r, const char *bytes, size_t n)
{
    count_progress(r, n);
    if (r->connection->lost)
        return MHD_NO;
    if (r->state == HTTP_REFUSED)
        return r->arrived > DRAIN_BYTES ? MHD_NO : MHD_YES;
    if (r->arrived > options_of(r)->limits.body_bytes)
        refuse_length(r);
    else if (has_answer(r))
        buf_done(&r->body);
    else if (buf_append(&r->body, bytes, n) < 0)
        refuse_length(r); /* no memory for it */
    return MHD_YES;
}

static enum MHD_Result take_end(struct http_request *r, void **request)
{
    const struct http_server_options *o = options_of(r);
    r->state = HTTP_WAITING;
    http_set_phase(r->connection, HTTP_PHASE_NONE);
    if (!has_answer(r) && !r->connection->lost)
        o->on_request(o->ctx, r, buf_str(&r->body), r->body.len);
    buf_done(&r->body);
    return proceed(r, request);
}

enum MHD_Result http_on_part(void *server, struct MHD_Connection *m, const char *url, const char *method,
                             const char *version, const char *bytes, size_t *n, void **request)
{
    struct http_request *r = *request;
    http_note(server);
    if (!r)
        return MHD_NO;
    if (*n > 0) {
        size_t part = *n;
        *n = 0;
        return take_body(r, bytes, part);
    }
    switch (r->state) {
    case HTTP_HEAD:
        r->method = method;
        return take_head(r, version, request);
    case HTTP_BODY:
        return take_end(r, request);
    case HTTP_WAITING:
        return proceed(r, request);
    case HTTP_SENDING:
    case HTTP_REFUSED:
    default:
        return MHD_NO;
    }
}

/* -- The answer goes out. */

static void keep_answer(struct http_request *r, struct MHD_Response *answer, int status,
                        const struct http_header *headers, size_t count)
{
    assert(!has_answer(r) && r->state != HTTP_SENDING && r->state != HTTP_REFUSED);
    if (!answer) {
        http_cut(r->connection); /* no memory */
        return;
    }
    for (size_t i = 0; i < count; i++)
        mhd.add_response_header(answer, headers[i].name, headers[i].value);
    r->answer = answer;
    r->status = (unsigned)status;
    if (r->state == HTTP_WAITING)
        http_resume(r->connection);
}

/* libmicrohttpd asks for the next piece when the kernel has taken the one before. */
static ssize_t read_content(void *request, uint64_t at, char *to, size_t room)
{
    struct http_request *r = request;
    http_note(r->connection->server);
    if (r->connection->lost || at >= r->content.len)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    size_t n = r->content.len - at < room ? r->content.len - at : room;
    memcpy(to, r->content.data + at, n);
    http_set_phase(r->connection, HTTP_PHASE_WRITE);
    return (ssize_t)n;
}

void http_reply(struct http_request *r, int status, const struct http_header *headers, size_t count,
                struct buf *body)
{
    struct MHD_Response *answer;
    r->answered = body ? body->len : 0;
    if (!body || body->len == 0) {
        answer = mhd.create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT);
    } else if (body->len <= PIECE_BYTES) {
        size_t n = body->len;
        answer = mhd.create_response_from_buffer(n, buf_steal(body), MHD_RESPMEM_MUST_FREE);
    } else if (!http_hold(r->connection, body->len, body->len)) {
        buf_done(body);
        http_cut(r->connection);
        return;
    } else {
        buf_move(&r->content, body);
        answer = mhd.create_response_from_callback(r->content.len, PIECE_BYTES, read_content, r, NULL);
    }
    keep_answer(r, answer, status, headers, count);
}

/* -- What a request says. */

const char *http_request_method(const struct http_request *r)
{
    return r->method;
}

const char *http_request_path(const struct http_request *r)
{
    return r->path;
}

const char *http_request_host(const struct http_request *r)
{
    return r->authority ? r->authority : http_request_header(r, "Host", NULL);
}

const char *http_request_query(const struct http_request *r)
{
    return r->query;
}

int http_request_status(const struct http_request *r)
{
    return (int)r->status;
}

size_t http_request_answered(const struct http_request *r)
{
    return r->answered;
}

int64_t http_request_age(const struct http_request *r)
{
    return clock_now() - r->began;
}

void **http_request_slot(struct http_request *r)
{
    return &r->slot;
}

struct lookup {
    const char *name;
    size_t name_len;
    const char *value;
    int count;
};

static enum MHD_Result compare_header(void *arg, enum MHD_ValueKind kind, const char *name, size_t name_len,
                                      const char *value, size_t value_len)
{
    struct lookup *l = arg;
    if (name_len == l->name_len && strncasecmp(name, l->name, name_len) == 0 && l->count++ == 0)
        l->value = value ? value : "";
    return MHD_YES;
}

const char *http_request_header(const struct http_request *r, const char *name, int *ret_count)
{
    struct lookup l = {.name = name, .name_len = strlen(name)};
    if (!r->connection->is_taken)
        mhd.get_connection_values_n(r->connection->mhd, MHD_HEADER_KIND, compare_header, &l);
    if (ret_count)
        *ret_count = l.count;
    return l.value;
}

const char *http_request_peer(const struct http_request *r)
{
    return r->connection->address;
}

bool http_request_peer_is_loopback(const struct http_request *r)
{
    return r->connection->is_loopback;
}

uid_t http_request_peer_uid(const struct http_request *r)
{
    return r->connection->uid;
}
