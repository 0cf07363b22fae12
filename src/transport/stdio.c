/* Lines in, lines out.
 *
 * Input: whatever can be read is appended to `input`, whole lines are taken from its front, as long as the
 * session accepts them and the output queue has room (may_take). A line that grows beyond the limit is
 * refused as soon as that shows, then dropped as it comes in (`discarding`), so memory is bounded. proceed()
 * goes on from any of these states and decides whether reading goes on.
 *
 * Output: a queue, written when the kernel takes it; the loop never waits for the reader. While the queue is
 * empty, the watch only tells that the reader has gone.
 *
 * End: the end of input or a lost output is told once, from a timer, so never within a call of ours. After
 * the end of input calls may still end and be read, for a time that depends on who may have been there. A
 * client that closes our input waits for our end, and not for long. It has a socket (Node does) or a pipe;
 * but on a pipe there may as well be a shell's `printf ... | server`, whose call makes a computer first. A
 * file
 * (`server <file`) never was a client: then calls have the time that is theirs. */
#include "transport/stdio.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/channel.h"

#define READ_BYTES (64 * KIB)   /* at most, per turn of the loop */
#define WRITE_BYTES (256 * KIB) /* at most, per write */
#define JOINED_BYTES (64 * KIB)
#define LARGE_QUEUE_BYTES (4 * MIB)
#define WRITES_PER_TURN 4 /* then others get theirs */
#define LINGER_MS 400
#define LINGER_PIPE_MS 1200 /* of the 2 s that clients wait; the rest is for what has to be removed */
#define LINGER_LOOK_MS 100  /* a call that ends without an answer tells nobody */
#define KEEP_INPUT_BYTES (256 * KIB) /* a buffer that grew larger is freed when it is empty */

struct outgoing {
    struct list link;
    struct buf text;
    size_t sent; /* of the text and its line end */
    void (*on_written)(void *arg);
    void *arg;
};

struct stdio {
    struct loop *loop;
    struct session *session; /* NULL once it is being closed */
    struct channel in, out;
    struct loop_watch *in_watch, *out_watch;

    struct buf input; /* what is not a whole line yet, or could not be taken yet */
    size_t scanned;   /* of input: no line end is in there */
    bool discarding;  /* the rest of a line that was refused */
    bool eof;

    struct list queue; /* of struct outgoing */
    size_t queued_bytes;
    bool was_large;
    short hangup; /* LOOP_HANGUP while it is of use */
    bool failed;  /* the output is gone */
    bool lost;    /* and not because its reader went */

    struct loop_timer *end_timer; /* on_end is not called from within other calls */
    int64_t linger_ns;            /* DEADLINE_NONE: as long as it takes */
    int64_t linger_until;         /* set at the end of input */
    bool ended;
    void (*on_end)(void *ctx);
    void *ctx;
};

static void end(struct stdio *s)
{
    if (!s->ended)
        loop_timer_start(s->end_timer, 0, 0);
    s->ended = true;
}

/* After the end of input: calls still run, or replies still wait for the reader, and there is time left. */
static bool lingers(const struct stdio *s)
{
    return !s->ended && s->session && !s->failed && clock_now() < s->linger_until &&
           (!list_empty(&s->queue) || !session_is_idle(s->session));
}

static void on_end_timer(void *arg)
{
    struct stdio *s = arg;
    if (lingers(s)) {
        const int64_t look = clock_now() + LINGER_LOOK_MS * NSEC_PER_MSEC;
        loop_timer_start(s->end_timer, clock_poll_timeout(look < s->linger_until ? look : s->linger_until),
                         0);
        return;
    }
    s->ended = true;
    s->on_end(s->ctx);
}

static int64_t linger_time(int in)
{
    struct stat kind = {0};
    (void)!fstat(in, &kind);
    if (S_ISREG(kind.st_mode))
        return DEADLINE_NONE;
    if (S_ISFIFO(kind.st_mode))
        return LINGER_PIPE_MS * NSEC_PER_MSEC;
    return LINGER_MS * NSEC_PER_MSEC;
}

