/* Many commands, one stream. Each caller of link_exec() has a run: its frames, to be sent, and what has come
 * for it. One of the callers that wait, the pump, reads and writes for all; when it leaves, it passes that
 * on. No lock is held while anything is waited for.
 *
 *   run:  QUEUED --its frame is sent--> SENT --END, or the stream's end--> over
 *         a run that has to stop early before any byte of it was sent is taken back; later, KILL is sent
 *         behind it, and END awaited
 *
 * A frame that was begun is sent to its end before anything else is, also when its run is over by then.
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

#include "backends/command.h"
#include "backends/engine/contact.h"
#include "backends/engine/frames.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/mem.h"

#define OPEN_TIMEOUT_NS (20 * NSEC_PER_SEC)
#define END_TIMEOUT_NS (15 * NSEC_PER_SEC) /* from KILL to END: more than the guest's own patience */
#define CHUNK_BYTES (64 * KIB)
#define READ_ROUNDS 64 /* before the limits are looked at again */

struct run {
    struct list node;
    uint32_t id;
    struct buf out;         /* its frames that aren't sent yet */
    size_t sent;            /* bytes of them that are */
    bool begun;             /* something of it was offered to the stream, which with TLS is as good as sent */
    size_t limit, received; /* bytes of output */
    struct buf parts[2][2]; /* stream, head or tail */
    struct serve_end end;
    bool over, ended, waits;
    struct cancel *event; /* a one-shot event: over, or it is the pump now */
};

struct link {
    atomic_int refs;
    struct http_stream *stream;
    struct frames frames;
    int wake; /* there is something to send */
    int (*on_silence)(void *ctx, struct error *err);
    void *ctx; /* of on_silence */

