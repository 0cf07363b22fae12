/* Names of computers and principals: checking them (slug_check, in computers.h) and making them up. */
#pragma once

#include "base/limits.h"

#define SLUG_SIZE (LIMIT_COMPUTER_ID_BYTES + 1)

/* "steady-otter-a31f": two words and four hex digits, some 268 million of them. */
void slug_random(char ret[SLUG_SIZE]);
