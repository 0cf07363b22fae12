/* A new computer in the place of an old one. */
#include "domain.h"

#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

static int reset(struct computer_session *s, const char *id, struct computer_view *ret, struct error *err)
{
    const struct wait wait = long_wait();
    return computer_reset(s, id, &wait, ret, err);
}

static struct computer_view must_reset(struct computer_session *s, const char *id)
{
    struct computer_view view;
    struct error err = ERROR_INIT;
    if (reset(s, id, &view, &err) < 0)
        fail_msg("computer_reset: %s", err.msg);
    return view;
}

static void must_not_reset(struct computer_session *s, const char *id, enum error_code code)
{
    struct computer_view view;
    struct error err = ERROR_INIT;
    assert_int_equal(reset(s, id, &view, &err), -1);
    if (err.code != code)
        fail_msg("expected %s, got %s: %s", error_code_name(code), error_code_name(err.code), err.msg);
}

/* Nothing is left over, whatever happened. */
static void nothing_is_left(const struct domain *d)
{
    assert_int_equal(find_unborn(d->state_dir).count, 0);
}

static void of_nothing(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    must_not_reset(d.session, "otter", ERR_NOT_FOUND);
    must_not_reset(d.session, "..", ERR_INVALID);
    nothing_is_left(&d);
    domain_done(&d, NULL);
}

static void gives_a_new_one(void **state)
{
    static const enum lifetime LIFETIMES[] = {LIFETIME_TEMPORARY, LIFETIME_PERMANENT};
    for (size_t i = 0; i < 2; i++) {
        struct domain d;
        struct computer_view before, after;
        domain_init(&d, NULL, NULL);
        must_have(&d, "otter", LIFETIMES[i]);
        put_file(&d, "otter");
        assert_true(find_view(d.session, "otter", &before));
        after = must_reset(d.session, "otter");
        assert_string_equal(after.id, "otter");
        assert_int_equal(after.condition, CONDITION_RUNNING);
        assert_int_equal(after.temporary, LIFETIMES[i] == LIFETIME_TEMPORARY);
        assert_string_not_equal(after.stat.provider_id, before.stat.provider_id);
        assert_true(folder_exists(&d, "otter"));
        assert_false(has_file(&d, "otter"));
        nothing_is_left(&d);
        struct computer_use use = must_use(d.session, "otter", LIFETIME_AS_IS);
        assert_false(use.created);
        must_run(&use);
        computers_release(&use);
        assert_int_equal(fake_backend_counts(d.backend).live, 1);
        domain_new_session(&d);
        assert_int_equal(folder_exists(&d, "otter"), LIFETIMES[i] == LIFETIME_PERMANENT);
        domain_done(&d, NULL);
    }
}

static void of_a_stopped_one(void **state)
{
    struct domain first, d;
    domain_init(&first, NULL, NULL);
    must_have(&first, "otter", LIFETIME_PERMANENT);
    put_file(&first, "otter");
    _cleanup_(cleanup_free) char *dir = xstrdup(first.state_dir);
    domain_done(&first, dir);

    domain_init(&d, NULL, dir);
    must_reset(d.session, "otter");
    assert_false(has_file(&d, "otter"));
    assert_int_equal(fake_backend_counts(d.backend).attached, 0);
    put_file(&d, "otter");
    nothing_is_left(&d);
    domain_done(&d, dir);

    domain_init(&d, NULL, dir); /* its record is whole */
    must_have(&d, "otter", LIFETIME_PERMANENT);
    assert_true(has_file(&d, "otter"));
    domain_done(&d, NULL);
}

static void of_the_default_one(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    struct computer_use use = must_use(d.session, NULL, LIFETIME_AS_IS);
    _cleanup_(cleanup_free) char *id = xstrdup(computer_id(use.computer));
    computers_release(&use);
    must_reset(d.session, id);
    use = must_use(d.session, NULL, LIFETIME_AS_IS);
    assert_string_equal(computer_id(use.computer), id);
    computers_release(&use);
    domain_done(&d, NULL);
}

static void keeps_options_and_terms(void **state)
{
    struct domain d;
    char one[] = "A=1";
    char *env[] = {one, NULL};
    const struct computer_options options = {.given = COMPUTER_IMAGE | COMPUTER_MEMORY | COMPUTER_ENV,
                                             .image = "debian:12",
                                             .memory_bytes = 64 << 20,
                                             .env = env};
    const struct computer_terms terms = {.ttl_s = 5000, .idle_s = 1000, .description = "for tests"};
    const struct wait wait = long_wait();
    struct computer_use use;
    domain_init(&d, &(struct fake_hooks){.options = ~0u}, NULL);
    const struct computer_wish wish = {
        .id = "otter", .lifetime = LIFETIME_PERMANENT, .options = &options, .terms = &terms};
    for (int i = 0; i < 2; i++) { /* the second time it is there, and nothing contradicts */
        assert_int_equal(computers_use(d.session, &wish, &wait, &use, NULL), 0);
        computers_release(&use);
        struct computer_view view = must_reset(d.session, "otter");
        assert_string_equal(view.stat.image, "debian:12");
        assert_int_equal(view.stat.memory_limit, 64 << 20);
        assert_string_equal(view.description, "for tests");
        assert_true(view.expires_in_s > 990 && view.expires_in_s <= 1000);
    }
    domain_done(&d, NULL);
}