static void begin_to_linger(struct stdio *s)
{
    s->linger_until = s->linger_ns == DEADLINE_NONE ? DEADLINE_NONE : clock_now() + s->linger_ns;
}

/* Looks again whether there is anything to linger for. */
static void maybe_end(struct stdio *s)
{
    if (s->linger_until && !s->ended)
        loop_timer_start(s->end_timer, 0, 0);
}

/* -- Output. */

static struct outgoing *outgoing_free(struct stdio *s, struct outgoing *o)
{
    list_unlink(&o->link);
    s->queued_bytes -= sizeof(*o) + o->text.cap;
    buf_done(&o->text);
    free(o);
    return NULL;
}

/* The allocator keeps what was freed; after a result of many MiB that is too much for a process that idles.
 */
static void give_back_memory(struct stdio *s)
{
    if (s->was_large)
        malloc_trim(0);
    s->was_large = false;
}

/* why: errno of the write */
static void fail(struct stdio *s, int why)
{
    s->failed = true;
    s->lost = why != EPIPE && why != ECONNRESET;
    if (s->lost)
        log_error("Replies are lost: standard output can't be written: %s", strerror(why));
    else
        log_info("The output of the protocol is closed: %s", strerror(why));
    list_for_each (node, &s->queue)
        outgoing_free(s, list_entry(node, struct outgoing, link));
    loop_watch_set(s->out_watch, 0);
    end(s);
}

/* False with errno if nothing could be written. */
static bool write_some(struct stdio *s, struct outgoing *o)
{
    size_t rest = o->sent < o->text.len ? o->text.len - o->sent : 0;
    struct iovec parts[] = {{o->text.data + o->sent, rest}, {(char[]){'\n'}, 1}};
    bool whole = rest <= WRITE_BYTES;
    if (!whole)
        parts[0].iov_len = WRITE_BYTES;
    ssize_t n =
        rest > 0 ? channel_write(&s->out, parts, whole ? 2 : 1) : channel_write(&s->out, &parts[1], 1);
    if (n < 0)
        return false;
    o->sent += (size_t)n;
    return true;
}

static void flush(struct stdio *s)
{
    for (int i = 0; i < WRITES_PER_TURN && !list_empty(&s->queue); i++) {
        struct outgoing *o = list_entry(s->queue.next, struct outgoing, link);
        if (!write_some(s, o)) {
            if (errno == EAGAIN)
                break;
            fail(s, errno);
            return;
        }
        if (o->sent <= o->text.len)
            continue;
        void (*on_written)(void *arg) = o->on_written;
        void *arg = o->arg;
        outgoing_free(s, o);
        if (on_written)
            on_written(arg);
    }
    if (list_empty(&s->queue))
        give_back_memory(s);
    loop_watch_set(s->out_watch, (short)(list_empty(&s->queue) ? s->hangup : POLLOUT | s->hangup));
}

/* Behind what waits already, small messages share a buffer, and later a write. */
static bool join_last(struct stdio *s, const struct buf *message, void (*on_written)(void *arg), void *arg)
{
    if (list_empty(&s->queue))
        return false;
    struct outgoing *last = list_entry(s->queue.prev, struct outgoing, link);
    if (last->on_written || last->text.len + message->len > JOINED_BYTES)
        return false;
    size_t before = last->text.cap;
    if (buf_reserve(&last->text, message->len + 1) < 0 || buf_append_byte(&last->text, '\n') < 0 ||
        buf_append(&last->text, message->data, message->len) < 0)
        return false;
    last->on_written = on_written;
    last->arg = arg;
    s->queued_bytes += last->text.cap - before;
    return true;
}

static void enqueue(struct stdio *s, struct buf *message, void (*on_written)(void *arg), void *arg)
{
    struct outgoing *o = xcalloc(1, sizeof(*o));
    o->on_written = on_written;
    o->arg = arg;
    buf_move(&o->text, message);
    s->queued_bytes += sizeof(*o) + o->text.cap;
    list_append(&s->queue, &o->link);
}

/* A reply goes out at once if nothing is before it. Else on_writable has it, which alone makes room: the
 * input relies on that. */
