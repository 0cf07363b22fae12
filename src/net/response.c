/* What callers do with answers, and with text on its way into a request. */
#include <string.h>

#include "base/mem.h"
#include "net/http.h"

void http_response_done(struct http_response *r)
{
    buf_done(&r->body);
    buf_done(&r->headers);
}

char *http_response_header(const struct http_response *r, const char *name)
{
    size_t n = strlen(name);
    for (const char *line = buf_str(&r->headers); *line;) {
        const char *end = strchr(line, '\n');
        if (strncmp(line, name, n) == 0 && line[n] == ':')
            return xstrndup(line + n + 2, (size_t)(end - line) - n - 2);
        line = end + 1;
    }
    return NULL;
}

char *http_encode(const char *text)
{
    static const char unreserved[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    static const char hex[] = "0123456789ABCDEF";
    char *encoded = xmalloc(strlen(text) * 3 + 1), *to = encoded;
    for (const char *from = text; *from; from++) {
        unsigned char c = (unsigned char)*from;
        if (strchr(unreserved, c)) {
            *to++ = (char)c;
        } else {
            *to++ = '%';
            *to++ = hex[c >> 4];
            *to++ = hex[c & 15];
        }
    }
    *to = '\0';
    return encoded;
}
