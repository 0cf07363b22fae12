/* See connect.h. */
#include "backends/connect.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "backends/engine/contact.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"

#define STREAM_TYPE "application/connect+json"
#define ENVELOPE_BYTES 5
#define FLAG_COMPRESSED 1
#define FLAG_END 2
#define READ_BYTES (16 * KIB)
#define WORDS_MAX 200
#define RESPONSE_MAX (1 * MIB)

struct connect_stream {
    const struct provider *provider;
    struct http_reply *reply;
    struct buf in; /* an envelope that isn't complete, or more */
};

static enum error_code code_of_word(const char *word)
{
    static const struct {
        const char *word;
        enum error_code code;
    } codes[] = {{"invalid_argument", ERR_INVALID},  {"not_found", ERR_NOT_FOUND},
                 {"already_exists", ERR_EXISTS},     {"permission_denied", ERR_DENIED},
                 {"unauthenticated", ERR_DENIED},    {"resource_exhausted", ERR_LIMIT},
                 {"unimplemented", ERR_UNSUPPORTED}, {"failed_precondition", ERR_INVALID}};
    for (size_t i = 0; word && i < ARRAY_LEN(codes); i++)
        if (strcmp(word, codes[i].word) == 0)
            return codes[i].code;
    return ERR_UNAVAILABLE;
}

/* {"code": "not_found", "message": "..."} */
static int told(const struct provider *p, const json_t *error, struct error *err)
{
    const char *code = json_get_string(error, "code"), *message = json_get_string(error, "message");
    _cleanup_(cleanup_free) char *words = contact_beginning(message ? message : "", WORDS_MAX);
    if (p->secret && strstr(words, p->secret))
        words[0] = '\0';
    return error_set(err, code_of_word(code), "%s says %.40s: %s", p->name, code ? code : "no", words);
}

static int refused(const struct provider *p, const struct http_response *r, struct error *err)
{
    _cleanup_(cleanup_json_decref) json_t *body = json_parse(buf_str(&r->body), r->body.len, NULL);
    return json_get_string(body, "code") ? told(p, body, err) : provider_refused(p, r, err);
}

/* The provider's headers, and the protocol's. */
static size_t add_headers(const struct provider *p, struct http_header ret[PROVIDER_HEADERS_MAX + 1])
{
    memcpy(ret, p->headers, p->header_count * sizeof(*ret));
    ret[p->header_count] = (struct http_header){"Connect-Protocol-Version", "1"};
    return p->header_count + 1;
}

/* A call, or the opening of a stream. */
struct calling {
    const struct provider *provider;
    const char *path;
    const char *body; /* as it goes out; each attempt sends the same */
    size_t size;
    json_t **ret; /* may be NULL */
    struct connect_stream **ret_stream;
};

static int attempt_call(void *ctx, struct provider_turn *t, const struct wait *wait, struct error *err)
{
    const struct calling *c = ctx;
    const struct provider *p = c->provider;
    struct http_header headers[PROVIDER_HEADERS_MAX + 1];
    _cleanup_(http_response_done) struct http_response r = {0};
    const struct http_request request = {
        .method = "POST",
        .path = c->path,
        .headers = headers,
        .header_count = add_headers(p, headers),
        .body = c->body,
        .body_len = c->size,
        .content_type = "application/json",
        .max_body = RESPONSE_MAX,
        .wait = *wait,
    };
    if (http_do(p->client, &request, &r, err) < 0)
        return -1;
    provider_note(t, &r);
    if (r.status != 200)
        return refused(p, &r, err);
    _cleanup_(cleanup_json_decref) json_t *answer = json_parse(buf_str(&r.body), r.body.len, err);
    if (!answer)
        return error_recast(err, ERR_UNAVAILABLE, p->name);
    if (c->ret)
        *c->ret = TAKE_PTR(answer);
    return 0;
}

int connect_call(const struct provider *p, const char *path, const json_t *message, const struct wait *wait,
                 json_t **ret, struct error *err)
{
    _cleanup_(cleanup_free) char *text = json_dumps(message, JSON_COMPACT);
    struct calling c = {.provider = p, .path = path, .body = text, .size = strlen(text), .ret = ret};
    struct provider_turn turn = {.pace = p->pace};
    return provider_in_turn(&turn, wait, attempt_call, &c, err);
}

