/* One output of one command: a stream of the router's that begins where the one before it broke off.
 *
 *     OPEN -> (a piece, a piece, ...) -> ENDED
 *       |  <- again from the offset <- it failed in a way that may pass
 */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "backends/modal/route.h"
#include "base/clock.h"
#include "base/mem.h"

#define FAILURES_MAX 8 /* one after the other */

struct modal_output {
    struct modal_router *router;
    char exec_id[MODAL_UUID_SIZE];
    int descriptor;
    uint64_t offset;          /* of what the router is asked for next */
    Modal__ExecOutput *piece; /* what was read last, from `at` on */
    size_t at;
    bool ended;
    struct modal_retry retry;
    bool renewed;
    bool early;               /* the stream may have come before the command's start */
    struct modal_route route; /* of the stream */
    struct cancel *cut;
    pthread_mutex_t lock; /* of the pointer to the stream, while others may cut it */
    struct grpc_stream *stream;
};

/* --- the stream --- */

/* close: grpc_close(), or grpc_leave() */
static void end_stream(struct modal_output *o, struct grpc_stream *(*close)(struct grpc_stream *))
{
    pthread_mutex_lock(&o->lock);
    struct grpc_stream *s = TAKE_PTR(o->stream);
    pthread_mutex_unlock(&o->lock);
    close(s);
    modal_route_done(&o->route);
}

static int open_stream(struct modal_output *o, const struct wait *wait, struct error *err)
{
    Modal__ExecRead read = MODAL__EXEC_READ__INIT;
    _cleanup_(buf_done) struct buf message = BUF_INIT(KIB);
    read.task = o->router->task;
    read.exec = o->exec_id;
    read.offset = o->offset;
    read.descriptor = o->descriptor;
    if (modal_pack(MODAL_MESSAGE(&read), &message, err) < 0 || pace_take_turn(o->router->pace, wait, err) < 0)
        return -1;
    modal_route_of(o->router, &o->route);
    const struct http_header header = {"authorization", o->route.authorization};
    const struct grpc_request request = {.path = MODAL_ROUTER "TaskExecStdioRead",
                                         .headers = &header,
                                         .header_count = 1,
                                         .message = message.data,
                                         .size = message.len};
    struct grpc_stream *s = grpc_open(o->route.channel, &request, wait, err);
    pthread_mutex_lock(&o->lock);
    o->stream = s;
    pthread_mutex_unlock(&o->lock);
    if (s)
        return 0;
    modal_route_done(&o->route);
    return -1;
}

struct modal_output *modal_output_open(struct modal_router *r, const char *exec_id, int fd,
                                       const struct wait *wait, struct error *err)
{
    struct modal_output *o = xcalloc(1, sizeof(*o));
    o->router = r;
    snprintf(o->exec_id, sizeof(o->exec_id), "%s", exec_id);
    o->descriptor = fd == 2;
    o->retry.most = FAILURES_MAX;
    o->cut = cancel_new();
    pthread_mutex_init(&o->lock, NULL);
    return open_stream(o, wait, err) < 0 ? modal_output_close(o) : o;
}

struct modal_output *modal_output_open_early(struct modal_router *r, const char *exec_id,
                                             const struct wait *wait)
{
    struct modal_output *o = modal_output_open(r, exec_id, 1, wait, NULL);
    if (o)
        o->early = true;
    return o;
}

void modal_output_cut(struct modal_output *o)
{
    cancel_fire(o->cut, ERR_GONE);
    pthread_mutex_lock(&o->lock);
    if (o->stream)
        grpc_cut(o->stream);
    pthread_mutex_unlock(&o->lock);
}

static struct modal_output *dismiss(struct modal_output *o,
                                    struct grpc_stream *(*close)(struct grpc_stream *))
{
    if (!o)
        return NULL;
    end_stream(o, close);
    modal_free(o->piece);
    cancel_unref(o->cut);
    pthread_mutex_destroy(&o->lock);
    free(o);
    return NULL;
}

struct modal_output *modal_output_close(struct modal_output *o)
{
    return dismiss(o, grpc_close);
}

struct modal_output *modal_output_leave(struct modal_output *o)
{
    return dismiss(o, grpc_leave);
}

/* --- reading --- */

/* Who cuts it doesn't wait for that. -1: the wait is over. */
static int pause_before_next(struct modal_output *o, const struct wait *wait, struct error *err)
{
    const struct wait bounded = wait_at_most(wait, clock_now() + o->retry.pause_ns);
    struct error why = ERROR_INIT;
    if (wait_fd(cancel_fd(o->cut), POLLIN, &bounded, NULL, &why) == 0 || wait_was_over(&why))
        return wait_check(wait, err);
    return error_set(err, why.code, "%s", why.msg);
}

/* The stream failed: 0, another may be opened. */
static int recover(struct modal_output *o, struct grpc_status *status, const struct error *why,
                   const struct wait *wait, struct error *err)
{
    struct modal_router *r = o->router;
    const bool too_early = o->early && status->code == GRPC_NOT_FOUND;
    o->early = false;
    if (too_early)
        return 0;
    if (status->code == GRPC_UNAUTHENTICATED && !o->renewed) {
        o->renewed = true;
        return modal_route_renew(r, &o->route, wait, err);
    }
    if (modal_retry_helps(r->pace, &o->retry, status, why, wait))
        return pause_before_next(o, wait, err);
    return modal_told(r->account, "Modal's command router", status, why, err);
}

static int take_piece(struct modal_output *o, const struct buf *message, struct error *err)
{
    o->piece = modal_unpack(&modal__exec_output__descriptor, buf_str(message), message->len, err);
    if (!o->piece)
        return -1;
    o->at = 0;
    o->offset += o->piece->data.len;
    o->retry.failures = 0;
    o->renewed = o->early = false;
    pace_succeeded(o->router->pace);
    return 0;
}

/* 0: there is a piece, or the end, or to be tried once more. */
static int next(struct modal_output *o, const struct wait *wait, struct error *err)
{
    struct error why = ERROR_INIT;
    _cleanup_(grpc_status_done) struct grpc_status status = GRPC_STATUS_INIT;
    _cleanup_(buf_done) struct buf message = BUF_INIT(GRPC_MESSAGE_MAX);
    if (!o->stream && open_stream(o, wait, err) < 0)
        return -1;
    const int more = grpc_next(o->stream, wait, &message, &status, &why);
    if (more > 0)
        return take_piece(o, &message, err);
    if (more == 0) {
        o->ended = true;
        return 0;
    }
    if (cancel_why(o->cut) != ERR_NONE || wait_was_over(&why))
        return error_set(err, why.code, "%s", why.msg);
    const int failed = recover(o, &status, &why, wait, err);
    end_stream(o, grpc_close);
    return failed;
}

ssize_t modal_output_read(struct modal_output *o, void *buf, size_t size, const struct wait *wait,
                          struct error *err)
{
    for (;;) {
        if (cancel_why(o->cut) != ERR_NONE)
            return error_set(err, ERR_GONE, "the command's output isn't read any more");
        if (o->piece && o->at < o->piece->data.len) {
            const size_t left = o->piece->data.len - o->at, n = left < size ? left : size;
            memcpy(buf, o->piece->data.data + o->at, n);
            o->at += n;
            return (ssize_t)n;
        }
        modal_free(TAKE_PTR(o->piece));
        if (o->ended)
            return 0;
        const int failed = next(o, wait, err);
        if (failed < 0 && cancel_why(o->cut) == ERR_NONE)
            return -1;
    }
}
