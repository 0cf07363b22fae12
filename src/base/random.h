/* Random bytes from the kernel. */
#pragma once

#include <stddef.h>
#include <stdint.h>

void random_bytes(void *p, size_t n);
uint32_t random_below(uint32_t n); /* 0 .. n-1 without bias; n > 0 */
#define RANDOM_HEX_SIZE(bytes) (2 * (bytes) + 1)
void random_hex(char *ret, size_t bytes); /* ret has RANDOM_HEX_SIZE(bytes) */
