/* See image_engine.h. */
#include "tests/unit/backends/image_engine.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "tests/unit/base/check.h"

struct connection {
    struct image_engine *f;
    int fd;
};

static void send_text(int fd, const char *text)
{
    /* The client may have gone: that is what some cases are about. */
    size_t n = strlen(text);
    while (n > 0) {
        ssize_t sent = send(fd, text, n, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        text += sent;
        n -= (size_t)sent;
    }
}

static void answer(int fd, int status, const char *body)
{
    char head[200];
    snprintf(head, sizeof(head),
             "HTTP/1.1 %d Status\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n", status,
             strlen(body));
    send_text(fd, head);
    send_text(fd, body);
}

static bool read_head(int fd, char *head, size_t size)
{
    size_t n = 0;
    while (n + 1 < size && recv(fd, head + n, 1, 0) == 1) {
        head[++n] = '\0';
        if (n >= 4 && memcmp(head + n - 4, "\r\n\r\n", 4) == 0)
            return true;
    }
    return false;
}

static void describe(struct image_engine *f, int fd)
{
    pthread_mutex_lock(&f->lock);
    const char *body = f->pulled ? f->after : f->before;
    pthread_mutex_unlock(&f->lock);
    if (f->inspect_status)
        answer(fd, f->inspect_status, "{\"message\":\"out of order\"}");
    else if (body)
        answer(fd, 200, body);
    else
        answer(fd, 404, "{\"message\":\"No such image: x\"}");
}

static void send_piece(int fd, const char *text)
{
    char size[32];
    snprintf(size, sizeof(size), "%zx\r\n", strlen(text));
    send_text(fd, size);
    send_text(fd, text);
    send_text(fd, "\r\n");
}

static void await_told(struct image_engine *f, const char *text)
{
    pthread_mutex_lock(&f->lock);
    while (!strstr(f->told, text))
        pthread_cond_wait(&f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
}

static void await_go(struct image_engine *f)
{
    pthread_mutex_lock(&f->lock);
    while (!f->go)
        pthread_cond_wait(&f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
}

static void hold(struct image_engine *f, int fd)
{
    struct pollfd closed = {.fd = fd, .events = POLLRDHUP};
    poll(&closed, 1, -1);
    pthread_mutex_lock(&f->lock);
    f->pulls_closed++;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

/* False: the connection is to be closed. */
static bool perform(struct image_engine *f, int fd, const struct pull_step *s)
{
    switch (s->kind) {
    case PULL_SEND:
        send_piece(fd, s->text);
        return true;
    case PULL_AWAIT:
        await_told(f, s->text);
        return true;
    case PULL_GO:
        await_go(f);
        return true;
    case PULL_PAUSE:
        poll(NULL, 0, s->ms);
        return true;
    case PULL_HOLD:
        hold(f, fd);
        return false;
    case PULL_CUT:
    case PULL_END:
    default:
        return false;
    }
}

static bool give(struct image_engine *f, int fd, const char *head)
{
    pthread_mutex_lock(&f->lock);
    f->pulls++;
    snprintf(f->head, sizeof(f->head), "%s", head);
    pthread_mutex_unlock(&f->lock);
    if (f->pull_status) {
        answer(fd, f->pull_status, f->pull_body);
        return true;
    }
    const struct pull_step *s = f->steps;
    /* As engines do, which send the head with the first piece. */
    if (s->kind != PULL_HOLD)
        send_text(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (; s->kind != PULL_END; s++)
        if (!perform(f, fd, s))
            return false;
    pthread_mutex_lock(&f->lock);
    f->pulled = true;
    pthread_mutex_unlock(&f->lock);
    send_text(fd, "0\r\n\r\n");
    return true;
}

static void *serve(void *arg)
{
    struct connection *c = arg;
    struct image_engine *f = c->f;
    char head[8192];
    while (read_head(c->fd, head, sizeof(head))) {
        if (strncmp(head, "GET /v1.41/images/", 18) == 0)
            describe(f, c->fd);
        else if (strncmp(head, "POST /v1.41/images/create?", 26) != 0)
            answer(c->fd, 400, "{\"message\":\"unknown call\"}");
        else if (!give(f, c->fd, head))
            break;
    }
    fd_close(c->fd);
    free(c);
    pthread_mutex_lock(&f->lock);
    f->connections--;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

static void *accept_all(void *arg)
{
    struct image_engine *f = arg;
    for (;;) {
        int fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);
        pthread_mutex_lock(&f->lock);
        bool ends = f->ends;
        f->connections += !ends;
        pthread_mutex_unlock(&f->lock);
        if (ends) {
            fd_close(fd);
            return NULL;
        }
        struct connection *c = xmalloc(sizeof(*c));
        *c = (struct connection){f, fd};
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve, c) != 0)
            abort();
        pthread_detach(thread);
    }
}

static void tell(void *ctx, const char *text, uint64_t done, uint64_t total)
{
    struct image_engine *f = ctx;
    pthread_mutex_lock(&f->lock);
    snprintf(f->told, sizeof(f->told), "%s", text);
    f->tells++;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

static struct sockaddr_un address_of(const struct image_engine *f)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", f->path);
    return a;
}

void image_engine_start(struct image_engine *f)
{
    struct error err = ERROR_INIT;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    snprintf(f->dir, sizeof(f->dir), "/tmp/test-image-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->path, sizeof(f->path), "%s/socket", f->dir);
    struct sockaddr_un a = address_of(f);
    f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(f->listener, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(f->listener, 8), 0);
    assert_int_equal(pthread_create(&f->thread, NULL, accept_all, f), 0);

    const struct http_address address = {.url = "http://docker", .unix_path = f->path};
    f->engine.client = http_client_new(&address, &err);
    if (!f->engine.client)
        fail_msg("%s", err.msg);
    strcpy(f->engine.api, "1.41");
    f->engine.address.text = f->path;
    f->progress = (struct progress){tell, f};
}

void image_engine_stop(struct image_engine *f)
{
    http_client_free(f->engine.client);
    pthread_mutex_lock(&f->lock);
    f->ends = true;
    pthread_mutex_unlock(&f->lock);
    /* One more connection wakes the listener. */
    struct sockaddr_un a = address_of(f);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    pthread_join(f->thread, NULL);
    fd_close(fd);
    pthread_mutex_lock(&f->lock);
    while (f->connections > 0)
        pthread_cond_wait(&f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
    fd_close(f->listener);
    tree_remove(AT_FDCWD, f->dir, NULL);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
}

void image_engine_go(struct image_engine *f)
{
    pthread_mutex_lock(&f->lock);
    f->go = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

static void await_count(struct image_engine *f, const int *counter, int count)
{
    pthread_mutex_lock(&f->lock);
    while (*counter < count)
        pthread_cond_wait(&f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
}

void image_engine_await_tells(struct image_engine *f, int count)
{
    await_count(f, &f->tells, count);
}

void image_engine_await_closed(struct image_engine *f, int count)
{
    await_count(f, &f->pulls_closed, count);
}
