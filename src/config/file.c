/* The config file: a small part of TOML, lines of `name = value` under the names of the flags.
 *
 *     timeout = 30              # numbers and true or false as they are
 *     shell = "/bin/zsh"        # texts in quotes, with \" \\ \b \t \n \f \r \uXXXX \UXXXXXXXX
 *     rootfs = '/srv/root'      # or in apostrophes, where \ is nothing special
 *     allowed-host = ["a", "b"] # lists may go on over several lines
 *
 * There are no tables. Names are known ones and come once. Every error says FILE:LINE. */
#include "config/state.h"

#include <string.h>

#include "base/limits.h"
#include "base/utf8.h"

struct reader {
    struct config *config;
    const char *p;
    const char *end;
    struct origin origin; /* of what is being read */
    struct error *err;
};

#define FAIL(r, ...)                                                                                         \
    (error_set((r)->err, ERR_INVALID, __VA_ARGS__),                                                          \
     error_prefix((r)->err, "%s:%d", (r)->origin.name, (r)->origin.line))

static int peek(const struct reader *r)
{
    return r->p < r->end ? (unsigned char)*r->p : -1;
}

static bool take(struct reader *r, char c)
{
    if (peek(r) != c)
        return false;
    r->origin.line += c == '\n';
    r->p++;
    return true;
}

static size_t span(const struct reader *r, const char *set)
{
    size_t n = 0;
    while (r->p + n < r->end && strchr(set, r->p[n]) != NULL)
        n++;
    return n;
}

static void skip_blanks(struct reader *r)
{
    r->p += span(r, " \t");
    if (peek(r) == '#')
        while (peek(r) >= 0 && peek(r) != '\n')
            r->p++;
    if (peek(r) == '\r' && (r->p + 1 == r->end || r->p[1] == '\n'))
        r->p++;
}

