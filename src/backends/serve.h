/* One command of our program's where it serves over a stream of bytes (guest/serve_wire.h), whatever carries
 * them: what is sent of it, and what its answers come to. */
#pragma once

#include "backends/backend.h"
#include "guest/serve_wire.h"

/* Appends a RUN. shell: for request->command. ERR_INVALID, ERR_LIMIT. */
int serve_append_run(struct buf *out, uint32_t id, const struct exec_request *request, const char *shell,
                     struct error *err);

/* Everything that has come of it. */
struct serve_answer {
    size_t limit, received; /* bytes of output */
    struct buf parts[2][2]; /* stream, head or tail */
    struct serve_end end;   /* zeros until it has ended */
    bool ended;
};
void serve_answer_init(struct serve_answer *a, size_t output_limit);
void serve_answer_done(struct serve_answer *a);
/* Bodies of OUTPUT and END frames. Hostile: what makes no sense is dropped. False: it is no END. */
void serve_answer_output(struct serve_answer *a, const void *body, size_t size);
bool serve_answer_end(struct serve_answer *a, const void *body, size_t size);
/* Moves it into the result: all but what is left to verdict(), and the duration. */
void serve_answer_tell(struct serve_answer *a, struct exec_result *ret);
