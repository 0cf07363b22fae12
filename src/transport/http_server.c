/* The connections of an HTTP server, and libmicrohttpd's place in our loop.
 *
 * We accept, and hand the sockets over; libmicrohttpd has an epoll instance of its own with all that it waits
 * for, which the loop watches as one descriptor (run). It has no deadlines: each connection is in one phase,
 * and each phase has a list whose order is that of the deadlines, as all of a phase wait equally long.
 *
 * A connection that we have suspended is in no epoll set of libmicrohttpd's. A second instance,
 * `peers_epoll`, has the same descriptors, edge-triggered, for what it can't tell then: that the peer goes
 * away, or takes more of a stream. */
#include "transport/http_server.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "transport/http_peers.h"
#include "transport/http_private.h"

#define CONNECTION_BYTES (32 * KIB) /* a request's head, and the buffer for its body and its answer */
#define SPARE_CONNECTIONS 64        /* closed, but not cleaned up yet */
#define ACCEPTS_PER_TURN 64
#define EVENTS_PER_CALL 64
#define RETRY_ACCEPT_MS 1000 /* after the machine had no descriptor or memory for us */
#define LINGER_SECONDS 5.0
#define LAST_SECONDS 1.0
#define IDLE_RUNS 128 /* of libmicrohttpd at full speed, reading a large head, say; then ever slower */
#define IDLE_RUN_MAX_MS 50
#define SMALL_BYTES (64 * KIB) /* held for a reader, however much others hold */
#define TELL_SECONDS 60.0      /* between two lines of the log about answers that were not sent */

struct acceptor {
    struct http_server *server;
    int fd;
    struct loop_watch *watch;
};

struct http_server {
    struct http_server_options options;
    struct http_server_counts counts;
    struct MHD_Daemon *daemon;
    struct loop_watch *run_watch;
    struct loop_timer *run_timer;
    bool runs_soon; /* it has something to do that its epoll instance doesn't tell */
    uint64_t notes, idle_runs;

    int peers_epoll;
    struct loop_watch *peers_watch;

    struct acceptor *acceptors;
    size_t acceptor_count;
    struct loop_timer *retry_timer;
    bool paused; /* nothing is accepted at the moment */
    struct http_connection *arriving;

    struct http_peers *peers;
    struct list phases[HTTP_PHASE_COUNT]; /* all connections */
    struct loop_timer *due_timer;
    int64_t due; /* when that is to fire */
    bool stopping;

    size_t held;  /* bytes of answers */
    int64_t told; /* when the log may be told again that some were not sent */
};

const struct http_server_options *http_options(const struct http_server *s)
{
    return &s->options;
}

struct http_server_counts *http_counts(struct http_server *s)
{
    return &s->counts;
}

bool http_is_stopping(const struct http_server *s)
{
    return s->stopping;
}

void http_note(struct http_server *s)
{
    s->notes++;
}

static void tell_unsent(struct http_server *s, size_t n)
{
    int64_t now = clock_now();
    s->counts.refused_limit++;
    if (now < s->told)
        return;
    s->told = clock_deadline_after(TELL_SECONDS);
    log_warning(
        "An answer of %zu bytes was not sent, and its connection cut: %zu wait for slow readers already", n,
        s->held);
}

bool http_hold(struct http_connection *c, size_t n, size_t waiting)
{
    struct http_server *s = c->server;
    if (waiting > SMALL_BYTES && s->held + n > s->options.limits.unread_bytes) {
        tell_unsent(s, n);
        return false;
    }
    s->held += n;
    return true;
}

void http_release(struct http_connection *c, size_t n)
{
    c->server->held -= n;
}

struct http_server_counts http_server_count(const struct http_server *s)
{
    return s->counts;
}

/* -- Deadlines. */

static double phase_seconds(const struct http_server *s, enum http_phase phase)
{
    const struct http_server_limits *l = &s->options.limits;
    const double seconds[HTTP_PHASE_COUNT] = {
        [HTTP_PHASE_HEAD] = l->head_seconds,  [HTTP_PHASE_BODY] = l->body_seconds,
        [HTTP_PHASE_IDLE] = l->idle_seconds,  [HTTP_PHASE_WRITE] = l->write_seconds,
        [HTTP_PHASE_LINGER] = LINGER_SECONDS, [HTTP_PHASE_LAST] = LAST_SECONDS,
    };
    return seconds[phase];
}