static void send_message(void *ctx, struct buf *message, void (*on_written)(void *arg), void *arg)
{
    struct stdio *s = ctx;
    bool idle = list_empty(&s->queue);
    if (!s->failed && !join_last(s, message, on_written, arg))
        enqueue(s, message, on_written, arg);
    buf_done(message);
    s->was_large = s->was_large || s->queued_bytes > LARGE_QUEUE_BYTES;
    if (idle && !s->failed)
        flush(s);
    maybe_end(s);
}

static bool takes(void *ctx, size_t bytes)
{
    const struct stdio *s = ctx;
    return s->failed || bytes <= LIMIT_SMALL_ANSWER_BYTES || s->queued_bytes + bytes <= LIMIT_UNREAD_BYTES;
}

/* -- Input. */

static bool may_take(const struct stdio *s)
{
    return s->session && !s->ended && s->queued_bytes < LIMIT_SEND_QUEUE_BYTES && session_accepts(s->session);
}

static void refuse_long_line(struct stdio *s)
{
    struct error why = ERROR_INIT;
    error_set(&why, ERR_LIMIT, "a message is longer than %lu MiB", LIMIT_MESSAGE_BYTES / MIB);
    session_refuse(s->session, &why);
}

static void take_line(struct stdio *s, const char *line, size_t n)
{
    if (n > 0 && line[n - 1] == '\r')
        n--;
    size_t blank = 0;
    while (blank < n && (line[blank] == ' ' || line[blank] == '\t' || line[blank] == '\r'))
        blank++;
    if (blank == n)
        return;
    if (n > LIMIT_MESSAGE_BYTES)
        refuse_long_line(s);
    else
        session_receive(s->session, line, n);
}

/* Drops what has been taken, up to `taken`. */
static void drop_input(struct stdio *s, size_t taken)
{
    if (taken == s->input.len && s->input.cap > KEEP_INPUT_BYTES)
        buf_done(&s->input);
    else
        buf_consume(&s->input, taken);
    s->scanned = s->scanned > taken ? s->scanned - taken : 0;
}

static void take_lines(struct stdio *s)
{
    size_t start = 0;
    while (may_take(s) && s->scanned < s->input.len) {
        const char *data = s->input.data;
        const char *line_end = memchr(data + s->scanned, '\n', s->input.len - s->scanned);
        if (!line_end) {
            s->scanned = s->input.len;
            break;
        }
        size_t next = (size_t)(line_end - data) + 1;
        s->scanned = next;
        if (!s->discarding)
            take_line(s, data + start, next - 1 - start);
        s->discarding = false;
        start = next;
    }
    drop_input(s, start);
    if (may_take(s) && !s->discarding && s->input.len > LIMIT_MESSAGE_BYTES + 1) { /* one for the CR */
        refuse_long_line(s);
        s->discarding = true;
    }
    if (s->discarding && s->scanned == s->input.len)
        drop_input(s, s->input.len);
}

/* The last line needs no end. */
static void take_rest(struct stdio *s)
{
    if (!may_take(s))
        return;
    if (s->input.len > 0 && !s->discarding) {
        take_line(s, s->input.data, s->input.len);
        drop_input(s, s->input.len);
    }
    if (session_accepts(s->session) && !s->linger_until) {
        begin_to_linger(s);
        maybe_end(s);
    }
}

/* While nothing may be taken, a client that has gone is noticed all the same: what it left unread can't
 * matter to it any more. */
static void watch_input(struct stdio *s)
{
    loop_watch_set(s->in_watch, s->eof ? 0 : may_take(s) ? POLLIN : LOOP_HANGUP);
}

static void end_of_input(struct stdio *s)
{
    s->eof = true;
    begin_to_linger(s);
    loop_watch_set(s->in_watch, 0);
    maybe_end(s);
}

/* Goes on after input came, a long message was understood, or the output has room again. */
static void proceed(void *arg)
{
    struct stdio *s = arg;
    take_lines(s);
    if (s->eof)
        take_rest(s);
    watch_input(s);
}

