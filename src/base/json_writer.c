/* The JSON writer. Text reaches the buffer escaped `times` times over:
 *   0  structure (brackets, numbers, the quotes around strings);
 *   1  the content of a string; or structure inside a string (jw_begin_text);
 *   2  the content of a string inside a string.
 * That is done in one pass, straight from the caller's bytes: worst-case content of several MiB grows
 * sevenfold, and must not exist twice. */
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/utf8.h"

#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */
#define ESCAPED_MAX 8              /* bytes that one byte can become: \\u001f */

void jw_init(struct json_writer *w, struct buf *out)
{
    *w = (struct json_writer){.out = out, .escape = 1};
}

static void append(struct json_writer *w, const void *bytes, size_t n)
{
    if (!w->failed && buf_append(w->out, bytes, n) < 0)
        w->failed = true;
}

static bool is_plain_ascii(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* How many bytes at the front need no escape: plain ASCII and well-formed characters. */
static size_t plain_run(const unsigned char *p, size_t n)
{
    size_t i = 0;
    while (i < n) {
        bool valid = true;
        if (is_plain_ascii(p[i]))
            i++;
        else if (p[i] < 0x80)
            break;
        else {
            size_t length = utf8_next(p + i, n - i, &valid);
            if (!valid)
                break;
            i += length;
        }
    }
    return i;
}

/* The escaped form of what is at the front, 0 if that needs none; *ret_used: how many bytes it stands for. */
static size_t escape_one(const unsigned char *p, size_t n, unsigned times, char ret[ESCAPED_MAX],
                         size_t *ret_used)
{
    static const char shorts[0x20] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    static const char digits[] = "0123456789abcdef";

    unsigned char c = *p;
    size_t len = 0;
    *ret_used = 1;
    if (is_plain_ascii(c))
        return 0;
    if (c >= 0x80) {
        bool valid;
        *ret_used = utf8_next(p, n, &valid);
        memcpy(ret, REPLACEMENT, 3);
        return valid ? 0 : 3;
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

static void append_escaped(struct json_writer *w, const void *bytes, size_t n, unsigned times)
{
    const unsigned char *p = bytes;
    if (times == 0) {
        append(w, bytes, n);
        return;
    }
    while (n > 0 && !w->failed) {
        size_t plain = plain_run(p, n);
        append(w, p, plain);
        p += plain;
        n -= plain;

        /* Whatever needs escapes tends to come in runs, so these are gathered before they are appended. */
        char batch[64 * ESCAPED_MAX];
        size_t len = 0, used;
        while (n > 0 && len + ESCAPED_MAX <= sizeof(batch)) {
            size_t escaped = escape_one(p, n, times, batch + len, &used);
            if (escaped == 0)
                break;
            len += escaped;
            p += used;
            n -= used;
        }
        append(w, batch, len);
    }
}

static void structure(struct json_writer *w, const char *text)
{
    append_escaped(w, text, strlen(text), w->escape - 1);
}

/* What has to stand between the last item and the next one. */
static void separate(struct json_writer *w)
{
    if (w->after_key)
        w->after_key = false;
    else if (w->has_item[w->depth])
        structure(w, ",");
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

static void begin(struct json_writer *w, const char *bracket)
{
    separate(w);
    structure(w, bracket);
    descend(w);
}

static void end(struct json_writer *w, const char *bracket)
{
    ascend(w);
    structure(w, bracket);
}

void jw_begin_object(struct json_writer *w)
{
    begin(w, "{");
}

void jw_end_object(struct json_writer *w)
{
    end(w, "}");
}

void jw_begin_array(struct json_writer *w)
{
    begin(w, "[");
}

void jw_end_array(struct json_writer *w)
{
    end(w, "]");
}

void jw_key(struct json_writer *w, const char *key)
{
    jw_string(w, key);
    structure(w, ":");
    w->after_key = true;
}

void jw_string(struct json_writer *w, const char *s)
{
    jw_string_n(w, s, strlen(s));
}

void jw_string_n(struct json_writer *w, const void *bytes, size_t n)
{
    separate(w);
    structure(w, "\"");
    append_escaped(w, bytes, n, w->escape);
    structure(w, "\"");
}

void jw_base64(struct json_writer *w, const void *bytes, size_t n)
{
    separate(w);
    structure(w, "\"");
    if (!w->failed && base64_append(w->out, bytes, n) < 0)
        w->failed = true;
    structure(w, "\"");
}

static void literal(struct json_writer *w, const char *text)
{
    separate(w);
    structure(w, text);
}

void jw_integer(struct json_writer *w, int64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%lld", (long long)value);
    literal(w, text);
}

void jw_real(struct json_writer *w, double value)
{
    char text[40];
    if (!isfinite(value)) {
        literal(w, "null");
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
    begin(w, "\"");
    w->escape = 2;
}

void jw_end_text(struct json_writer *w)
{
    w->escape = 1;
    end(w, "\"");
}
