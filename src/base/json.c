/* Strict reading of JSON through jansson. The writer is in json_writer.c. */
#include "base/json.h"

#include <string.h>

#include "base/limits.h"
#include "base/str.h"

/* What stands before the parser, since jansson builds the whole tree first, of which a value of two bytes is
 * forty. Text that is no JSON at all may be counted wrong: the parser refuses it anyway. */
static int check_size(const char *bytes, size_t n, size_t max_values, struct error *err)
{
    int depth = 0;
    size_t values = 1;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        char c = bytes[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            values++;
            if (++depth > LIMIT_JSON_DEPTH)
                return error_set(err, ERR_INVALID, "JSON is nested deeper than %d levels", LIMIT_JSON_DEPTH);
        } else if (c == ']' || c == '}') {
            depth--;
        } else if (c == ',') {
            values++;
        }
    }
    if (values > max_values)
        return error_set(err, ERR_INVALID, "JSON has more than %zu values", max_values);
    return 0;
}

json_t *json_parse(const char *bytes, size_t n, struct error *err)
{
    return json_parse_few(bytes, n, LIMIT_JSON_VALUES, err);
}

json_t *json_parse_few(const char *bytes, size_t n, size_t max_values, struct error *err)
{
    if (n >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0) {
        error_set(err, ERR_INVALID,
                  "not valid JSON: it starts with a byte order mark; send UTF-8 without one");
        return NULL;
    }
    if (check_size(bytes, n, max_values, err) < 0)
        return NULL;
    json_error_t why;
    size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY;
    json_t *value = json_loadb(bytes, n, flags, &why);
    if (!value && str_has_prefix(why.text, "too big"))
        value = json_loadb(bytes, n, flags | JSON_DECODE_INT_AS_REAL, &why);
    if (!value)
        error_set(err, ERR_INVALID, "not valid JSON: %s (line %d, byte %d)", why.text, why.line,
                  why.position);
    return value;
}

const char *json_get_string(const json_t *object, const char *member)
{
    const json_t *value = json_object_get(object, member);
    const char *s = json_string_value(value);
    return s && strlen(s) == json_string_length(value) ? s : NULL;
}

json_t *json_get_object(const json_t *object, const char *member)
{
    json_t *value = json_object_get(object, member);
    return json_is_object(value) ? value : NULL;
}

int json_append(struct buf *b, const json_t *value)
{
    size_t before = b->len;
    struct json_writer w;
    jw_init(&w, b);
    jw_value(&w, value);
    if (!w.failed)
        return 0;
    b->len = before;
    if (b->data)
        b->data[before] = '\0';
    return -1;
}
