/* What the bench's wasm stage runs, as a module and natively: without arguments it says hello; else it
 * computes, a CRC of so many MiB and as many sieves, and says the result. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (1U << 20)
#define SIEVE 200000U

static uint32_t table[256];
static unsigned char block[MIB];

static void make_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = c & 1 ? 0xedb88320U ^ (c >> 1) : c >> 1;
        table[i] = c;
    }
}

static uint32_t crc(uint32_t c)
{
    for (size_t i = 0; i < MIB; i++)
        c = table[(c ^ block[i]) & 0xff] ^ (c >> 8);
    return c;
}

static uint32_t sieve(void)
{
    uint32_t count = 0;
    memset(block, 1, SIEVE);
    for (uint32_t i = 2; i < SIEVE; i++) {
        if (!block[i])
            continue;
        count++;
        for (uint32_t j = 2 * i; j < SIEVE; j += i)
            block[j] = 0;
    }
    return count;
}

int main(int argc, char **argv)
{
    uint32_t sum = 0;
    if (argc < 2) {
        puts("hello");
        return 0;
    }
    make_table();
    for (long n = strtol(argv[1], NULL, 10); n > 0; n--)
        sum = crc(sum + sieve());
    printf("%08x\n", (unsigned)sum);
    return 0;
}
