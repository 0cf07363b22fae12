/* Names of computers and principals: checking them and making them up. */
#pragma once

#include "base/error.h"
#include "base/limits.h"

#define SLUG_SIZE (LIMIT_COMPUTER_ID_BYTES + 1)

/* 1-63 of a-z 0-9 '-', alphanumeric at both ends. ERR_INVALID states the rule. */
int slug_check(const char *id, struct error *err);
/* "steady-otter-a31f": two words and four hex digits, some 268 million of them. */
void slug_random(char ret[SLUG_SIZE]);
