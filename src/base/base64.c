/* Base64, both ways. */
#include "base/base64.h"

#include <stdint.h>

#include "base/base64_groups.h"

int base64_append(struct buf *b, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    if (n > SIZE_MAX / 2 || buf_reserve(b, (n + 2) / 3 * 4) < 0)
        return -1;
    char *out = b->data + b->len;
    for (; n >= 3; n -= 3, p += 3, out += 4)
        base64_encode_group(p, 3, out);
    if (n > 0) {
        base64_encode_group(p, n, out);
        out += 4;
    }
    *out = '\0';
    b->len = (size_t)(out - b->data);
    return 0;
}

/* Checks everything but the spare bits of the last letter. ret_letters: how many there are before the
 * padding. */
static int check_form(const char *text, size_t n, size_t *ret_letters, struct error *err)
{
    size_t letters = 0;
    while (letters < n && base64_bits_of((unsigned char)text[letters]) >= 0)
        letters++;
    size_t end = letters;
    if (letters % 4 >= 2)
        while (end < n && end % 4 != 0 && text[end] == '=')
            end++;
    if (end < n)
        return error_set(err, ERR_INVALID, "not base64: wrong byte 0x%02x at offset %zu",
                         (unsigned char)text[end], end);
    if (n % 4 != 0)
        return error_set(err, ERR_INVALID,
                         "not base64: it ends at offset %zu, inside a group of four; pad it with '='", n);
    *ret_letters = letters;
    return 0;
}

int base64_decode(const char *text, size_t n, struct buf *ret, struct error *err)
{
    size_t letters = 0;
    if (check_form(text, n, &letters, err) < 0)
        return -1;
    if (buf_reserve(ret, letters / 4 * 3 + (letters % 4 ? letters % 4 - 1 : 0)) < 0)
        return error_set(err, ERR_LIMIT, "base64 data is too long: at most %zu decoded bytes are allowed",
                         ret->max);

    unsigned char *out = (unsigned char *)ret->data + ret->len;
    uint32_t pending = 0;
    for (size_t i = 0; i < letters; i++) {
        pending = pending << 6 | (uint32_t)base64_bits_of((unsigned char)text[i]);
        unsigned spare = 6 - 2 * (i % 4); /* bits of this letter that belong to the next byte */
        if (i % 4 != 0)
            *out++ = (unsigned char)(pending >> spare);
        if (i + 1 == letters && i % 4 != 3 && pending & ((1U << spare) - 1))
            return error_set(err, ERR_INVALID,
                             "not base64: the letter at offset %zu has bits set that are not used", i);
    }
    ret->len = (size_t)((char *)out - ret->data);
    ret->data[ret->len] = '\0';
    return 0;
}

int base64_decode_loosely(const char *text, size_t n, struct buf *ret, struct error *err)
{
    while (n > 0 && text[n - 1] == '=')
        n--;
    _cleanup_(buf_done) struct buf strict = BUF_INIT(n + 3);
    if (buf_append(&strict, text, n) < 0)
        return error_set(err, ERR_LIMIT, "out of memory");
    for (size_t i = 0; i < n; i++)
        strict.data[i] = text[i] == '-' ? '+' : text[i] == '_' ? '/' : text[i];
    while (strict.len % 4 != 0)
        (void)!buf_append_byte(&strict, '=');
    return base64_decode(buf_str(&strict), strict.len, ret, err);
}
