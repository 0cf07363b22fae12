/* Many commands, one stream. Each caller of link_exec() has a run: its frames, to be sent, and what has come
 * for it. One of the callers that wait, the pump, reads and writes for all; when it leaves, it passes that
 * on. No lock is held while anything is waited for.
 *
 *   run:  QUEUED --its frame is sent--> SENT --END, or the stream's end--> over
 *         a run that has to stop early before any byte of it was sent is taken back; later, KILL is sent
 *         behind it, and END awaited, though not for long
 *
 * A frame that was begun is sent to its end before anything else is, also when its run is over by then. What
 * a run leaves unsent, and what belongs to none, is in `rest`.
 *
 * Where nobody waits, the keeper takes the pump's place now and then: to renew the lease, and for a while
 * after a command was left that didn't answer its KILL. A guest of which nothing at all comes in that time,
 * though nothing is known to hinder it, is given up.
 *
 * What comes from the guest is hostile: ids that nobody has are dropped, more output than was asked for is
 * not kept, strings are cut, numbers are held to what they may be. */
#include "backends/engine/link.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/engine/contact.h"
#include "backends/engine/frames.h"
#include "backends/serve.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/mem.h"

#define OPEN_TIMEOUT_NS (20 * NSEC_PER_SEC)
#define END_PATIENCE_NS (3 * NSEC_PER_SEC / 2) /* from KILL to END, for who ran the command */
#define END_TIMEOUT_NS (15 * NSEC_PER_SEC)     /* for the keeper: more than the guest's own patience */
#define TEND_NS (100 * NSEC_PER_MSEC)          /* how often it looks, where something is awaited */
#define PINGS_EACH_LEASE 4
#define CHUNK_BYTES (64 * KIB)
#define READ_ROUNDS 64 /* before the limits are looked at again */
#define REST_MAX (2 * SERVE_RUN_MAX)

struct run {
    struct list node;
    uint32_t id;
    struct buf out; /* its frames that aren't sent yet */
    size_t sent;    /* bytes of them that are */
    bool begun;     /* something of it was offered to the stream, which with TLS is as good as sent */
    struct serve_answer answer;
    bool over, waits;
    struct cancel *event; /* a one-shot event: over, or it is the pump now */
};

struct link {
    atomic_int refs;
    struct http_stream *stream;
    struct frames frames;
    int wake; /* there is something to send */
    struct keeper *keeper;
    struct tended tended;
    int64_t ping_interval;
    int (*on_silence)(void *ctx, struct error *err);
    void *ctx; /* of on_silence */

    pthread_mutex_t lock; /* of all that follows */
    struct list runs;
    struct run *pump;    /* who reads and writes; NULL: nobody waits */
    struct run *sending; /* whose frames are on their way; NULL: the last one is sent whole */
    struct run rest;     /* frames of nobody that waits: those come first */
    int64_t ping_due;    /* DEADLINE_NONE: there is no lease */
    int64_t left_until;  /* a command was left: what comes of it is read until then */
    bool silent;         /* since that nothing has come, and nothing is known to hinder it */
    bool dead;
    struct error death;
    uint32_t next_id;

    bool has_hello, has_ready; /* while it is opened, by one thread */
    struct serve_hello hello;
    struct serve_ready ready;
};

/* --- what comes --- */

static void finish_locked(struct run *r)
{
    r->over = true;
    cancel_fire(r->event, ERR_BUSY);
}

static struct run *find_locked(struct link *l, uint32_t id)
{
    list_for_each (node, &l->runs) {
        struct run *r = list_entry(node, struct run, node);
        if (r->id == id && !r->over)
            return r;
    }
    return NULL;
}

static int on_frame(void *ctx, const struct serve_frame *frame, const void *body, struct error *err)
{
    struct link *l = ctx;
    if (frame->type == SERVE_HELLO && frame->size == sizeof(l->hello) && !l->has_hello) {
        memcpy(&l->hello, body, sizeof(l->hello));
        if (l->hello.magic != SERVE_MAGIC || l->hello.version != SERVE_VERSION)
            return error_set(err, ERR_UNAVAILABLE, "the computer's first process is of another version");
        l->has_hello = true;
        return 0;
    }
    if (frame->type == SERVE_READY && frame->size == sizeof(l->ready) && !l->has_ready) {
        memcpy(&l->ready, body, sizeof(l->ready));
        l->ready.error.text[GUEST_TEXT_MAX - 1] = '\0';
        l->ready.error.stage[sizeof(l->ready.error.stage) - 1] = '\0';
        l->has_ready = true;
        return 0;
    }
    pthread_mutex_lock(&l->lock);
    l->silent = false;
    struct run *r = find_locked(l, frame->id);
    if (r && frame->type == SERVE_OUTPUT) {
        serve_answer_output(&r->answer, body, frame->size);
    } else if (r && frame->type == SERVE_END && serve_answer_end(&r->answer, body, frame->size)) {
        finish_locked(r);
    }
    pthread_mutex_unlock(&l->lock);
    return 0;
}