static void set_accepting(struct http_server *s, bool on)
{
    s->paused = !on;
    for (size_t i = 0; i < s->acceptor_count; i++)
        loop_watch_set(s->acceptors[i].watch, on ? POLLIN : 0);
}

static void expect_by(struct http_server *s, int64_t deadline)
{
    if (deadline >= s->due)
        return;
    s->due = deadline;
    loop_timer_start(s->due_timer, clock_poll_timeout(deadline), 0);
}

static bool is_reading(enum http_phase phase)
{
    return phase == HTTP_PHASE_HEAD || phase == HTTP_PHASE_BODY || phase == HTTP_PHASE_IDLE;
}

static bool has_unread(const struct http_connection *c)
{
    int n = 0;
    return ioctl(c->fd, FIONREAD, &n) == 0 && n > 0;
}

void http_set_phase(struct http_connection *c, enum http_phase phase)
{
    struct http_server *s = c->server;
    if (c->phase == HTTP_PHASE_ENDED)
        return;
    if (c->hung_up && is_reading(phase))
        phase = has_unread(c) ? HTTP_PHASE_LAST : HTTP_PHASE_OVER;
    c->phase = phase;
    c->deadline = phase == HTTP_PHASE_NONE ? DEADLINE_NONE : clock_deadline_after(phase_seconds(s, phase));
    list_unlink(&c->due);
    list_append(&s->phases[phase], &c->due);
    expect_by(s, c->deadline);
    if (phase == HTTP_PHASE_IDLE && s->paused)
        set_accepting(s, true);
}

static struct http_connection *first_of(struct http_server *s, enum http_phase phase)
{
    struct list *head = &s->phases[phase];
    return list_empty(head) ? NULL : list_entry(head->next, struct http_connection, due);
}

static void connection_free(struct http_connection *c);

/* The last of a socket that was taken. */
static void end_taken(struct http_connection *c)
{
    int fd = c->fd;
    assert(c->is_taken);
    http_end_request(c->request);
    connection_free(c);
    fd_close(fd);
}

/* Who has begun a request is told. */
static void cut_late(struct http_connection *c)
{
    if (c->phase == HTTP_PHASE_HEAD || c->phase == HTTP_PHASE_BODY || c->phase == HTTP_PHASE_WRITE)
        c->server->counts.cut_slow++;
    if (c->request && (c->phase == HTTP_PHASE_HEAD || c->phase == HTTP_PHASE_BODY))
        http_answer_directly(c, 408);
    http_cut(c);
}

static void on_due(void *arg)
{
    struct http_server *s = arg;
    int64_t now = clock_now();
    s->due = DEADLINE_NONE;
    for (enum http_phase phase = HTTP_PHASE_HEAD; phase < HTTP_PHASE_COUNT; phase++) {
        struct http_connection *c = first_of(s, phase);
        for (; c && c->deadline <= now; c = first_of(s, phase)) {
            if (phase == HTTP_PHASE_ENDED)
                end_taken(c);
            else
                cut_late(c);
        }
        if (c)
            expect_by(s, c->deadline);
    }
}

/* -- Suspending and resuming. */

static void run_soon(struct http_server *s)
{
    if (!s->runs_soon)
        loop_timer_start(s->run_timer, 0, 0);
    s->runs_soon = true;
}

bool http_suspend(struct http_connection *c)
{
    if (c->lost || c->hung_up || c->server->stopping)
        return false;
    c->suspended = true;
    http_set_phase(c, HTTP_PHASE_NONE);
    mhd.suspend_connection(c->mhd);
    return true;
}

/* Edge-triggered: an event that is asked for again comes again if it is so. */
static int watch_peer(struct http_connection *c, int how, int fd, uint32_t events)
{
    struct epoll_event e = {.events = events | EPOLLRDHUP | EPOLLET, .data.ptr = c};
    return epoll_ctl(c->server->peers_epoll, how, fd, &e);
}

void http_await_room(struct http_connection *c)
{
    watch_peer(c, EPOLL_CTL_MOD, c->fd, EPOLLOUT);
}

/* MHD_USE_TURBO has it close its descriptor without shutdown(2), which would be felt by ours. */
bool http_take_socket(struct http_connection *c)
{
    _cleanup_fd_ int fd = fcntl(c->fd, F_DUPFD_CLOEXEC, 0);
    if (c->hung_up || fd < 0 || watch_peer(c, EPOLL_CTL_ADD, fd, 0) < 0)
        return false;
    watch_peer(c, EPOLL_CTL_DEL, c->fd, 0);
    c->fd = TAKE_FD(fd);
    c->is_taken = true;
    http_set_phase(c, HTTP_PHASE_NONE);
    return true;
}

