/* See toml.h. */
#include "base/toml.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

int toml_fail(const struct toml *r, const char *fmt, ...)
{
    char words[sizeof(r->err->msg)];
    va_list args;
    va_start(args, fmt);
    vsnprintf(words, sizeof(words), fmt, args);
    va_end(args);
    return error_set(r->err, ERR_INVALID, "%s:%d: %s", r->name, r->line, words);
}

int toml_peek(const struct toml *r)
{
    return r->p < r->end ? (unsigned char)*r->p : -1;
}

bool toml_take(struct toml *r, char c)
{
    if (toml_peek(r) != c)
        return false;
    r->line += c == '\n';
    r->p++;
    return true;
}

size_t toml_span(const struct toml *r, const char *set)
{
    size_t n = 0;
    while (r->p + n < r->end && strchr(set, r->p[n]) != NULL)
        n++;
    return n;
}

void toml_skip_blanks(struct toml *r)
{
    r->p += toml_span(r, " \t");
    if (toml_peek(r) == '#')
        while (toml_peek(r) >= 0 && toml_peek(r) != '\n')
            r->p++;
    if (toml_peek(r) == '\r' && (r->p + 1 == r->end || r->p[1] == '\n'))
        r->p++;
}

void toml_skip_lines(struct toml *r)
{
    do {
        toml_skip_blanks(r);
    } while (toml_take(r, '\n'));
}

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef";
    const char *at = c != '\0' ? strchr(digits, c | ((c >= 'A' && c <= 'F') ? 0x20 : 0)) : NULL;
    return at != NULL ? (int)(at - digits) : -1;
}

static int append_code_point(struct buf *to, uint32_t c)
{
    char utf8[4];
    size_t n = 0;
    if (c < 0x80) {
        utf8[n++] = (char)c;
    } else if (c < 0x800) {
        utf8[n++] = (char)(0xc0 | c >> 6);
    } else if (c < 0x10000) {
        utf8[n++] = (char)(0xe0 | c >> 12);
        utf8[n++] = (char)(0x80 | (c >> 6 & 0x3f));
    } else {
        utf8[n++] = (char)(0xf0 | c >> 18);
        utf8[n++] = (char)(0x80 | (c >> 12 & 0x3f));
        utf8[n++] = (char)(0x80 | (c >> 6 & 0x3f));
    }
    if (c >= 0x80)
        utf8[n++] = (char)(0x80 | (c & 0x3f));
    return buf_append(to, utf8, n);
}

/* The XXXX of \uXXXX: a character that text can have, which neither NUL nor a surrogate is. */
static int read_code_point(struct toml *r, int digits, struct buf *to)
{
    uint32_t c = 0;
    for (int i = 0; i < digits; i++) {
        int digit = r->p < r->end ? hex_digit(*r->p) : -1;
        if (digit < 0)
            return toml_fail(r, "\\u needs 4 hexadecimal digits, \\U 8");
        c = c << 4 | (uint32_t)digit;
        r->p++;
    }
    if (c == 0 || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff)
        return toml_fail(r, "U+%04X can't be part of a text", c);
    return append_code_point(to, c);
}

static int read_escape(struct toml *r, struct buf *to)
{
    static const char letters[] = "\"\\btnfr";
    static const char meant[] = "\"\\\b\t\n\f\r";
    int c = toml_peek(r);
    r->p += c >= 0;
    if (c == 'u' || c == 'U')
        return read_code_point(r, c == 'u' ? 4 : 8, to);
    const char *at = c > 0 ? strchr(letters, c) : NULL;
    if (at == NULL)
        return toml_fail(r, "unknown escape in a text; write \\\\ for a backslash");
    return buf_append_byte(to, meant[at - letters]);
}

static int read_quoted(struct toml *r, char quote, struct buf *to)
{
    while (!toml_take(r, quote)) {
        int c = toml_peek(r);
        if (c < 0 || c == '\n' || c == '\r')
            return toml_fail(r, "the text has no closing %c on this line", quote);
        r->p++;
        int status = c == '\\' && quote == '"' ? read_escape(r, to) : buf_append_byte(to, (char)c);
        if (status < 0)
            return -1;
    }
    return 0;
}

int toml_text(struct toml *r, struct buf *to)
{
    const char quote = toml_take(r, '"') ? '"' : toml_take(r, '\'') ? '\'' : '\0';
    if (!quote)
        return 0;
    return read_quoted(r, quote, to) < 0 ? -1 : 1;
}

/* What no text file has: the parser above then needn't care. */
static int check_bytes(struct toml *r)
{
    for (const char *line = r->p; line < r->end;) {
        const char *stop = memchr(line, '\n', (size_t)(r->end - line));
        size_t n = (size_t)((stop != NULL ? stop : r->end) - line);
        if (memchr(line, '\0', n) != NULL)
            return toml_fail(r, "has a NUL byte; is it a text file?");
        if (!utf8_valid(line, n))
            return toml_fail(r, "is not valid UTF-8");
        line += n + 1;
        r->line++;
    }
    r->line = 1;
    return 0;
}

int toml_begin(struct toml *r, const char *name, const char *bytes, size_t n, struct error *err)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    *r = (struct toml){.p = bytes, .end = bytes + n, .name = name, .line = 1, .err = err};
    if (check_bytes(r) < 0)
        return -1;
    if (n >= 3 && memcmp(bytes, byte_order_mark, 3) == 0)
        r->p += 3;
    return 0;
}
