/* See grpc_answer.h. */
#include "net/grpc_answer.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"

#define FRAME_BYTES 5
#define FLAG_COMPRESSED 1
#define TYPE "application/grpc"
/* libcurl hands over what a connection has at once: a message may be followed by so much. */
#define AHEAD_MAX (4 * MIB)

/* --- codes --- */

static const struct {
    const char *name;
    enum error_code means;
} codes[GRPC_CODE_COUNT] = {
    [GRPC_OK] = {"OK", ERR_NONE},
    [GRPC_CANCELLED] = {"CANCELLED", ERR_UNAVAILABLE},
    [GRPC_UNKNOWN] = {"UNKNOWN", ERR_UNAVAILABLE},
    [GRPC_INVALID_ARGUMENT] = {"INVALID_ARGUMENT", ERR_INVALID},
    [GRPC_DEADLINE_EXCEEDED] = {"DEADLINE_EXCEEDED", ERR_UNAVAILABLE},
    [GRPC_NOT_FOUND] = {"NOT_FOUND", ERR_NOT_FOUND},
    [GRPC_ALREADY_EXISTS] = {"ALREADY_EXISTS", ERR_EXISTS},
    [GRPC_PERMISSION_DENIED] = {"PERMISSION_DENIED", ERR_DENIED},
    [GRPC_RESOURCE_EXHAUSTED] = {"RESOURCE_EXHAUSTED", ERR_LIMIT},
    [GRPC_FAILED_PRECONDITION] = {"FAILED_PRECONDITION", ERR_INVALID},
    [GRPC_ABORTED] = {"ABORTED", ERR_UNAVAILABLE},
    [GRPC_OUT_OF_RANGE] = {"OUT_OF_RANGE", ERR_INVALID},
    [GRPC_UNIMPLEMENTED] = {"UNIMPLEMENTED", ERR_UNSUPPORTED},
    [GRPC_INTERNAL] = {"INTERNAL", ERR_UNAVAILABLE},
    [GRPC_UNAVAILABLE] = {"UNAVAILABLE", ERR_UNAVAILABLE},
    [GRPC_DATA_LOSS] = {"DATA_LOSS", ERR_UNAVAILABLE},
    [GRPC_UNAUTHENTICATED] = {"UNAUTHENTICATED", ERR_DENIED},
};

const char *grpc_code_name(enum grpc_code code)
{
    return code < GRPC_CODE_COUNT ? codes[code].name : "UNKNOWN";
}

bool grpc_code_is_passing(enum grpc_code code)
{
    return code == GRPC_CANCELLED || code == GRPC_UNKNOWN || code == GRPC_DEADLINE_EXCEEDED ||
           code == GRPC_INTERNAL || code == GRPC_UNAVAILABLE;
}

void grpc_status_done(struct grpc_status *s)
{
    buf_done(&s->details);
}

/* What an answer without a status means. */
static enum grpc_code code_of_http(int status)
{
    static const struct {
        int status;
        enum grpc_code code;
    } table[] = {{400, GRPC_INTERNAL},      {401, GRPC_UNAUTHENTICATED}, {403, GRPC_PERMISSION_DENIED},
                 {404, GRPC_UNIMPLEMENTED}, {429, GRPC_UNAVAILABLE},     {502, GRPC_UNAVAILABLE},
                 {503, GRPC_UNAVAILABLE},   {504, GRPC_UNAVAILABLE}};
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (table[i].status == status)
            return table[i].code;
    return GRPC_UNKNOWN;
}

/* --- heads --- */

void grpc_answer_init(struct grpc_answer *a, const char *where)
{
    *a = (struct grpc_answer){.where = where,
                              .code = -1,
                              .details = BUF_INIT(GRPC_DETAILS_MAX),
                              .in = BUF_INIT(FRAME_BYTES + GRPC_MESSAGE_MAX + AHEAD_MAX)};
}

void grpc_answer_done(struct grpc_answer *a)
{
    buf_done(&a->details);
    buf_done(&a->in);
}

/* "HTTP/2 200": a head begins, and what an interim one before it said is void. */
static void begin_head(struct grpc_answer *a, const char *line)
{
    const char *blank = strchr(line, ' ');
    a->http2 = str_has_prefix(line, "HTTP/2");
    a->http_status = blank ? atoi(blank + 1) : 0;
    a->content_type[0] = '\0';
    a->code = -1;
}

