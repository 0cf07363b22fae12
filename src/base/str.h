/* Small string helpers: parsing numbers strictly, comparing, edit distance. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

bool str_has_prefix(const char *s, const char *prefix);
bool str_has_suffix(const char *s, const char *suffix);
bool str_equal_nocase(const char *a, const char *b); /* ASCII only */
/* A malloced copy without ASCII white space at both ends. */
char *str_trim(const char *s);

/* The whole string must be one number (no blanks, no trailing bytes, no NaN or infinity); false otherwise. */
bool str_parse_i64(const char *s, int64_t *ret);
bool str_parse_double(const char *s, double *ret);
/* "512", "512k", "512m", "2g", "1.5g", with optional b or ib, any case: bytes. False if malformed, negative
 * or over INT64_MAX. */
bool str_parse_size(const char *s, int64_t *ret);
/* true/1/yes/on and false/0/no/off, any case, blanks trimmed. */
bool str_parse_bool(const char *s, bool *ret);

/* Optimal string alignment distance (insert, delete, replace, swap of neighbours), ASCII case ignored.
 * Anything over `max` is returned as max + 1. */
int str_edit_distance(const char *a, const char *b, int max);
