/* See visitor.h. Sockets block; an answer is whole by its Content-Length, or by its last chunk. */
#include "visitor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "measure.h"

#define ANSWER_BYTES (4 * MIB)
#define READ_BYTES (16 * KIB)
#define ANSWER_SECONDS 120
#define START_TRIES 6000
#define END_SECONDS 60.0
#define LAST_CHUNK "0\r\n\r\n"

static double now_ms(void)
{
    return (double)clock_now() / NSEC_PER_MSEC;
}

/* -- The server. */

void site_start(struct site *s, const struct bench *b)
{
    static const char told[] = "listening on http://127.0.0.1:";
    struct error err = ERROR_INIT;
    const char *argv[] = {b->server,     "--transport", "http",           "--port",      "0",
                          "--backend",   "native",      "--no-network",   "--state-dir", b->state_dir,
                          "--warm-pool", "0",           "--max-sessions", "20000",       NULL};
    *s = (struct site){.subject = {.mcp = mcp_start(argv, environ, &err)}};
    if (!s->subject.mcp)
        die("start %s: %s", b->server, err.msg);
    for (int i = 0; i < START_TRIES && s->port == 0; i++) {
        const char *at = strstr(mcp_log(s->subject.mcp), told);
        s->port = at ? (int)strtol(at + strlen(told), NULL, 10) : 0;
        (void)poll(NULL, 0, at ? 0 : 10);
    }
    if (s->port == 0)
        die("%s doesn't listen: %s", b->server, mcp_log(s->subject.mcp));
}

void site_end(struct site *s)
{
    (void)kill(mcp_pid(s->subject.mcp), SIGTERM);
    (void)subject_end(&s->subject, END_SECONDS);
}

/* -- A connection. */

void visitor_open(struct visitor *v, int port)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval patience = {.tv_sec = ANSWER_SECONDS};
    const int on = 1;
    v->port = port;
    v->in.max = ANSWER_BYTES;
    v->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (v->fd < 0 || connect(v->fd, (const struct sockaddr *)&to, sizeof to) < 0)
        die("connect to port %d: %s", port, strerror(errno));
    (void)setsockopt(v->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(v->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

void visitor_close(struct visitor *v)
{
    fd_close(v->fd);
    buf_done(&v->in);
    *v = (struct visitor){.fd = -1};
}

void visitor_write(const struct visitor *v, const char *body, struct buf *ret)
{
    int failed = buf_printf(ret, "%s /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: %stext/event-stream\r\n",
                            body ? "POST" : "GET", body ? "application/json, " : "");
    if (!failed && v->session[0])
        failed =
            buf_printf(ret, "Mcp-Session-Id: %s\r\nMCP-Protocol-Version: " MCP_PROTOCOL "\r\n", v->session);
    if (!failed && body)
        failed = buf_printf(ret, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body));
    if (failed || buf_printf(ret, "\r\n%s", body ? body : "") < 0)
        die("the request is too long");
}

/* Where the head of the answer ends; 0: it isn't there yet. */
static size_t head_size(const struct visitor *v)
{
    const char *end = v->in.len ? memmem(v->in.data, v->in.len, "\r\n\r\n", 4) : NULL;
    return end ? (size_t)(end - v->in.data) + 4 : 0;
}

static const char *find_header(const struct visitor *v, const char *name)
{
    const char *at = strcasestr(v->in.data, name);
    return at && at < v->in.data + head_size(v) ? at + strlen(name) : NULL;
}

static bool is_whole(const struct visitor *v)
{
    size_t head = head_size(v), last = strlen(LAST_CHUNK);
    if (head == 0)
        return false;
    const char *length = find_header(v, "\r\nContent-Length: ");
    if (length)
        return v->in.len - head >= strtoul(length, NULL, 10);
    return v->in.len >= head + last && memcmp(v->in.data + v->in.len - last, LAST_CHUNK, last) == 0;
}

/* The answer before may have been a stream, with which its connection ends. */
static void open_again_if_closed(struct visitor *v)
{
    bool closes = v->in.len > 0 && find_header(v, "\r\nConnection: close");
    buf_clear(&v->in);
    if (!closes)
        return;
    v->fd = fd_close(v->fd);
    visitor_open(v, v->port);
}

void visitor_send(struct visitor *v, const struct buf *request)
{
    open_again_if_closed(v);
    v->since = now_ms();
    if (send(v->fd, request->data, request->len, MSG_NOSIGNAL) != (ssize_t)request->len)
        die("send: %s", strerror(errno));
}

bool visitor_read(struct visitor *v)
{
    if (buf_reserve(&v->in, READ_BYTES) < 0)
        die("the answer is too long");
    ssize_t n = recv(v->fd, v->in.data + v->in.len, READ_BYTES, 0);
    if (n <= 0)
        die("no answer (%s) after: %s", n < 0 ? strerror(errno) : "closed", buf_str(&v->in));
    v->in.len += (size_t)n;
    v->in.data[v->in.len] = '\0';
    return is_whole(v);
}

double visitor_ask(struct visitor *v, const struct buf *request)
{
    visitor_send(v, request);
    while (!visitor_read(v))
        ;
    return now_ms() - v->since;
}

/* -- MCP. */

static void require(const struct visitor *v, const char *status)
{
    if (strncmp(buf_str(&v->in), "HTTP/1.1 ", 9) != 0 || strncmp(v->in.data + 9, status, 3) != 0)
        die("%s was expected: %.1000s", status, buf_str(&v->in));
}

static void ask_for(struct visitor *v, const char *body, const char *status)
{
    _cleanup_(buf_done) struct buf request = BUF_INIT(MIB);
    visitor_write(v, body, &request);
    (void)visitor_ask(v, &request);
    require(v, status);
}

void visitor_initialize(struct visitor *v)
{
    ask_for(v,
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
            "\"" MCP_PROTOCOL
            "\",\"capabilities\":{},\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}",
            "200");
    const char *id = find_header(v, "\r\nMcp-Session-Id: ");
    size_t n = id ? strcspn(id, "\r\n") : 0;
    if (n == 0 || n >= sizeof v->session)
        die("no session: %.1000s", buf_str(&v->in));
    memcpy(v->session, id, n);
    ask_for(v, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}", "202");
}

void visitor_listen(struct visitor *v)
{
    _cleanup_(buf_done) struct buf request = BUF_INIT(MIB);
    visitor_write(v, NULL, &request);
    visitor_send(v, &request);
    while (head_size(v) == 0)
        (void)visitor_read(v);
    require(v, "200");
}

void visitor_check_success(const struct visitor *v)
{
    const char *text = buf_str(&v->in);
    if (!strstr(text, "\"isError\":false") || !strstr(text, "\"exit_code\":0"))
        die("a command failed: %.2000s", text);
}
