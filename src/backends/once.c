/* See once.h. What comes is from a stranger, as in serve.h. */
#include "backends/once.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/mem.h"

const struct serve_frame once_kill = {.type = SERVE_KILL, .id = SERVE_ONCE_ID};

void once_init(struct once *o, struct shells *shells, size_t output_limit)
{
    o->began = clock_now();
    o->shells = shells;
    frames_init(&o->frames);
    serve_answer_init(&o->answer, output_limit);
}

void once_done(struct once *o)
{
    frames_done(&o->frames);
    serve_answer_done(&o->answer);
}

/* The guest's own patience with us, longer than ours with it. */
static uint32_t lease_of(const struct exec_request *request)
{
    if (request->wait.deadline == DEADLINE_NONE)
        return 0;
    const int64_t left = request->wait.deadline - clock_now();
    return (uint32_t)(left / NSEC_PER_SEC) + ONCE_LEASE_SLACK_S;
}

int once_append(struct buf *out, const char *spool_dir, const struct exec_request *request, const char *shell,
                struct error *err)
{
    struct serve_config config = {.flags = SERVE_ONCE, .lease_s = lease_of(request)};
    snprintf(config.spool_dir, sizeof(config.spool_dir), "%s", spool_dir);
    const size_t size = offsetof(struct serve_config, spool_dir) + strlen(config.spool_dir) + 1;
    const struct serve_frame frame = {.size = (uint32_t)size, .type = SERVE_CONFIG};
    if (buf_append(out, &frame, sizeof(frame)) < 0 || buf_append(out, &config, size) < 0)
        return error_set(err, ERR_LIMIT, "out of memory");
    return serve_append_run(out, SERVE_ONCE_ID, request, shell, err);
}

char *once_early(const struct buf *frames, size_t letters_max)
{
    if ((frames->len + 2) / 3 * 4 > letters_max)
        return NULL;
    _cleanup_(buf_done) struct buf text = BUF_INIT(letters_max + 1);
    return base64_append(&text, frames->data, frames->len) < 0 ? NULL : xstrdup(buf_str(&text));
}

static int on_frame(void *ctx, const struct serve_frame *frame, const void *body, struct error *err)
{
    struct once *o = ctx;
    struct serve_hello hello;
    struct serve_ready ready;
    if (frame->type == SERVE_HELLO && frame->size == sizeof(hello)) {
        memcpy(&hello, body, sizeof(hello));
        if (hello.magic != SERVE_MAGIC || hello.version != SERVE_VERSION)
            return error_set(err, ERR_UNAVAILABLE, "our program in the computer is of another version");
        o->greeted = true;
    } else if (frame->type == SERVE_CONFIG) { /* of what only sends back what it gets */
        return error_set(err, ERR_UNAVAILABLE, "what runs in the computer in our program's place is another");
    } else if (frame->type == SERVE_READY && frame->size == sizeof(ready)) {
        memcpy(&ready, body, sizeof(ready));
        shells_tell(o->shells, &ready);
    } else if (frame->type == SERVE_OUTPUT && frame->id == SERVE_ONCE_ID && !o->answer.ended) {
        serve_answer_output(&o->answer, body, frame->size);
    } else if (frame->type == SERVE_END && frame->id == SERVE_ONCE_ID && !o->answer.ended) {
        serve_answer_end(&o->answer, body, frame->size);
    }
    return 0;
}

int once_feed(struct once *o, const void *bytes, size_t n, struct error *err)
{
    if (o->answer.ended)
        return 0;
    if (frames_feed_plain(&o->frames, bytes, n, on_frame, o, err) == 0)
        return 0;
    o->strange = !o->greeted;
    return -1;
}

bool once_lacks_program(const struct once *o, bool over)
{
    return !o->greeted && !o->answer.ended && (over || o->strange);
}

int once_not_put_back(const char *why, struct error *err)
{
    return error_set(
        err, ERR_UNAVAILABLE,
        "our program isn't in the computer any more, and it can't be put back (%.300s); a factory "
        "reset makes the computer anew",
        why);
}

int once_run(struct once *o, const struct once_way *way, void *call, const char *shell,
             struct exec_result *ret, struct guest_exit *ret_exit, struct error *err)
{
    struct error why = ERROR_INIT;
    const int failed = way->run(call, shell, &why);
    char *unknown = failed < 0 && wait_was_over(&why) ? way->stop(call) : NULL;
    if (failed < 0 && !wait_was_over(&why))
        way->broken(call, &why, err);
    else if (failed < 0)
        error_set(err, why.code, "%s", why.msg);
    ret->duration_ns = clock_now() - o->began;
    serve_answer_tell(&o->answer, ret);
    ret->note = unknown;
    ret->disk_full = o->answer.end.disk_full != 0;
    *ret_exit = o->answer.end.exit;
    return failed;
}

char *once_unknown(const char *where)
{
    return xasprintf("it isn't known whether the command has ended: nothing in the %s answers; it is ended "
                     "there within %d s",
                     where, ONCE_LEASE_SLACK_S);
}

int once_unclear(const struct error *why, struct error *err)
{
    return error_set(err, ERR_UNAVAILABLE,
                     "%s; the command may have been ended by that, the computer itself runs, so try again",
                     why->msg);
}
