/* UTF-8 by table 3-7 of the Unicode standard: a lead byte fixes the length and the range of the second byte;
 * all later bytes are 80..BF. */
#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

struct form {
    unsigned char length; /* 0: not a lead byte */
    unsigned char second_min, second_max;
};

static struct form form_of(unsigned char lead)
{
    if (lead < 0x80)
        return (struct form){1, 0, 0};
    if (lead < 0xC2 || lead > 0xF4)
        return (struct form){0, 0, 0};
    if (lead < 0xE0)
        return (struct form){2, 0x80, 0xBF};
    if (lead < 0xF0) /* E0: no overlong forms; ED: no surrogates */
        return (struct form){3, lead == 0xE0 ? 0xA0 : 0x80, lead == 0xED ? 0x9F : 0xBF};
    return (struct form){4, lead == 0xF0 ? 0x90 : 0x80, lead == 0xF4 ? 0x8F : 0xBF};
}

/* How many of the n > 0 bytes can belong to one character of that form; equals form.length for a whole one.
 */
static size_t match(struct form form, const unsigned char *p, size_t n)
{
    size_t have = 1;
    while (have < form.length && have < n) {
        unsigned char min = have == 1 ? form.second_min : 0x80, max = have == 1 ? form.second_max : 0xBF;
        if (p[have] < min || p[have] > max)
            break;
        have++;
    }
    return have;
}

size_t utf8_next(const void *bytes, size_t n, bool *ret_valid)
{
    const unsigned char *p = bytes;
    struct form form = form_of(*p);
    size_t have = match(form, p, n);
    *ret_valid = have == form.length;
    return have;
}

/* Length of the ASCII run at the front, a word at a time; may stop up to seven bytes early. */
static size_t ascii_run(const unsigned char *p, size_t n)
{
    size_t i = 0;
    for (uint64_t word; i + sizeof(word) <= n; i += sizeof(word)) {
        memcpy(&word, p + i, sizeof(word));
        if (word & 0x8080808080808080ULL)
            break;
    }
    return i;
}

/* Length of the well-formed prefix. */
static size_t valid_prefix(const unsigned char *p, size_t n)
{
    size_t i = 0;
    while (i < n) {
        i += ascii_run(p + i, n - i);
        if (i == n)
            break;
        bool valid;
        size_t length = utf8_next(p + i, n - i, &valid);
        if (!valid)
            break;
        i += length;
    }
    return i;
}

bool utf8_valid(const void *bytes, size_t n)
{
    return valid_prefix(bytes, n) == n;
}

int utf8_append_lossy(struct buf *b, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    size_t before = b->len;
    while (n > 0) {
        size_t good = valid_prefix(p, n);
        if (buf_append(b, p, good) < 0)
            goto full;
        p += good;
        n -= good;
        if (n == 0)
            break;
        bool valid;
        size_t bad = utf8_next(p, n, &valid);
        if (buf_append_str(b, "\uFFFD") < 0)
            goto full;
        p += bad;
        n -= bad;
    }
    return 0;

full:
    b->len = before;
    if (b->data)
        b->data[before] = '\0';
    return -1;
}

size_t utf8_lossy_length(const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    size_t length = 0;
    while (n > 0) {
        bool valid;
        size_t good = valid_prefix(p, n);
        length += good;
        if (good == n)
            break;
        size_t bad = utf8_next(p + good, n - good, &valid);
        length += strlen("\uFFFD");
        p += good + bad;
        n -= good + bad;
    }
    return length;
}

size_t utf8_boundary(const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        const unsigned char *lead = p + n - back;
        if (*lead >= 0x80 && *lead < 0xC0)
            continue; /* the rest of a character that starts further left */
        struct form form = form_of(*lead);
        bool is_cut = form.length > back && match(form, lead, back) == back;
        return is_cut ? n - back : n;
    }
    return n;
}

size_t utf8_leading_fragment(const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    size_t i = 0;
    while (i < n && i < 3 && p[i] >= 0x80 && p[i] < 0xC0)
        i++;
    return i;
}
