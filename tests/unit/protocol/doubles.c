/* Stand-ins for tools and computers: see doubles.h. */
#include "doubles.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "tools/result.h"

struct toolset {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int started, released;
    int64_t deadline;
};

struct computers {
    struct computers_double *record;
};

struct computer_session {
    struct computers_double *record;
};

struct toolset *toolset_double_new(void)
{
    struct toolset *t = xcalloc(1, sizeof(*t));
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    t->deadline = DEADLINE_NONE;
    return t;
}

struct toolset *toolset_free(struct toolset *t)
{
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->changed);
    free(t);
    return NULL;
}

void toolset_release(struct toolset *t)
{
    pthread_mutex_lock(&t->lock);
    t->released++;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

void toolset_await_started(struct toolset *t, int calls)
{
    pthread_mutex_lock(&t->lock);
    while (t->started < calls)
        pthread_cond_wait(&t->changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

void toolset_set_deadline(struct toolset *t, int64_t deadline)
{
    t->deadline = deadline;
}

int64_t toolset_deadline(const struct toolset *t, const struct tool_call *call)
{
    return t->deadline;
}

const char *toolset_list(const struct toolset *t, size_t *ret_len)
{
    static const char list[] = "[{\"name\":\"answer\"}]";
    *ret_len = sizeof(list) - 1;
    return list;
}

bool toolset_has(const struct toolset *t, const char *name)
{
    static const char *const names[] = {"answer", "repeat", "wait", "stubborn", "fail", "break"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* True when released, false when cancelled. */
static bool wait_for_release(struct toolset *t, struct cancel *cancel)
{
    bool released = false;
    pthread_mutex_lock(&t->lock);
    while (!released && cancel_why(cancel) == ERR_NONE) {
        struct wait wait = {.deadline = clock_now() + 5 * NSEC_PER_MSEC, .cancel = cancel};
        if (t->released > 0) {
            t->released--;
            released = true;
            continue;
        }
        pthread_mutex_unlock(&t->lock);
        wait_fd(-1, 0, &wait, NULL, NULL);
        pthread_mutex_lock(&t->lock);
    }
    pthread_mutex_unlock(&t->lock);
    return released;
}

static int repeat(const json_t *arguments, struct buf *ret)
{
    size_t size = (size_t)json_number_value(json_object_get(arguments, "size"));
    if (buf_append_str(ret, "\"content\":[{\"type\":\"text\",\"text\":\"") < 0 || buf_reserve(ret, size) < 0)
        return -1;
    memset(ret->data + ret->len, 'x', size);
    ret->len += size;
    return buf_append_str(ret, "\"}]");
}

int toolset_call(struct toolset *t, const struct tool_call *call, struct buf *ret, struct error *err)
{
    pthread_mutex_lock(&t->lock);
    t->started++;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);

    if (strcmp(call->name, "wait") == 0 && !wait_for_release(t, call->cancel))
        return error_set(err, ERR_CANCELLED, "cancelled");
    if (strcmp(call->name, "stubborn") == 0)
        wait_for_release(t, NULL);
    if (strcmp(call->name, "fail") == 0)
        return result_write_error(&(struct error){.code = ERR_GONE}, ret, err);
    if (strcmp(call->name, "break") == 0)
        return error_set(err, ERR_INTERNAL, "it broke");
    if (strcmp(call->name, "repeat") == 0)
        return repeat(call->arguments, ret);
    return buf_append_str(ret, "\"content\":[],\"isError\":false");
}

int result_write_error(const struct error *why, struct buf *ret, struct error *err)
{
    if (err)
        *err = *why;
    return buf_printf(ret, "\"content\":[],\"structuredContent\":{\"code\":\"%s\"},\"isError\":true",
                      error_code_name(why->code));
}

struct computers *computers_double_new(struct computers_double *record)
{
    struct computers *c = xcalloc(1, sizeof(*c));
    c->record = record;
    return c;
}

struct computers *computers_double_free(struct computers *c)
{
    free(c);
    return NULL;
}

enum preparing computers_want_preparation(struct computers *c)
{
    return c->record->wanted;
}

void computers_prepare(struct computers *c)
{
    atomic_fetch_add(&c->record->prepared, 1);
}

struct computers_counts computers_count(struct computers *c)
{
    return (struct computers_counts){0};
}

struct computer_session *computer_session_new(struct computers *c, const char *principal)
{
    struct computer_session *s = xcalloc(1, sizeof(*s));
    s->record = c->record;
    s->record->sessions++;
    return s;
}

struct computer_session *computer_session_new_leased(struct computers *c, const char *principal,
                                                     double lease_s)
{
    c->record->leased++;
    return computer_session_new(c, principal);
}

int64_t computers_expire(struct computers *c)
{
    bool first = atomic_fetch_add(&c->record->expired, 1) == 0;
    return first && c->record->expires_again ? c->record->expires_again : DEADLINE_NONE;
}

void computer_session_kill(struct computer_session *s)
{
    s->record->killed = true;
}

int computer_session_end(struct computer_session *s, int64_t deadline, struct error *err)
{
    struct computers_double *record = s->record;
    atomic_fetch_add(&record->ended, 1);
    free(s);
    return record->end_error ? error_set(err, ERR_TIMEOUT, "%s", record->end_error) : 0;
}
