/* Event streams of legacy sessions, so that a client whose connection broke gets what it has missed (MCP
 * 2025-11-25, basic/transports, resumability): each event has an id, and is kept until the stream's turn to
 * be forgotten comes. Loop thread only. No input or output of its own.
 *
 * A stream is the answer to a POST or to a GET; its events are "STREAM-NUMBER" within its session. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"

/* What all sessions keep together, and where they are found to see what one principal's keep: the half. */
struct streams_budget {
    size_t max, bytes;
    struct list users;
};
void streams_budget_init(struct streams_budget *b, size_t max);

/* All streams of one session. What is kept of streams that have ended is bounded, the oldest goes first. */
struct streams;
struct streams *streams_new(struct streams_budget *b, const char *principal);
struct streams *streams_free(struct streams *s); /* every stream's reader was told or is gone; returns NULL */

struct stream;
/* NULL: the session has too many open ones. */
struct stream *stream_new(struct streams *s);
/* Keeps the event, and appends it to *ret as it goes out: "id: ...\ndata: ...\n\n". text NULL: no content, as
 * a stream's first event has, which only makes the id known. False: too much to keep, or out of memory; what
 * was appended is whole all the same. */
bool stream_add(struct stream *s, const struct buf *text, struct buf *ret);
/* No more events come. With `delivered` all went to the reader, so little of it is kept. */
void stream_end(struct stream *s, bool delivered);
bool stream_has_ended(const struct stream *s);

/* Who reads it now; NULL: nobody. */
void *stream_reader(const struct stream *s);
void stream_set_reader(struct stream *s, void *reader);

/* The stream of an event id, and in *ret_after the event's number. NULL: it is forgotten, or was never there.
 */
struct stream *streams_find(struct streams *s, const char *event_id, uint64_t *ret_after);
/* Appends the events after that number. False: some of them are not kept any more. */
bool stream_replay(const struct stream *s, uint64_t after, struct buf *ret);

/* An event without an id, for streams that can't be resumed. */
int event_append(struct buf *ret, const struct buf *text) _must_use_;
