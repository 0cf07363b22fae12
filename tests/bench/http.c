/* Over HTTP: what it adds to stdio, what our protocol adds to the library below it, and many clients at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <signal.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/macros.h"
#include "base/mem.h"
#include "bench.h"
#include "measure.h"
#include "visitor.h"

#define TOOL "terminal_execute"
#define COMMAND_TRUE "{\"command\":\"true\",\"computer_id\":\"bench\"}"
#define CALL(arguments)                                                                                      \
    "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"" TOOL                   \
    "\",\"arguments\":" arguments "}}"
#define LIST "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}"
#define END_SECONDS 60.0
#define REQUESTS 20   /* of tools/list in a sample */
#define SESSIONS 1000 /* at once */
#define COMMANDS 3    /* of each */
#define STREAMS 10000
#define DESCRIPTORS_MORE 200 /* than there are streams */

/* -- Against stdio. */

static void measure_warm(struct bench *b)
{
    struct series http = {0}, stdio = {0};
    struct site site;
    struct visitor v = {0};
    struct subject s;
    _cleanup_(buf_done) struct buf request = BUF_INIT(MIB);
    site_start(&site, b);
    native_start(b, &(struct native){0}, &s);
    visitor_open(&v, site.port);
    visitor_initialize(&v);
    visitor_write(&v, CALL("{\"command\":\"true\"}"), &request);
    (void)visitor_ask(&v, &request);
    subject_do(&s, TOOL, COMMAND_TRUE);
    for (size_t i = 0; i < 2 * b->runs; i++) {
        series_add(&stdio, subject_call(&s, TOOL, COMMAND_TRUE, false));
        series_add(&http, visitor_ask(&v, &request));
        visitor_check_success(&v);
    }
    visitor_close(&v);
    (void)subject_end(&s, END_SECONDS);
    site_end(&site);
    figure_set_ratio(b, HTTP_WARM, series_median(&http), series_median(&stdio), http.count);
    series_done(&http);
    series_done(&stdio);
}

/* -- Against the library. */

/* One that answers every request with the same bytes from memory, once it has read its body. */
static enum MHD_Result answer_the_same(void *answer, struct MHD_Connection *c, const char *url,
                                       const char *method, const char *version, const char *bytes, size_t *n,
                                       void **seen)
{
    if (!*seen) {
        *seen = answer;
        return MHD_YES;
    }
    if (*n > 0) {
        *n = 0;
        return MHD_YES;
    }
    return MHD_queue_response(c, MHD_HTTP_OK, answer);
}

static _noreturn_ void serve_the_same(const struct buf *body, int port_fd)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct MHD_Response *answer =
        MHD_create_response_from_buffer(body->len, body->data, MHD_RESPMEM_PERSISTENT);
    (void)MHD_add_response_header(answer, "Content-Type", "application/json");
    struct MHD_Daemon *d = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, answer_the_same,
                                            answer, MHD_OPTION_END);
    const union MHD_DaemonInfo *info = d ? MHD_get_daemon_info(d, MHD_DAEMON_INFO_BIND_PORT) : NULL;
    int port = info ? info->port : 0;
    (void)!write(port_fd, &port, sizeof port);
    for (;;)
        (void)pause();
}

static pid_t start_floor(const struct buf *body, int *ret_port)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        die("pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0)
        serve_the_same(body, fds[1]);
    fd_close(fds[1]);
    if (pid < 0 || read(fds[0], ret_port, sizeof *ret_port) != sizeof *ret_port || *ret_port == 0)
        die("libmicrohttpd's server doesn't start");
    fd_close(fds[0]);
    return pid;
}

static void stop_child(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

/* Requests per second. */
static double rate(struct visitor *v, const struct buf *request)
{
    double ms = 0;
    for (int i = 0; i < REQUESTS; i++)
        ms += visitor_ask(v, request);
    return REQUESTS / (ms / 1000);
}

/* Else the kernel decides, once for each side, whether client and server share a processor; one that has gone
 * to sleep takes four times as long to answer. */
static void keep_to_one_processor(cpu_set_t *ret_before)
{
    cpu_set_t one;
    int first = 0;
    if (sched_getaffinity(0, sizeof *ret_before, ret_before) < 0)
        die("sched_getaffinity: %s", strerror(errno));
    while (!CPU_ISSET(first, ret_before))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    (void)sched_setaffinity(0, sizeof one, &one);
}

static void measure_rate(struct bench *b)
{
    cpu_set_t processors;
    struct series ours = {0}, theirs = {0};
    struct site site;
    struct visitor v = {0}, floor_v = {0};
    int port;
    _cleanup_(buf_done) struct buf request = BUF_INIT(MIB);
    keep_to_one_processor(&processors);
    site_start(&site, b);
    visitor_open(&v, site.port);
    visitor_initialize(&v);
    visitor_write(&v, LIST, &request);
    (void)visitor_ask(&v, &request);
    const char *body = strstr(v.in.data, "\r\n\r\n") + 4;
    const struct buf same = {.data = (char *)body, .len = strlen(body)};
    pid_t floor_pid = start_floor(&same, &port);
    visitor_open(&floor_v, port);
    for (size_t i = 0; i < 2 * b->runs; i++) {
        series_add(&theirs, rate(&floor_v, &request));
        series_add(&ours, rate(&v, &request));
    }
    visitor_close(&v);
    visitor_close(&floor_v);
    stop_child(floor_pid);
    site_end(&site);
    (void)sched_setaffinity(0, sizeof processors, &processors);
    figure_set_ratio(b, HTTP_RATE, series_median(&ours), series_median(&theirs), ours.count);
    series_done(&ours);
    series_done(&theirs);
}

/* -- Many sessions, each with a computer of its own. */

struct crowd {
    struct visitor visitors[SESSIONS];
    int done[SESSIONS]; /* commands */
    struct buf requests[SESSIONS];
    int epoll;
    struct series times;
};

static void send_command(struct crowd *c, size_t i)
{
    struct visitor *v = &c->visitors[i];
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = i};
    visitor_send(v, &c->requests[i]);
    /* One that was closed has left by itself. */
    if (epoll_ctl(c->epoll, EPOLL_CTL_ADD, v->fd, &e) < 0 && errno != EEXIST)
        die("epoll: %s", strerror(errno));
}