void http_resume(struct http_connection *c)
{
    struct http_server *s = c->server;
    if (!c->suspended)
        return;
    mhd.resume_connection(c->mhd);
    c->suspended = false;
    run_soon(s);
}

/* libmicrohttpd sees the end of the connection at once, but for one that it doesn't look at: with a buffer
 * that is full of a chunk's extension, say. Then its own clock closes it, in a second. */
void http_cut(struct http_connection *c)
{
    c->lost = true;
    shutdown(c->fd, SHUT_RDWR);
    if (c->is_taken) {
        http_set_phase(c, HTTP_PHASE_ENDED);
        return;
    }
    http_set_phase(c, HTTP_PHASE_NONE);
    mhd.set_connection_option(c->mhd, MHD_CONNECTION_OPTION_TIMEOUT, 1U);
    http_resume(c);
}

/* -- Running libmicrohttpd. It wants to be run again at once if it has work left. While a peer's bytes fill
 * its buffer without making sense it always says so, hence the limit. */

static void run(struct http_server *s)
{
    uint64_t notes = s->notes, ms = 0;
    MHD_UNSIGNED_LONG_LONG timeout = 0;
    s->runs_soon = false;
    mhd.run(s->daemon);
    s->idle_runs = s->notes == notes ? s->idle_runs + 1 : 0;
    if (s->runs_soon)
        return;
    if (mhd.get_timeout(s->daemon, &timeout) != MHD_YES) {
        s->idle_runs = 0;
        return;
    }
    if (s->idle_runs > IDLE_RUNS)
        ms = s->idle_runs - IDLE_RUNS;
    if (ms > IDLE_RUN_MAX_MS)
        ms = IDLE_RUN_MAX_MS;
    loop_timer_start(s->run_timer, (int64_t)(timeout > ms ? timeout : ms), 0);
}

static void on_run_watch(void *arg, short revents)
{
    run(arg);
}

static void on_run_timer(void *arg)
{
    run(arg);
}

/* libmicrohttpd misses an end that comes together with the bytes before it. What it still reads of those
 * counts, for as long as LAST_SECONDS don't pass without any. */
static void hang_up(struct http_connection *c)
{
    c->hung_up = true;
    if (c->is_taken)
        http_set_phase(c, HTTP_PHASE_ENDED);
    else if (is_reading(c->phase))
        http_set_phase(c, c->phase);
    http_resume(c);
}

static void on_peer(void *arg, short revents)
{
    struct http_server *s = arg;
    struct epoll_event events[EVENTS_PER_CALL];
    int n;
    run(s);
    do {
        n = epoll_wait(s->peers_epoll, events, EVENTS_PER_CALL, 0);
        for (int i = 0; i < n; i++) {
            struct http_connection *c = events[i].data.ptr;
            if (events[i].events & ~EPOLLOUT)
                hang_up(c);
            else
                http_stream_flush(c->request);
        }
    } while (n == EVENTS_PER_CALL);
}

/* When libmicrohttpd 0.9.75 refuses a head, it sends the answer's own head twice. So we answer as soon as it
 * tells its log, and end our side of the connection; its own sending fails. It doesn't say which request it
 * is: the one whose head it has whole, and hasn't handed over. */
static void refuse_instead(struct http_server *s, unsigned status)
{
    static const enum http_phase phases[] = {HTTP_PHASE_HEAD, HTTP_PHASE_LAST, HTTP_PHASE_OVER};
    for (size_t i = 0; i < ARRAY_LEN(phases); i++) {
        list_for_each (node, &s->phases[phases[i]]) {
            struct http_connection *c = list_entry(node, struct http_connection, due);
            if (!c->request || c->request->state != HTTP_HEAD ||
                !mhd.get_connection_info(c->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE))
                continue;
            http_answer_directly(c, status);
            c->request->state = HTTP_REFUSED;
            return;
        }
    }
}

/* Some malformed requests it answers by itself, and tells only its log. */
static void on_library_log(void *arg, const char *format, va_list ap)
{
    struct http_server *s = arg;
    if (!str_has_prefix(format, "Error processing request (HTTP response code is %u"))
        return;
    unsigned status = va_arg(ap, unsigned);
    if (status == MHD_HTTP_BAD_REQUEST || status == MHD_HTTP_HTTP_VERSION_NOT_SUPPORTED)
        s->counts.refused_framing++;
    else
        s->counts.refused_limit++;
    refuse_instead(s, status);
}