static void skip_lines(struct reader *r)
{
    do {
        skip_blanks(r);
    } while (take(r, '\n'));
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
static int read_code_point(struct reader *r, int digits, struct buf *to)
{
    uint32_t c = 0;
    for (int i = 0; i < digits; i++) {
        int digit = r->p < r->end ? hex_digit(*r->p) : -1;
        if (digit < 0)
            return FAIL(r, "\\u needs 4 hexadecimal digits, \\U 8");
        c = c << 4 | (uint32_t)digit;
        r->p++;
    }
    if (c == 0 || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff)
        return FAIL(r, "U+%04X can't be part of a text", c);
    return append_code_point(to, c);
}

static int read_escape(struct reader *r, struct buf *to)
{
    static const char letters[] = "\"\\btnfr";
    static const char meant[] = "\"\\\b\t\n\f\r";
    int c = peek(r);
    r->p += c >= 0;
    if (c == 'u' || c == 'U')
        return read_code_point(r, c == 'u' ? 4 : 8, to);
    const char *at = c > 0 ? strchr(letters, c) : NULL;
    if (at == NULL)
        return FAIL(r, "unknown escape in a text; write \\\\ for a backslash");
    return buf_append_byte(to, meant[at - letters]);
}

static int read_text(struct reader *r, char quote, struct buf *to)
{
    while (!take(r, quote)) {
        int c = peek(r);
        if (c < 0 || c == '\n' || c == '\r')
            return FAIL(r, "the text has no closing %c on this line", quote);
        r->p++;
        int status = c == '\\' && quote == '"' ? read_escape(r, to) : buf_append_byte(to, (char)c);
        if (status < 0)
            return -1;
    }
    return 0;
}

static bool is_text(const struct option_row *row)
{
    return row->type == OPTION_STRING || row->type == OPTION_PATH || row->type == OPTION_ENUM ||
           row->type == OPTION_LIST;
}

/* A number or a truth value. */
static int read_bare(struct reader *r, const struct option_row *row, struct buf *to)
{
    size_t n = span(r, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-._/:");
    bool number = n > 0 && span(r, "0123456789+-.eE") >= n;
    bool truth = (n == 4 && memcmp(r->p, "true", 4) == 0) || (n == 5 && memcmp(r->p, "false", 5) == 0);
    if (n == 0)
        return FAIL(r, "%s has no value", row->name);
    if (is_text(row) || !(number || truth)) {
        return FAIL(r, "the value of %s must be in quotes: %s = \"%.*s\"", row->name, row->name,
                    (int)(n < 60 ? n : 60), r->p);
    }
    int status = buf_append(to, r->p, n);
    r->p += n;
    return status;
}

static int read_scalar(struct reader *r, const struct option_row *row)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT(LIMIT_CONFIG_FILE_BYTES);
    int status;
    if (take(r, '"'))
        status = read_text(r, '"', &text);
    else if (take(r, '\''))
        status = read_text(r, '\'', &text);
    else
        status = read_bare(r, row, &text);
    return status < 0 ? -1 : config_set(r->config, row, buf_str(&text), &r->origin, r->err);
}

static int read_list(struct reader *r, const struct option_row *row)
{
    if (row->type != OPTION_LIST)
        return FAIL(r, "%s takes one value, not a list", row->name);
    for (;;) {
        skip_lines(r);
        if (take(r, ']'))
            return 0;
        if (read_scalar(r, row) < 0)
            return -1;
        skip_lines(r);
        if (!take(r, ',') && peek(r) != ']')
            return FAIL(r, "the list %s lacks a comma or its closing ]", row->name);
    }
}

static int key_unknown(struct reader *r, const char *name)
{
    const struct option_row *row = option_find(name);
    if (row != NULL)
        return FAIL(r, "%s can only be given on the command line: --%s", name, name);
    const char *near = option_near_miss(name, false);
    if (near != NULL)
        return FAIL(r, "unknown option %s; did you mean %s?", name, near);
    return FAIL(r, "unknown option %s; --help lists all", name);
}

static int read_key(struct reader *r, const struct option_row **ret)
{
    if (peek(r) == '[')
        return FAIL(r, "[sections] are not used; write name = value under the name of a flag");
    char name[64];
    size_t n = span(r, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    if (n == 0 || n >= sizeof(name))
        return FAIL(r, "expected the name of an option");
    memcpy(name, r->p, n);
    name[n] = '\0';
    r->p += n;
    const struct option_row *row = option_find(name);
    if (row == NULL || (row->traits & OPTION_FLAG_ONLY))
        return key_unknown(r, name);
    const struct origin *before = config_origin(r->config, row);
    if (before->source == SOURCE_FILE)
        return FAIL(r, "%s is given twice; first in line %d", name, before->line);
    *ret = row;
    return 0;
}

static int read_entry(struct reader *r)
{
    const struct option_row *row = NULL;
    if (read_key(r, &row) < 0)
        return -1;
    skip_blanks(r);
    if (!take(r, '='))
        return FAIL(r, "%s lacks its = and a value", row->name);
    skip_blanks(r);
    if ((take(r, '[') ? read_list(r, row) : read_scalar(r, row)) < 0)
        return -1;
    skip_blanks(r);
    if (peek(r) >= 0 && !take(r, '\n'))
        return FAIL(r, "something follows the value of %s", row->name);
    return 0;
}

/* What no text file has: the parser above then needn't care. */
static int check_bytes(struct reader *r)
{
    for (const char *line = r->p; line < r->end;) {
        const char *stop = memchr(line, '\n', (size_t)(r->end - line));
        size_t n = (size_t)((stop != NULL ? stop : r->end) - line);
        if (memchr(line, '\0', n) != NULL)
            return FAIL(r, "has a NUL byte; is it a text file?");
        if (!utf8_valid(line, n))
            return FAIL(r, "is not valid UTF-8");
        line += n + 1;
        r->origin.line++;
    }
    r->origin.line = 1;
    return 0;
}

int config_file_apply(struct config *c, const char *name, const char *bytes, size_t n, struct error *err)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    struct reader r = {
        .config = c, .p = bytes, .end = bytes + n, .origin = {SOURCE_FILE, name, 1}, .err = err};
    if (check_bytes(&r) < 0)
        return -1;
    if (n >= 3 && memcmp(bytes, byte_order_mark, 3) == 0)
        r.p += 3;
    for (;;) {
        skip_lines(&r);
        if (peek(&r) < 0)
            return 0;
        if (read_entry(&r) < 0)
            return -1;
    }
}