static void take_answer(struct crowd *c, size_t i, int *left)
{
    struct visitor *v = &c->visitors[i];
    if (!visitor_read(v))
        return;
    series_add(&c->times, (double)clock_now() / NSEC_PER_MSEC - v->since);
    visitor_check_success(v);
    (*left)--;
    if (++c->done[i] < COMMANDS)
        send_command(c, i);
    else
        (void)epoll_ctl(c->epoll, EPOLL_CTL_DEL, v->fd, NULL);
}

static void run_crowd(struct crowd *c)
{
    struct epoll_event events[64];
    int left = SESSIONS * COMMANDS;
    for (size_t i = 0; i < SESSIONS; i++)
        send_command(c, i);
    while (left > 0) {
        int n = epoll_wait(c->epoll, events, ARRAY_LEN(events), -1);
        for (int i = 0; i < n; i++)
            take_answer(c, events[i].data.u64, &left);
    }
}

static void allow_descriptors(rlim_t count)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= count)
        return;
    limit.rlim_cur = count;
    limit.rlim_max = limit.rlim_max > count ? limit.rlim_max : count;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        die("%d open files are needed: %s", (int)count, strerror(errno));
}

static void measure_sessions(struct bench *b)
{
    struct site site;
    struct crowd *c = xcalloc(1, sizeof *c);
    allow_descriptors(SESSIONS + DESCRIPTORS_MORE);
    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    site_start(&site, b);
    for (size_t i = 0; i < SESSIONS; i++) {
        visitor_open(&c->visitors[i], site.port);
        visitor_initialize(&c->visitors[i]);
        c->requests[i].max = MIB;
        visitor_write(&c->visitors[i], CALL("{\"command\":\"echo hello\"}"), &c->requests[i]);
    }
    run_crowd(c);
    figure_set(b, HTTP_SESSIONS_MEMORY, subject_memory_mib(&site.subject, "VmHWM"), 1);
    figure_set_ratio(b, HTTP_SESSIONS, series_percentile(&c->times, 99), series_median(&c->times),
                     c->times.count);
    for (size_t i = 0; i < SESSIONS; i++) {
        visitor_close(&c->visitors[i]);
        buf_done(&c->requests[i]);
    }
    site_end(&site);
    fd_close(c->epoll);
    series_done(&c->times);
    free(c);
}

/* -- Many streams. */

/* Tells when all are open, and keeps them until nobody reads what it tells. */
static _noreturn_ void keep_streams(int port, int told)
{
    struct visitor *visitors = xcalloc(STREAMS, sizeof *visitors);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < STREAMS; i++) {
        visitor_open(&visitors[i], port);
        visitor_initialize(&visitors[i]);
        visitor_listen(&visitors[i]);
        buf_done(&visitors[i].in);
    }
    (void)!write(told, "", 1);
    for (;;)
        (void)pause();
}

static void visit_once(int port)
{
    struct visitor v = {0};
    visitor_open(&v, port);
    visitor_initialize(&v);
    visitor_listen(&v);
    visitor_close(&v);
}

static void measure_streams(struct bench *b)
{
    struct site site;
    int fds[2];
    char byte;
    allow_descriptors(STREAMS + DESCRIPTORS_MORE);
    site_start(&site, b);
    visit_once(site.port);
    double before = subject_memory_mib(&site.subject, "VmRSS");
    if (pipe2(fds, O_CLOEXEC) < 0)
        die("pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0)
        keep_streams(site.port, fds[1]);
    fd_close(fds[1]);
    if (pid < 0 || read(fds[0], &byte, 1) != 1)
        die("the streams couldn't be opened");
    double after = subject_memory_mib(&site.subject, "VmRSS");
    figure_set(b, HTTP_STREAMS, (after - before) * 1024 / STREAMS, STREAMS);
    fd_close(fds[0]);
    stop_child(pid);
    site_end(&site);
}

void stage_http(struct bench *b)
{
    measure_warm(b);
    measure_rate(b);
    measure_sessions(b);
    stage_sweep(b);
    measure_streams(b);
}
