/* See head.h. */
#include "net/head.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"

void head_init(struct head *h, struct http_response *response)
{
    *h = (struct head){.response = response, .length = -1};
    buf_done(&response->headers);
    response->headers.max = LIMIT_HTTP_HEADERS_BYTES;
    response->content_type[0] = '\0';
    response->status = 0;
}

static int malformed(struct error *err, const char *what)
{
    return error_set(err, ERR_UNAVAILABLE, "the answer is malformed HTTP: %s", what);
}

static bool is_token_byte(unsigned char c)
{
    return c > ' ' && c < 0x7f && !strchr("\"(),/:;<=>?@[\\]{}", c);
}

/* "HTTP/1.1 200 OK"; the reason may be absent. */
static int status_line(struct head *h, const char *line, size_t n, struct error *err)
{
    if (n < 12 || (strncmp(line, "HTTP/1.1 ", 9) != 0 && strncmp(line, "HTTP/1.0 ", 9) != 0))
        return malformed(err, "it doesn't begin with a status line");
    const char *digits = line + 9;
    if (digits[0] < '1' || digits[0] > '5' || !isdigit((unsigned char)digits[1]) ||
        !isdigit((unsigned char)digits[2]) || (n > 12 && digits[3] != ' '))
        return malformed(err, "its status is none");
    h->closes = line[7] == '0';
    h->response->status = (digits[0] - '0') * 100 + (digits[1] - '0') * 10 + (digits[2] - '0');
    return 0;
}

static int content_length(struct head *h, const char *value, struct error *err)
{
    int64_t length;
    if (!isdigit((unsigned char)value[0]) || !str_parse_i64(value, &length))
        return malformed(err, "its Content-Length is no number");
    if (h->length >= 0 && h->length != length)
        return malformed(err, "it has two lengths");
    h->length = length;
    return 0;
}

/* The headers that matter to us. */
static int known_header(struct head *h, const char *name, const char *value, struct error *err)
{
    if (strcmp(name, "content-length") == 0)
        return content_length(h, value, err);
    if (strcmp(name, "content-type") == 0)
        snprintf(h->response->content_type, sizeof(h->response->content_type), "%s", value);
    if (strcmp(name, "connection") == 0 && str_equal_nocase(value, "close"))
        h->closes = true;
    if (strcmp(name, "transfer-encoding") != 0)
        return 0;
    if (!str_equal_nocase(value, "chunked"))
        return malformed(err, "it has a transfer coding that wasn't asked for");
    h->chunked = true;
    return 0;
}

static int header_line(struct head *h, const char *line, size_t n, struct error *err)
{
    size_t name_len = 0;
    while (name_len < n && is_token_byte((unsigned char)line[name_len]))
        name_len++;
    if (name_len == 0 || name_len == n || line[name_len] != ':')
        return malformed(err, "a header has no name");
    for (size_t i = name_len; i < n; i++)
        if (((unsigned char)line[i] < ' ' && line[i] != '\t') || line[i] == 0x7f)
            return malformed(err, "a header has a control character");

    _cleanup_(cleanup_free) char *name = xstrndup(line, name_len);
    _cleanup_(cleanup_free) char *raw = xstrndup(line + name_len + 1, n - name_len - 1);
    _cleanup_(cleanup_free) char *value = str_trim(raw);
    for (char *c = name; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    if (buf_printf(&h->response->headers, "%s: %s\n", name, value) < 0)
        return error_set(err, ERR_LIMIT, "the answer's headers are longer than %lu bytes",
                         LIMIT_HTTP_HEADERS_BYTES);
    return known_header(h, name, value, err);
}

int head_line(struct head *h, const char *line, size_t n, struct error *err)
{
    if (n > LIMIT_HTTP_HEADERS_BYTES - h->seen)
        return error_set(err, ERR_LIMIT, "the answer's headers are longer than %lu bytes",
                         LIMIT_HTTP_HEADERS_BYTES);
    h->seen += n;
    if (h->complete)
        return 0;
    if (n > 0 && line[n - 1] == '\n')
        n--;
    if (n > 0 && line[n - 1] == '\r')
        n--;

    int status = h->response->status;
    if (status == 0)
        return status_line(h, line, n, err);
    if (n > 0)
        return header_line(h, line, n, err);
    if (status >= 200 || status == 101) {
        h->complete = true;
    } else {
        size_t seen = h->seen;
        head_init(h, h->response);
        h->seen = seen;
    }
    return 0;
}