/* The last words on standard error. The pump's, or of whoever opens the link. */
static void add_noise(const struct frames *f, struct error *err)
{
    _cleanup_(cleanup_free) char *words = contact_words(f->noise.data, f->noise.len);
    const struct error cause = *err;
    if (words[0])
        error_set(err, cause.code, "%s; it said: %s", cause.msg, words);
}

static void die(struct link *l, const struct error *why)
{
    pthread_mutex_lock(&l->lock);
    if (!l->dead) {
        l->dead = true;
        error_set(&l->death, ERR_GONE, "%s", why->msg);
    }
    list_for_each (node, &l->runs)
        finish_locked(list_entry(node, struct run, node));
    pthread_mutex_unlock(&l->lock);
}

/* Reads what is there. The pump's, or of whoever opens the link. True if there was anything. */
static bool read_stream(struct link *l)
{
    char chunk[CHUNK_BYTES];
    struct error why = ERROR_INIT;
    for (int i = 0; i < READ_ROUNDS; i++) {
        ssize_t n = http_stream_read(l->stream, chunk, sizeof(chunk));
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return i > 0;
        if (n < 0)
            error_errno(&why, ERR_GONE, errno, "the stream to the computer broke");
        else if (n == 0)
            error_set(&why, ERR_GONE, "its first process ended, or the engine did");
        else if (frames_feed(&l->frames, chunk, (size_t)n, on_frame, l, &why) == 0)
            continue;
        add_noise(&l->frames, &why);
        die(l, &why);
        return true;
    }
    return true;
}

/* --- what goes --- */

static struct run *next_to_send_locked(struct link *l)
{
    if (l->sending)
        return l->sending;
    if (l->rest.out.len > 0)
        return &l->rest;
    list_for_each (node, &l->runs) {
        struct run *r = list_entry(node, struct run, node);
        if (r->sent < r->out.len && !r->over)
            return r;
    }
    return NULL;
}

/* 1: there may be more to send; 0: there is nothing; -1 with errno. */
static int write_some_locked(struct link *l)
{
    struct run *r = l->dead ? NULL : next_to_send_locked(l);
    if (!r)
        return 0;
    r->begun = true;
    l->sending = r;
    ssize_t n = http_stream_write(l->stream, r->out.data + r->sent, r->out.len - r->sent);
    if (n < 0)
        return errno == EINTR ? 1 : -1;
    r->sent += (size_t)n;
    if (r->sent == r->out.len) {
        l->sending = NULL;
        r->sent = 0;
        buf_done(&r->out);
    }
    return 1;
}

/* True while there is more to send than the stream takes. */
static bool write_stream(struct link *l)
{
    int more;
    do {
        pthread_mutex_lock(&l->lock);
        more = write_some_locked(l);
        pthread_mutex_unlock(&l->lock);
    } while (more > 0);
    if (more == 0 || errno == EAGAIN)
        return more < 0;
    struct error why = ERROR_INIT;
    error_errno(&why, ERR_GONE, errno, "the stream to the computer broke");
    add_noise(&l->frames, &why);
    die(l, &why);
    return false;
}

static void wake_pump(struct link *l)
{
    const uint64_t one = 1;
    if (write(l->wake, &one, sizeof(one)) < 0)
        return; /* it is awake already */
}

/* One round of the pump: sends, waits for something, reads. -1: the limits were met. */
static int pump(struct link *l, const struct wait *wait, struct error *err)
{
    uint64_t ignored;
    bool full = write_stream(l);
    if (read_stream(l)) /* with TLS, bytes may be here that poll(2) doesn't know of */
        return wait_check(wait, err);
    struct pollfd p[] = {
        {.fd = http_stream_fd(l->stream), .events = (short)(full ? POLLIN | POLLOUT : POLLIN)},
        {.fd = l->wake, .events = POLLIN},
        {.fd = cancel_fd(wait->cancel), .events = POLLIN},
    };
    pthread_mutex_lock(&l->lock);
    bool idle = !l->dead && !(l->pump && l->pump->over);
    pthread_mutex_unlock(&l->lock);
    if (idle && poll(p, ARRAY_LEN(p), clock_poll_timeout(wait->deadline)) > 0) {
        if (p[1].revents && read(l->wake, &ignored, sizeof(ignored)) < 0)
            p[1].revents = 0;
        if (p[0].revents)
            read_stream(l);
    }
    return wait_check(wait, err);
}

