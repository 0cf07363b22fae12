/* Restarting and deleting, in every state that a computer can be in. */
#include "domain.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

static int must_delete(struct computer_session *s, const char *id)
{
    const struct wait wait = long_wait();
    struct error err = ERROR_INIT;
    bool deleted = false;
    if (computer_delete(s, id, &wait, &deleted, &err) < 0)
        fail_msg("computer_delete: %s", err.msg);
    return deleted;
}

static void must_not_delete(struct computer_session *s, const char *id, enum error_code code)
{
    const struct wait wait = long_wait();
    struct error err = ERROR_INIT;
    bool deleted = true;
    assert_int_equal(computer_delete(s, id, &wait, &deleted, &err), -1);
    assert_int_equal(err.code, code);
    assert_true(deleted); /* untouched */
}

static struct computer_view must_restart(struct computer_session *s, const char *id)
{
    const struct wait wait = long_wait();
    struct error err = ERROR_INIT;
    struct computer_view view;
    if (computer_restart(s, id, &wait, &view, &err) < 0)
        fail_msg("computer_restart: %s", err.msg);
    return view;
}

static void must_not_restart(struct computer_session *s, const char *id, enum error_code code)
{
    const struct wait wait = long_wait();
    struct error err = ERROR_INIT;
    struct computer_view view;
    assert_int_equal(computer_restart(s, id, &wait, &view, &err), -1);
    if (err.code != code)
        fail_msg("expected %s, got %s: %s", error_code_name(code), error_code_name(err.code), err.msg);
}

/* A command on a thread of its own. */
struct command {
    struct computer_use use;
    struct cancel *cancel;
    struct error err;
    int r;
    pthread_t thread;
};

static void *run(void *arg)
{
    struct command *c = arg;
    struct exec_result result = {0};
    const struct exec_request request = {.command = "sleep 1000",
                                         .command_len = 10,
                                         .output_limit = 100,
                                         .wait = {.deadline = DEADLINE_NONE, .cancel = c->cancel}};
    c->r = computer_exec(&c->use, &request, &result, &c->err);
    if (c->r == 0)
        exec_result_done(&result);
    computers_release(&c->use);
    return NULL;
}

static uint64_t command_start(struct command *c, struct computer_session *s, const char *id,
                              enum lifetime lifetime)
{
    *c = (struct command){.use = must_use(s, id, lifetime), .cancel = cancel_new()};
    assert_int_equal(pthread_create(&c->thread, NULL, run, c), 0);
    struct computer_view view;
    do
        assert_true(find_view(s, id, &view));
    while (view.running_count == 0);
    return view.running[0].number;
}

static void command_join(struct command *c)
{
    pthread_join(c->thread, NULL);
    cancel_unref(c->cancel);
}

/* -- Deleting. */

static void of_nothing(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    assert_false(must_delete(d.session, "otter"));
    must_not_restart(d.session, "otter", ERR_NOT_FOUND);
    must_not_delete(d.session, "No Such", ERR_INVALID);
    must_not_restart(d.session, "../x", ERR_INVALID);
    domain_done(&d, NULL);
}

static void of_running_ones(void **state)
{
    static const enum lifetime LIFETIMES[] = {LIFETIME_TEMPORARY, LIFETIME_PERMANENT};
    for (size_t i = 0; i < 2; i++) {
        struct domain d;
        domain_init(&d, NULL, NULL);
        must_have(&d, "otter", LIFETIMES[i]);
        put_file(&d, "otter");
        assert_true(must_delete(d.session, "otter"));
        assert_false(folder_exists(&d, "otter"));
        assert_int_equal(find_unborn(d.state_dir).count, 0);
        assert_int_equal(fake_backend_counts(d.backend).removed, 1);
        assert_int_equal(fake_backend_counts(d.backend).live, 0);
        assert_false(must_delete(d.session, "otter"));
        struct computer_use use = must_use(d.session, "otter", LIFETIMES[1 - i]); /* the id is free */
        assert_true(use.created);
        assert_false(has_file(&d, "otter"));
        computers_release(&use);
        domain_done(&d, NULL);
    }
}

