/* The JSON writer. Text reaches the buffer escaped `times` times over:
 *   0  structure (brackets, numbers, the quotes around strings);
 *   1  the content of a string; or structure inside a string (jw_begin_text);
 *   2  the content of a string inside a string.
 * That is done in one pass, straight from the caller's bytes: worst-case content of several MiB grows
 * sevenfold, and must not exist twice. */
#include "base/json.h"

#include <endian.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/utf8.h"

#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */
#define ESCAPED_MAX 8              /* bytes that one byte can become: \\u001f */
#define SHORT_RUN 256
#define INTEGERS_MAX 1e15 /* all below have a double of their own */

void jw_init(struct json_writer *w, struct buf *out)
{
    *w = (struct json_writer){.out = out, .escape = 1};
}

static void append(struct json_writer *w, const void *bytes, size_t n)
{
    if (!w->out)
        w->counted += n;
    else if (!w->failed && buf_append(w->out, bytes, n) < 0)
        w->failed = true;
}

static bool is_plain_ascii(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* Of eight bytes at once, how many before the first that isn't plain ASCII: from each byte something is taken
 * that sets its highest bit if the byte is less, and only then lends from the next one. */
static size_t plain_in_word(const unsigned char *p)
{
    const uint64_t each = 0x0101010101010101ULL;
    uint64_t word;
    memcpy(&word, p, sizeof(word));
    word = le64toh(word);
    const uint64_t quotes = word ^ (each * '"'), backslashes = word ^ (each * '\\');
    const uint64_t found = (word | (word - each * 0x20) | (quotes - each) | (backslashes - each)) & each << 7;
    return found ? (size_t)__builtin_ctzll(found) / 8 : sizeof(word);
}

static size_t plain_ascii_run(const unsigned char *p, size_t n)
{
    size_t i = 0;
    for (size_t run; n - i >= sizeof(uint64_t); i += run) {
        run = plain_in_word(p + i);
        if (run < sizeof(uint64_t))
            return i + run;
    }
    while (i < n && is_plain_ascii(p[i]))
        i++;
    return i;
}

/* How many bytes at the front need no escape: plain ASCII and well-formed characters. */
static size_t plain_run(const unsigned char *p, size_t n)
{
    bool valid = true;
    size_t i = 0;
    while ((i += plain_ascii_run(p + i, n - i)) < n && p[i] >= 0x80) {
        const size_t length = utf8_next(p + i, n - i, &valid);
        if (!valid)
            break;
        i += length;
    }
    return i;
}

/* The escaped form of what is at the front, which needs one; *ret_used: how many bytes it stands for. */
static size_t escape_one(const unsigned char *p, size_t n, unsigned times, char ret[ESCAPED_MAX],
                         size_t *ret_used)
{
    static const char shorts[0x20] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    static const char digits[] = "0123456789abcdef";

    unsigned char c = *p;
    size_t len = 0;
    *ret_used = 1;
    if (c >= 0x80) {
        bool valid;
        *ret_used = utf8_next(p, n, &valid);
        memcpy(ret, REPLACEMENT, 3);
        return 3;
    }
    /* The backslash of the escape, itself escaped when inside a string. */
    for (unsigned i = 0; i < times; i++)
        ret[len++] = '\\';
    if (c < 0x20 && shorts[c]) {
        ret[len++] = shorts[c];
    } else if (c < 0x20) {
        const char hex[] = {'u', '0', '0', digits[c >> 4], digits[c & 15]};
        memcpy(ret + len, hex, sizeof(hex));
        len += sizeof(hex);
    } else { /* a quote or a backslash, which the second time gets a backslash of its own */
        if (times == 2)
            ret[len++] = '\\';
        ret[len++] = (char)c;
    }
    return len;
}

/* Escapes, and what is short between them, are gathered before they are appended. */
static void append_gathered(struct json_writer *w, const unsigned char *p, size_t n, unsigned times)
{
    char batch[128 * ESCAPED_MAX];
    size_t len = 0, used;
    while (n > 0 && !w->failed) {
        size_t plain = plain_run(p, n);
        const bool is_short = plain <= SHORT_RUN;
        if (!is_short || len + plain + ESCAPED_MAX > sizeof(batch)) {
            append(w, batch, len);
            len = 0;
        }
        if (is_short) {
            memcpy(batch + len, p, plain);
            len += plain;
        } else {
            append(w, p, plain);
        }
        p += plain;
        n -= plain;
        if (n == 0)
            break;
        len += escape_one(p, n, times, batch + len, &used);
        p += used;
        n -= used;
    }
    append(w, batch, len);
}

static void append_escaped(struct json_writer *w, const void *bytes, size_t n, unsigned times)
{
    const unsigned char *p = bytes;
    const size_t plain = times == 0 ? n : plain_run(p, n); /* mostly all of it */
    append(w, p, plain);
    if (plain < n)
        append_gathered(w, p + plain, n - plain, times);
}

static void structure(struct json_writer *w, char c)
{
    append_escaped(w, &c, 1, w->escape - 1);
}

/* What has to stand between the last item and the next one. */
static void separate(struct json_writer *w)
{
    if (w->after_key)
        w->after_key = false;
    else if (w->has_item[w->depth])
        structure(w, ',');
    w->has_item[w->depth] = true;
}

static void descend(struct json_writer *w)
{
    if (w->depth + 1 >= JSON_WRITER_DEPTH) {
        w->failed = true;
        return;
    }
    w->has_item[++w->depth] = false;
}

static void ascend(struct json_writer *w)
{
    if (w->depth > 0)
        w->depth--;
}

static void begin(struct json_writer *w, char bracket)
{
    separate(w);
    structure(w, bracket);
    descend(w);
}

static void end(struct json_writer *w, char bracket)
{
    ascend(w);
    structure(w, bracket);
}

void jw_begin_object(struct json_writer *w)
{
    begin(w, '{');
}

void jw_end_object(struct json_writer *w)
{
    end(w, '}');
}

void jw_begin_array(struct json_writer *w)
{
    begin(w, '[');
}

void jw_end_array(struct json_writer *w)
{
    end(w, ']');
}

/* A string that needs no escape, as most do, at once with all that stands around it. False: nothing was
 * written. */
static bool put_plain(struct json_writer *w, const void *bytes, size_t n, bool is_key)
{
    if (!w->out || w->failed || w->escape != 1 || plain_run(bytes, n) < n || buf_reserve(w->out, n + 4) < 0)
        return false;
    char *p = w->out->data + w->out->len;
    if (!w->after_key && w->has_item[w->depth])
        *p++ = ',';
    *p++ = '"';
    memcpy(p, bytes, n);
    p += n;
    *p++ = '"';
    if (is_key)
        *p++ = ':';
    *p = '\0';
    w->out->len = (size_t)(p - w->out->data);
    w->has_item[w->depth] = true;
    w->after_key = is_key;
    return true;
}

void jw_key_n(struct json_writer *w, const char *key, size_t n)
{
    if (put_plain(w, key, n, true))
        return;
    jw_string_n(w, key, n);
    structure(w, ':');
    w->after_key = true;
}

void jw_string_n(struct json_writer *w, const void *bytes, size_t n)
{
    if (put_plain(w, bytes, n, false))
        return;
    separate(w);
    structure(w, '"');
    append_escaped(w, bytes, n, w->escape);
    structure(w, '"');
}

void jw_base64(struct json_writer *w, const void *bytes, size_t n)
{
    separate(w);
    structure(w, '"');
    if (!w->out)
        w->counted += (n + 2) / 3 * 4;
    else if (!w->failed && base64_append(w->out, bytes, n) < 0)
        w->failed = true;
    structure(w, '"');
}

/* Nothing in it is ever escaped. */
static void literal(struct json_writer *w, const char *text)
{
    separate(w);
    append(w, text, strlen(text));
}

void jw_integer(struct json_writer *w, int64_t value)
{
    char text[24];
    char *p = text + sizeof(text) - 1;
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    *p = '\0';
    do
        *--p = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (value < 0)
        *--p = '-';
    literal(w, p);
}

void jw_real(struct json_writer *w, double value)
{
    char text[40];
    if (!isfinite(value)) {
        literal(w, "null");
        return;
    }
    if (fabs(value) < INTEGERS_MAX && trunc(value) == value) {
        jw_integer(w, (int64_t)value);
        return;
    }
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(text, sizeof(text), "%.*g", precision, value);
        if (strtod(text, NULL) == value)
            break;
    }
    literal(w, text);
}

