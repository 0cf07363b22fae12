/* The far ends of the pipes are closed here as soon as init has been sent them. Pipes belong to the
 * computer's root, so that a command may open /dev/stderr anew. */
#include "backends/native/request.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/command.h"
#include "backends/native/channel.h"
#include "backends/native/environment.h"
#include "base/fd.h"
#include "base/mem.h"

#define CWD_DEFAULT "/"

/* What goes with the packet, in the order of wire.h. All are ours to close but the scope's. */
struct descriptors {
    int fds[GUEST_FDS_MAX];
    size_t count;
    int borrowed;
};

static void descriptors_close(struct descriptors *d)
{
    while (d->count > 0)
        if (d->fds[--d->count] != d->borrowed)
            fd_close(d->fds[d->count]);
}

void pipes_close(struct pipes *p)
{
    p->in = fd_close(p->in);
    p->out = fd_close(p->out);
    p->err = fd_close(p->err);
    p->status = fd_close(p->status);
}

/* What a program inside opens once more, as /dev/stdout, must let it in by its mode. */
static int let_in(int pipe, const struct native_instance *i)
{
    static const mode_t everybody = 0666; /* who can see it has it open already */
    switch (i->native->rung) {
    case RUNG_WEAK:
        return geteuid() == 0 ? fchown(pipe, i->id_base, i->id_base) : 0;
    case RUNG_ROOT:
        return fchown(pipe, i->id_base, i->id_base);
    case RUNG_RANGE:
        return fchmod(pipe, everybody);
    case RUNG_ONE_ID: /* we are its root */
    case RUNGS:
    default:
        return 0;
    }
}

/* near: which end is ours, 0 to read or 1 to write. i: whose commands use the other as a stream; or NULL. */
static int add_pipe(struct descriptors *d, int near, const struct native_instance *i, int *ret_near,
                    struct error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, ERR_LIMIT, errno, "make a pipe");
    *ret_near = ends[near];
    d->fds[d->count++] = ends[1 - near];
    if (fcntl(ends[near], F_SETFL, O_NONBLOCK) < 0 || (i && let_in(ends[near], i) < 0))
        return error_errno(err, ERR_INTERNAL, errno, "set up a pipe");
    return 0;
}

static int add_pipes(struct descriptors *d, const struct native_instance *i, bool with_stdin,
                     struct pipes *ret, struct error *err)
{
    if (with_stdin && add_pipe(d, 1, i, &ret->in, err) < 0)
        return -1;
    return add_pipe(d, 0, i, &ret->out, err) < 0 || add_pipe(d, 0, i, &ret->err, err) < 0 ||
                   add_pipe(d, 0, NULL, &ret->status, err) < 0
               ? -1
               : 0;
}

/* Text that init maps or a shell reads: sealed, so that it stays what it is. */
static int add_memfd(struct descriptors *d, const char *name, const void *bytes, size_t n, struct error *err)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return error_errno(err, ERR_LIMIT, errno, "make a file in memory");
    d->fds[d->count++] = fd;
    if (fd_write_all(fd, bytes, n) < 0 || lseek(fd, 0, SEEK_SET) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        return error_errno(err, ERR_LIMIT, errno, "fill a file in memory");
    return 0;
}

static int build_body(struct buf *body, const struct native_instance *i, const struct exec_request *r,
                      const char *shell, struct guest_exec *head, struct error *err)
{
    _cleanup_(cleanup_free) char *home = instance_home(i);
    const char *cwd = r->cwd ? r->cwd : home ? home : CWD_DEFAULT;
    if (command_append(body, cwd, r, shell, i->native->proc_hidden, &head->argc, err) < 0 ||
        environment_append(body, i->id, home, i->env, r->env, &head->envc, err) < 0)
        return -1;
    head->body_bytes = (uint32_t)body->len;
    return 0;
}

static int add_body_and_script(struct descriptors *d, const struct exec_request *r, const struct buf *body,
                               struct guest_exec *head, struct error *err)
{
    if (sizeof(*head) + body->len > GUEST_PACKET_MAX) {
        head->flags |= GUEST_EXEC_BODY;
        if (add_memfd(d, "request", body->data, body->len, err) < 0)
            return -1;
    }
    if (command_needs_script(r)) {
        head->flags |= GUEST_EXEC_SCRIPT;
        return add_memfd(d, "script", r->command, r->command_len, err);
    }
    return 0;
}

/* What fits into the pipe goes there before the command starts: little input costs no poll. */
static void write_ahead(const struct exec_request *r, struct pipes *p, size_t *ret_sent)
{
    ssize_t n = p->in < 0 ? 0 : write(p->in, r->stdin_bytes, r->stdin_len);
    *ret_sent = n > 0 ? (size_t)n : 0;
    if (*ret_sent == r->stdin_len)
        p->in = fd_close(p->in);
}

int request_send(struct native_instance *i, const struct exec_request *request, const char *shell,
                 const struct scope *scope, uint32_t id, struct pipes *ret, size_t *ret_stdin_sent,
                 struct error *err)
{
    struct guest_exec head = {.type = GUEST_EXEC, .id = id};
    _cleanup_(descriptors_close) struct descriptors d = {.borrowed = -1};
    _cleanup_(pipes_close) struct pipes pipes = PIPES_NONE;
    _cleanup_(buf_done) struct buf body = BUF_INIT(GUEST_BODY_MAX);
    bool with_stdin = request->stdin_len > 0;
    size_t sent;

    if (build_body(&body, i, request, shell, &head, err) < 0 || add_pipes(&d, i, with_stdin, &pipes, err) < 0)
        return -1;
    if (with_stdin)
        head.flags |= GUEST_EXEC_STDIN;
    if (scope) {
        bool by_move = i->native->scope_by_move;
        head.flags |= by_move ? GUEST_EXEC_SCOPE : GUEST_EXEC_SCOPE_DIR;
        d.borrowed = d.fds[d.count++] = by_move ? scope->procs : scope->folder;
    }
    if (add_body_and_script(&d, request, &body, &head, err) < 0)
        return -1;
    write_ahead(request, &pipes, &sent);
    bool inline_body = !(head.flags & GUEST_EXEC_BODY);
    if (channel_send(i->channel, &head, sizeof(head), body.data, inline_body ? body.len : 0, d.fds, d.count,
                     &request->wait, err) < 0)
        return -1;
    *ret = pipes;
    *ret_stdin_sent = sent;
    pipes = PIPES_NONE;
    return 0;
}
