/* Plays the server towards `sandbox-guest serve`: see stream.h. */
#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "guest_file.h"
#include "harness.h"

#define WAIT_MS 60000 /* for what must come; only a defect makes a test wait so long */
#define ARGV_MAX 32
#define ENV_MAX 8
#define BODY_ROOM 65536

static void refuse(const char *what)
{
    errno = EPROTO;
    harness_die(what);
}

/* --- frames from the guest --- */

static void hear_output(struct heard *h, const char *body, size_t size)
{
    struct serve_output head;
    if (size <= sizeof(head))
        refuse("output of no bytes");
    memcpy(&head, body, sizeof(head));
    if (head.stream > 1 || head.part > 1 || h->ended)
        refuse("output out of place");
    char **bytes = &h->parts[head.stream][head.part].bytes;
    size_t *have = &h->parts[head.stream][head.part].size, n = size - sizeof(head);
    if (!(*bytes = realloc(*bytes, *have + n + 1)))
        harness_die("memory");
    memcpy(*bytes + *have, body + sizeof(head), n);
    *have += n;
    (*bytes)[*have] = 0;
    if (h->parts[0][0].size + h->parts[0][1].size + h->parts[1][0].size + h->parts[1][1].size > h->limit)
        refuse("more output than was asked for");
}

static void copy_exactly(void *ret, size_t expected, const char *body, size_t size)
{
    if (size != expected)
        refuse("frame of a wrong size");
    memcpy(ret, body, size);
}

static void hear(struct stream *s, const struct serve_frame *head, const char *body)
{
    struct heard *h = head->id > 0 && head->id <= s->last_id ? &s->heard[head->id] : NULL;
    if (head->type == SERVE_HELLO)
        copy_exactly(&s->hello, sizeof(s->hello), body, head->size);
    else if (head->type == SERVE_READY)
        copy_exactly(&s->ready, sizeof(s->ready), body, head->size);
    else if (head->type == SERVE_PONG)
        s->pongs++;
    else if (head->type == SERVE_OUTPUT && h)
        hear_output(h, body, head->size);
    else if (head->type == SERVE_END && h && !h->ended && head->size <= sizeof(h->end))
        memcpy(&h->end, body, head->size);
    else
        refuse("frame that is out of place");
    if (head->type == SERVE_END)
        h->ended = true;
}

static void take_in(struct stream *s)
{
    static char bytes[1 << 18];
    ssize_t n = read(s->out, bytes, sizeof(bytes));
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        s->ended = true;
        return;
    }
    s->pending = realloc(s->pending, s->pending_size + (size_t)n);
    memcpy(s->pending + s->pending_size, bytes, (size_t)n);
    s->pending_size += (size_t)n;
    struct serve_frame head;
    size_t at = 0;
    while (s->pending_size - at >= sizeof(head)) {
        memcpy(&head, s->pending + at, sizeof(head));
        if (head.size > SERVE_FRAME_MAX)
            refuse("frame that is too long");
        if (s->pending_size - at - sizeof(head) < head.size)
            break;
        hear(s, &head, s->pending + at + sizeof(head));
        at += sizeof(head) + head.size;
    }
    s->pending_size -= at;
    memmove(s->pending, s->pending + at, s->pending_size);
}

void stream_listen(struct stream *s)
{
    struct pollfd polled = {.fd = s->out, .events = POLLIN};
    if (s->ended || poll(&polled, 1, WAIT_MS) != 1)
        refuse("nothing comes");
    take_in(s);
}

void stream_await_end(struct stream *s)
{
    while (!s->ended)
        stream_listen(s);
}

/* --- frames to the guest --- */

void stream_send_raw(struct stream *s, const void *bytes, size_t size)
{
    for (size_t sent = 0; sent < size;) {
        struct pollfd polled[] = {{.fd = s->in, .events = POLLOUT}, {.fd = s->out, .events = POLLIN}};
        if (poll(polled, 2, WAIT_MS) < 1)
            refuse("guest that doesn't read");
        if (polled[1].revents)
            take_in(s);
        ssize_t n = polled[0].revents ? write(s->in, (const char *)bytes + sent, size - sent) : 0;
        if (n < 0 && errno != EAGAIN)
            return; /* the guest has ended: told by what is awaited of it */
        sent += n > 0 ? (size_t)n : 0;
    }
}

void stream_send(struct stream *s, uint32_t type, uint32_t id, const void *body, size_t size)
{
    const struct serve_frame head = {.size = (uint32_t)size, .type = type, .id = id};
    stream_send_raw(s, &head, sizeof(head));
    stream_send_raw(s, body, size);
}

static size_t add(char *body, size_t at, const char *text)
{
    size_t size = strlen(text) + 1;
    if (at + size > BODY_ROOM)
        refuse("body that is too long");
    memcpy(body + at, text, size);
    return at + size;
}

