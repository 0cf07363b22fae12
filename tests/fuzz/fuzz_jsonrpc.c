/* Fuzz: any bytes as the lines of a client, from the scanner to the replies. Loop, pool, tools and computers
 * are replaced by doubles that do at once, in this thread, what they are asked to: jobs run when they are
 * submitted, posts when the line is done. What goes back is JSON, and nothing is left in flight. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/pool.h"
#include "computers/computers.h"
#include "protocol/protocol.h"
#include "tools/result.h"
#include "tools/tools.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct loop_post *posts, **posts_end = &posts;

bool loop_is_current(const struct loop *loop)
{
    return true;
}

void loop_post(struct loop *loop, struct loop_post *post)
{
    post->next = NULL;
    *posts_end = post;
    posts_end = &post->next;
}

static void run_posts(void)
{
    while (posts) {
        struct loop_post *post = posts;
        posts = post->next;
        if (!posts)
            posts_end = &posts;
        post->fn(post->arg);
    }
}

struct loop_timer *loop_timer_new(struct loop *loop, loop_timer_fn *fn, void *arg)
{
    return NULL;
}

void loop_timer_start(struct loop_timer *t, int64_t after_ms, int64_t period_ms)
{
}

void loop_timer_stop(struct loop_timer *t)
{
}

struct loop_timer *loop_timer_free(struct loop_timer *t)
{
    return NULL;
}

int pool_submit(struct pool *p, struct pool_job *job, struct error *err)
{
    job->run(job);
    return 0;
}

void pool_kick(struct pool *p)
{
}

const char *toolset_list(const struct toolset *t, size_t *ret_len)
{
    *ret_len = 2;
    return "[]";
}

bool toolset_has(const struct toolset *t, const char *name)
{
    return true;
}

int64_t toolset_deadline(const struct toolset *t, const struct tool_call *call)
{
    return INT64_MAX;
}

int toolset_call(struct toolset *t, const struct tool_call *call, struct buf *ret, struct error *err)
{
    if (!call->arguments)
        return error_set(err, ERR_INVALID, "no arguments for %s", call->name);
    if (buf_append_str(ret, "\"echo\":") < 0 || json_append(ret, call->arguments) < 0)
        return error_set(err, ERR_LIMIT, "too long");
    return 0;
}

int result_write_error(const struct error *why, struct buf *ret, struct error *err)
{
    return buf_append_str(ret, "\"isError\":true");
}

struct computers_counts computers_count(struct computers *c)
{
    return (struct computers_counts){0};
}

struct computer_session *computer_session_new(struct computers *c, const char *principal)
{
    return NULL;
}

struct computer_session *computer_session_new_leased(struct computers *c, const char *principal,
                                                     double lease_s)
{
    return NULL;
}

int64_t computers_expire(struct computers *c)
{
    return INT64_MAX;
}

enum preparing computers_want_preparation(struct computers *c)
{
    return PREPARE_NONE;
}

void computers_prepare(struct computers *c)
{
}

void computer_session_kill(struct computer_session *s)
{
}

int computer_session_end(struct computer_session *s, int64_t deadline, struct error *err)
{
    return 0;
}

static void on_send(void *ctx, struct buf *message, void (*on_written)(void *arg), void *arg)
{
    struct error err;
    json_t *value = json_parse(message->data, message->len, &err);
    assert(json_is_object(value) || json_is_array(value));
    assert(!memchr(message->data, '\n', message->len));
    json_decref(value);
    buf_done(message);
    if (on_written)
        on_written(arg);
}

static void on_closed(void *arg, const char *left_behind)
{
    *(bool *)arg = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char tools; /* only its address is used */
    struct protocol *protocol = protocol_new(&(struct protocol_options){
        .toolset = (struct toolset *)(void *)&tools, .server_name = "fuzz", .server_version = "1"});
    struct session *session = session_new(protocol, "local", &(struct session_sink){.send = on_send});
    const char *line = (const char *)data, *end = line + size;
    while (line < end) {
        const char *line_end = memchr(line, '\n', (size_t)(end - line));
        size_t n = (size_t)((line_end ? line_end : end) - line);
        session_receive(session, line, n);
        run_posts();
        assert(session_accepts(session));
        line += n + 1;
    }
    bool closed = false;
    session_close(session, INT64_MAX, on_closed, &closed);
    run_posts();
    assert(closed);
    protocol_free(protocol);
    return 0;
}