static int attempt_stream(void *ctx, struct provider_turn *t, const struct wait *wait, struct error *err)
{
    const struct calling *c = ctx;
    const struct provider *p = c->provider;
    struct http_header headers[PROVIDER_HEADERS_MAX + 1];
    _cleanup_(http_response_done) struct http_response r = {0};
    struct http_reply *reply = NULL;
    const struct http_request request = {
        .method = "POST",
        .path = c->path,
        .headers = headers,
        .header_count = add_headers(p, headers),
        .body = c->body,
        .body_len = c->size,
        .content_type = STREAM_TYPE,
        .wait = *wait,
    };
    if (http_open(p->client, &request, &reply, &r, err) < 0)
        return -1;
    provider_note(t, &r);
    if (!reply)
        return refused(p, &r, err);
    if (strncasecmp(r.content_type, STREAM_TYPE, strlen(STREAM_TYPE)) != 0) {
        http_reply_close(reply);
        return error_set(err, ERR_UNAVAILABLE, "%s answered a stream with '%s'", p->name, r.content_type);
    }
    struct connect_stream *s = xcalloc(1, sizeof(*s));
    *s = (struct connect_stream){p, reply, BUF_INIT(ENVELOPE_BYTES + CONNECT_MESSAGE_MAX + READ_BYTES)};
    *c->ret_stream = s;
    return 0;
}

int connect_open(const struct provider *p, const char *path, const json_t *message, const struct wait *wait,
                 struct connect_stream **ret, int *ret_status, struct error *err)
{
    _cleanup_(cleanup_free) char *text = json_dumps(message, JSON_COMPACT);
    const size_t n = strlen(text);
    const uint32_t size = htonl((uint32_t)n);
    _cleanup_(buf_done) struct buf body = BUF_INIT(n + ENVELOPE_BYTES);
    *ret_status = 0;
    if (buf_append_byte(&body, 0) < 0 || buf_append(&body, &size, sizeof(size)) < 0 ||
        buf_append(&body, text, n) < 0)
        return error_set(err, ERR_LIMIT, "out of memory");
    struct calling c = {.provider = p, .path = path, .body = body.data, .size = body.len, .ret_stream = ret};
    struct provider_turn turn = {.pace = p->pace};
    const int failed = provider_in_turn(&turn, wait, attempt_stream, &c, err);
    *ret_status = turn.status;
    return failed;
}

/* How long the envelope at the beginning is; 0: that isn't known yet. -1: it can't be one. */
static ssize_t envelope_size(const struct connect_stream *s, struct error *err)
{
    uint32_t size;
    if (s->in.len < ENVELOPE_BYTES)
        return 0;
    memcpy(&size, s->in.data + 1, sizeof(size));
    size = ntohl(size);
    if (size > CONNECT_MESSAGE_MAX)
        return error_set(err, ERR_UNAVAILABLE, "%s sends a message of %u bytes", s->provider->name, size);
    if (s->in.data[0] & FLAG_COMPRESSED)
        return error_set(err, ERR_UNAVAILABLE, "%s sends what is compressed, unasked", s->provider->name);
    return (ssize_t)size + ENVELOPE_BYTES;
}

static int open_envelope(struct connect_stream *s, size_t size, json_t **ret, struct error *err)
{
    const bool end = s->in.data[0] & FLAG_END;
    json_t *message = json_parse(s->in.data + ENVELOPE_BYTES, size - ENVELOPE_BYTES, err);
    buf_consume(&s->in, size);
    if (!message)
        return error_recast(err, ERR_UNAVAILABLE, s->provider->name);
    if (!end) {
        *ret = message;
        return 1;
    }
    _cleanup_(cleanup_json_decref) json_t *last = message;
    const json_t *error = json_get_object(last, "error");
    return error ? told(s->provider, error, err) : 0;
}

/* After the last envelope there is nothing more; what there is of HTTP is read, so that the connection can
 * serve the next call. */
static void read_out(struct connect_stream *s, const struct wait *wait)
{
    char rest[256];
    while (http_reply_read(s->reply, rest, sizeof(rest), wait, NULL) > 0)
        continue;
}

int connect_next(struct connect_stream *s, const struct wait *wait, json_t **ret, struct error *err)
{
    for (;;) {
        const ssize_t size = envelope_size(s, err);
        if (size < 0)
            return -1;
        if (size > 0 && s->in.len >= (size_t)size) {
            const int more = open_envelope(s, (size_t)size, ret, err);
            if (more == 0)
                read_out(s, wait);
            return more;
        }
        if (buf_reserve(&s->in, READ_BYTES) < 0)
            return error_set(err, ERR_LIMIT, "out of memory");
        const ssize_t n = http_reply_read(s->reply, s->in.data + s->in.len, READ_BYTES, wait, err);
        if (n < 0)
            return -1;
        if (n == 0)
            return error_set(err, ERR_UNAVAILABLE, "%s: the stream ended before its end", s->provider->name);
        s->in.len += (size_t)n;
    }
}

void connect_cut(struct connect_stream *s)
{
    http_reply_cut(s->reply);
}

struct connect_stream *connect_close(struct connect_stream *s)
{
    if (!s)
        return NULL;
    http_reply_close(s->reply);
    buf_done(&s->in);
    free(s);
    return NULL;
}