/* -- Connections. */

static bool has_room(const struct http_server *s)
{
    return s->counts.connections < s->options.limits.connections;
}

static void connection_free(struct http_connection *c)
{
    struct http_server *s = c->server;
    assert(!c->request);
    watch_peer(c, EPOLL_CTL_DEL, c->fd, 0);
    http_peer_release(s->peers, c->peer);
    list_unlink(&c->due);
    free(c);
    s->counts.connections--;
    if (s->paused && has_room(s))
        set_accepting(s, true);
}

static void on_connection(void *arg, struct MHD_Connection *m, void **slot,
                          enum MHD_ConnectionNotificationCode what)
{
    struct http_server *s = arg;
    http_note(s);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        s->arriving->mhd = m;
        *slot = TAKE_PTR(s->arriving);
        return;
    }
    struct http_connection *c = TAKE_PTR(*slot);
    if (!c->is_taken)
        connection_free(c);
}

static struct http_connection *connection_new(struct http_server *s, int fd, const struct sockaddr_storage *a)
{
    char address[INET6_ADDRSTRLEN] = "unix";
    struct http_peer *peer = NULL;
    struct ucred credentials = {.uid = (uid_t)-1};
    socklen_t size = sizeof(credentials);
    bool is_loopback = true;
    if (a->ss_family == AF_UNIX) {
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0)
            return NULL;
    } else {
        peer = http_peer_take(s->peers, a, address, &is_loopback);
        if (!peer)
            return NULL;
    }
    struct http_connection *c = xcalloc(1, sizeof(*c) + strlen(address) + 1);
    *c = (struct http_connection){
        .server = s, .fd = fd, .uid = credentials.uid, .peer = peer, .is_loopback = is_loopback};
    memcpy(c->address, address, strlen(address));
    list_init(&c->due);
    http_set_phase(c, HTTP_PHASE_HEAD);
    s->counts.connections++;
    return c;
}

static void arrive(struct http_server *s, int fd, const struct sockaddr_storage *a, socklen_t size)
{
    struct http_connection *c = connection_new(s, fd, a);
    if (!c || watch_peer(c, EPOLL_CTL_ADD, fd, 0) < 0) {
        s->counts.refused_limit++;
        if (c)
            connection_free(c);
        fd_close(fd);
        return;
    }
    s->counts.accepted++;
    s->arriving = c;
    mhd.add_connection(s->daemon, fd, (const struct sockaddr *)a, size);
    run_soon(s);
    if (s->arriving) /* it had no memory for it, and has closed it */
        connection_free(TAKE_PTR(s->arriving));
}

/* Somebody waits, who comes before a connection that does nothing. Goes on when one closes, or begins to do
 * nothing. */
static void make_room(struct http_server *s)
{
    struct http_connection *idle = first_of(s, HTTP_PHASE_IDLE);
    if (idle)
        http_cut(idle);
    set_accepting(s, false);
}

static bool is_short_of_resources(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void on_acceptable(void *arg, short revents)
{
    struct acceptor *a = arg;
    struct http_server *s = a->server;
    if (!has_room(s))
        make_room(s);
    for (int i = 0; i < ACCEPTS_PER_TURN && has_room(s); i++) {
        struct sockaddr_storage address = {0};
        socklen_t size = sizeof(address);
        int fd = accept4(a->fd, (struct sockaddr *)&address, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            arrive(s, fd, &address, size);
        } else if (is_short_of_resources(errno)) {
            make_room(s);
            loop_timer_start(s->retry_timer, RETRY_ACCEPT_MS, 0);
            return;
        } else if (errno == EAGAIN) {
            return;
        }
    }
}

static void on_retry(void *arg)
{
    struct http_server *s = arg;
    if (s->paused && has_room(s))
        set_accepting(s, true);
}

/* -- The server. */

/* A peer that is gone without a word is found out by the kernel. Accepted sockets inherit this. */
static void set_keepalive(int fd, double write_seconds)
{
    const int on = 1, idle = 60, interval = 15, probes = 4;
    const unsigned timeout_ms = (unsigned)(write_seconds * 1000);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
}

static int start_library(struct http_server *s, struct error *err)
{
    if (mhd_load(err) < 0)
        return -1;
    s->daemon = mhd.start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_TURBO |
            MHD_USE_ERROR_LOG,
        0, NULL, NULL, http_on_part, s, MHD_OPTION_EXTERNAL_LOGGER, on_library_log, s,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)s->options.limits.connections + SPARE_CONNECTIONS, MHD_OPTION_URI_LOG_CALLBACK,
        http_on_line, s, MHD_OPTION_NOTIFY_COMPLETED, http_on_completed, s, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, s, MHD_OPTION_STRICT_FOR_CLIENT, mhd_is_opaque() ? 1 : 0, MHD_OPTION_END);
    if (!s->daemon)
        return error_set(err, ERR_UNAVAILABLE,
                         "libmicrohttpd can't be started; are there too many open files?");
    const union MHD_DaemonInfo *info = mhd.get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (!info || info->epoll_fd < 0)
        return error_set(err, ERR_UNAVAILABLE, "this libmicrohttpd was built without epoll(7)");
    s->run_watch = loop_watch_new(s->options.loop, info->epoll_fd, on_run_watch, s);
    if (!s->run_watch)
        return error_errno(err, ERR_INTERNAL, errno, "Can't watch libmicrohttpd's connections");
    loop_watch_set(s->run_watch, POLLIN);
    return 0;
}

