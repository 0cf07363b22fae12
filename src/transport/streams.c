/* Kept events.
 *
 * A list of streams per session, those that have ended in the order of their ends; a list of events per
 * stream. While a stream is open its events are kept up to a limit, beyond which they can only be read live
 * (broken: what would be replayed has a gap, and a client must not be led to believe otherwise). A stream
 * that has ended stays for clients whose connection broke in its last moment, until newer ones need its room.
 *
 * The limits: of a session, of a principal and of the server. At one of the latter two a session forgets what
 * is its own, never another's. */
#include "transport/streams.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"

#define OPEN_MAX 1024                   /* streams that haven't ended, per session */
#define ENDED_MAX 32                    /* and those that have */
#define SESSION_KEPT_BYTES (72 * MIB)   /* of events, all streams: one result at its limit fits */
#define DELIVERED_KEPT_BYTES (64 * KIB) /* of a stream whose reader took everything */

struct event {
    struct list link; /* in stream->events */
    uint64_t number;
    size_t n;
    char text[]; /* as it went out */
};

struct stream {
    struct list link; /* in streams->all */
    struct streams *owner;
    uint64_t number;
    uint64_t next_event;
    struct list events;
    size_t bytes;
    bool broken; /* an event was not kept */
    bool ended;
    void *reader;
};

struct streams {
    struct streams_budget *budget;
    struct list link; /* in budget->users */
    struct list all;  /* of those that have ended, the first to end is the first */
    uint64_t next;
    size_t bytes;
    int open, ended;
    char principal[];
};

void streams_budget_init(struct streams_budget *b, size_t max)
{
    *b = (struct streams_budget){.max = max};
    list_init(&b->users);
}

struct streams *streams_new(struct streams_budget *b, const char *principal)
{
    size_t len = strlen(principal);
    struct streams *s = xcalloc(1, sizeof(*s) + len + 1);
    memcpy(s->principal, principal, len);
    list_init(&s->all);
    s->next = 1;
    s->budget = b;
    list_append(&b->users, &s->link);
    return s;
}

static void drop_events(struct stream *s)
{
    list_for_each (node, &s->events) {
        list_unlink(node);
        free(list_entry(node, struct event, link));
    }
    s->owner->bytes -= s->bytes;
    s->owner->budget->bytes -= s->bytes;
    s->bytes = 0;
}

static void stream_free(struct stream *s)
{
    drop_events(s);
    list_unlink(&s->link);
    if (s->ended)
        s->owner->ended--;
    else
        s->owner->open--;
    free(s);
}

struct streams *streams_free(struct streams *s)
{
    if (!s)
        return NULL;
    list_for_each (node, &s->all)
        stream_free(list_entry(node, struct stream, link));
    list_unlink(&s->link);
    free(s);
    return NULL;
}

struct stream *stream_new(struct streams *owner)
{
    if (owner->open >= OPEN_MAX)
        return NULL;
    struct stream *s = xcalloc(1, sizeof(*s));
    *s = (struct stream){.owner = owner, .number = owner->next++};
    list_init(&s->events);
    list_append(&owner->all, &s->link);
    owner->open++;
    return s;
}

/* Forgets of the ended streams that nobody reads the one that ended first. */
static bool forget_one(struct streams *s)
{
    list_for_each (node, &s->all) {
        struct stream *old = list_entry(node, struct stream, link);
        if (!old->ended || old->reader)
            continue;
        stream_free(old);
        return true;
    }
    return false;
}

static size_t kept_of_principal(struct streams *one)
{
    size_t sum = 0;
    list_for_each (node, &one->budget->users) {
        const struct streams *s = list_entry(node, struct streams, link);
        if (strcmp(s->principal, one->principal) == 0)
            sum += s->bytes;
    }
    return sum;
}

/* Principals are only told apart when one can be over the half. */
static bool fits(struct streams *s, size_t n)
{
    const struct streams_budget *b = s->budget;
    if (s->bytes + n > SESSION_KEPT_BYTES || b->bytes + n > b->max)
        return false;
    return b->bytes + n <= b->max / 2 || kept_of_principal(s) + n <= b->max / 2;
}

static void make_room(struct streams *s, size_t n)
{
    while ((s->ended > ENDED_MAX || !fits(s, n)) && forget_one(s))
        ;
}

static bool keep(struct stream *s, uint64_t number, const char *text, size_t n)
{
    if (s->broken)
        return false;
    make_room(s->owner, n);
    struct event *e = fits(s->owner, n) ? malloc(sizeof(*e) + n) : NULL;
    if (!e) {
        s->broken = true;
        drop_events(s);
        return false;
    }
    *e = (struct event){.number = number, .n = n};
    memcpy(e->text, text, n);
    list_append(&s->events, &e->link);
    s->bytes += n;
    s->owner->bytes += n;
    s->owner->budget->bytes += n;
    return true;
}

int event_append(struct buf *ret, const struct buf *text)
{
    return buf_append_str(ret, "event: message\ndata: ") < 0 || buf_append(ret, text->data, text->len) < 0 ||
                   buf_append_str(ret, "\n\n") < 0
               ? -1
               : 0;
}

bool stream_add(struct stream *s, const struct buf *text, struct buf *ret)
{
    uint64_t number = s->next_event++;
    size_t before = ret->len;
    int r = buf_printf(ret, "id: %" PRIu64 "-%" PRIu64 "\n", s->number, number);
    if (r == 0)
        r = text ? event_append(ret, text) : buf_append_str(ret, "data: \n\n");
    if (r < 0) {
        ret->len = before;
        s->broken = true;
        drop_events(s);
        return false;
    }
    return keep(s, number, ret->data + before, ret->len - before);
}

void stream_end(struct stream *s, bool delivered)
{
    struct streams *owner = s->owner;
    if (!s->ended) {
        s->ended = true;
        owner->open--;
        owner->ended++;
        list_unlink(&s->link);
        list_append(&owner->all, &s->link);
    }
    if (delivered && s->bytes > DELIVERED_KEPT_BYTES) {
        s->broken = true;
        drop_events(s);
    }
    make_room(owner, 0);
}

bool stream_has_ended(const struct stream *s)
{
    return s->ended;
}

void *stream_reader(const struct stream *s)
{
    return s->reader;
}

void stream_set_reader(struct stream *s, void *reader)
{
    s->reader = reader;
}

static bool parse_id(const char *id, uint64_t *ret_stream, uint64_t *ret_event)
{
    char *end = NULL;
    if (*id < '0' || *id > '9')
        return false;
    *ret_stream = strtoull(id, &end, 10);
    if (*end != '-' || end[1] < '0' || end[1] > '9')
        return false;
    *ret_event = strtoull(end + 1, &end, 10);
    return *end == '\0';
}

struct stream *streams_find(struct streams *owner, const char *event_id, uint64_t *ret_after)
{
    uint64_t number, event;
    if (!parse_id(event_id, &number, &event))
        return NULL;
    list_for_each (node, &owner->all) {
        struct stream *s = list_entry(node, struct stream, link);
        if (s->number != number)
            continue;
        *ret_after = event;
        return event < s->next_event ? s : NULL;
    }
    return NULL;
}

bool stream_replay(const struct stream *s, uint64_t after, struct buf *ret)
{
    if (s->broken && after + 1 < s->next_event)
        return false;
    list_for_each (node, &s->events) {
        const struct event *e = list_entry(node, struct event, link);
        if (e->number > after && buf_append(ret, e->text, e->n) < 0)
            return false;
    }
    return true;
}