void jw_bool(struct json_writer *w, bool value)
{
    literal(w, value ? "true" : "false");
}

void jw_null(struct json_writer *w)
{
    literal(w, "null");
}

static void write_object(struct json_writer *w, const json_t *object)
{
    const char *key;
    json_t *member;
    jw_begin_object(w);
    json_object_foreach ((json_t *)object, key, member) {
        jw_key(w, key);
        jw_value(w, member);
    }
    jw_end_object(w);
}

static void write_array(struct json_writer *w, const json_t *array)
{
    size_t i;
    json_t *item;
    jw_begin_array(w);
    json_array_foreach (array, i, item)
        jw_value(w, item);
    jw_end_array(w);
}

/* Recursive; the writer's own depth bounds it. */
void jw_value(struct json_writer *w, const json_t *value)
{
    if (w->failed)
        return;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        write_object(w, value);
        break;
    case JSON_ARRAY:
        write_array(w, value);
        break;
    case JSON_STRING:
        jw_string_n(w, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        jw_integer(w, json_integer_value(value));
        break;
    case JSON_REAL:
        jw_real(w, json_real_value(value));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        jw_bool(w, json_is_true(value));
        break;
    case JSON_NULL:
    default:
        jw_null(w);
        break;
    }
}

void jw_raw(struct json_writer *w, const char *text, size_t n)
{
    separate(w);
    append_escaped(w, text, n, w->escape - 1);
}

void jw_begin_text(struct json_writer *w)
{
    begin(w, '"');
    w->escape = 2;
}

void jw_end_text(struct json_writer *w)
{
    w->escape = 1;
    end(w, '"');
}
