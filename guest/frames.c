/* Out: a ring of bytes. Output is the only thing that can fill it; a last part of it is left to answers, so
 * that a server which doesn't read for a while can still end commands. In: one frame at a time; its body is
 * read into memory of its own, which a command may keep. */
#include "guest/frames.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "guest/memory.h"
#include "guest/request.h"
#include "guest/sys.h"

#define QUEUE_SIZE (1U << 20)
#define QUEUE_FOR_ANSWERS (128U << 10)

static struct {
    char *bytes; /* NULL: closed */
    size_t start, used;
    bool urgent;
} queue;

static struct {
    struct frame frame;
    size_t have; /* of header and body */
} input;

static bool more_follows;

static struct {
    char *bytes; /* NULL: none, or all were read */
    size_t size, at;
} early;

static void let_go_of_early(void)
{
    early.bytes = memory_give(early.bytes, early.size);
}

int frames_open(bool more, void *early_bytes, size_t early_size)
{
    more_follows = more;
    early.bytes = early_bytes;
    early.size = early_size;
    queue.bytes = memory_take(QUEUE_SIZE);
    return queue.bytes ? 0 : -1;
}

void frames_close(void)
{
    if (!queue.bytes)
        return;
    queue.bytes = memory_give(queue.bytes, QUEUE_SIZE);
    queue.used = 0;
    let_go_of_early();
    frames_next();
    close(FD_FRAMES_IN);
    close(FD_FRAMES_OUT);
}

/* --- in --- */

bool frames_ahead(void)
{
    return early.bytes != NULL;
}

static int read_early(void *into, size_t size)
{
    const size_t left = early.size - early.at, n = size < left ? size : left;
    memcpy(into, early.bytes + early.at, n);
    early.at += n;
    input.have += n;
    if (early.at == early.size)
        let_go_of_early();
    return 1;
}

/* 1: something came, or may now; 0: nothing now; -1: the end. */
static int read_some(void *into, size_t size)
{
    if (early.bytes)
        return read_early(into, size);
    ssize_t n = read(FD_FRAMES_IN, into, size);
    if (n == 0 && more_follows) {
        more_follows = false;
        return sys_move_fd(FD_FRAMES_MORE, FD_FRAMES_IN) < 0 ? -1 : 1;
    }
    if (n > 0)
        input.have += (size_t)n;
    else if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    return n > 0 ? 1 : -1;
}

/* A body for which there is no memory is read all the same, into nowhere. */
static int read_body(void)
{
    static char nowhere[4096];
    const struct frame *frame = &input.frame;
    size_t at = input.have - sizeof(frame->head), left = frame->head.size - at;
    if (frame->body)
        return read_some((char *)frame->body + at, left);
    return read_some(nowhere, left < sizeof(nowhere) ? left : sizeof(nowhere));
}

int frames_read(struct frame **ret)
{
    struct frame *frame = &input.frame;
    const size_t head_size = sizeof(frame->head);
    int came = 1;
    while (came == 1) {
        if (input.have >= head_size && input.have - head_size == frame->head.size) {
            *ret = frame;
            return 1;
        }
        if (input.have >= head_size) {
            came = read_body();
            continue;
        }
        came = read_some((char *)&frame->head + input.have, head_size - input.have);
        if (came < 1 || input.have < head_size)
            continue;
        if (!request_frame_ok(&frame->head))
            return -1;
        frame->body = frame->head.size > 0 ? memory_take(frame->head.size) : NULL;
    }
    return came;
}

void frames_next(void)
{
    memory_give(input.frame.body, input.frame.head.size);
    memset(&input, 0, sizeof(input));
}

/* --- out --- */

size_t frames_room(void)
{
    const size_t kept = QUEUE_FOR_ANSWERS + sizeof(struct serve_frame) + sizeof(struct serve_output);
    size_t room = QUEUE_SIZE - queue.used;
    return room > kept ? room - kept : 0;
}

bool frames_can_answer(void)
{
    return QUEUE_SIZE - queue.used >= FRAMES_ANSWER_MAX;
}

static void append(const void *bytes, size_t n)
{
    if (n == 0)
        return;
    size_t end = (queue.start + queue.used) % QUEUE_SIZE;
    size_t first = n < QUEUE_SIZE - end ? n : QUEUE_SIZE - end;
    memcpy(queue.bytes + end, bytes, first);
    memcpy(queue.bytes, (const char *)bytes + first, n - first);
    queue.used += n;
}

bool frames_put(uint32_t type, uint32_t id, const void *head, size_t head_size, const void *bytes, size_t n)
{
    const struct serve_frame frame = {.size = (uint32_t)(head_size + n), .type = type, .id = id};
    if (!queue.bytes)
        return true;
    if (QUEUE_SIZE - queue.used < sizeof(frame) + frame.size)
        return false;
    queue.urgent |= type != SERVE_HELLO && type != SERVE_READY;
    append(&frame, sizeof(frame));
    append(head, head_size);
    append(bytes, n);
    return true;
}

bool frames_put_end(uint32_t id, const struct serve_end *end)
{
    size_t size = sizeof(*end);
    while (size > SERVE_END_LEAST && ((const char *)end)[size - 1] == 0)
        size--;
    return frames_put(SERVE_END, id, end, size, NULL, 0);
}

bool frames_pending(void)
{
    return queue.used > 0;
}

bool frames_urgent(void)
{
    return queue.urgent;
}

int frames_flush(void)
{
    while (queue.used > 0) {
        size_t first = queue.used < QUEUE_SIZE - queue.start ? queue.used : QUEUE_SIZE - queue.start;
        const struct iovec pieces[] = {{queue.bytes + queue.start, first}, {queue.bytes, queue.used - first}};
        ssize_t n = writev(FD_FRAMES_OUT, pieces, 2);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : -1;
        queue.used -= (size_t)n;
        queue.start = queue.used ? (queue.start + (size_t)n) % QUEUE_SIZE : 0; /* few pages are touched */
    }
    return 0;
}
