/* Binding of a tool's arguments: a table says which there are and where each goes; one function checks and
 * fills them all.
 *
 * Lenient in form, since models write the arguments: null, "", [] and {} are absent, "30" is a number, "true"
 * is a boolean, and a list may come as its JSON text. Strict in meaning: a name that was probably meant to be
 * one of ours is refused with the right one, anything else unknown is named to the caller; ranges and sizes
 * are checked here. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum bind_type {
    BIND_TEXT,   /* struct text; no NUL unless BIND_ALLOW_NUL; at most `max` bytes */
    BIND_NUMBER, /* double, in min .. max */
    BIND_SIZE,   /* size_t, in min .. max */
    BIND_BOOL,   /* enum choice: CHOICE_NONE, 0, 1 */
    BIND_CHOICE, /* int: index into choices, or CHOICE_NONE */
    BIND_LIST,   /* json_t *: an array of strings, a new reference; at most max_items, of max bytes together,
                    max_item each */
    BIND_MAP,    /* json_t *: an object of strings, likewise; an entry is NAME=VALUE and its NUL */
};

#define BIND_ALLOW_NUL (1U << 0)
#define CHOICE_NONE (-1)

/* Borrowed from the arguments; data NULL: absent. Followed by a NUL that len doesn't count. */
struct text {
    const char *data;
    size_t len;
};

struct bind_field {
    const char *name;
    enum bind_type type;
    unsigned flags;
    size_t offset; /* in the struct that is filled */
    double min, max;
    const char *unit; /* for messages: " seconds"; or NULL */
    size_t max_item, max_items;
    const char *const *choices; /* NULL-terminated */
    const char *aliases; /* names that are refused in favour of this one, between blanks: " cwd dir " */
};

/* Fills the members at their offsets, which hold their "absent" values before. ret_ignored: the unknown
 * names, NULL for none, a new reference. -1 with ERR_INVALID; members may be set then, so the struct is to be
 * freed either way. */
int bind_arguments(const struct bind_field *fields, size_t count, const json_t *arguments, void *ret,
                   json_t **ret_ignored, struct error *err);
/* A number for a message, as people write it: 1099511627776, not 1.099511628e+12. Returns ret. */
#define BIND_NUMBER_SIZE 32
const char *bind_format(double number, char ret[BIND_NUMBER_SIZE]);
/* The rule for a number: itself, or a string that holds one. */
bool bind_number(const json_t *value, double *ret);
/* A map that was bound, as an environment: NAME=VALUE each, ended by NULL, for strv_free(). NULL: of NULL. */
char **bind_environment(const json_t *map);
