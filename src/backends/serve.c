/* See serve.h. What comes from the guest is hostile: more output than was asked for is not kept, strings are
 * cut, numbers are held to what they may be. */
#include "backends/serve.h"

#include <string.h>

#include "backends/command.h"
#include "backends/verdict.h"
#include "base/mem.h"

int serve_append_run(struct buf *out, uint32_t id, const struct exec_request *request, const char *shell,
                     struct error *err)
{
    struct serve_frame frame = {.type = SERVE_RUN, .id = id};
    struct serve_run head = {
        .stdin_bytes = (uint32_t)request->stdin_len,
        .output_limit = (uint32_t)request->output_limit,
        .spool_limit = LIMIT_SPOOL_BYTES,
        .flags = request->stdin_bytes ? SERVE_RUN_STDIN : 0,
    };
    _cleanup_(buf_done) struct buf body = BUF_INIT(GUEST_BODY_MAX);
    if (command_append(&body, request->cwd ? request->cwd : "", request, shell, false, &head.argc, err) < 0)
        return -1;
    for (char *const *env = request->env; env && *env; env++, head.envc++)
        if (command_append_text(&body, *env, strlen(*env), err) < 0)
            return -1;
    head.body_bytes = (uint32_t)body.len;
    if (command_needs_script(request)) {
        head.flags |= SERVE_RUN_SCRIPT;
        head.script_bytes = (uint32_t)request->command_len;
    }
    frame.size = (uint32_t)(sizeof(head) + head.body_bytes + head.stdin_bytes + head.script_bytes);
    if (buf_append(out, &frame, sizeof(frame)) < 0 || buf_append(out, &head, sizeof(head)) < 0 ||
        buf_append(out, body.data, body.len) < 0 ||
        (head.stdin_bytes && buf_append(out, request->stdin_bytes, request->stdin_len) < 0) ||
        (head.script_bytes && buf_append(out, request->command, request->command_len) < 0))
        return error_set(err, ERR_LIMIT, "the command with its input is larger than %u bytes", SERVE_RUN_MAX);
    return 0;
}

void serve_answer_init(struct serve_answer *a, size_t output_limit)
{
    *a = (struct serve_answer){.limit = output_limit};
    for (int n = 0; n < 4; n++)
        a->parts[n / 2][n % 2] = (struct buf)BUF_INIT(output_limit);
}

void serve_answer_done(struct serve_answer *a)
{
    for (int n = 0; n < 4; n++)
        buf_done(&a->parts[n / 2][n % 2]);
}

void serve_answer_output(struct serve_answer *a, const void *body, size_t size)
{
    struct serve_output head;
    if (size <= sizeof(head))
        return;
    memcpy(&head, body, sizeof(head));
    size_t n = size - sizeof(head);
    if (head.stream > 1 || head.part > 1 || n > a->limit - a->received)
        return;
    if (buf_append(&a->parts[head.stream][head.part], (const char *)body + sizeof(head), n) == 0)
        a->received += n;
}

bool serve_answer_end(struct serve_answer *a, const void *body, size_t size)
{
    if (size < SERVE_END_LEAST || size > sizeof(a->end))
        return false;
    memcpy(&a->end, body, size);
    a->ended = true;
    return true;
}

/* Shown to a model and to people: nothing but a plain path. */
static bool is_plain_path(const char *path, size_t size)
{
    size_t n = strnlen(path, size);
    if (n == 0 || n == size || path[0] != '/')
        return false;
    for (size_t i = 0; i < n; i++)
        if (path[i] <= ' ' || path[i] > '~')
            return false;
    return true;
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void fill_stream(struct serve_answer *a, int n, struct exec_stream *ret)
{
    buf_move(&ret->head, &a->parts[n][0]);
    buf_move(&ret->tail, &a->parts[n][1]);
    const uint64_t kept = ret->head.len + ret->tail.len;
    const uint64_t told = a->ended ? at_most(a->end.total[n], INT64_MAX) : 0;
    ret->total = told > kept ? told : kept;
    ret->omitted = ret->total - kept;
    if (ret->omitted == 0 && ret->tail.len > 0) {
        if (buf_append(&ret->head, ret->tail.data, ret->tail.len) == 0)
            buf_clear(&ret->tail);
    }
    const char *path = a->end.spool_path[n];
    if (!a->ended || a->end.spooled[n] == 0 || ret->omitted == 0 ||
        !is_plain_path(path, sizeof(a->end.spool_path[n])))
        return;
    ret->path = xstrdup(path);
    ret->path_bytes = at_most(a->end.spooled[n], at_most(ret->total, LIMIT_SPOOL_BYTES));
}

void serve_answer_tell(struct serve_answer *a, struct exec_result *ret)
{
    fill_stream(a, 0, &ret->out);
    fill_stream(a, 1, &ret->err);
    ret->oom_killed = a->ended && a->end.oom_kills > 0;
    ret->usage = verdict_usage(&a->end.exit);
    if (!a->ended || a->end.killed)
        return;
    _Static_assert(GUEST_BACKGROUND_MAX == LIMIT_BACKGROUND_PIDS, "as many as a result lists");
    uint32_t count = a->end.exit.background_count;
    ret->background_count = count < LIMIT_BACKGROUND_PIDS ? count : LIMIT_BACKGROUND_PIDS;
    for (size_t n = 0; n < ret->background_count; n++)
        ret->background[n] = a->end.exit.background[n];
    ret->background_more = a->end.exit.background_more > 0;
}
