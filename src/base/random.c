/* Random bytes. getrandom(2) can only fail by interruption here, or because the system can't be used at all.
 */
#include "base/random.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

void random_bytes(void *p, size_t n)
{
    char *out = p;
    while (n > 0) {
        ssize_t got = getrandom(out, n, 0);
        if (got < 0) {
            if (errno == EINTR)
                continue;
            abort(); /* going on with what can be guessed would be worse */
        }
        out += got;
        n -= (size_t)got;
    }
}

uint32_t random_below(uint32_t n)
{
    /* Values under 2^32 mod n would make the small remainders likelier. */
    uint32_t biased = -n % n, value;
    do
        random_bytes(&value, sizeof(value));
    while (value < biased);
    return value % n;
}

void random_hex(char *ret, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    /* The upper half, overwritten from below as it is read. */
    unsigned char *raw = (unsigned char *)ret + bytes;
    random_bytes(raw, bytes);
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = raw[i];
        ret[2 * i] = digits[byte >> 4];
        ret[2 * i + 1] = digits[byte & 15];
    }
    ret[2 * bytes] = '\0';
}
