/* See link_peer.h. */
#include "tests/unit/backends/link_peer.h"

#include <arpa/inet.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/macros.h"
#include "tests/unit/base/check.h"
#include "tests/unit/guest/guest_file.h"

_Noreturn void give_up(const char *what)
{
    fprintf(stderr, "the peer gives up: %s\n", what);
    abort();
}

/* --- the guest's words --- */

static bool read_all(int fd, void *into, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t got = recv(fd, (char *)into + at, n - at, 0);
        if (got <= 0)
            return false;
        at += (size_t)got;
    }
    return true;
}

bool hear(struct link_peer *p)
{
    free(p->body);
    p->body = NULL;
    if (!read_all(p->far, &p->frame, sizeof(p->frame)))
        return false;
    if (p->frame.size > SERVE_RUN_MAX || p->frame.type < SERVE_HELLO || p->frame.type > SERVE_CLEAR)
        give_up("what the server sends is no frame");
    p->body = malloc(p->frame.size + 1);
    return p->body && read_all(p->far, p->body, p->frame.size);
}

void expect(struct link_peer *p, enum serve_type type)
{
    if (!hear(p))
        give_up("the link ended where a frame was expected");
    if (p->frame.type != type)
        give_up("another frame was expected");
}

static bool write_all(int fd, const void *bytes, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t sent = send(fd, (const char *)bytes + at, n - at, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        at += (size_t)sent;
    }
    return true;
}

/* The link may have gone: that is what some cases are about. */
void say_raw(struct link_peer *p, const void *bytes, size_t n)
{
    (void)write_all(p->far, bytes, n);
}

static bool write_piece(int fd, const void *bytes, size_t n)
{
    const uint32_t size = htonl((uint32_t)n);
    char head[8] = {1};
    memcpy(head + 4, &size, sizeof(size));
    return write_all(fd, head, sizeof(head)) && write_all(fd, bytes, n);
}

void say_bytes(struct link_peer *p, const void *bytes, size_t n)
{
    (void)write_piece(p->far, bytes, n);
}

void say(struct link_peer *p, enum serve_type type, uint32_t id, const void *body, size_t n)
{
    const struct serve_frame frame = {.size = (uint32_t)n, .type = type, .id = id};
    say_bytes(p, &frame, sizeof(frame));
    say_bytes(p, body, n);
}

void say_output(struct link_peer *p, uint32_t id, uint32_t stream, uint32_t part, const char *text)
{
    const struct serve_output head = {.stream = stream, .part = part};
    char body[1024];
    memcpy(body, &head, sizeof(head));
    memcpy(body + sizeof(head), text, strlen(text));
    say(p, SERVE_OUTPUT, id, body, sizeof(head) + strlen(text));
}

void say_end(struct link_peer *p, uint32_t id, const struct serve_end *end)
{
    static const struct serve_end success;
    say(p, SERVE_END, id, end ? end : &success, sizeof(*end));
}

void say_hello(struct link_peer *p)
{
    const struct serve_hello hello = {.magic = SERVE_MAGIC, .version = SERVE_VERSION, .pid = 1};
    say(p, SERVE_HELLO, 0, &hello, sizeof(hello));
}

void greet(struct link_peer *p)
{
    const struct serve_ready ready = {.has_shell = {1, 1}};
    say_hello(p);
    expect(p, SERVE_CONFIG);
    say(p, SERVE_READY, 0, &ready, sizeof(ready));
}

/* --- the peer --- */

static void agree(int fd)
{
    static const char answer[] = "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n";
    char head[4096];
    size_t n = 0;
    while (n < 4 || memcmp(head + n - 4, "\r\n\r\n", 4) != 0)
        if (n == sizeof(head) || !read_all(fd, head + n++, 1))
            give_up("no request comes");
    if (send(fd, answer, strlen(answer), MSG_NOSIGNAL) != (ssize_t)strlen(answer))
        give_up("the answer isn't taken");
}

static void start_real(struct link_peer *p, int end)
{
    char *const argv[] = {(char *)(uintptr_t)guest_file(), (char *)SERVE_COMMAND, NULL};
    char path[] = "PATH=/usr/bin:/bin";
    char *const env[] = {path, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, end, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, end, STDOUT_FILENO);
    if (posix_spawn(&p->pid, argv[0], &actions, NULL, argv, env) != 0)
        give_up("the guest can't be started");
    posix_spawn_file_actions_destroy(&actions);
}

/* What an engine does with a stream, one way. */
static void *carry_in_pieces(void *arg)
{
    const struct link_peer *p = arg;
    char bytes[4096];
    ssize_t n;
    while ((n = recv(p->inner, bytes, sizeof(bytes), 0)) > 0 && write_piece(p->far, bytes, (size_t)n))
        continue;
    shutdown(p->far, SHUT_RDWR);
    return NULL;
}

/* And the other way. */
static void carry(struct link_peer *p)
{
    pthread_t back;
    char bytes[4096];
    ssize_t n;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    start_real(p, ends[1]);
    close(ends[1]);
    p->inner = ends[0];
    assert_int_equal(pthread_create(&back, NULL, carry_in_pieces, p), 0);
    while ((n = recv(p->far, bytes, sizeof(bytes), 0)) > 0 && write_all(p->inner, bytes, (size_t)n))
        continue;
    shutdown(p->inner, SHUT_WR);
    pthread_join(back, NULL);
    close(p->inner);
}

static void *serve(void *arg)
{
    struct link_peer *p = arg;
    agree(p->far);
    if (p->guest)
        p->guest(p);
    else
        carry(p);
    p->far = fd_close(p->far);
    return NULL;
}

static int dial(void *ctx, const struct wait *wait, struct error *err)
{
    struct link_peer *p = ctx;
    return TAKE_FD(p->near);
}

struct http_stream *peer_begin(struct link_peer *p, guest_fn *guest)
{
    const struct http_address address = {.url = "http://docker", .dial = dial, .dial_ctx = p};
    const struct http_request request = {.method = "POST", .path = "/", .wait.deadline = DEADLINE_NONE};
    struct http_response response = {0};
    struct http_stream *stream = NULL;
    struct error err = ERROR_INIT;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    *p = (struct link_peer){.guest = guest, .near = ends[0], .far = ends[1]};
    assert_int_equal(pthread_create(&p->thread, NULL, serve, p), 0);
    p->client = http_client_new(&address, &err);
    assert_non_null(p->client);
    if (http_upgrade(p->client, &request, "tcp", &stream, &response, &err) < 0)
        fail_msg("%s", err.msg);
    http_response_done(&response);
    assert_non_null(stream);
    return stream;
}

struct keeper *peer_keeper(void)
{
    static struct keeper *keeper;
    return keeper = keeper ? keeper : keeper_new();
}

struct link *peer_link(struct link_peer *p, guest_fn *guest)
{
    return peer_link_as(p, guest, &(struct link_options){.config.flags = SERVE_DIES});
}

struct link *peer_link_as(struct link_peer *p, guest_fn *guest, const struct link_options *as)
{
    struct link_options options = *as;
    options.stream = peer_begin(p, guest);
    options.keeper = peer_keeper();
    const struct wait wait = {.deadline = clock_deadline_after(20)};
    struct serve_ready ready;
    struct error err = ERROR_INIT;
    struct link *l = link_open(&options, &wait, &ready, &err);
    if (!l)
        fail_msg("%s", err.msg);
    return l;
}

void peer_end(struct link_peer *p)
{
    int status;
    pthread_join(p->thread, NULL);
    if (p->pid > 0)
        assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
    http_client_free(p->client);
    free(p->body);
}
