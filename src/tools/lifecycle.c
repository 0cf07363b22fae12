/* The tools about computers as such: create, restart, reset, delete, and ending one command. */
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/mem.h"
#include "base/str.h"
#include "tools/bind.h"
#include "tools/create_arguments.h"
#include "tools/result.h"
#include "tools/toolset.h"
#include "tools/view.h"

#define ID_TEXT_MAX 1024

static int require_session(const struct tool_call *call, struct error *err)
{
    return call->session ? 0
                         : error_set(err, ERR_UNSUPPORTED,
                                     "this connection has no session, and computers belong to one");
}

/* All of these may have to make one. */
static struct wait wait_of(const struct tool_call *call)
{
    return (struct wait){.deadline = clock_deadline_after(computers_create_seconds(call->session)),
                         .cancel = call->cancel};
}

/* -- Which one. */

struct target {
    struct text id;
    size_t command;
    char *trimmed;
    json_t *ignored;
};

static const struct bind_field TARGET_FIELDS[] = {
    {.name = "computer_id",
     .type = BIND_TEXT,
     .offset = offsetof(struct target, id),
     .max = ID_TEXT_MAX,
     .aliases = " id computer name computer_name sandbox_id "},
    {.name = "command", .type = BIND_SIZE, .offset = offsetof(struct target, command), .min = 1, .max = 9e15},
};

static void target_done(struct target *t)
{
    free(t->trimmed);
    json_decref(t->ignored);
}

static int read_target(const struct tool_call *call, size_t fields, struct target *ret, struct error *err)
{
    *ret = (struct target){0};
    if (require_session(call, err) < 0 ||
        bind_arguments(TARGET_FIELDS, fields, call->arguments, ret, &ret->ignored, err) < 0)
        return -1;
    if (!ret->id.data)
        return error_set(err, ERR_INVALID, "'computer_id' is missing: computer_list shows those there are");
    ret->trimmed = str_trim(ret->id.data);
    return slug_check(ret->trimmed, err);
}

/* -- Results. */

struct change {
    const struct computer_view *view;
    bool is_creation, created;
    const json_t *ignored;
};

static void write_change(struct json_writer *w, const void *arg)
{
    const struct change *c = arg;
    jw_begin_object(w);
    jw_key(w, "ok");
    jw_bool(w, true);
    jw_key(w, "computer_id");
    jw_string(w, c->view->id);
    view_write_sandbox_id(w, c->view);
    jw_key(w, "temporary");
    jw_bool(w, c->view->temporary);
    if (c->is_creation) {
        jw_key(w, "created");
        jw_bool(w, c->created);
    }
    jw_key(w, "state");
    jw_string(w, computer_condition_name(c->view->condition));
    result_write_expiry(w, c->view->expires_in_s);
    result_write_ignored(w, c->ignored);
    jw_end_object(w);
}

/* What a call that failed comes to. */
static int fail(const struct error *why, struct buf *ret, struct error *err)
{
    return why->code == ERR_CANCELLED ? error_set(err, ERR_CANCELLED, "%s", why->msg)
                                      : result_write_error(why, ret, err);
}

/* -- The tools. */

int tool_create(const struct toolset *t, const struct tool_call *call, struct buf *ret, struct error *err)
{
    _cleanup_(create_arguments_done) struct create_arguments a = {0};
    _cleanup_(computers_release) struct computer_use use = {0};
    struct error why = ERROR_INIT;
    struct computer_view view;
    if (require_session(call, &why) < 0 || create_arguments_read(t, call->arguments, &a, &why) < 0)
        return fail(&why, ret, err);
    const struct computer_wish wish = {
        .id = a.id,
        .lifetime = a.lifetime,
        .fresh = true,
        .options = a.options.given ? &a.options : NULL,
        .terms = a.has_terms ? &a.terms : NULL,
        .progress = call->progress,
    };
    const struct wait wait = wait_of(call);
    if (computers_use(call->session, &wish, &wait, &use, &why) < 0)
        return fail(&why, ret, err);
    computer_look(&use, &view);
    const struct change change = {&view, .is_creation = true, .created = use.created, .ignored = a.ignored};
    return result_write(write_change, &change, ret, err);
}

typedef int change_fn(struct computer_session *s, const char *id, const struct wait *wait,
                      struct computer_view *ret, struct error *err);

static int change_computer(const struct tool_call *call, change_fn *fn, struct buf *ret, struct error *err)
{
    _cleanup_(target_done) struct target target;
    struct error why = ERROR_INIT;
    struct computer_view view;
    if (read_target(call, 1, &target, &why) < 0)
        return fail(&why, ret, err);
    const struct wait wait = wait_of(call);
    if (fn(call->session, target.trimmed, &wait, &view, &why) < 0)
        return fail(&why, ret, err);
    const struct change change = {&view, .ignored = target.ignored};
    return result_write(write_change, &change, ret, err);
}

int tool_restart(const struct toolset *t, const struct tool_call *call, struct buf *ret, struct error *err)
{
    return change_computer(call, computer_restart, ret, err);
}

int tool_reset(const struct toolset *t, const struct tool_call *call, struct buf *ret, struct error *err)
{
    return change_computer(call, computer_reset, ret, err);
}

struct deletion {
    const char *id;
    bool deleted;
    const json_t *ignored;
};

static void write_deletion(struct json_writer *w, const void *arg)
{
    const struct deletion *d = arg;
    jw_begin_object(w);
    jw_key(w, "ok");
    jw_bool(w, true);
    jw_key(w, "computer_id");
    jw_string(w, d->id);
    jw_key(w, "deleted");
    jw_bool(w, d->deleted);
    result_write_ignored(w, d->ignored);
    jw_end_object(w);
}

int tool_delete(const struct toolset *t, const struct tool_call *call, struct buf *ret, struct error *err)
{
    _cleanup_(target_done) struct target target;
    struct error why = ERROR_INIT;
    bool deleted;
    if (read_target(call, 1, &target, &why) < 0)
        return fail(&why, ret, err);
    const struct wait wait = wait_of(call);
    if (computer_delete(call->session, target.trimmed, &wait, &deleted, &why) < 0)
        return fail(&why, ret, err);
    const struct deletion deletion = {target.trimmed, deleted, target.ignored};
    return result_write(write_deletion, &deletion, ret, err);
}

struct cancellation {
    bool cancelled;
    const json_t *ignored;
};

static void write_cancellation(struct json_writer *w, const void *arg)
{
    const struct cancellation *c = arg;
    jw_begin_object(w);
    jw_key(w, "ok");
    jw_bool(w, true);
    jw_key(w, "cancelled");
    jw_bool(w, c->cancelled);
    result_write_ignored(w, c->ignored);
    jw_end_object(w);
}

int tool_cancel(const struct toolset *t, const struct tool_call *call, struct buf *ret, struct error *err)
{
    _cleanup_(target_done) struct target target;
    struct error why = ERROR_INIT;
    bool cancelled;
    if (read_target(call, 2, &target, &why) < 0 ||
        computer_cancel_command(call->session, target.trimmed, target.command, &cancelled, &why) < 0)
        return fail(&why, ret, err);
    const struct cancellation cancellation = {cancelled, target.ignored};
    return result_write(write_cancellation, &cancellation, ret, err);
}
