/* The framing guard. See http_guard.h. */
#include "transport/http_guard.h"

#include <string.h>
#include <strings.h>

#define VERSION_LEN 8 /* HTTP/1.1 */
#define LINE_END 2    /* CR LF, now NULs */

static bool is_letter_or_digit(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static bool is_token(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!is_letter_or_digit((unsigned char)s[i]) && (!s[i] || !strchr("!#$%&'*+-.^_`|~", s[i])))
            return false;
    return n > 0;
}

/* Visible ASCII. */
bool http_guard_target(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] <= ' ' || s[i] > '~')
            return false;
    return n > 0;
}

static bool is_value(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (((unsigned char)s[i] < ' ' && s[i] != '\t') || s[i] == 0x7f)
            return false;
    return true;
}

static void blame(struct http_guard *g, const char *why)
{
    if (!g->why)
        g->why = why;
}

/* How much of the head is left from `at` on. */
static size_t left(const struct http_guard *g)
{
    return g->size - (size_t)(g->at - g->method);
}

static bool is_line_end(const char *at)
{
    return at[0] == '\0' && at[1] == '\0';
}

/* METHOD NUL target NUL HTTP/1.x NUL NUL */
static void walk_line(struct http_guard *g)
{
    g->at = g->method;
    size_t method_len = strnlen(g->method, g->size);
    size_t line = method_len + 1 + g->target_len + 1 + VERSION_LEN + LINE_END;
    if (line > g->size || g->target != g->method + method_len + 1 ||
        g->version != g->target + g->target_len + 1 || !is_line_end(g->version + VERSION_LEN)) {
        blame(g, "malformed request line");
        return;
    }
    g->at += line;
}

void http_guard_line(struct http_guard *g)
{
    if (!is_token(g->method, strnlen(g->method, g->size)))
        blame(g, "malformed method");
    if (!g->is_opaque && !g->why)
        walk_line(g);
}

/* name NUL blanks value NUL NUL */
static void walk_header(struct http_guard *g, const char *name, size_t name_len, const char *value,
                        size_t value_len)
{
    if (name != g->at || name_len + 1 + LINE_END > left(g) || name[name_len] != '\0') {
        blame(g, "malformed header line");
        return;
    }
    g->at += name_len + 1;
    while (left(g) > LINE_END && (*g->at == ' ' || *g->at == '\t'))
        g->at++;
    if (value != g->at || value_len + LINE_END > left(g) || !is_line_end(value + value_len)) {
        blame(g, "malformed header line");
        return;
    }
    g->at += value_len + LINE_END;
}

static void take_length(struct http_guard *g, const char *value)
{
    g->lengths++;
    g->length = 0;
    for (; *value >= '0' && *value <= '9'; value++)
        g->length =
            g->length > UINT64_MAX / 10 - 1 ? UINT64_MAX / 10 : g->length * 10 + (uint64_t)(*value - '0');
    if (*value)
        blame(g, "malformed Content-Length");
}

static bool is_called(const char *name, size_t n, const char *expected)
{
    return n == strlen(expected) && strncasecmp(name, expected, n) == 0;
}

void http_guard_header(struct http_guard *g, const char *name, size_t name_len, char *value, size_t value_len)
{
    if (g->why)
        return;
    if (!is_token(name, name_len))
        blame(g, "malformed header name");
    if (!is_value(value, value_len))
        blame(g, "control characters in a header");
    if (!g->is_opaque && !g->why)
        walk_header(g, name, name_len, value, value_len);
    if (g->why)
        return;
    if (is_called(name, name_len, "Host"))
        g->hosts++;
    else if (is_called(name, name_len, "Content-Length"))
        take_length(g, value);
    else if (is_called(name, name_len, "Transfer-Encoding")) {
        g->encodings++;
        if (!is_called(value, value_len, "chunked"))
            blame(g, "Transfer-Encoding other than chunked");
    } else if (is_called(name, name_len, "Expect"))
        g->expects_continue = is_called(value, value_len, "100-continue");
    while (value_len > 0 && (value[value_len - 1] == ' ' || value[value_len - 1] == '\t'))
        value[--value_len] = '\0';
}

void http_guard_end(struct http_guard *g)
{
    bool is_old = strcmp(g->version, "HTTP/1.0") == 0;
    if (!g->is_opaque && !g->why && (left(g) != LINE_END || !is_line_end(g->at)))
        blame(g, "malformed end of the headers");
    if (g->hosts > 1 || (g->hosts == 0 && !is_old))
        blame(g, "not one Host");
    if (g->lengths + g->encodings > 1)
        blame(g, "more than one Content-Length or Transfer-Encoding");
    if (g->encodings > 0 && is_old)
        blame(g, "Transfer-Encoding in HTTP/1.0");
    g->has_body = g->encodings > 0 || g->length > 0;
}