/* --- whose turn it is --- */

static void become_pump_locked(struct link *l, struct run *r)
{
    r->waits = true;
    if (!l->pump)
        l->pump = r;
}

/* What is sent of one that leaves all the same: the rest of a frame, and the KILL of one that didn't answer.
 */
static void leave_frames_locked(struct link *l, struct run *r)
{
    struct run *rest = &l->rest;
    if (l->sending == r) {
        r->out.max = REST_MAX;
        if (rest->out.len > 0)
            (void)!buf_append(&r->out, rest->out.data, rest->out.len);
        rest->sent = r->sent;
        buf_move(&rest->out, &r->out);
        l->sending = rest;
    } else if (r->begun && !r->over && r->out.len > 0) {
        (void)!buf_append(&rest->out, r->out.data, r->out.len);
    }
}

static void leave_locked(struct link *l, struct run *r)
{
    list_unlink(&r->node);
    leave_frames_locked(l, r);
    if (l->pump != r)
        return;
    l->pump = NULL;
    list_for_each (node, &l->runs) {
        struct run *other = list_entry(node, struct run, node);
        if (!other->waits || other->over)
            continue;
        l->pump = other;
        cancel_fire(other->event, ERR_BUSY);
        return;
    }
}

/* --- where nobody waits --- */

static void close_for(struct link *l, const char *reason)
{
    struct error why = ERROR_INIT;
    error_set(&why, ERR_GONE, "%s", reason);
    die(l, &why);
    /* Whoever polls sees the end; the stream itself is freed with the link. */
    shutdown(http_stream_fd(l->stream), SHUT_RDWR);
    wake_pump(l);
}

/* In the pump's place: sends and reads what can be. False: somebody has that place. */
static bool look(struct link *l)
{
    struct run self = {0};
    list_init(&self.node);
    pthread_mutex_lock(&l->lock);
    const bool alone = !l->pump && !l->dead;
    if (alone)
        l->pump = &self;
    pthread_mutex_unlock(&l->lock);
    if (!alone)
        return false;
    write_stream(l);
    read_stream(l);
    pthread_mutex_lock(&l->lock);
    leave_locked(l, &self);
    pthread_mutex_unlock(&l->lock);
    return true;
}

/* One that couldn't be sent yet need not be followed by another. */
static void ping_locked(struct link *l, int64_t now)
{
    const struct serve_frame ping = {.type = SERVE_PING};
    l->ping_due = now + l->ping_interval;
    if (l->rest.out.len == 0)
        (void)!buf_append(&l->rest.out, &ping, sizeof(ping));
}

/* Never blocks. */
static int64_t tend(struct tended *tended, struct cancel *cancel)
{
    (void)cancel;
    struct link *l = CONTAINER_OF(tended, struct link, tended);
    const int64_t now = clock_now();
    pthread_mutex_lock(&l->lock);
    if (now >= l->ping_due)
        ping_locked(l, now);
    pthread_mutex_unlock(&l->lock);
    if (!look(l))
        wake_pump(l);
    pthread_mutex_lock(&l->lock);
    const bool awaits = l->left_until > now, dead = l->dead, given_up = l->silent && !awaits;
    const int64_t due = awaits || l->rest.out.len > 0 ? now + TEND_NS : l->ping_due;
    pthread_mutex_unlock(&l->lock);
    if (given_up)
        close_for(l, "it answered nothing any more");
    return dead || given_up ? DEADLINE_NONE : due;
}

/* The keeper is asked to come at that time. */
static int tend_at(struct link *l, int64_t due, struct error *err)
{
    if (keeper_ask(l->keeper, &l->tended, due) < 0)
        return error_set(err, ERR_LIMIT, "no thread is to be had that looks after computers");
    return 0;
}

/* --- opening and closing --- */

