/* The tools that show computers: computer_list, the dashboard, and what the dashboard asks again and again.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/slug.h"
#include "tools/bind.h"
#include "tools/create_arguments.h"
#include "tools/result.h"
#include "tools/toolset.h"
#include "tools/view.h"

#define LIST_SECONDS 10
#define ID_TEXT_MAX 1024

struct query {
    struct text prefix, after;
    size_t limit;
    int state, metrics;
    json_t *ignored;
};

static const char *const STATES[] = {"creating", "running", "stopped", "missing", "failed", "deleting", NULL};

#define AT(member) .offset = offsetof(struct query, member)

static const struct bind_field FIELDS[] = {
    {.name = "state", .type = BIND_CHOICE, AT(state), .choices = STATES, .aliases = " status "},
    {.name = "prefix",
     .type = BIND_TEXT,
     AT(prefix),
     .max = ID_TEXT_MAX,
     .aliases = " name_prefix computer_id id computer name "},
    {.name = "metrics", .type = BIND_BOOL, AT(metrics), .aliases = " usage stats "},
    {.name = "limit", .type = BIND_SIZE, AT(limit), .min = 1, .max = LIMIT_COMPUTERS, .aliases = " max "},
    {.name = "after", .type = BIND_TEXT, AT(after), .max = ID_TEXT_MAX, .aliases = " cursor "},
};

/* The object is written once, while the computers are looked at, and then taken twice. */
struct listing {
    struct buf object;
    struct json_writer writer;
    size_t count, total;
    char last[SLUG_SIZE];
};

static void write_computer(void *ctx, const struct computer_view *v)
{
    struct listing *l = ctx;
    view_write(&l->writer, v);
    l->count++;
    snprintf(l->last, sizeof(l->last), "%s", v->id);
}

static void write_options(struct json_writer *w, unsigned options)
{
    jw_key(w, "options");
    jw_begin_array(w);
    for (unsigned option = 1; option <= COMPUTER_ENV; option <<= 1)
        if (options & option)
            jw_string(w, create_option_name(option));
    jw_end_array(w);
}

static void write_rest(struct listing *l, const struct toolset *t, const json_t *ignored)
{
    struct json_writer *w = &l->writer;
    char now[CLOCK_RFC3339_SIZE];
    jw_key(w, "count");
    jw_integer(w, (int64_t)l->count);
    if (l->total > l->count) {
        jw_key(w, "next");
        jw_string(w, l->last);
    }
    jw_key(w, "now");
    jw_string(w, clock_rfc3339(clock_wall(), now));
    jw_key(w, "backend");
    jw_string(w, t->backend);
    write_options(w, t->options);
    jw_key(w, "server");
    jw_string(w, t->version);
    result_write_ignored(w, ignored);
}

static int write_listing(struct listing *l, const struct toolset *t, const struct tool_call *call,
                         const struct computer_list_wish *wish, const json_t *ignored, struct error *err)
{
    const struct wait wait = {.deadline = clock_deadline_after(LIST_SECONDS), .cancel = call->cancel};
    struct json_writer *w = &l->writer;
    jw_init(w, &l->object);
    jw_begin_object(w);
    jw_key(w, "computers");
    jw_begin_array(w);
    if (computers_list(call->session, wish, &wait, write_computer, l, &l->total, err) < 0)
        return -1;
    jw_end_array(w);
    write_rest(l, t, ignored);
    jw_end_object(w);
    return w->failed ? error_set(err, ERR_LIMIT, "the list is too long for a reply: give a limit") : 0;
}

static void write_object(struct json_writer *w, const void *object)
{
    const struct buf *b = object;
    jw_raw(w, b->data, b->len);
}

static int list(const struct toolset *t, const struct tool_call *call, const struct computer_list_wish *wish,
                const json_t *ignored, struct buf *ret, struct error *err)
{
    struct listing listing = {.object = BUF_INIT(ret->max)};
    struct error why = ERROR_INIT;
    int r;
    if (write_listing(&listing, t, call, wish, ignored, &why) == 0)
        r = result_write(write_object, &listing.object, ret, err);
    else if (why.code == ERR_CANCELLED)
        r = error_set(err, ERR_CANCELLED, "%s", why.msg);
    else
        r = result_write_error(&why, ret, err);
    buf_done(&listing.object);
    return r;
}

static int read_query(const struct tool_call *call, struct query *ret, struct error *err)
{
    *ret = (struct query){.state = CHOICE_NONE, .metrics = CHOICE_NONE};
    if (!call->session)
        return error_set(err, ERR_UNSUPPORTED, "this connection has no session, and computers belong to one");
    return bind_arguments(FIELDS, ARRAY_LEN(FIELDS), call->arguments, ret, &ret->ignored, err);
}

int tool_list(const struct toolset *t, const struct tool_call *call, struct buf *ret, struct error *err)
{
    struct query q;
    struct error why = ERROR_INIT;
    int r = read_query(call, &q, &why);
    const struct computer_list_wish wish = {
        .condition = q.state == CHOICE_NONE ? -1 : q.state,
        .prefix = q.prefix.data,
        .after = q.after.data,
        .most = (int)q.limit,
        .usage = q.metrics == 1 || strcmp(call->name, "computer_status") == 0,
    };
    r = r < 0 ? result_write_error(&why, ret, err) : list(t, call, &wish, q.ignored, ret, err);
    json_decref(q.ignored);
    return r;
}