static int hex_value(char c)
{
    const char *digits = "0123456789abcdef";
    const char *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c | 0x20 : c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Percent-encoded; what isn't rightly so stands for itself. What doesn't fit is cut. */
static void set_message(struct grpc_answer *a, const char *text)
{
    size_t n = 0;
    while (*text && n + 1 < sizeof(a->message)) {
        const int high = text[0] == '%' ? hex_value(text[1]) : -1;
        const int low = high >= 0 ? hex_value(text[2]) : -1;
        const int c = low >= 0 ? high << 4 | low : (unsigned char)*text;
        text += low >= 0 ? 3 : 1;
        if (c != 0)
            a->message[n++] = (char)c;
    }
    a->message[utf8_boundary(a->message, n)] = '\0';
}

static void take_field(struct grpc_answer *a, const char *name, const char *value)
{
    int64_t code;
    if (strcasecmp(name, "content-type") == 0) {
        snprintf(a->content_type, sizeof(a->content_type), "%s", value);
    } else if (strcasecmp(name, "grpc-status") == 0) {
        const bool known = str_parse_i64(value, &code) && code >= 0 && code < GRPC_CODE_COUNT;
        a->code = known ? (int)code : GRPC_UNKNOWN;
    } else if (strcasecmp(name, "grpc-message") == 0) {
        set_message(a, value);
    } else if (strcasecmp(name, "grpc-status-details-bin") == 0) {
        buf_clear(&a->details);
        if (base64_decode_loosely(value, strlen(value), &a->details, NULL) < 0)
            buf_clear(&a->details);
    }
}

int grpc_answer_line(struct grpc_answer *a, const char *line, size_t n, struct error *err)
{
    a->head_bytes += n;
    if (a->head_bytes > LIMIT_HTTP_HEADERS_BYTES)
        return error_set(err, ERR_LIMIT, "%s: the answer's headers are longer than %lu bytes", a->where,
                         LIMIT_HTTP_HEADERS_BYTES);
    _cleanup_(cleanup_free) char *raw = xstrndup(line, n), *text = str_trim(raw);
    char *colon = strchr(text, ':');
    if (strncasecmp(text, "HTTP/", 5) == 0) {
        begin_head(a, text);
    } else if (colon) {
        *colon = '\0';
        _cleanup_(cleanup_free) char *value = str_trim(colon + 1);
        take_field(a, text, value);
    }
    return 0;
}

/* --- messages --- */

static bool is_grpc(const struct grpc_answer *a)
{
    const char end =
        strncasecmp(a->content_type, TYPE, strlen(TYPE)) == 0 ? a->content_type[strlen(TYPE)] : 'x';
    return a->http_status == 200 && (end == '\0' || end == '+' || end == ';');
}

/* Of the message at the beginning, with its frame; 0: that isn't known yet; -1: it can't be one. */
static ssize_t frame_size(const struct grpc_answer *a, struct error *err)
{
    uint32_t size;
    if (a->in.len < FRAME_BYTES)
        return 0;
    memcpy(&size, a->in.data + 1, sizeof(size));
    size = ntohl(size);
    if (a->in.data[0] & FLAG_COMPRESSED)
        return error_set(err, ERR_UNAVAILABLE, "%s: sends what is compressed, unasked", a->where);
    if (a->in.data[0] != 0)
        return error_set(err, ERR_UNAVAILABLE, "%s: sends what are no messages of gRPC", a->where);
    if (size > GRPC_MESSAGE_MAX)
        return error_set(err, ERR_LIMIT, "%s: sends a message of %u bytes; at most %lu are taken", a->where,
                         size, GRPC_MESSAGE_MAX);
    return (ssize_t)size + FRAME_BYTES;
}

int grpc_answer_body(struct grpc_answer *a, const void *bytes, size_t n, struct error *err)
{
    if (!is_grpc(a)) /* a proxy's page: no need to read it */
        return error_set(err, ERR_UNAVAILABLE, "%s: its answer is no gRPC", a->where);
    if (buf_append(&a->in, bytes, n) < 0)
        return error_set(err, ERR_LIMIT, "%s: sends more at once than can be taken", a->where);
    return frame_size(a, err) < 0 ? -1 : 0;
}

int grpc_answer_take(struct grpc_answer *a, struct buf *ret, struct error *err)
{
    const ssize_t size = frame_size(a, err);
    if (size <= 0 || a->in.len < (size_t)size)
        return size < 0 ? -1 : 0;
    buf_clear(ret);
    if (buf_append(ret, a->in.data + FRAME_BYTES, (size_t)size - FRAME_BYTES) < 0)
        return error_set(err, ERR_LIMIT, "%s: sends a message of %zd bytes, which is too much here", a->where,
                         size - FRAME_BYTES);
    buf_consume(&a->in, (size_t)size);
    return 1;
}

/* --- the end --- */

/* A proxy before the peer, or something else altogether. */
static int no_status(const struct grpc_answer *a, struct grpc_status *ret, struct error *err)
{
    ret->code = code_of_http(a->http_status);
    if (a->http_status != 200)
        return error_set(err, codes[ret->code].means, "%s: the answer is HTTP status %d and no gRPC",
                         a->where, a->http_status);
    if (!is_grpc(a)) {
        _cleanup_(buf_done) struct buf type = BUF_INIT(sizeof(a->content_type) * 3);
        (void)!utf8_append_lossy(&type, a->content_type, strlen(a->content_type));
        return error_set(err, ERR_UNAVAILABLE, "%s: the answer is of type '%s' and no gRPC", a->where,
                         buf_str(&type));
    }
    ret->code = GRPC_UNAVAILABLE;
    return error_set(err, ERR_UNAVAILABLE, "%s: the answer ended before its end", a->where);
}

int grpc_answer_end(struct grpc_answer *a, struct grpc_status *ret, struct error *err)
{
    ret->message[0] = '\0';
    buf_clear(&ret->details);
    if (a->code < 0)
        return no_status(a, ret, err);
    ret->code = (enum grpc_code)a->code;
    if (a->code == GRPC_OK && a->in.len > 0) {
        ret->code = GRPC_UNAVAILABLE;
        return error_set(err, ERR_UNAVAILABLE, "%s: the answer ended within a message", a->where);
    }
    if (a->code == GRPC_OK)
        return 0;
    memcpy(ret->message, a->message, sizeof(ret->message));
    buf_move(&ret->details, &a->details);
    return error_set(err, codes[a->code].means, "%s: the call failed: %s", a->where, codes[a->code].name);
}