static void is_told_to_others(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    struct computer_session *other = computer_session_new(d.computers, "local");
    must_have(&d, "otter", LIFETIME_TEMPORARY);
    struct computer_use held = must_use(other, "otter", LIFETIME_AS_IS);
    struct computer_use use = held;
    struct exec_result result;
    struct error err = ERROR_INIT;
    must_run(&held);
    computers_release(&held);
    must_reset(d.session, "otter");
    must_not_use(other, "otter", LIFETIME_AS_IS, ERR_GONE);
    use = must_use(other, "otter", LIFETIME_AS_IS);
    assert_false(use.created);
    must_reset(d.session, "otter"); /* under a use */
    const struct exec_request request = {.command = "true", .command_len = 4, .output_limit = 1};
    assert_int_equal(computer_exec(&use, &request, &result, &err), -1);
    assert_int_equal(err.code, ERR_GONE);
    assert_non_null(strstr(err.msg, "was reset"));
    computers_release(&use);
    use = must_use(other, "otter", LIFETIME_AS_IS);
    must_run(&use);
    computers_release(&use);
    assert_int_equal(computer_session_end(other, DEADLINE_NONE, NULL), 0);
    domain_done(&d, NULL);
}

/* -- What fails leaves the old one. */

struct failing {
    bool create, take_over, take_over_late;
};

static int create_fails(void *ctx, const struct computer_spec *spec, const struct wait *wait,
                        struct error *err)
{
    const struct failing *f = ctx;
    return f->create ? error_set(err, ERR_UNAVAILABLE, "no image to be had") : 0;
}

static int take_over_fails(void *ctx, const struct computer_spec *spec, bool moved, struct error *err)
{
    const struct failing *f = ctx;
    return f->take_over && moved == f->take_over_late ? error_set(err, ERR_UNAVAILABLE, "no name to be had")
                                                      : 0;
}

static void that_fails_early_leaves_the_old_one(void **state)
{
    static const struct failing FAILING[] = {{.create = true}, {.take_over = true}};
    for (size_t i = 0; i < 2; i++) {
        struct domain d;
        struct failing failing = {0};
        const struct fake_hooks hooks = {
            .create = create_fails, .take_over = take_over_fails, .ctx = &failing};
        domain_init(&d, &hooks, NULL);
        struct computer_use use = must_use(d.session, "otter", LIFETIME_TEMPORARY);
        put_file(&d, "otter");
        failing = FAILING[i];
        must_not_reset(d.session, "otter", ERR_UNAVAILABLE);
        assert_true(has_file(&d, "otter"));
        must_run(&use);
        computers_release(&use);
        nothing_is_left(&d);
        assert_int_equal(fake_backend_counts(d.backend).live, 1);
        domain_done(&d, NULL);
    }
}

static void that_fails_late_leaves_the_new_one(void **state)
{
    struct domain d;
    struct failing failing = {0};
    const struct fake_hooks hooks = {.create = create_fails, .take_over = take_over_fails, .ctx = &failing};
    domain_init(&d, &hooks, NULL);
    must_have(&d, "otter", LIFETIME_PERMANENT);
    put_file(&d, "otter");
    failing = (struct failing){.take_over = true, .take_over_late = true};
    must_not_reset(d.session, "otter", ERR_UNAVAILABLE);
    struct computer_use use = must_use(d.session, "otter", LIFETIME_AS_IS);
    assert_false(use.created);
    assert_false(has_file(&d, "otter"));
    computers_release(&use);
    nothing_is_left(&d);
    domain_done(&d, NULL);
}

/* -- At the same time as others. */

struct resetter {
    struct computer_session *session;
    struct computer_view view;
    struct error err;
    int r;
    pthread_t thread;
};

static void *run(void *arg)
{
    struct resetter *x = arg;
    x->r = reset(x->session, "otter", &x->view, &x->err);
    return NULL;
}

static void start(struct resetter *x, struct computer_session *s)
{
    *x = (struct resetter){.session = s};
    assert_int_equal(pthread_create(&x->thread, NULL, run, x), 0);
}

static int replacing_waits(void *ctx, const struct computer_spec *spec, const struct wait *wait,
                           struct error *err)
{
    return spec->replacing ? gate_pass(ctx, wait, err) : 0;
}

