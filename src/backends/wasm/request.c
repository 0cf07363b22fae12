/* The body goes in a sealed file in memory: a socket's buffer would be too small for it. */
#include "backends/wasm/request.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/native/environment.h"
#include "backends/wasm/folder.h"
#include "backends/wasm/memory_file.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/utf8.h"

#define TEXT_MAX (2 * MIB) /* argv and env, each at its limit */

/* What goes with the packet; all are ours to close. */
struct descriptors {
    int fds[WASM_FDS];
};

static void descriptors_close(struct descriptors *d)
{
    for (size_t i = 0; i < WASM_FDS; i++)
        fd_close(d->fds[i]);
}

void wasm_call_done(struct wasm_call *c)
{
    c->line = fd_close(c->line);
    c->out = fd_close(c->out);
    c->err = fd_close(c->err);
}

/* -- What it says */

static int append(struct buf *text, const char *s, size_t n, uint32_t *count, struct error *err)
{
    if (memchr(s, '\0', n))
        return error_set(err, ERR_INVALID, "arguments and commands can't contain a NUL byte");
    if (!utf8_valid(s, n))
        return error_set(err, ERR_INVALID, "a WASM module takes only UTF-8 in its arguments and environment");
    if (buf_append(text, s, n) < 0 || buf_append_byte(text, '\0') < 0)
        return error_set(err, ERR_LIMIT, "the command's arguments are larger than %zu bytes", text->max);
    (*count)++;
    return 0;
}

static int append_argv(struct buf *text, const struct wasm *w, const struct exec_request *r, uint32_t *count,
                       struct error *err)
{
    if (append(text, w->stem, strlen(w->stem), count, err) < 0)
        return -1;
    for (char *const *arg = r->argv; arg && *arg; arg++)
        if (append(text, *arg, strlen(*arg), count, err) < 0)
            return -1;
    if (r->argv)
        return 0;
    const char *shell = NULL;
    return wasm_shell(w, &shell, err) < 0 || append(text, shell, strlen(shell), count, err) < 0 ||
                   append(text, "-c", 2, count, err) < 0 ||
                   append(text, r->command, r->command_len, count, err) < 0
               ? -1
               : 0;
}

/* Ours first: what the computer has of its own wins over them. */
static int append_env(struct buf *text, const struct wasm_instance *i, const struct exec_request *r,
                      uint32_t *count, struct error *err)
{
    _cleanup_(cleanup_free) char *pwd = xasprintf("PWD=%s", r->cwd ? r->cwd : "/");
    const size_t begin = text->len, given = i->env ? strv_len(i->env) : 0;
    const char **own = xcalloc(given + 5, sizeof(*own));
    const char *const ours[] = {"PATH=/bin", "HOME=/", "TMPDIR=/tmp", pwd};
    memcpy(own, ours, sizeof(ours));
    for (size_t e = 0; e < given; e++)
        own[ARRAY_LEN(ours) + e] = i->env[e];
    int failed = environment_append(text, i->id, NULL, (char *const *)own, r->env, count, err);
    free(own);
    if (failed == 0 && !utf8_valid(text->data + begin, text->len - begin))
        failed = error_set(err, ERR_INVALID, "a WASM module takes only UTF-8 in its environment");
    return failed;
}

static int make_body(const struct wasm_instance *i, const struct exec_request *r, struct wasm_request *head,
                     struct error *err)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT(TEXT_MAX);
    if (append_argv(&text, i->wasm, r, &head->argc, err) < 0 || append_env(&text, i, r, &head->envc, err) < 0)
        return -1;
    head->text_bytes = (uint32_t)text.len;
    head->stdin_bytes = (uint32_t)r->stdin_len;
    _cleanup_fd_ int fd = memory_file_new("wasm-command", err);
    if (fd < 0)
        return -1;
    if (fd_write_all(fd, text.data, text.len) < 0 || fd_write_all(fd, r->stdin_bytes, r->stdin_len) < 0)
        return error_errno(err, ERR_LIMIT, errno, "fill a file in memory");
    return memory_file_seal(fd, err) < 0 ? -1 : TAKE_FD(fd);
}

/* -- What it goes with */

static int make_pipe(int *ret_ours, int *ret_theirs, struct error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, ERR_LIMIT, errno, "make a pipe");
    *ret_ours = ends[0];
    *ret_theirs = ends[1];
    return fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0 ? error_errno(err, ERR_INTERNAL, errno, "set up a pipe")
                                                   : 0;
}

static int make_channels(struct wasm_call *c, struct descriptors *d, struct error *err)
{
    int pair[2];
    if (make_pipe(&c->out, &d->fds[WASM_OUT], err) < 0 || make_pipe(&c->err, &d->fds[WASM_ERR], err) < 0)
        return -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, ERR_LIMIT, errno, "make a socket pair");
    c->line = pair[0];
    d->fds[WASM_LINE] = pair[1];
    return 0;
}

/* What no call to `cwd` could say better is said of all that the guest can't be given. */
static int open_folders(const struct wasm_instance *i, const struct exec_request *r, struct descriptors *d,
                        struct error *err)
{
    d->fds[WASM_ROOT] = fcntl(i->root, F_DUPFD_CLOEXEC, 0);
    if (d->fds[WASM_ROOT] < 0)
        return error_errno(err, ERR_LIMIT, errno, "copy a descriptor");
    d->fds[WASM_CWD] = wasm_folder_enter(i->root, r->cwd ? r->cwd : "/", err);
    return d->fds[WASM_CWD] < 0 ? -1 : 0;
}

int wasm_call_begin(struct wasm_instance *i, struct wasm_zygote *zygote, const struct exec_request *request,
                    struct wasm_call *ret, struct error *err)
{
    struct wasm_request head = {.memory_bytes = (uint64_t)i->memory_bytes,
                                .fuel = (uint64_t)i->wasm->fuel,
                                .file_bytes = (uint64_t)i->wasm->disk.bytes};
    _cleanup_(descriptors_close) struct descriptors d = {.fds = {-1, -1, -1, -1, -1, -1}};
    _cleanup_(wasm_call_done) struct wasm_call call = WASM_CALL_NONE;
    _Static_assert(WASM_FDS == 6, "as many as are begun with");
    d.fds[WASM_BODY] = make_body(i, request, &head, err);
    if (d.fds[WASM_BODY] < 0 || open_folders(i, request, &d, err) < 0 || make_channels(&call, &d, err) < 0 ||
        wasm_zygote_send(zygote, &head, d.fds, &request->wait, err) < 0)
        return -1;
    *ret = call;
    call = (struct wasm_call)WASM_CALL_NONE;
    return 0;
}
