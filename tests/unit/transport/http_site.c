#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "http_site.h"

const struct http_server_limits generous = {
    .connections = 4000,
    .body_bytes = 1 * MIB,
    .head_seconds = 600,
    .body_seconds = 600,
    .idle_seconds = 600,
    .write_seconds = 600,
    .queue_bytes = 1 * MIB,
    .unread_bytes = 256 * MIB,
};

/* -- The handler, on the loop's thread. */

static void tell(struct site *s, int *count, int by)
{
    pthread_mutex_lock(&s->lock);
    *count += by;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void append(struct buf *b, const char *text)
{
    int failed = buf_append_str(b, text);
    assert(!failed);
}

static void reply_text(struct http_request *r, int status, const char *text)
{
    struct buf b = BUF_INIT(BIG_BYTES);
    append(&b, text);
    http_reply(r, status, (struct http_header[]){{"Content-Type", "text/plain"}}, 1, &b);
    buf_done(&b);
}

static void begin(struct http_request *r)
{
    http_reply_begin(r, 200, (struct http_header[]){{"Content-Type", "text/event-stream"}}, 1);
}

static bool write_text(struct http_request *r, const char *text)
{
    struct buf b = BUF_INIT(BIG_BYTES);
    append(&b, text);
    bool taken = http_reply_write(r, &b);
    buf_done(&b);
    return taken;
}

static void on_head(void *ctx, struct http_request *r)
{
    struct site *s = ctx;
    if (strcmp(http_request_path(r), "/early") == 0)
        reply_text(r, 401, "early");
    if (strcmp(http_request_path(r), "/stream") == 0) {
        begin(r);
        write_text(r, "data: 1\n\n");
    }
    tell(s, &s->counts.heads, 1);
}

static void flood(struct site *s, struct http_request *r)
{
    char *piece = xmalloc(64 * KIB);
    memset(piece, 'x', 64 * KIB);
    piece[64 * KIB - 1] = '\0';
    begin(r);
    while (write_text(r, piece))
        continue;
    free(piece);
    pthread_mutex_lock(&s->lock);
    s->counts.overflowed = true;
    pthread_mutex_unlock(&s->lock);
}

static void big(struct http_request *r)
{
    struct buf b = BUF_INIT(BIG_BYTES);
    int failed = buf_reserve(&b, BIG_BYTES);
    assert(!failed);
    memset(b.data, 'x', BIG_BYTES);
    b.len = BIG_BYTES;
    http_reply(r, 200, NULL, 0, &b);
    buf_done(&b);
}

static void echo(struct http_request *r, const char *body, size_t n)
{
    struct buf b = BUF_INIT(BIG_BYTES);
    int count;
    const char *query = http_request_query(r), *x = http_request_header(r, "x-test", &count);
    int failed =
        buf_printf(&b, "%s %s %s %s%s uid=%d %s*%d %zu:", http_request_method(r), http_request_path(r),
                   query ? query : "-", http_request_peer(r), http_request_peer_is_loopback(r) ? "" : "!",
                   (int)http_request_peer_uid(r), x ? x : "-", count, n) < 0 ||
        buf_append(&b, body, n) < 0;
    assert(!failed);
    http_reply(r, 200, NULL, 0, &b);
    buf_done(&b);
}

static void on_request(void *ctx, struct http_request *r, const char *body, size_t n)
{
    struct site *s = ctx;
    const char *path = http_request_path(r);
    if (str_has_prefix(path, "/held")) {
        pthread_mutex_lock(&s->lock);
        assert(s->held_count < (int)ARRAY_LEN(s->held));
        s->held[s->held_count++] = r;
        pthread_mutex_unlock(&s->lock);
        tell(s, &s->counts.held, 1);
    } else if (strcmp(path, "/big") == 0) {
        big(r);
    } else if (strcmp(path, "/flood") == 0) {
        flood(s, r);
    } else {
        echo(r, body, n);
    }
    tell(s, &s->counts.requests, 1);
}

static void on_gone(void *ctx, struct http_request *r, bool sent)
{
    struct site *s = ctx;
    for (int i = 0; i < s->held_count; i++)
        if (s->held[i] == r)
            s->held[i] = s->held[--s->held_count];
    tell(s, &s->counts.sent, sent);
    tell(s, &s->counts.gone, 1);
}

/* -- The test's orders, done on the loop's thread. */

struct order {
    struct loop_post post;
    struct site *site;
    void (*run)(struct order *o);
    const char *text;
    struct http_server_counts counts;
    bool done;
};

static void run_order(void *arg)
{
    struct order *o = arg;
    o->run(o);
    pthread_mutex_lock(&o->site->lock);
    o->done = true;
    pthread_cond_broadcast(&o->site->changed);
    pthread_mutex_unlock(&o->site->lock);
}

static struct order give_order(struct site *s, void (*run)(struct order *o), const char *text)
{
    struct order o = {.site = s, .run = run, .text = text};
    o.post = (struct loop_post){.fn = run_order, .arg = &o};
    loop_post(s->loop, &o.post);
    pthread_mutex_lock(&s->lock);
    while (!o.done)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    return o;
}

static void do_stop_accepting(struct order *o)
{
    http_server_stop_accepting(o->site->server);
}

static void do_answer(struct order *o)
{
    struct site *s = o->site;
    for (int i = 0; i < s->held_count; i++)
        reply_text(s->held[i], 200, "late");
    s->held_count = 0;
}

static void do_write(struct order *o)
{
    struct site *s = o->site;
    for (int i = 0; i < s->held_count; i++) {
        if (!o->text[0])
            begin(s->held[i]);
        else
            write_text(s->held[i], o->text);
    }
}

static void do_end(struct order *o)
{
    struct site *s = o->site;
    for (int i = 0; i < s->held_count; i++)
        http_reply_end(s->held[i]);
}

static void do_count(struct order *o)
{
    o->counts = http_server_count(o->site->server);
}

static void do_stop(struct order *o)
{
    loop_stop(o->site->loop);
}

void site_stop_accepting(struct site *s)
{
    give_order(s, do_stop_accepting, NULL);
}

void site_answer(struct site *s)
{
    give_order(s, do_answer, NULL);
}

void site_write(struct site *s, const char *text)
{
    give_order(s, do_write, text);
}

void site_end(struct site *s)
{
    give_order(s, do_end, NULL);
}

struct http_server_counts site_server_counts(struct site *s)
{
    return give_order(s, do_count, NULL).counts;
}

struct site_counts site_counts(struct site *s)
{
    pthread_mutex_lock(&s->lock);
    struct site_counts counts = s->counts;
    pthread_mutex_unlock(&s->lock);
    return counts;
}

void site_wait(struct site *s, bool (*is)(const struct site_counts *c, int n), int n)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WATCHDOG_MS / 1000;
    int failed = 0;
    pthread_mutex_lock(&s->lock);
    while (!is(&s->counts, n) && !failed)
        failed = pthread_cond_timedwait(&s->changed, &s->lock, &until);
    pthread_mutex_unlock(&s->lock);
    if (failed)
        fail_msg("waited for %d in vain: %d heads, %d requests, %d held, %d gone", n, s->counts.heads,
                 s->counts.requests, s->counts.held, s->counts.gone);
}