static void of_a_stopped_one(void **state)
{
    struct domain first, d;
    domain_init(&first, NULL, NULL);
    must_have(&first, "otter", LIFETIME_PERMANENT);
    _cleanup_(cleanup_free) char *dir = xstrdup(first.state_dir);
    domain_done(&first, dir);

    domain_init(&d, NULL, dir);
    assert_true(folder_exists(&d, "otter"));
    assert_true(must_delete(d.session, "otter"));
    assert_false(folder_exists(&d, "otter"));
    assert_int_equal(fake_backend_counts(d.backend).attached, 0); /* it needn't be started for that */
    assert_int_equal(fake_backend_counts(d.backend).reaped, 1);
    assert_false(must_delete(d.session, "otter"));
    domain_done(&d, NULL);
}

static void ends_what_runs(void **state)
{
    struct domain d;
    struct command command;
    domain_init(&d, NULL, NULL);
    command_start(&command, d.session, "otter", LIFETIME_PERMANENT);
    assert_true(must_delete(d.session, "otter"));
    command_join(&command);
    assert_int_equal(command.r, -1);
    assert_int_equal(command.err.code, ERR_DELETED);
    assert_non_null(strstr(command.err.msg, "'otter' was deleted"));
    assert_false(folder_exists(&d, "otter"));
    domain_done(&d, NULL);
}

static void is_told_to_other_sessions_once(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    struct computer_session *other = computer_session_new(d.computers, "local");
    must_have(&d, "otter", LIFETIME_TEMPORARY);
    struct computer_use use = must_use(other, "otter", LIFETIME_AS_IS);
    computers_release(&use);
    assert_true(must_delete(d.session, "otter"));
    must_not_use(other, "otter", LIFETIME_AS_IS, ERR_DELETED);
    use = must_use(other, "otter", LIFETIME_AS_IS);
    assert_true(use.created);
    computers_release(&use);
    assert_int_equal(computer_session_end(other, DEADLINE_NONE, NULL), 0);
    domain_done(&d, NULL);
}

static int create_waits(void *ctx, const struct computer_spec *spec, const struct wait *wait,
                        struct error *err)
{
    return gate_pass(ctx, wait, err);
}

static void of_one_being_made(void **state)
{
    struct domain d;
    struct gate gate;
    struct caller caller;
    gate_init(&gate);
    domain_init(&d, &(struct fake_hooks){.create = create_waits, .ctx = &gate}, NULL);
    caller_start(&caller, d.session, "otter", NULL);
    gate_await(&gate, 1);
    assert_true(must_delete(d.session, "otter")); /* the gate is closed: its creation has been cancelled */
    caller_join(&caller);
    assert_int_equal(caller.r, -1);
    assert_int_equal(caller.err.code, ERR_DELETED);
    assert_false(folder_exists(&d, "otter"));
    gate_open(&gate);
    must_have(&d, "otter", LIFETIME_AS_IS);
    domain_done(&d, NULL);
    gate_done(&gate);
}

static void of_one_being_started(void **state)
{
    struct domain first, d;
    struct gate gate;
    struct caller caller;
    domain_init(&first, NULL, NULL);
    must_have(&first, "otter", LIFETIME_PERMANENT);
    _cleanup_(cleanup_free) char *dir = xstrdup(first.state_dir);
    domain_done(&first, dir);

    gate_init(&gate);
    domain_init(&d, &(struct fake_hooks){.attach = create_waits, .ctx = &gate}, dir);
    caller_start(&caller, d.session, "otter", NULL);
    gate_await(&gate, 1);
    assert_true(must_delete(d.session, "otter"));
    caller_join(&caller);
    assert_int_equal(caller.err.code, ERR_DELETED);
    assert_false(folder_exists(&d, "otter"));
    domain_done(&d, NULL);
    gate_done(&gate);
}

static int remove_fails(void *ctx, const char *id, struct error *err)
{
    return *(bool *)ctx ? error_set(err, ERR_INTERNAL, "it does not let go") : 0;
}