    pthread_mutex_t lock; /* of all that follows */
    struct list runs;
    struct run *pump;    /* who reads and writes; NULL: nobody waits */
    struct run *sending; /* whose frames are on their way; NULL: the last one is sent whole */
    struct run rest;     /* of one that left before its frames were sent whole */
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

static void take_output(struct run *r, const void *body, size_t size)
{
    struct serve_output head;
    if (size <= sizeof(head))
        return;
    memcpy(&head, body, sizeof(head));
    size_t n = size - sizeof(head);
    if (head.stream > 1 || head.part > 1 || n > r->limit - r->received)
        return;
    if (buf_append(&r->parts[head.stream][head.part], (const char *)body + sizeof(head), n) == 0)
        r->received += n;
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
    struct run *r = find_locked(l, frame->id);
    if (r && frame->type == SERVE_OUTPUT) {
        take_output(r, body, frame->size);
    } else if (r && frame->type == SERVE_END && frame->size == sizeof(r->end)) {
        memcpy(&r->end, body, sizeof(r->end));
        r->ended = true;
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

static void leave_locked(struct link *l, struct run *r)
{
    list_unlink(&r->node);
    if (l->sending == r) {
        l->rest.sent = r->sent;
        buf_move(&l->rest.out, &r->out);
        l->sending = &l->rest;
    }
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
    l->sending = &l->rest;
    if (l->has_ready)
        return error_set(err, ERR_UNAVAILABLE, "our program in the computer answers before it is asked");
    return await_flag(l, &l->has_ready, wait, err);
}

struct link *link_open(const struct link_options *o, const struct wait *wait, struct serve_ready *ret_ready,
                       int32_t *ret_pid, struct error *err)
{
    struct link *l = xcalloc(1, sizeof(*l));
    atomic_init(&l->refs, 1);
    l->stream = o->stream;
    l->on_silence = o->on_silence;
    l->ctx = o->ctx;
    l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    frames_init(&l->frames, o->multiplexed);
    pthread_mutex_init(&l->lock, NULL);
    list_init(&l->runs);
    l->rest.out.max = SERVE_RUN_MAX;
    l->next_id = 1;
    if (l->wake < 0) {
        error_errno(err, ERR_LIMIT, errno, "make an event");
        return link_unref(l);
    }
    if (greet(l, &o->config, wait, err) < 0)
        return link_unref(l);
    *ret_ready = l->ready;
    *ret_pid = l->hello.pid;
    return l;
}

/* Where nobody reads, what was read last may be old: it reads itself, in the pump's place. */
bool link_alive(struct link *l)
{
    struct run look = {0};
    list_init(&look.node);
    pthread_mutex_lock(&l->lock);
    bool reads = !l->pump && !l->dead;
    if (reads)
        l->pump = &look;
    pthread_mutex_unlock(&l->lock);
    if (reads)
        read_stream(l);
    pthread_mutex_lock(&l->lock);
    leave_locked(l, &look);
    bool alive = !l->dead;
    pthread_mutex_unlock(&l->lock);
    return alive;
}

void link_close(struct link *l)
{
    struct error why = ERROR_INIT;
    error_set(&why, ERR_GONE, "it was ended");
    die(l, &why);
    /* Whoever polls sees the end; the stream itself is freed with the link. */
    shutdown(http_stream_fd(l->stream), SHUT_RDWR);
    wake_pump(l);
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
    http_stream_free(l->stream);
    frames_done(&l->frames);
    buf_done(&l->rest.out);
    fd_close(l->wake);
    pthread_mutex_destroy(&l->lock);
    free(l);
    return NULL;
}

/* --- commands --- */

static int build_run(struct buf *out, uint32_t id, const struct exec_request *request, const char *shell,
                     struct error *err)
{
    struct serve_frame frame = {.type = SERVE_RUN, .id = id};
    struct serve_run head = {
        .stdin_bytes = (uint32_t)request->stdin_len,
        .output_limit = (uint32_t)request->output_limit,
        .spool_limit = LIMIT_SPOOL_BYTES,
        .flags = request->stdin_bytes ? SERVE_RUN_STDIN : 0,
    };
    _cleanup_(buf_done) struct buf body = BUF_INIT(GUEST_BODY_MAX);
    if (command_append(&body, request->cwd ? request->cwd : "", request, shell, &head.argc, err) < 0)
        return -1;
    for (char *const *env = request->env; env && *env; env++, head.envc++)
        if (command_append_text(&body, *env, strlen(*env), err) < 0)
            return -1;
    head.body_bytes = (uint32_t)body.len;
    if (command_needs_script(request)) {
        head.flags |= SERVE_RUN_SCRIPT;
        head.script_bytes = (uint32_t)request->command_len;
    }
    frame.size = (uint32_t)(sizeof(head) + head.body_bytes + head.stdin_bytes + head.script_bytes);
    if (buf_append(out, &frame, sizeof(frame)) < 0 || buf_append(out, &head, sizeof(head)) < 0 ||
        buf_append(out, body.data, body.len) < 0 ||
        (head.stdin_bytes && buf_append(out, request->stdin_bytes, request->stdin_len) < 0) ||
        (head.script_bytes && buf_append(out, request->command, request->command_len) < 0))
        return error_set(err, ERR_LIMIT, "the command with its input is larger than %u bytes", SERVE_RUN_MAX);
    return 0;
}

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

/* Told to stop. True if nothing of it ever reached the guest. */
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

/* Kills the command and waits until nothing of it is left. One that can't be killed so ends with all, unless
 * there is a reason for its silence, which is the error then. */
static void stop(struct link *l, struct run *r, struct error *err)
{
    const struct wait bounded = {.deadline = clock_now() + END_TIMEOUT_NS};
    if (take_back(l, r) || await_run(l, r, &bounded, NULL) == 0)
        return;
    if (!l->on_silence || l->on_silence(l->ctx, err) == 0)
        link_close(l);
}

/* Shown to a model and to people: nothing but a plain path. */
static bool is_plain_path(const char *path, size_t size)
{
    size_t n = strnlen(path, size);
    if (n == 0 || n == size || path[0] != '/')
        return false;
    for (size_t i = 0; i < n; i++)
        if (path[i] <= ' ' || path[i] > '~')
            return false;
    return true;
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void fill_stream(struct run *r, int n, struct exec_stream *ret)
{
    buf_move(&ret->head, &r->parts[n][0]);
    buf_move(&ret->tail, &r->parts[n][1]);
    const uint64_t kept = ret->head.len + ret->tail.len;
    const uint64_t told = r->ended ? at_most(r->end.total[n], INT64_MAX) : 0;
    ret->total = told > kept ? told : kept;
    ret->omitted = ret->total - kept;
    if (ret->omitted == 0 && ret->tail.len > 0) {
        if (buf_append(&ret->head, ret->tail.data, ret->tail.len) == 0)
            buf_clear(&ret->tail);
    }
    const char *path = r->end.spool_path[n];
    if (!r->ended || r->end.spooled[n] == 0 || ret->omitted == 0 ||
        !is_plain_path(path, sizeof(r->end.spool_path[n])))
        return;
    ret->path = xstrdup(path);
    ret->path_bytes = at_most(r->end.spooled[n], at_most(ret->total, LIMIT_SPOOL_BYTES));
}

static void fill_result(struct run *r, struct exec_result *ret)
{
    fill_stream(r, 0, &ret->out);
    fill_stream(r, 1, &ret->err);
    ret->oom_killed = r->ended && r->end.oom_kills > 0;
    if (!r->ended || r->end.killed)
        return;
    _Static_assert(GUEST_BACKGROUND_MAX == LIMIT_BACKGROUND_PIDS, "as many as a result lists");
    uint32_t count = r->end.exit.background_count;
    ret->background_count = count < LIMIT_BACKGROUND_PIDS ? count : LIMIT_BACKGROUND_PIDS;
    for (size_t n = 0; n < ret->background_count; n++)
        ret->background[n] = r->end.exit.background[n];
    ret->background_more = r->end.exit.background_more > 0;
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

int link_exec(struct link *l, const struct exec_request *request, const char *shell, struct exec_result *ret,
              struct guest_exit *ret_exit, struct error *err)
{
    struct run r = {.out = BUF_INIT(SERVE_RUN_MAX + 2 * sizeof(struct serve_frame)),
                    .limit = request->output_limit,
                    .event = cancel_new()};
    for (int n = 0; n < 4; n++)
        r.parts[n / 2][n % 2] = (struct buf)BUF_INIT(request->output_limit);
    pthread_mutex_lock(&l->lock);
    r.id = l->next_id++;
    pthread_mutex_unlock(&l->lock);
    int64_t began = clock_now();
    int failed = build_run(&r.out, r.id, request, shell, err);
    if (failed == 0 && (failed = begin_run(l, &r, &request->wait, err)) == 0) {
        failed = await_run(l, &r, &request->wait, err);
        if (failed < 0)
            stop(l, &r, err);
        pthread_mutex_lock(&l->lock);
        leave_locked(l, &r);
        if (failed == 0 && !r.ended) {
            failed = -1;
            if (err)
                *err = l->death;
        }
        pthread_mutex_unlock(&l->lock);
    }
    ret->duration_ns = clock_now() - began;
    fill_result(&r, ret);
    *ret_exit = r.end.exit;
    for (int n = 0; n < 4; n++)
        buf_done(&r.parts[n / 2][n % 2]);
    buf_done(&r.out);
    cancel_unref(r.event);
    return failed;
}
