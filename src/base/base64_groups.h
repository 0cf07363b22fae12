/* The letters of base64, group by group: pure, so that the guest program has the same. */
#pragma once

#include <stddef.h>

/* n bytes (1 to 3) become four letters. */
static inline void base64_encode_group(const unsigned char *p, size_t n, char ret[4])
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned v = (unsigned)p[0] << 16 | (n > 1 ? (unsigned)p[1] << 8 : 0) | (n > 2 ? p[2] : 0);
    ret[0] = letters[v >> 18];
    ret[1] = letters[v >> 12 & 63];
    ret[2] = n > 1 ? letters[v >> 6 & 63] : '=';
    ret[3] = n > 2 ? letters[v & 63] : '=';
}

/* A letter's six bits, or -1. */
static inline int base64_bits_of(unsigned char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}