static void on_readable(void *arg, short revents)
{
    struct stdio *s = arg;
    if (!may_take(s)) {
        if (revents & (POLLHUP | POLLERR | LOOP_HANGUP))
            end_of_input(s);
        else
            watch_input(s);
        return;
    }
    if (buf_reserve(&s->input, READ_BYTES) < 0) {
        log_error("Out of memory for input");
        end(s);
        return;
    }
    ssize_t n = channel_read(&s->in, s->input.data + s->input.len, READ_BYTES);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n > 0)
        s->input.len += (size_t)n;
    s->eof = n <= 0;
    proceed(s);
}

static void on_writable(void *arg, short revents)
{
    struct stdio *s = arg;
    if (s->failed)
        return;
    if (revents & (POLLERR | POLLHUP | LOOP_HANGUP)) {
        /* A socket whose peer merely stopped sending isn't closed: what counts is that nobody can read. */
        struct pollfd p = {.fd = s->out.fd, .events = POLLOUT};
        if (poll(&p, 1, 0) > 0 && (p.revents & (POLLERR | POLLHUP | POLLNVAL))) {
            fail(s, EPIPE);
            return;
        }
        s->hangup = 0;
    }
    flush(s);
    maybe_end(s);
    if (!s->failed && s->session)
        proceed(s);
}

/* -- Beginning and end. */

static void forget_session(void *ctx)
{
    struct stdio *s = ctx;
    s->session = NULL;
    loop_watch_set(s->in_watch, 0);
}

/* From here on a stray printf or a child's read goes where it does no harm. */
static int redirect(int in, int out, struct error *err)
{
    _cleanup_fd_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "Can't open /dev/null");
    if (dup2(null, in) < 0 || (dup2(STDERR_FILENO, out) < 0 && dup2(null, out) < 0))
        return error_errno(err, ERR_UNAVAILABLE, errno, "Can't redirect descriptors %d and %d", in, out);
    return 0;
}

struct stdio *stdio_new(struct loop *loop, struct protocol *protocol, int in, int out,
                        void (*on_end)(void *ctx), void *ctx, struct error *err)
{
    assert(loop_is_current(loop));
    struct stdio *s = xcalloc(1, sizeof(*s));
    *s = (struct stdio){.loop = loop, .in = CHANNEL_NONE, .out = CHANNEL_NONE, .on_end = on_end, .ctx = ctx};
    s->input.max = LIMIT_MESSAGE_BYTES + 2 * READ_BYTES;
    s->linger_ns = linger_time(in);
    list_init(&s->queue);
    if (channel_open(&s->in, in, O_RDONLY, err) < 0 || channel_open(&s->out, out, O_WRONLY, err) < 0 ||
        redirect(in, out, err) < 0)
        return stdio_free(s);
    s->end_timer = loop_timer_new(loop, on_end_timer, s);
    s->in_watch = loop_watch_new(loop, s->in.fd, on_readable, s);
    s->out_watch = loop_watch_new(loop, s->out.fd, on_writable, s);
    if (!s->in_watch || !s->out_watch) {
        error_errno(err, ERR_UNAVAILABLE, errno, "Can't wait for input or output");
        return stdio_free(s);
    }
    s->hangup = LOOP_HANGUP;
    s->session = session_new(
        protocol, "local",
        &(struct session_sink){.send = send_message, .takes = takes, .closed = forget_session, .ctx = s});
    session_on_resume(s->session, proceed, s);
    loop_watch_set(s->in_watch, POLLIN);
    loop_watch_set(s->out_watch, s->hangup);
    return s;
}

struct session *stdio_session(struct stdio *s)
{
    return s->session;
}

bool stdio_has_lost(const struct stdio *s)
{
    return s->lost;
}

struct stdio *stdio_free(struct stdio *s)
{
    if (!s)
        return NULL;
    assert(!s->session);
    loop_watch_free(s->in_watch);
    loop_watch_free(s->out_watch);
    loop_timer_free(s->end_timer);
    list_for_each (node, &s->queue)
        outgoing_free(s, list_entry(node, struct outgoing, link));
    channel_close(&s->in);
    channel_close(&s->out);
    buf_done(&s->input);
    free(s);
    return NULL;
}