static void that_fails_is_told_and_done_later(void **state)
{
    struct domain d;
    bool fails = true;
    struct computer_view view;
    domain_init(&d, &(struct fake_hooks){.remove = remove_fails, .ctx = &fails}, NULL);
    must_have(&d, "otter", LIFETIME_PERMANENT);
    must_not_delete(d.session, "otter", ERR_INTERNAL);
    assert_true(find_view(d.session, "otter", &view));
    assert_int_equal(view.condition, CONDITION_DELETING); /* not a computer with half its files */
    fails = false;
    struct computer_use use = must_use(d.session, "otter", LIFETIME_TEMPORARY);
    assert_true(use.created);
    computers_release(&use);
    domain_done(&d, NULL);
}

/* Nothing can be written where a record is made: as on a full disk. */
static void forbid_records(const struct domain *d, const char *id)
{
    _cleanup_(cleanup_free) char *path = xasprintf("%s/computers/local/%s/record.json.tmp", d->state_dir, id);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void needs_no_room_on_the_disk(void **state)
{
    for (int is_stopped = 0; is_stopped < 2; is_stopped++) {
        struct domain first, d;
        domain_init(&first, NULL, NULL);
        must_have(&first, "otter", LIFETIME_PERMANENT);
        if (!is_stopped) {
            forbid_records(&first, "otter");
            assert_true(must_delete(first.session, "otter"));
            assert_false(folder_exists(&first, "otter"));
            domain_done(&first, NULL);
            continue;
        }
        _cleanup_(cleanup_free) char *dir = xstrdup(first.state_dir);
        domain_done(&first, dir);
        domain_init(&d, NULL, dir);
        forbid_records(&d, "otter");
        assert_true(must_delete(d.session, "otter"));
        assert_false(folder_exists(&d, "otter"));
        domain_done(&d, NULL);
    }
}

/* Whatever is left of it after a failure, or the server's death, is no computer any more. */
static void is_marked_without_room_on_the_disk(void **state)
{
    struct domain d;
    bool fails = true;
    struct computer_view view;
    domain_init(&d, &(struct fake_hooks){.remove = remove_fails, .ctx = &fails}, NULL);
    must_have(&d, "otter", LIFETIME_PERMANENT);
    must_have(&d, "heron", LIFETIME_PERMANENT);
    put_file(&d, "heron");
    forbid_records(&d, "otter");
    must_not_delete(d.session, "otter", ERR_INTERNAL);
    assert_true(find_view(d.session, "otter", &view));
    assert_int_equal(view.condition, CONDITION_DELETING);
    assert_int_equal(computers_reap(d.computers), 1);
    assert_false(folder_exists(&d, "otter"));
    assert_true(has_file(&d, "heron"));
    fails = false;
    domain_done(&d, NULL);
}

static void of_what_another_server_has(void **state)
{
    static const enum lifetime LIFETIMES[] = {LIFETIME_TEMPORARY, LIFETIME_PERMANENT};
    for (size_t i = 0; i < 2; i++) {
        struct domain theirs, d;
        domain_init(&theirs, NULL, NULL);
        must_have(&theirs, "otter", LIFETIMES[i]);
        put_file(&theirs, "otter");
        domain_init(&d, NULL, theirs.state_dir);
        must_not_delete(d.session, "otter", ERR_BUSY);
        must_not_restart(d.session, "otter", ERR_BUSY);
        domain_done(&d, theirs.state_dir);
        assert_true(has_file(&theirs, "otter"));
        domain_done(&theirs, NULL);
    }
}

static void of_another_principals(void **state)
{
    struct domain d;
    struct computer_view view;
    bool cancelled = true;
    struct error err = ERROR_INIT;
    struct command command;
    domain_init(&d, NULL, NULL);
    struct computer_session *bob = computer_session_new(d.computers, "bob");
    uint64_t number = command_start(&command, d.session, "otter", LIFETIME_PERMANENT);
    assert_false(must_delete(bob, "otter"));
    must_not_restart(bob, "otter", ERR_NOT_FOUND);
    assert_false(find_view(bob, "otter", &view));
    assert_int_equal(computer_cancel_command(bob, "otter", number, &cancelled, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_true(cancelled);
    assert_int_equal(computer_cancel_command(d.session, "otter", number, &cancelled, &err), 0);
    command_join(&command);
    assert_true(find_view(d.session, "otter", &view));
    assert_int_equal(computer_session_end(bob, DEADLINE_NONE, NULL), 0);
    domain_done(&d, NULL);
}

/* -- What the backend alone knows. */

struct foreign {
    bool exists, reaped;
};

static void fill_found(struct backend_found *ret)
{
    *ret = (struct backend_found){
        .id = xstrdup("python"), .principal = xstrdup("local"), .running = true, .image = "alpine:3"};
}

static int list_foreign(void *ctx, backend_found_fn *fn, void *fn_ctx, struct error *err)
{
    const struct foreign *f = ctx;
    struct backend_found found;
    if (!f->exists)
        return 0;
    fill_found(&found);
    fn(fn_ctx, &found);
    backend_found_done(&found);
    return 0;
}

static int find_foreign(void *ctx, const struct computer_spec *spec, backend_found_fn *fn, void *fn_ctx,
                        struct error *err)
{
    return strcmp(spec->id, "python") == 0 ? list_foreign(ctx, fn, fn_ctx, err) : 0;
}

static int reap_foreign(void *ctx, const struct computer_spec *spec, const json_t *data, struct error *err)
{
    struct foreign *f = ctx;
    assert_string_equal(spec->id, "python");
    f->exists = false;
    f->reaped = true;
    return 0;
}

static void of_what_the_backend_alone_knows(void **state)
{
    struct domain d;
    struct foreign foreign = {.exists = true};
    struct computer_view view;
    domain_init(&d,
                &(struct fake_hooks){
                    .find = find_foreign, .list = list_foreign, .reap = reap_foreign, .ctx = &foreign},
                NULL);
    assert_true(find_view(d.session, "python", &view));
    assert_int_equal(view.condition, CONDITION_RUNNING);
    assert_string_equal(view.stat.image, "alpine:3");
    assert_true(must_delete(d.session, "python"));
    assert_true(foreign.reaped);
    assert_false(find_view(d.session, "python", &view));
    assert_false(must_delete(d.session, "python"));
    domain_done(&d, NULL);
}

/* -- Restarting. */

static void keeps_files(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    must_have(&d, "otter", LIFETIME_TEMPORARY);
    put_file(&d, "otter");
    struct computer_view view = must_restart(d.session, "otter");
    assert_string_equal(view.id, "otter");
    assert_int_equal(view.condition, CONDITION_RUNNING);
    assert_true(view.temporary);
    assert_true(has_file(&d, "otter"));
    assert_int_equal(fake_backend_counts(d.backend).restarted, 1);
    struct computer_use use = must_use(d.session, "otter", LIFETIME_AS_IS);
    assert_false(use.created);
    must_run(&use);
    computers_release(&use);
    domain_done(&d, NULL);
}

static void interrupts_calls(void **state)
{
    struct domain d;
    struct command command;
    domain_init(&d, NULL, NULL);
    struct computer_use use = must_use(d.session, "otter", LIFETIME_PERMANENT);
    command_start(&command, d.session, "otter", LIFETIME_AS_IS);
    must_restart(d.session, "otter");
    command_join(&command);
    assert_int_equal(command.r, -1);
    assert_int_equal(command.err.code, ERR_GONE);
    assert_non_null(strstr(command.err.msg, "was restarted"));
    must_run(&use); /* who had it before, and wasn't running anything, goes on with it */
    computers_release(&use);
    domain_done(&d, NULL);
}

static void starts_a_stopped_one(void **state)
{
    struct domain first, d;
    domain_init(&first, NULL, NULL);
    must_have(&first, "otter", LIFETIME_PERMANENT);
    put_file(&first, "otter");
    _cleanup_(cleanup_free) char *dir = xstrdup(first.state_dir);
    domain_done(&first, dir);

    domain_init(&d, NULL, dir);
    struct computer_view view = must_restart(d.session, "otter");
    assert_int_equal(view.condition, CONDITION_RUNNING);
    assert_false(view.temporary);
    assert_true(has_file(&d, "otter"));
    assert_int_equal(fake_backend_counts(d.backend).restarted, 0);
    assert_int_equal(fake_backend_counts(d.backend).attached, 1);
    domain_done(&d, NULL);
}

static void starts_one_that_died(void **state)
{
    struct domain d;
    struct computer_view view;
    domain_init(&d, NULL, NULL);
    must_have(&d, "otter", LIFETIME_PERMANENT);
    put_file(&d, "otter");
    fake_backend_crash(d.backend, "otter");
    assert_true(find_view(d.session, "otter", &view));
    assert_int_equal(view.condition, CONDITION_STOPPED);
    assert_true(view.reason[0]);
    view = must_restart(d.session, "otter"); /* who asks for that needn't be told of its end */
    assert_int_equal(view.condition, CONDITION_RUNNING);
    assert_true(has_file(&d, "otter"));
    domain_done(&d, NULL);
}

static void is_refused_where_files_would_be_lost(void **state)
{
    struct domain d;
    struct command command;
    struct computer_view view;
    const struct wait wait = long_wait();
    struct error err = ERROR_INIT;
    domain_init(&d, &(struct fake_hooks){.never_restarts = true}, NULL);
    uint64_t number = command_start(&command, d.session, "otter", LIFETIME_PERMANENT);
    must_not_restart(d.session, "otter", ERR_UNSUPPORTED);
    assert_int_equal(computer_reset(d.session, "otter", &wait, &view, &err), -1);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    bool cancelled = false; /* it still runs */
    assert_int_equal(computer_cancel_command(d.session, "otter", number, &cancelled, NULL), 0);
    assert_true(cancelled);
    command_join(&command);
    must_have(&d, "otter", LIFETIME_PERMANENT);
    domain_done(&d, NULL);
}

static int restart_fails(void *ctx, const char *id, const struct wait *wait, struct error *err)
{
    return error_set(err, ERR_UNAVAILABLE, "no init to be had");
}

static void that_fails_leaves_a_stopped_one(void **state)
{
    struct domain d;
    domain_init(&d, &(struct fake_hooks){.restart = restart_fails}, NULL);
    must_have(&d, "otter", LIFETIME_PERMANENT);
    put_file(&d, "otter");
    struct computer_session *other = computer_session_new(d.computers, "local");
    struct computer_use use = must_use(other, "otter", LIFETIME_AS_IS);
    computers_release(&use);
    must_not_restart(d.session, "otter", ERR_GONE);
    must_have(&d, "otter", LIFETIME_PERMANENT); /* who was told once isn't told again */
    must_not_use(other, "otter", LIFETIME_AS_IS, ERR_GONE);
    computer_session_end(other, DEADLINE_NONE, NULL);
    assert_true(has_file(&d, "otter"));
    assert_int_equal(fake_backend_counts(d.backend).attached, 1);
    domain_done(&d, NULL);
}

static int restart_waits(void *ctx, const char *id, const struct wait *wait, struct error *err)
{
    return gate_pass(ctx, wait, err);
}

struct restarter {
    struct computer_session *session;
    struct computer_view view;
    struct error err;
    int r;
    pthread_t thread;
};

static void *restart(void *arg)
{
    struct restarter *x = arg;
    const struct wait wait = long_wait();
    x->r = computer_restart(x->session, "otter", &wait, &x->view, &x->err);
    return NULL;
}

static void two_at_once_and_a_call(void **state)
{
    struct domain d;
    struct gate gate;
    struct restarter a, b;
    struct caller caller;
    struct computer_view view;
    gate_init(&gate);
    domain_init(&d, &(struct fake_hooks){.restart = restart_waits, .ctx = &gate}, NULL);
    must_have(&d, "otter", LIFETIME_TEMPORARY);
    a = b = (struct restarter){.session = d.session};
    assert_int_equal(pthread_create(&a.thread, NULL, restart, &a), 0);
    gate_await(&gate, 1);
    assert_int_equal(pthread_create(&b.thread, NULL, restart, &b), 0);
    caller_start(&caller, d.session, "otter", NULL);
    await_waiter(&d, "otter");
    assert_true(find_view(d.session, "otter", &view)); /* nobody who lists waits */
    assert_int_equal(view.condition, CONDITION_CREATING);
    gate_open(&gate);
    pthread_join(a.thread, NULL);
    pthread_join(b.thread, NULL);
    caller_join(&caller);
    if (a.r < 0 || b.r < 0 || caller.r < 0)
        fail_msg("%s, %s, %s", a.err.msg, b.err.msg, caller.err.msg);
    assert_false(caller.use.created);
    assert_int_equal(fake_backend_counts(d.backend).restarted, 2);
    computers_release(&caller.use);
    domain_done(&d, NULL);
    gate_done(&gate);
}

static int restart_passes(void *ctx, const char *id, const struct wait *wait, struct error *err)
{
    return 0;
}

/* Each tells how it was when it was done, though the next one has it by then. */
static void many_at_once_are_each_told_what_came_of_it(void **state)
{
    struct domain d;
    struct restarter all[8];
    domain_init(&d, &(struct fake_hooks){.restart = restart_passes}, NULL);
    must_have(&d, "otter", LIFETIME_PERMANENT);
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        all[i] = (struct restarter){.session = d.session};
        assert_int_equal(pthread_create(&all[i].thread, NULL, restart, &all[i]), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        pthread_join(all[i].thread, NULL);
        if (all[i].r < 0)
            fail_msg("%s", all[i].err.msg);
        assert_int_equal(all[i].view.condition, CONDITION_RUNNING);
        assert_true(all[i].view.has_stat);
    }
    domain_done(&d, NULL);
}

static void is_ended_by_a_deletion(void **state)
{
    struct domain d;
    struct gate gate;
    struct restarter a;
    gate_init(&gate);
    domain_init(&d, &(struct fake_hooks){.restart = restart_waits, .ctx = &gate}, NULL);
    must_have(&d, "otter", LIFETIME_PERMANENT);
    a = (struct restarter){.session = d.session};
    assert_int_equal(pthread_create(&a.thread, NULL, restart, &a), 0);
    gate_await(&gate, 1);
    assert_true(must_delete(d.session, "otter")); /* the gate is closed */
    pthread_join(a.thread, NULL);
    assert_int_equal(a.r, -1);
    assert_int_equal(a.err.code, ERR_DELETED);
    assert_false(folder_exists(&d, "otter"));
    domain_done(&d, NULL);
    gate_done(&gate);
}

/* -- Commands. */

static void commands_are_told_and_can_be_cancelled(void **state)
{
    struct domain d;
    struct command command;
    struct computer_view view;
    bool cancelled = false;
    domain_init(&d, NULL, NULL);
    uint64_t number = command_start(&command, d.session, "otter", LIFETIME_TEMPORARY);
    assert_true(find_view(d.session, "otter", &view));
    assert_int_equal(view.running_count, 1);
    assert_string_equal(view.running[0].text, "sleep 1000");
    assert_true(view.running[0].began > 0 && view.last.number == 0);
    assert_int_equal(computer_cancel_command(d.session, "otter", number + 1, &cancelled, NULL), 0);
    assert_false(cancelled);
    assert_int_equal(computer_cancel_command(d.session, "otter", number, &cancelled, NULL), 0);
    assert_true(cancelled);
    command_join(&command);
    assert_int_equal(command.err.code, ERR_CANCELLED);
    assert_non_null(strstr(command.err.msg, "somebody else"));
    assert_int_equal(computer_cancel_command(d.session, "otter", number, &cancelled, NULL), 0);
    assert_false(cancelled);
    struct computer_use use = must_use(d.session, "otter", LIFETIME_AS_IS);
    must_run(&use); /* the computer goes on */
    computer_look(&use, &view);
    assert_int_equal(view.running_count, 0);
    assert_string_equal(view.last.text, "true");
    assert_int_equal(view.last.exit_code, 0);
    assert_true(view.last.number > number && view.last.duration_ns > 0);
    computers_release(&use);
    domain_done(&d, NULL);
}

static int exec_nothing(void *ctx, const char *id, const struct exec_request *request,
                        struct exec_result *ret, struct error *err)
{
    *ret = (struct exec_result){.exit_code = 3};
    return 0;
}

/* The text of a command, as it is told. */
static void text_is(struct domain *d, const struct exec_request *request, const char *expected)
{
    struct computer_use use = must_use(d->session, "otter", LIFETIME_AS_IS);
    struct exec_result result = {0};
    struct computer_view view;
    assert_int_equal(computer_exec(&use, request, &result, NULL), 0);
    exec_result_done(&result);
    computer_look(&use, &view);
    assert_string_equal(view.last.text, expected);
    assert_int_equal(view.last.exit_code, 3);
    computers_release(&use);
}

static void texts_are_cut_between_characters(void **state)
{
    struct domain d;
    char program[] = "ls", option[] = "-l", folder[] = "/a b";
    char *argv[] = {program, option, folder, NULL};
    char text[600], expected[256];
    domain_init(&d, &(struct fake_hooks){.exec = exec_nothing}, NULL);
    text_is(&d, &(struct exec_request){.argv = argv}, "ls -l /a b");
    for (int shift = 0; shift < 4; shift++) {
        memset(text, 'x', sizeof(text));
        for (size_t i = (size_t)shift; i + 4 <= 400; i += 4)
            memcpy(text + i, "\xF0\x9F\xA6\xA6", 4); /* an otter */
        size_t whole = (255 - (size_t)shift) / 4 * 4 + (size_t)shift;
        memcpy(expected, text, whole);
        expected[whole] = '\0';
        text_is(&d, &(struct exec_request){.command = text, .command_len = 400}, expected);
    }
    text_is(&d, &(struct exec_request){.command = "a\xFF", .command_len = 2}, "a\xEF\xBF\xBD");
    domain_done(&d, NULL);
}

/* -- How many. */

static void a_principal_has_a_maximum(void **state)
{
    struct domain first, d;
    const struct computers_options two = {.max_per_principal = 2};
    struct computer_use use = {0};
    struct error err = ERROR_INIT;
    const struct wait wait = long_wait();
    domain_init(&first, NULL, NULL);
    must_have(&first, "one", LIFETIME_PERMANENT);
    must_have(&first, "two", LIFETIME_PERMANENT);
    must_have(&first, "passing", LIFETIME_TEMPORARY);
    _cleanup_(cleanup_free) char *dir = xstrdup(first.state_dir);
    domain_done(&first, dir);

    domain_init_options(&d, NULL, dir, &two);
    assert_int_equal(computers_use(d.session, &(struct computer_wish){.id = "three"}, &wait, &use, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_non_null(strstr(err.msg, "computer_delete")); /* what to do */
    assert_non_null(strstr(err.msg, "2 computers already, 2 of them stopped"));
    must_have(&d, "one", LIFETIME_AS_IS); /* what exists can be used */
    struct computer_session *bob = computer_session_new(d.computers, "bob");
    use = must_use(bob, "three", LIFETIME_AS_IS);
    computers_release(&use);
    assert_true(must_delete(d.session, "two"));
    must_have(&d, "three", LIFETIME_AS_IS);
    must_not_use(d.session, "four", LIFETIME_AS_IS, ERR_LIMIT);
    assert_int_equal(computer_session_end(bob, DEADLINE_NONE, NULL), 0);
    domain_done(&d, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_nothing),
        cmocka_unit_test(of_running_ones),
        cmocka_unit_test(of_a_stopped_one),
        cmocka_unit_test(ends_what_runs),
        cmocka_unit_test(is_told_to_other_sessions_once),
        cmocka_unit_test(of_one_being_made),
        cmocka_unit_test(of_one_being_started),
        cmocka_unit_test(that_fails_is_told_and_done_later),
        cmocka_unit_test(needs_no_room_on_the_disk),
        cmocka_unit_test(is_marked_without_room_on_the_disk),
        cmocka_unit_test(of_what_another_server_has),
        cmocka_unit_test(of_another_principals),
        cmocka_unit_test(of_what_the_backend_alone_knows),
        cmocka_unit_test(keeps_files),
        cmocka_unit_test(interrupts_calls),
        cmocka_unit_test(starts_a_stopped_one),
        cmocka_unit_test(starts_one_that_died),
        cmocka_unit_test(is_refused_where_files_would_be_lost),
        cmocka_unit_test(that_fails_leaves_a_stopped_one),
        cmocka_unit_test(two_at_once_and_a_call),
        cmocka_unit_test(many_at_once_are_each_told_what_came_of_it),
        cmocka_unit_test(is_ended_by_a_deletion),
        cmocka_unit_test(commands_are_told_and_can_be_cancelled),
        cmocka_unit_test(texts_are_cut_between_characters),
        cmocka_unit_test(a_principal_has_a_maximum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