uint32_t stream_run(struct stream *s, const struct run *run)
{
    static char strings[BODY_ROOM];
    const char *const by_shell[] = {"/bin/sh", "-c", run->shell, NULL};
    const char *const *argv = run->argv ? run->argv : by_shell;
    struct serve_run head = {.output_limit = run->limit ? run->limit : 65536, .spool_limit = run->spool};
    size_t size = add(strings, 0, run->cwd ? run->cwd : "");
    for (; argv[head.argc]; head.argc++)
        size = add(strings, size, argv[head.argc]);
    for (; run->env && run->env[head.envc]; head.envc++)
        size = add(strings, size, run->env[head.envc]);
    head.body_bytes = (uint32_t)size;
    head.stdin_bytes = (uint32_t)run->in_size;
    head.script_bytes = run->script ? (uint32_t)strlen(run->script) : 0;
    head.flags = (run->in || run->empty_in ? SERVE_RUN_STDIN : 0) | (run->script ? SERVE_RUN_SCRIPT : 0);
    const uint32_t id = ++s->last_id;
    if (id >= STREAM_COMMANDS)
        refuse("too many commands");
    s->heard[id].limit = head.output_limit;
    const struct serve_frame frame = {
        .size = (uint32_t)(sizeof(head) + size) + head.stdin_bytes + head.script_bytes,
        .type = SERVE_RUN,
        .id = id,
    };
    stream_send_raw(s, &frame, sizeof(frame));
    stream_send_raw(s, &head, sizeof(head));
    stream_send_raw(s, strings, size);
    stream_send_raw(s, run->in, run->in_size);
    stream_send_raw(s, run->script, head.script_bytes);
    return id;
}

struct heard *stream_heard(struct stream *s, uint32_t id)
{
    return &s->heard[id];
}

struct heard *stream_wait(struct stream *s, uint32_t id)
{
    while (!s->heard[id].ended)
        stream_listen(s);
    return &s->heard[id];
}

struct heard *stream_shell(struct stream *s, const char *text)
{
    return stream_wait(s, stream_run(s, &(struct run){.shell = text}));
}

const char *heard_out(const struct heard *h)
{
    return h->parts[0][0].bytes ? h->parts[0][0].bytes : "";
}

void stream_await(struct stream *s, uint32_t id, const char *text)
{
    while (!strstr(heard_out(&s->heard[id]), text))
        stream_listen(s);
}

/* --- life --- */

static pid_t spawn(const struct stream_options *o, int in, int out)
{
    char *argv[ARGV_MAX], *env[ENV_MAX] = {NULL};
    unsigned n = 0;
    for (unsigned i = 0; o->env && o->env[i]; i++)
        env[i] = (char *)o->env[i];
    for (; o->prefix && o->prefix[n]; n++)
        argv[n] = (char *)o->prefix[n];
    argv[n++] = (char *)guest_file();
    argv[n++] = (char *)SERVE_COMMAND;
    if (o->first)
        argv[n++] = (char *)SERVE_FIRST;
    argv[n] = NULL;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    pid_t pid;
    errno = posix_spawnp(&pid, argv[0], &actions, NULL, argv, env);
    if (errno)
        harness_die(argv[0]);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

struct stream stream_open(const struct stream_options *o)
{
    struct stream s = {0};
    struct serve_config config = {.flags = o->flags, .nofile = o->nofile, .lease_s = o->lease_s};
    int to[2], from[2];
    signal(SIGPIPE, SIG_IGN);
    if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
        harness_die("pipe");
    s.pid = spawn(o, to[0], from[1]);
    close(to[0]);
    close(from[1]);
    s.in = to[1];
    s.out = from[0];
    fcntl(s.in, F_SETFL, O_NONBLOCK);
    fcntl(s.out, F_SETFL, O_NONBLOCK);
    if (!(s.heard = calloc(STREAM_COMMANDS, sizeof(*s.heard))))
        harness_die("memory");
    s.last_id = o->first ? 1 : 0;
    s.heard[1].limit = o->first ? BODY_ROOM : 0;
    while (s.hello.magic == 0)
        stream_listen(&s);
    if (o->unconfigured)
        return s;
    snprintf(config.spool_dir, sizeof(config.spool_dir), "%s", o->spool_dir ? o->spool_dir : "");
    memset(&s.ready, 0xff, sizeof(s.ready));
    stream_send(&s, SERVE_CONFIG, 0, &config, sizeof(config));
    while (s.ready.firewall == UINT32_MAX)
        stream_listen(&s);
    return s;
}

void stream_hang_up(struct stream *s)
{
    close(s->in);
    s->in = -1;
}

void stream_free(struct stream *s)
{
    for (uint32_t id = 0; id <= s->last_id; id++)
        for (int i = 0; i < 4; i++)
            free(s->heard[id].parts[i / 2][i % 2].bytes);
    free(s->heard);
    free(s->pending);
    s->heard = NULL;
    s->pending = NULL;
}

int stream_close(struct stream *s)
{
    int status = 0;
    if (s->in >= 0)
        close(s->in);
    while (!s->ended)
        stream_listen(s);
    close(s->out);
    if (waitpid(s->pid, &status, 0) != s->pid)
        harness_die("wait for the guest");
    stream_free(s);
    return status;
}