static int start_peers_watch(struct http_server *s, struct error *err)
{
    s->peers_epoll = epoll_create1(EPOLL_CLOEXEC);
    if (s->peers_epoll >= 0)
        s->peers_watch = loop_watch_new(s->options.loop, s->peers_epoll, on_peer, s);
    if (!s->peers_watch)
        return error_errno(err, ERR_INTERNAL, errno, "Can't watch for peers that go away");
    loop_watch_set(s->peers_watch, POLLIN);
    return 0;
}

static int start_acceptors(struct http_server *s, struct error *err)
{
    for (size_t i = 0; i < s->acceptor_count; i++) {
        struct acceptor *a = &s->acceptors[i];
        set_keepalive(a->fd, s->options.limits.write_seconds);
        a->watch = loop_watch_new(s->options.loop, a->fd, on_acceptable, a);
        if (!a->watch)
            return error_errno(err, ERR_INTERNAL, errno, "Can't watch a listening socket");
        loop_watch_set(a->watch, POLLIN);
    }
    return 0;
}

struct http_server *http_server_new(const struct http_server_options *options, struct error *err)
{
    struct http_server *s = xcalloc(1, sizeof(*s));
    s->options = *options;
    s->options.listeners = NULL;
    s->peers_epoll = -1;
    s->due = DEADLINE_NONE;
    s->acceptor_count = options->listener_count;
    s->acceptors = xcalloc(s->acceptor_count + 1, sizeof(*s->acceptors));
    for (size_t i = 0; i < s->acceptor_count; i++)
        s->acceptors[i] = (struct acceptor){.server = s, .fd = options->listeners[i]};
    for (int phase = 0; phase < HTTP_PHASE_COUNT; phase++)
        list_init(&s->phases[phase]);
    s->peers = http_peers_new((size_t)options->limits.connections, options->limits.connections_per_peer);
    s->run_timer = loop_timer_new(options->loop, on_run_timer, s);
    s->due_timer = loop_timer_new(options->loop, on_due, s);
    s->retry_timer = loop_timer_new(options->loop, on_retry, s);
    if (start_library(s, err) < 0 || start_peers_watch(s, err) < 0 || start_acceptors(s, err) < 0)
        return http_server_free(s);
    return s;
}

void http_server_stop_accepting(struct http_server *s)
{
    for (size_t i = 0; i < s->acceptor_count; i++) {
        loop_watch_free(s->acceptors[i].watch);
        fd_close(s->acceptors[i].fd);
    }
    s->acceptor_count = 0;
}

struct http_server *http_server_free(struct http_server *s)
{
    if (!s)
        return NULL;
    s->stopping = true;
    http_server_stop_accepting(s);
    for (int phase = 0; phase < HTTP_PHASE_COUNT; phase++)
        list_for_each (node, &s->phases[phase])
            http_resume(list_entry(node, struct http_connection, due));
    loop_watch_free(s->run_watch);
    loop_watch_free(s->peers_watch);
    loop_timer_free(s->run_timer);
    if (s->daemon)
        mhd.stop_daemon(s->daemon);
    for (enum http_phase phase = HTTP_PHASE_NONE; phase < HTTP_PHASE_COUNT; phase++)
        while (first_of(s, phase))
            end_taken(first_of(s, phase));
    loop_timer_free(s->due_timer);
    loop_timer_free(s->retry_timer);
    fd_close(s->peers_epoll);
    http_peers_free(s->peers);
    free(s->acceptors);
    free(s);
    return NULL;
}