bool gone_is(const struct site_counts *c, int n)
{
    return c->gone == n;
}

bool held_is(const struct site_counts *c, int n)
{
    return c->held == n;
}

bool heads_is(const struct site_counts *c, int n)
{
    return c->heads == n;
}

/* -- The server's thread. */

static void *serve(void *arg)
{
    struct site *s = arg;
    struct error err = ERROR_INIT;
    s->server = http_server_new(&(struct http_server_options){.loop = s->loop,
                                                              .listeners = s->listening.fds,
                                                              .listener_count = s->listening.count,
                                                              .limits = s->limits,
                                                              .on_head = on_head,
                                                              .on_request = on_request,
                                                              .on_gone = on_gone,
                                                              .ctx = s},
                                &err);
    if (!s->server) {
        fprintf(stderr, "%s\n", err.msg);
        abort();
    }
    listening_give(&s->listening);
    loop_run(s->loop);
    s->server = http_server_free(s->server);
    return NULL;
}

void site_start(struct site *s, const struct http_server_limits *limits)
{
    struct error err = ERROR_INIT;
    *s = (struct site){.limits = *limits};
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    snprintf(s->dir, sizeof(s->dir), "/tmp/http-XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    snprintf(s->path, sizeof(s->path), "%s/socket", s->dir);
    s->loop = loop_new(&err);
    assert_int_equal(listen_tcp(&s->listening, "127.0.0.1", 0, &err), 0);
    assert_int_equal(listen_unix(&s->listening, s->path, &err), 0);
    s->port = atoi(strrchr(s->listening.names[0], ':') + 1);
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

void site_stop(struct site *s)
{
    struct order stop = give_order(s, do_stop, NULL);
    (void)stop;
    pthread_join(s->thread, NULL);
    /* Whoever was heard of was heard of a last time. */
    assert_int_equal(s->counts.heads, s->counts.gone);
    listening_done(&s->listening);
    loop_free(s->loop);
    assert_int_equal(rmdir(s->dir), 0);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
}

/* -- Clients. */

static int connected(int fd, const void *address, size_t size)
{
    const struct timeval patience = {.tv_sec = WATCHDOG_MS / 1000};
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, address, (socklen_t)size), 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    return fd;
}

int dial(const struct site *s)
{
    const struct sockaddr_in a = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)s->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return connected(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), &a, sizeof(a));
}

