/* Ranges of user and group ids of the host, one per computer, so that root in one is nobody on the host and a
 * stranger to every other. They come from one file per machine, or per user, shared by all servers. */
#pragma once

#include <stdint.h>

#include "base/error.h"

#define ID_RANGE_SIZE 65536U
#define ID_RANGE_FIRST 0x20000000U
#define ID_RANGE_COUNT 16384U
/* Of an ordinary user, who usually has one range of 65536 to give. */
#define ID_SUBRANGE_SIZE 1024U
#define ID_RANGES_FILE "/var/lib/mcp-sandbox-computer-vm-for-ai/id-ranges"

/* As who owns a file: whoever makes it. */
#define ID_OURS UINT32_MAX

struct id_ranges {
    const char *file; /* NULL: there is one range, and all computers have it */
    uint32_t first, size, count;
};

/* Takes a free range for the computer whose folder this is (absolute). The folder must exist: a range whose
 * folder is gone counts as free. */
int ids_take(const struct id_ranges *ranges, const char *folder, uint32_t *ret_base, struct error *err);
/* Makes sure that the folder still holds this range, and no other. ERR_UNAVAILABLE if it belongs to another
 * by now. */
int ids_hold(const struct id_ranges *ranges, const char *folder, uint32_t base, struct error *err);
/* The range goes along when `move` brings the computer's folder to `to`, or leaves it where it is and fails.
 * The list is locked meanwhile, since a path that isn't there doesn't hold a range. If we are killed in
 * between, the folder has its range under whichever name it has, and nobody else is taken for its holder. */
int ids_move(const struct id_ranges *ranges, uint32_t base, const char *to,
             int (*move)(void *ctx, struct error *err), void *ctx, struct error *err);
/* Gives back a range, if the folder holds it, or held it until another took its name over. */
int ids_give_back(const struct id_ranges *ranges, const char *folder, uint32_t base, struct error *err);
