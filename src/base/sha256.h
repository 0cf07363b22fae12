/* SHA-256 (FIPS 180-4) of bytes in memory. For names of things, not for secrets: nothing is wiped. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SHA256_SIZE 32
#define SHA256_HEX_SIZE (2 * SHA256_SIZE + 1)

void sha256(const void *bytes, size_t n, uint8_t ret[SHA256_SIZE]);
void sha256_hex(const void *bytes, size_t n, char ret[SHA256_HEX_SIZE]); /* lower case */