int dial_unix(const struct site *s)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", s->path);
    return connected(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), &a, sizeof(a));
}

void say(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
        if (sent < 0 && (errno == EPIPE || errno == ECONNRESET))
            return;
        assert_true(sent > 0);
        bytes += sent;
        n -= (size_t)sent;
    }
}

void say_text(int fd, const char *text)
{
    say(fd, text, strlen(text));
}

/* False at the end. */
static bool hear_more(int fd, struct buf *b, size_t n)
{
    assert_int_equal(buf_reserve(b, n), 0);
    ssize_t got = recv(fd, b->data + b->len, n, 0);
    if (got < 0 && errno == EAGAIN)
        fail_msg("nothing came");
    if (got <= 0)
        return false;
    b->len += (size_t)got;
    return true;
}

static bool hear_line(int fd, struct buf *b)
{
    size_t before = b->len;
    while (b->len - before < 2 || memcmp(b->data + b->len - 2, "\r\n", 2) != 0)
        if (!hear_more(fd, b, 1))
            return false;
    return true;
}

static bool hear_exactly(int fd, struct buf *b, size_t n)
{
    for (size_t end = b->len + n; b->len < end;)
        if (!hear_more(fd, b, end - b->len))
            return false;
    return true;
}

static size_t number_after(const struct buf *b, const char *name, size_t otherwise)
{
    const char *at = strstr(buf_str(b), name);
    return at ? strtoul(at + strlen(name), NULL, 10) : otherwise;
}

static void hear_chunks(int fd, struct buf *b)
{
    size_t n;
    do {
        struct buf line = BUF_INIT(100);
        bool came = hear_line(fd, &line);
        n = strtoul(buf_str(&line), NULL, 16);
        buf_done(&line);
        if (!came || !hear_exactly(fd, b, n))
            return;
        struct buf end = BUF_INIT(2);
        hear_exactly(fd, &end, 2);
        buf_done(&end);
    } while (n > 0);
}

static struct buf hear_head_into(int fd)
{
    struct buf b = BUF_INIT(64 * MIB);
    while (hear_line(fd, &b))
        if (b.len >= 4 && memcmp(b.data + b.len - 4, "\r\n\r\n", 4) == 0)
            break;
    return b;
}

char *hear_head(int fd)
{
    struct buf b = hear_head_into(fd);
    return buf_steal(&b);
}

char *hear(int fd)
{
    struct buf b = hear_head_into(fd);
    if (strstr(buf_str(&b), "Transfer-Encoding: chunked"))
        hear_chunks(fd, &b);
    else if (status_of(buf_str(&b)) >= 200)
        hear_exactly(fd, &b, number_after(&b, "Content-Length: ", 0));
    return buf_steal(&b);
}

char *hear_to_end(int fd)
{
    struct buf b = BUF_INIT(64 * MIB);
    while (hear_more(fd, &b, 64 * KIB))
        continue;
    return buf_steal(&b);
}

bool is_closed(int fd)
{
    char *rest = hear_to_end(fd);
    bool closed = !rest[0];
    free(rest);
    return closed;
}

char *ask(const struct site *s, const char *request)
{
    _cleanup_fd_ int fd = dial(s);
    say_text(fd, request);
    return hear(fd);
}

int status_of(const char *answer)
{
    return str_has_prefix(answer, "HTTP/1.1 ") ? atoi(answer + 9) : 0;
}

const char *content_of(const char *answer)
{
    const char *at = strstr(answer, "\r\n\r\n");
    return at ? at + 4 : "";
}
