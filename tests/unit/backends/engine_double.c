/* See engine_double.h. */
#include "tests/unit/backends/engine_double.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "tests/unit/base/check.h"

struct connection {
    struct engine_double *d;
    int fd;
};

/* --- one request --- */

static bool read_all(int fd, char *into, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t got = recv(fd, into + at, n - at, 0);
        if (got <= 0)
            return false;
        at += (size_t)got;
    }
    return true;
}

static void send_all(int fd, const char *bytes, size_t n)
{
    /* The client may have gone: that is what some cases are about. */
    for (size_t at = 0; at < n;) {
        ssize_t sent = send(fd, bytes + at, n - at, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        at += (size_t)sent;
    }
}

static bool read_request(int fd, char *head, size_t size, char **ret_body)
{
    size_t n = 0;
    do {
        if (n + 1 == size || !read_all(fd, head + n, 1))
            return false;
        head[++n] = '\0';
    } while (n < 4 || memcmp(head + n - 4, "\r\n\r\n", 4) != 0);
    const char *length = strcasestr(head, "\r\nContent-Length:");
    size_t body = length ? strtoul(strchr(length, ':') + 1, NULL, 10) : 0;
    *ret_body = xcalloc(1, body + 1);
    return read_all(fd, *ret_body, body);
}

static const struct engine_answer *choose(struct engine_double *d, const char *head, const char *body)
{
    const struct engine_answer *answer = NULL;
    pthread_mutex_lock(&d->lock);
    (void)!buf_append(&d->seen, head, strcspn(head, "\r") - strlen(" HTTP/1.1"));
    (void)!buf_printf(&d->seen, " %s\n", body);
    for (int i = 0; !answer && d->answers[i].request; i++) {
        const struct engine_answer *a = &d->answers[i];
        if (strncmp(head, a->request, strlen(a->request)) == 0 &&
            (!a->after || strstr(buf_str(&d->seen), a->after)) && (a->uses == 0 || d->used[i]++ < a->uses))
            answer = a;
    }
    pthread_mutex_unlock(&d->lock);
    return answer;
}

/* False: the connection is over. */
static bool respond(int fd, const struct engine_answer *a)
{
    static const struct engine_answer unknown = {.status = 404, .body = "{\"message\":\"page not found\"}"};
    char head[1024], c;
    a = a ? a : &unknown;
    const char *body = a->body ? a->body : "";
    size_t size = a->body_size ? a->body_size : strlen(body);
    int n = a->status == 101
                ? snprintf(head, sizeof(head),
                           "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
                : snprintf(head, sizeof(head), "HTTP/1.1 %d Status\r\n%sContent-Length: %zu\r\n\r\n",
                           a->status, a->headers ? a->headers : "", size);
    send_all(fd, head, (size_t)n);
    send_all(fd, body, size);
    while (a->status == 101 && a->holds && read_all(fd, &c, 1))
        continue;
    return a->status != 101;
}

/* --- connections --- */

static void *serve(void *arg)
{
    struct connection *c = arg;
    struct engine_double *d = c->d;
    char head[8192], *body = NULL;
    while (read_request(c->fd, head, sizeof(head), &body) && respond(c->fd, choose(d, head, body))) {
        free(body);
        body = NULL;
    }
    free(body);
    fd_close(c->fd);
    free(c);
    pthread_mutex_lock(&d->lock);
    d->connections--;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

static void *accept_all(void *arg)
{
    struct engine_double *d = arg;
    for (;;) {
        int fd = accept4(d->listener, NULL, NULL, SOCK_CLOEXEC);
        pthread_t thread;
        pthread_mutex_lock(&d->lock);
        bool ends = d->ends || fd < 0;
        d->connections += !ends;
        pthread_mutex_unlock(&d->lock);
        if (ends) {
            fd_close(fd);
            return NULL;
        }
        struct connection *c = xmalloc(sizeof(*c));
        *c = (struct connection){d, fd};
        if (pthread_create(&thread, NULL, serve, c) != 0)
            abort();
        pthread_detach(thread);
    }
}

void engine_double_start(struct engine_double *d, const struct engine_answer *answers)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct error err = ERROR_INIT;
    *d = (struct engine_double){.answers = answers, .seen = BUF_INIT(MIB)};
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
    snprintf(d->dir, sizeof(d->dir), "/tmp/test-engine-XXXXXX");
    assert_non_null(mkdtemp(d->dir));
    snprintf(d->path, sizeof(d->path), "%s/socket", d->dir);
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", d->path);
    d->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(d->listener, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(d->listener, 8), 0);
    assert_int_equal(pthread_create(&d->thread, NULL, accept_all, d), 0);

    const struct http_address address = {.url = "http://docker", .unix_path = d->path};
    d->engine.client = http_client_new(&address, &err);
    if (!d->engine.client)
        fail_msg("%s", err.msg);
    strcpy(d->engine.api, "1.41");
    d->engine.address.text = d->path;
}

void engine_double_stop(struct engine_double *d)
{
    http_client_free(d->engine.client);
    pthread_mutex_lock(&d->lock);
    d->ends = true;
    pthread_mutex_unlock(&d->lock);
    shutdown(d->listener, SHUT_RDWR); /* wakes who accepts */
    pthread_join(d->thread, NULL);
    pthread_mutex_lock(&d->lock);
    while (d->connections > 0)
        pthread_cond_wait(&d->changed, &d->lock);
    pthread_mutex_unlock(&d->lock);
    fd_close(d->listener);
    tree_remove(AT_FDCWD, d->dir, NULL);
    buf_done(&d->seen);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
}

const char *engine_double_seen(struct engine_double *d)
{
    pthread_mutex_lock(&d->lock);
    const char *seen = buf_str(&d->seen);
    pthread_mutex_unlock(&d->lock);
    return seen;
}