/* The link is the caller's alone yet. */
static int await_flag(struct link *l, const bool *flag, const struct wait *wait, struct error *err)
{
    const struct wait bounded = wait_at_most(wait, clock_now() + OPEN_TIMEOUT_NS);
    while (!*flag && !l->dead) {
        struct error why = ERROR_INIT;
        if (pump(l, &bounded, &why) == 0)
            continue;
        if (why.code == ERR_TIMEOUT && wait_check(wait, NULL) == 0)
            error_set(&why, ERR_UNAVAILABLE, "our program in the computer says nothing");
        add_noise(&l->frames, &why);
        return error_set(err, why.code, "%s", why.msg);
    }
    return *flag ? 0 : error_set(err, ERR_UNAVAILABLE, "%s", l->death.msg);
}

static int greet(struct link *l, const struct serve_config *config, const struct wait *wait,
                 struct error *err)
{
    const struct serve_frame frame = {.size = sizeof(*config), .type = SERVE_CONFIG};
    if (await_flag(l, &l->has_hello, wait, err) < 0)
        return -1;
    if (buf_append(&l->rest.out, &frame, sizeof(frame)) < 0 ||
        buf_append(&l->rest.out, config, sizeof(*config)) < 0)
        return error_set(err, ERR_LIMIT, "out of memory");
    if (l->has_ready)
        return error_set(err, ERR_UNAVAILABLE, "our program in the computer answers before it is asked");
    return await_flag(l, &l->has_ready, wait, err);
}

/* The guest knows its lease by now, and takes pings. */
static int begin_tending(struct link *l, uint32_t lease_s, struct error *err)
{
    l->ping_due = DEADLINE_NONE;
    keeper_add(l->keeper, &l->tended);
    if (lease_s == 0)
        return 0;
    l->ping_interval = lease_s * NSEC_PER_SEC / PINGS_EACH_LEASE;
    l->ping_due = clock_now() + l->ping_interval;
    return tend_at(l, l->ping_due, err);
}

struct link *link_open(const struct link_options *o, const struct wait *wait, struct serve_ready *ret_ready,
                       struct error *err)
{
    struct link *l = xcalloc(1, sizeof(*l));
    atomic_init(&l->refs, 1);
    l->stream = o->stream;
    l->on_silence = o->on_silence;
    l->ctx = o->ctx;
    l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    frames_init(&l->frames);
    pthread_mutex_init(&l->lock, NULL);
    list_init(&l->runs);
    l->rest.out.max = REST_MAX;
    l->next_id = 1;
    l->keeper = o->keeper;
    l->tended.tend = tend;
    list_init(&l->tended.node);
    if (l->wake < 0) {
        error_errno(err, ERR_LIMIT, errno, "make an event");
        return link_unref(l);
    }
    if (greet(l, &o->config, wait, err) < 0 || begin_tending(l, o->config.lease_s, err) < 0)
        return link_unref(l);
    *ret_ready = l->ready;
    return l;
}

/* Where nobody reads, what was read last may be old. */
bool link_alive(struct link *l)
{
    (void)look(l);
    pthread_mutex_lock(&l->lock);
    bool alive = !l->dead;
    pthread_mutex_unlock(&l->lock);
    return alive;
}

void link_close(struct link *l)
{
    close_for(l, "it was ended");
}

struct link *link_ref(struct link *l)
{
    atomic_fetch_add(&l->refs, 1);
    return l;
}

struct link *link_unref(struct link *l)
{
    if (!l || atomic_fetch_sub(&l->refs, 1) > 1)
        return NULL;
    keeper_remove(l->keeper, &l->tended);
    http_stream_free(l->stream);
    frames_done(&l->frames);
    buf_done(&l->rest.out);
    fd_close(l->wake);
    pthread_mutex_destroy(&l->lock);
    free(l);
    return NULL;
}

/* --- commands --- */

/* Until the run is over, or the limits are met. */
static int await_run(struct link *l, struct run *r, const struct wait *wait, struct error *err)
{
    for (;;) {
        pthread_mutex_lock(&l->lock);
        become_pump_locked(l, r);
        bool over = r->over, chosen = l->pump == r;
        pthread_mutex_unlock(&l->lock);
        if (over)
            return 0;
        if ((chosen ? pump(l, wait, err) : wait_fd(cancel_fd(r->event), POLLIN, wait, NULL, err)) < 0)
            return -1;
    }
}

/* Told to stop. True if nothing of it ever reached the guest, or it is over. */
static bool take_back(struct link *l, struct run *r)
{
    const struct serve_frame kill = {.type = SERVE_KILL, .id = r->id};
    pthread_mutex_lock(&l->lock);
    bool unsent = !r->begun || r->over;
    if (unsent)
        finish_locked(r);
    else if (buf_append(&r->out, &kill, sizeof(kill)) < 0)
        unsent = false;
    pthread_mutex_unlock(&l->lock);
    wake_pump(l);
    return unsent;
}

