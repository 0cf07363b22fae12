/* See peer.h. */
#include "tests/unit/net/peer.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"

static void reset(struct peer *p)
{
    *p = (struct peer){.listener = -1, .connection = -1, .got.max = 64 << 20};
}

void peer_listen_unix(struct peer *p)
{
    reset(p);
    snprintf(p->dir, sizeof(p->dir), "/tmp/test-http-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    snprintf(p->path, sizeof(p->path), "%s/socket", p->dir);
    snprintf(p->url, sizeof(p->url), "http://engine");
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", p->path);
    p->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(p->listener, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(p->listener, 0), 0);
}

void peer_listen_tcp(struct peer *p)
{
    reset(p);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(p->listener, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(p->listener, 8), 0);
    assert_int_equal(getsockname(p->listener, (struct sockaddr *)&a, &len), 0);
    snprintf(p->url, sizeof(p->url), "http://127.0.0.1:%d", ntohs(a.sin_port));
}

static void read_until(struct peer *p, const char *end)
{
    size_t from = p->got.len, n = strlen(end);
    while (p->got.len - from < n || memcmp(p->got.data + p->got.len - n, end, n) != 0) {
        char c;
        if (recv(p->connection, &c, 1, 0) != 1) {
            p->gave_up = true;
            return;
        }
        if (buf_append(&p->got, &c, 1) < 0)
            abort();
    }
}

/* False: the client has gone, which is what some cases are about. */
static bool send_all(struct peer *p, const char *text, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t sent = send(p->connection, text + at, n - at, MSG_NOSIGNAL);
        if (sent < 0)
            return false;
        at += (size_t)sent;
    }
    return true;
}

static void drain(struct peer *p)
{
    char bytes[65536];
    while (recv(p->connection, bytes, sizeof(bytes), 0) > 0)
        continue;
}

static void perform(struct peer *p, const struct step *s)
{
    struct pollfd closed = {.fd = p->connection, .events = POLLRDHUP};
    switch (s->kind) {
    case ACCEPT:
        fd_close(p->connection);
        p->connection = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);
        p->accepted++;
        break;
    case HEAD:
        read_until(p, "\r\n\r\n");
        break;
    case READ:
        read_until(p, s->text);
        break;
    case SEND:
        for (size_t i = 0; i < (s->n ? s->n : 1) && send_all(p, s->text, strlen(s->text)); i++)
            continue;
        break;
    case BYTES:
        send_all(p, s->text, s->n);
        break;
    case FIRE:
        cancel_fire(p->cancel, ERR_CANCELLED);
        break;
    case HOLD:
        poll(&closed, 1, p->connection < 0 ? 0 : -1);
        break;
    case DRAIN:
        drain(p);
        break;
    case END:
    default:
        break;
    }
}

static void *serve(void *arg)
{
    struct peer *p = arg;
    for (const struct step *s = p->script; s->kind != END; s++)
        perform(p, s);
    p->connection = fd_close(p->connection);
    return NULL;
}

void peer_run(struct peer *p, const struct step *script)
{
    p->script = script;
    assert_int_equal(pthread_create(&p->thread, NULL, serve, p), 0);
}

void peer_stop(struct peer *p)
{
    shutdown(p->listener, SHUT_RDWR); /* a script that waits for a client goes on */
    if (p->script)
        pthread_join(p->thread, NULL);
    p->script = NULL;
}

void peer_join(struct peer *p)
{
    peer_stop(p);
    fd_close(p->listener);
    fd_close(p->connection);
    if (p->dir[0])
        tree_remove(AT_FDCWD, p->dir, NULL);
    buf_done(&p->got);
    reset(p);
}

int open_descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}
