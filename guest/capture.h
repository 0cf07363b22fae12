/* The output of one command within its limit, as src/backends/output.h has it: the head goes out as it comes,
 * the tail is kept until the end, and a stream that is about to lose bytes goes to a file from its very
 * first byte on. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest/serve_wire.h"
#include "guest/tail.h"

#define CAPTURE_CHUNK (SERVE_FRAME_MAX - sizeof(struct serve_output)) /* to be added at once */

struct capture_stream {
    char *head; /* what has gone out, for the file; NULL: nothing, or no file is to be */
    size_t head_size, head_used;
    struct ring tail;
    uint64_t total;
    int spool; /* -1: none */
    bool spools, spool_ended;
    uint64_t spooled;
    char spool_path[GUEST_PATH_MAX / 2];
};

struct capture {
    uint32_t id; /* of the command */
    uint32_t spool_limit;
    const char *spool_dir; /* borrowed; "": nowhere */
    size_t head_left, tail_limit;
    struct capture_stream streams[2];
};

void capture_init(struct capture *c, uint32_t id, uint32_t output_limit, uint32_t spool_limit,
                  const char *spool_dir);
void capture_done(struct capture *c);
/* Whether a chunk can be taken now: heads need room in the queue. */
bool capture_is_ready(const struct capture *c);
void capture_add(struct capture *c, unsigned stream, const char *bytes, size_t n);
/* False: there is more, when there is room again. */
bool capture_send_tails(struct capture *c);
void capture_tell(const struct capture *c, struct serve_end *ret);
