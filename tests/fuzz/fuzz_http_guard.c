/* Fuzz: any bytes as a client's side of a connection to the HTTP server. What the handler hears of first must
 * be a head that a second, stricter reader of the same bytes takes for one, with the same method and path;
 * whoever is heard of is heard of a last time; and what comes back is HTTP or nothing. */
#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "transport/http_server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct span {
    const char *at;
    size_t n;
};

/* -- The second reader. */

static bool is_token(struct span s)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.at[i];
        if (!((c | 32) >= 'a' && (c | 32) <= 'z') && !(c >= '0' && c <= '9') &&
            !memchr(others, c, sizeof(others) - 1))
            return false;
    }
    return s.n > 0;
}

static bool equals(struct span s, const char *text)
{
    return s.n == strlen(text) && strncasecmp(s.at, text, s.n) == 0;
}

/* Up to `end`, which is taken off the front together with it. */
static struct span take(struct span *rest, const char *end)
{
    const char *found = memmem(rest->at, rest->n, end, strlen(end));
    assert(found);
    struct span s = {rest->at, (size_t)(found - rest->at)};
    rest->at += s.n + strlen(end);
    rest->n -= s.n + strlen(end);
    return s;
}

static struct span trim(struct span s)
{
    while (s.n > 0 && (s.at[0] == ' ' || s.at[0] == '\t'))
        s.at++, s.n--;
    while (s.n > 0 && (s.at[s.n - 1] == ' ' || s.at[s.n - 1] == '\t'))
        s.n--;
    return s;
}

static void check_header(struct span line, int *hosts, int *framings)
{
    struct span name = take(&line, ":"), value = trim(line);
    assert(is_token(name));
    for (size_t i = 0; i < value.n; i++)
        assert(((unsigned char)value.at[i] >= ' ' || value.at[i] == '\t') && value.at[i] != 0x7f);
    *hosts += equals(name, "Host");
    *framings += equals(name, "Content-Length") || equals(name, "Transfer-Encoding");
    if (equals(name, "Transfer-Encoding"))
        assert(equals(value, "chunked"));
    if (equals(name, "Content-Length"))
        for (size_t i = 0; i < value.n; i++)
            assert(value.at[i] >= '0' && value.at[i] <= '9');
}

/* A copy of what comes before the empty line, with one CR LF, to be freed. Where the guard can't tell ends of
 * lines apart, they become CR LF: see http_guard.h. */
static struct span cut_head(struct span s)
{
    char *head = xmalloc(s.n + 1);
    memcpy(head, s.at, s.n);
    for (size_t i = 0; i + 1 < s.n; i++)
        if (memcmp(head + i, "\0\n", 2) == 0)
            head[i] = '\r';
    static const char ends[][5] = {"\r\n\r\n", "\r\n:\n", "\n\0\r\n", "\n:\r\n"};
    const char *end = NULL;
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        const char *found = memmem(head, s.n, ends[i], 4);
        end = found && (!end || found < end) ? found : end;
    }
    assert(end);
    size_t n = (size_t)(end - head);
    memcpy(head + n, "\r\n", 2);
    return (struct span){head, n + 2};
}

static void check_head(struct span rest, const char *method, const char *path)
{
    /* Lines that the library takes for empty may come first. */
    while (rest.n > 0 &&
           (rest.at[0] == '\n' || rest.at[0] == '\0' || (rest.n > 1 && memcmp(rest.at, "\r\n", 2) == 0)))
        take(&rest, "\n");
    rest = cut_head(rest);
    char *head = (char *)rest.at;
    struct span line = take(&rest, "\r\n"), m = take(&line, " "), target = take(&line, " ");
    assert(is_token(m) && m.n == strlen(method) && memcmp(m.at, method, m.n) == 0);
    assert(target.n >= strlen(path) && memcmp(target.at, path, strlen(path)) == 0);
    for (size_t i = 0; i < target.n; i++)
        assert(target.at[i] > ' ' && target.at[i] <= '~');
    assert(line.n == 8 && memcmp(line.at, "HTTP/1.", 7) == 0);
    bool is_old = line.at[7] == '0';

    int hosts = 0, framings = 0;
    while (rest.n > 0)
        check_header(take(&rest, "\r\n"), &hosts, &framings);
    free(head);
    assert(hosts == 1 || (hosts == 0 && is_old));
    assert(framings <= 1);
}

