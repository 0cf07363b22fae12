/* JSON: strict reading through jansson, and a streaming writer that goes straight into a bounded buffer (a
 * result of many MiB is never built as a tree). */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"

static inline void cleanup_json_decref(json_t **p)
{
    json_decref(*p);
}

/* Parses exactly one JSON text: duplicate members, bad UTF-8, lone surrogates, a BOM, trailing bytes and
 * nesting over LIMIT_JSON_DEPTH are errors (ERR_INVALID, with position), as are more than LIMIT_JSON_VALUES
 * values, or max_values. NULL on error. NUL in strings (\u0000) is accepted. Any thread. If one integer is
 * beyond int64, all of that text are read as reals. */
json_t *json_parse(const char *bytes, size_t n, struct error *err);
json_t *json_parse_few(const char *bytes, size_t n, size_t max_values, struct error *err);

/* Lookups that say nothing about absence: NULL if it isn't an object, lacks the member, or has another type.
 * A string with a NUL inside, which a C string would cut short, counts as another type. */
const char *json_get_string(const json_t *object, const char *member);
json_t *json_get_object(const json_t *object, const char *member);
/* Appends a compact dump of the value. */
int json_append(struct buf *b, const json_t *value) _must_use_;

/* The writer. Commas are its business. Once an append failed, all further calls do nothing and `failed` stays
 * set, so callers check once, at the end. Nesting is bounded by JSON_WRITER_DEPTH. */
#define JSON_WRITER_DEPTH 96 /* what is parsed (LIMIT_JSON_DEPTH) and what goes around it */
struct json_writer {
    struct buf *out; /* NULL: nothing is written, but counted */
    size_t counted;
    bool failed;
    unsigned escape; /* 1: plain; 2: everything is inside a JSON string that is itself being written */
    int depth;
    bool has_item[JSON_WRITER_DEPTH];
    bool after_key;
};
void jw_init(struct json_writer *w, struct buf *out);
void jw_begin_object(struct json_writer *w);
void jw_end_object(struct json_writer *w);
void jw_begin_array(struct json_writer *w);
void jw_end_array(struct json_writer *w);
void jw_string_n(struct json_writer *w, const void *bytes, size_t n); /* what isn't UTF-8 becomes U+FFFD */
void jw_key_n(struct json_writer *w, const char *key, size_t n);
/* Here, so that the length of a literal is known when this is compiled. */
static inline void jw_string(struct json_writer *w, const char *s)
{
    jw_string_n(w, s, strlen(s));
}
static inline void jw_key(struct json_writer *w, const char *key)
{
    jw_key_n(w, key, strlen(key));
}
void jw_base64(struct json_writer *w, const void *bytes, size_t n); /* as a string */
void jw_integer(struct json_writer *w, int64_t value);
/* The shortest form that reads back equal; null if not finite. */
void jw_real(struct json_writer *w, double value);
void jw_bool(struct json_writer *w, bool value);
void jw_null(struct json_writer *w);
void jw_value(struct json_writer *w, const json_t *value);      /* compact dump */
void jw_raw(struct json_writer *w, const char *text, size_t n); /* one valid JSON value, verbatim */
/* A string member whose content is itself JSON: between these two, all that is written is escaped once more.
 * Not nestable. */
void jw_begin_text(struct json_writer *w);
void jw_end_text(struct json_writer *w);
