/* The stream of frames (serve_wire.h), both ways at once and without ever waiting. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest/init.h"
#include "guest/serve_wire.h"

/* Where our standard input and output are moved to, and what more comes in behind the end of the first. */
enum { FD_FRAMES_IN = FD_CHANNEL, FD_FRAMES_OUT = FD_SERVER, FD_FRAMES_MORE = FD_PROC };

/* One answer fits into this much of the queue, whichever it is. */
#define FRAMES_ANSWER_MAX (sizeof(struct serve_frame) + sizeof(struct serve_end))

/* A frame that has come whole. Its body is memory.h's; the reader lets go of it with frames_next(). */
struct frame {
    struct serve_frame head;
    void *body; /* NULL: none, or there was no memory for it */
};

/* more: FD_FRAMES_MORE is there. early: bytes before those of the stream, memory.h's, taken over; or NULL.
 * -1: no memory for the queue. */
int frames_open(bool more, void *early, size_t early_size);
/* Of those some are left: nothing has to come before something can be read. */
bool frames_ahead(void);
/* No more of it: nothing is to be read, and what is put is dropped. */
void frames_close(void);

/* 1: a frame is there, the same until frames_next(); 0: not yet; -1: the stream has ended, or isn't ours. */
int frames_read(struct frame **ret);
/* Whoever keeps the body takes it out first (NULL). */
void frames_next(void);

/* Bytes of output that may be put now, in one frame; the rest of the queue is for answers. */
size_t frames_room(void);
/* Whether there is room for another answer: if not, no more is to be asked. */
bool frames_can_answer(void);
/* Two pieces of one body. False: there is no room. */
bool frames_put(uint32_t type, uint32_t id, const void *head, size_t head_size, const void *bytes, size_t n);
bool frames_put_end(uint32_t id, const struct serve_end *end); /* likewise */
bool frames_pending(void);
/* Something was put that somebody waits for: more than HELLO and READY. */
bool frames_urgent(void);
/* Writes what goes. -1: the stream has ended. */
int frames_flush(void);