/* -- The server, one for all inputs, and the client. */

static struct loop *loop;
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static socklen_t address_size = sizeof(address);

static struct span input;
static int heads, gone;

static void on_head(void *ctx, struct http_request *r)
{
    if (heads++ == 0)
        check_head(input, http_request_method(r), http_request_path(r));
    if (strcmp(http_request_path(r), "/early") == 0)
        http_reply(r, 401, NULL, 0, NULL);
}

static void on_request(void *ctx, struct http_request *r, const char *body, size_t n)
{
    struct buf reply = BUF_INIT(1 * MIB);
    if (n > input.n || buf_append(&reply, body, n) < 0)
        abort();
    if (http_request_query(r)) {
        http_reply_begin(r, 200, NULL, 0);
        http_reply_write(r, &reply);
        http_reply_end(r);
    } else {
        http_reply(r, 200, NULL, 0, &reply);
    }
    buf_done(&reply);
}

static void on_gone(void *ctx, struct http_request *r, bool sent)
{
    gone++;
}

static void start(void)
{
    loop = loop_new(NULL);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* A name of the kernel's choice. */
    if (bind(listener, (struct sockaddr *)&address, sizeof(address.sun_family)) < 0 ||
        listen(listener, 8) < 0 || getsockname(listener, (struct sockaddr *)&address, &address_size) < 0)
        abort();
    const struct http_server_limits limits = {.connections = 8,
                                              .body_bytes = 64 * KIB,
                                              .head_seconds = 5,
                                              .body_seconds = 5,
                                              .idle_seconds = 5,
                                              .write_seconds = 5,
                                              .queue_bytes = 1 * MIB,
                                              .unread_bytes = 8 * MIB};
    struct error err = ERROR_INIT;
    if (!http_server_new(&(struct http_server_options){.loop = loop,
                                                       .listeners = &listener,
                                                       .listener_count = 1,
                                                       .limits = limits,
                                                       .on_head = on_head,
                                                       .on_request = on_request,
                                                       .on_gone = on_gone},
                         &err))
        abort();
}

struct client {
    int fd;
    struct buf got;
};

static void on_readable(void *arg, short revents)
{
    struct client *c = arg;
    ssize_t n;
    do {
        if (buf_reserve(&c->got, 64 * KIB) < 0)
            abort();
        n = recv(c->fd, c->got.data + c->got.len, 64 * KIB, MSG_DONTWAIT);
        c->got.len += n > 0 ? (size_t)n : 0;
    } while (n > 0);
    if (n == 0 || errno != EAGAIN)
        loop_stop(loop);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct client c = {.got = BUF_INIT(4 * MIB)};
    if (!loop)
        start();
    input = (struct span){(const char *)data, size < 64 * KIB ? size : 64 * KIB};
    heads = gone = 0;
    c.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(c.fd, (const struct sockaddr *)&address, address_size) < 0 ||
        send(c.fd, input.at, input.n, MSG_NOSIGNAL) != (ssize_t)input.n)
        abort();
    shutdown(c.fd, SHUT_WR);
    struct loop_watch *watch = loop_watch_new(loop, c.fd, on_readable, &c);
    loop_watch_set(watch, POLLIN);
    loop_run(loop);
    loop_watch_free(watch);
    fd_close(c.fd);

    assert(heads == gone);
    assert(c.got.len == 0 || strncmp(buf_str(&c.got), "HTTP/1.1 ", 9) == 0);
    buf_done(&c.got);
    return 0;
}
