/* Leaves the texts of one member out of JSON as it comes, wherever they are in it, and however long: "name":
 * "..." becomes "name":"". For answers that repeat what we sent, once for each computer there is. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct strain {
    const char *name; /* of the member, without anything that JSON escapes */
    size_t matched;   /* bytes of a string that agree with the name */
    enum { STRAIN_BETWEEN, STRAIN_STRING, STRAIN_ESCAPE } at;
    bool differs;           /* this string from the name */
    bool was_name, is_next; /* the last string was it; its value comes */
    bool drops;
};

/* What is left of the next piece goes to the end of `ret`. -1: that is full. What is no JSON is something
 * else that isn't afterwards. */
int strain_feed(struct strain *s, const char *bytes, size_t n, struct buf *ret) _must_use_;