/* Kills the command and waits for its end. NULL: nothing of it is left. Else what is known of one that
 * doesn't answer, which is the keeper's from now on. */
static char *stop(struct link *l, struct run *r)
{
    struct error why = ERROR_INIT;
    const struct wait bounded = {.deadline = clock_now() + END_PATIENCE_NS};
    if (take_back(l, r) || await_run(l, r, &bounded, NULL) == 0)
        return NULL;
    const bool hindered = l->on_silence && l->on_silence(l->ctx, &why) < 0;
    pthread_mutex_lock(&l->lock);
    l->silent = !hindered;
    l->left_until = clock_now() + END_TIMEOUT_NS;
    pthread_mutex_unlock(&l->lock);
    tend_at(l, 0, NULL);
    return xasprintf("it isn't known whether the command has ended: %s",
                     hindered ? why.msg : "nothing in the computer answers");
}

/* What it takes to wait is there before anything is begun: who can't wait can't end a command either. */
static int begin_run(struct link *l, struct run *r, const struct wait *wait, struct error *err)
{
    if (cancel_fd(r->event) < 0 || (wait->cancel && cancel_fd(wait->cancel) < 0))
        return error_errno(err, ERR_LIMIT, errno, "no descriptor left to wait with");
    pthread_mutex_lock(&l->lock);
    bool dead = l->dead;
    if (dead && err)
        *err = l->death;
    if (!dead)
        list_append(&l->runs, &r->node);
    pthread_mutex_unlock(&l->lock);
    if (dead)
        return -1;
    wake_pump(l);
    return 0;
}

/* failed: what waiting for it came to. -1, too, if it is over because the stream has ended. */
static int end_run(struct link *l, struct run *r, int failed, struct error *err)
{
    pthread_mutex_lock(&l->lock);
    leave_locked(l, r);
    if (failed == 0 && !r->answer.ended) {
        failed = -1;
        if (err)
            *err = l->death;
    }
    pthread_mutex_unlock(&l->lock);
    return failed;
}

static uint32_t take_id(struct link *l)
{
    pthread_mutex_lock(&l->lock);
    uint32_t id = l->next_id++;
    pthread_mutex_unlock(&l->lock);
    return id;
}

int link_exec(struct link *l, const struct exec_request *request, const char *shell, struct exec_result *ret,
              struct guest_exit *ret_exit, struct error *err)
{
    struct run r = {.out = BUF_INIT(SERVE_RUN_MAX + 2 * sizeof(struct serve_frame)), .event = cancel_new()};
    serve_answer_init(&r.answer, request->output_limit);
    r.id = take_id(l);
    int64_t began = clock_now();
    char *unknown = NULL;
    int failed = serve_append_run(&r.out, r.id, request, shell, err);
    if (failed == 0 && (failed = begin_run(l, &r, &request->wait, err)) == 0) {
        failed = await_run(l, &r, &request->wait, err);
        if (failed < 0)
            unknown = stop(l, &r);
        failed = end_run(l, &r, failed, err);
    }
    ret->duration_ns = clock_now() - began;
    serve_answer_tell(&r.answer, ret);
    ret->note = unknown;
    *ret_exit = r.answer.end.exit;
    serve_answer_done(&r.answer);
    buf_done(&r.out);
    cancel_unref(r.event);
    return failed;
}

/* --- all of the computer --- */

static int judge_clear(const struct guest_exit *exit, struct error *err)
{
    if (exit->stage == GUEST_STAGE_RAN)
        return 0;
    return exit->sys == EPERM
               ? error_set(err, ERR_UNSUPPORTED, "its first process is another program's")
               : error_set(err, ERR_UNAVAILABLE, "processes of it don't end, though they were killed");
}

int link_clear(struct link *l, const struct wait *wait, struct error *err)
{
    struct run r = {.id = take_id(l), .out = BUF_INIT(sizeof(struct serve_frame)), .event = cancel_new()};
    const struct serve_frame clear = {.type = SERVE_CLEAR, .id = r.id};
    int failed = buf_append(&r.out, &clear, sizeof(clear)) < 0 ? error_set(err, ERR_LIMIT, "out of memory")
                                                               : begin_run(l, &r, wait, err);
    if (failed == 0)
        failed = end_run(l, &r, await_run(l, &r, wait, err), err);
    if (failed == 0)
        failed = judge_clear(&r.answer.end.exit, err);
    buf_done(&r.out);
    cancel_unref(r.event);
    return failed;
}