static void two_at_once_and_a_call(void **state)
{
    struct domain d;
    struct gate gate;
    struct resetter a, b;
    struct caller caller;
    gate_init(&gate);
    domain_init(&d, &(struct fake_hooks){.create = replacing_waits, .ctx = &gate}, NULL);
    struct computer_use use = must_use(d.session, "otter", LIFETIME_TEMPORARY);
    start(&a, d.session);
    gate_await(&gate, 1);
    start(&b, d.session);
    caller_start(&caller, d.session, "otter", NULL);
    await_waiter(&d, "otter");
    gate_open(&gate);
    pthread_join(a.thread, NULL);
    pthread_join(b.thread, NULL);
    caller_join(&caller);
    if (a.r < 0 || b.r < 0 || caller.r < 0)
        fail_msg("%s, %s, %s", a.err.msg, b.err.msg, caller.err.msg);
    assert_false(caller.use.created);
    assert_string_not_equal(a.view.stat.provider_id, b.view.stat.provider_id);
    computers_release(&use);
    computers_release(&caller.use);
    nothing_is_left(&d);
    assert_int_equal(fake_backend_counts(d.backend).replaced, 2);
    domain_done(&d, NULL);
    gate_done(&gate);
}

/* Whoever ends the old one ends the whole. */
static void is_ended_by_a_deletion(void **state)
{
    struct domain d;
    struct gate gate;
    struct resetter a;
    bool deleted = false;
    const struct wait wait = long_wait();
    gate_init(&gate);
    domain_init(&d, &(struct fake_hooks){.create = replacing_waits, .ctx = &gate}, NULL);
    must_have(&d, "otter", LIFETIME_PERMANENT);
    start(&a, d.session);
    gate_await(&gate, 1);
    assert_int_equal(computer_delete(d.session, "otter", &wait, &deleted, NULL), 0); /* the gate is closed */
    assert_true(deleted);
    pthread_join(a.thread, NULL);
    assert_int_equal(a.r, -1);
    assert_int_equal(a.err.code, ERR_DELETED);
    assert_false(folder_exists(&d, "otter"));
    nothing_is_left(&d);
    domain_done(&d, NULL);
    gate_done(&gate);
}

static void is_ended_by_its_session(void **state)
{
    struct domain d;
    struct gate gate;
    struct resetter a;
    gate_init(&gate);
    domain_init(&d, &(struct fake_hooks){.create = replacing_waits, .ctx = &gate}, NULL);
    must_have(&d, "otter", LIFETIME_TEMPORARY);
    start(&a, d.session);
    gate_await(&gate, 1);
    assert_int_equal(computer_session_end(TAKE_PTR(d.session), DEADLINE_NONE, NULL), 0);
    pthread_join(a.thread, NULL);
    assert_int_equal(a.r, -1);
    assert_int_equal(a.err.code, ERR_CANCELLED);
    nothing_is_left(&d);
    assert_false(folder_exists(&d, "otter"));
    domain_done(&d, NULL);
    gate_done(&gate);
}

/* The old one's own call, which is waited for. */
static int exec_waits(void *ctx, const char *id, const struct exec_request *request, struct exec_result *ret,
                      struct error *err)
{
    return gate_pass(ctx, &request->wait, err) < 0 ? -1 : 0;
}

struct command {
    struct computer_use use;
    struct error err;
    int r;
};

static void *exec(void *arg)
{
    struct command *c = arg;
    struct exec_result result = {0};
    const struct exec_request request = {
        .command = "true", .command_len = 4, .output_limit = 1, .wait = {.deadline = DEADLINE_NONE}};
    c->r = computer_exec(&c->use, &request, &result, &c->err);
    computers_release(&c->use);
    return NULL;
}

static void ends_what_runs(void **state)
{
    struct domain d;
    struct gate gate;
    pthread_t thread;
    gate_init(&gate);
    domain_init(&d, &(struct fake_hooks){.exec = exec_waits, .ctx = &gate}, NULL);
    struct command command = {.use = must_use(d.session, "otter", LIFETIME_PERMANENT)};
    assert_int_equal(pthread_create(&thread, NULL, exec, &command), 0);
    gate_await(&gate, 1);
    must_reset(d.session, "otter");
    pthread_join(thread, NULL);
    assert_int_equal(command.r, -1);
    assert_int_equal(command.err.code, ERR_GONE);
    assert_non_null(strstr(command.err.msg, "was reset"));
    nothing_is_left(&d);
    domain_done(&d, NULL);
    gate_done(&gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_nothing),
        cmocka_unit_test(gives_a_new_one),
        cmocka_unit_test(of_a_stopped_one),
        cmocka_unit_test(of_the_default_one),
        cmocka_unit_test(keeps_options_and_terms),
        cmocka_unit_test(is_told_to_others),
        cmocka_unit_test(that_fails_early_leaves_the_old_one),
        cmocka_unit_test(that_fails_late_leaves_the_new_one),
        cmocka_unit_test(two_at_once_and_a_call),
        cmocka_unit_test(is_ended_by_a_deletion),
        cmocka_unit_test(is_ended_by_its_session),
        cmocka_unit_test(ends_what_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
