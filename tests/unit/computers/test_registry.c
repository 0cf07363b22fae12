/* Finding, waiting for and making computers, also by several callers and servers at once. */
#include "domain.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

static int create_waits(void *ctx, const struct computer_spec *spec, const struct wait *wait,
                        struct error *err)
{
    return strcmp(spec->id, "slow") == 0 ? gate_pass(ctx, wait, err) : 0;
}

static int create_waits_then_fails(void *ctx, const struct computer_spec *spec, const struct wait *wait,
                                   struct error *err)
{
    if (gate_pass(ctx, wait, err) < 0)
        return -1;
    return error_set(err, ERR_UNAVAILABLE, "no room at the inn");
}

static void default_computer_is_one(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    struct computer_use a = must_use(d.session, NULL, LIFETIME_AS_IS);
    struct computer_use b = must_use(d.session, NULL, LIFETIME_AS_IS);
    assert_true(a.created);
    assert_false(b.created);
    assert_ptr_equal(a.computer, b.computer);
    assert_true(computer_is_temporary(a.computer));
    struct computer_use by_id = must_use(d.session, computer_id(a.computer), LIFETIME_AS_IS);
    assert_ptr_equal(by_id.computer, a.computer);
    computers_release(&a);
    computers_release(&b);
    computers_release(&by_id);
    domain_done(&d, NULL);
}

static void sessions_have_their_own_default(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    struct computer_session *other = computer_session_new(d.computers, "local");
    struct computer_use a = must_use(d.session, NULL, LIFETIME_AS_IS);
    struct computer_use b = must_use(other, NULL, LIFETIME_AS_IS);
    assert_ptr_not_equal(a.computer, b.computer);
    computers_release(&a);
    computers_release(&b);
    assert_int_equal(computer_session_end(other, DEADLINE_NONE, NULL), 0);
    domain_done(&d, NULL);
}

static void principals_are_separate(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    struct computer_session *other = computer_session_new(d.computers, "someone-else");
    struct computer_use a = must_use(d.session, "otter", LIFETIME_AS_IS);
    struct computer_use b = must_use(other, "otter", LIFETIME_AS_IS);
    assert_true(a.created && b.created);
    assert_ptr_not_equal(a.computer, b.computer);
    computers_release(&a);
    computers_release(&b);
    assert_int_equal(computer_session_end(other, DEADLINE_NONE, NULL), 0);
    domain_done(&d, NULL);
}

static void lifetimes(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    struct computer_use use = must_use(d.session, "keeper", LIFETIME_PERMANENT);
    assert_false(computer_is_temporary(use.computer));
    computers_release(&use);
    use = must_use(d.session, "otter", LIFETIME_AS_IS);
    assert_true(computer_is_temporary(use.computer)); /* omitted: a new one is temporary */
    computers_release(&use);
    use = must_use(d.session, "keeper", LIFETIME_AS_IS); /* and an old one as it is */
    assert_false(computer_is_temporary(use.computer));
    computers_release(&use);
    must_not_use(d.session, "keeper", LIFETIME_TEMPORARY, ERR_EXISTS);
    must_not_use(d.session, "otter", LIFETIME_PERMANENT, ERR_EXISTS);
    use = must_use(d.session, NULL, LIFETIME_TEMPORARY);
    computers_release(&use);
    must_not_use(d.session, NULL, LIFETIME_PERMANENT, ERR_EXISTS); /* the default computer too */
    domain_done(&d, NULL);
}

static void bad_ids_make_nothing(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    must_not_use(d.session, "No Slug", LIFETIME_AS_IS, ERR_INVALID);
    must_not_use(d.session, "../../etc", LIFETIME_AS_IS, ERR_INVALID);
    must_not_use(d.session, "", LIFETIME_AS_IS, ERR_INVALID);
    assert_int_equal(fake_backend_counts(d.backend).created, 0);
    domain_done(&d, NULL);
}

static void a_state_directory_that_cannot_be_used_is_told(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    _cleanup_(cleanup_free) char *file = xasprintf("%s/file", d.state_dir);
    assert_int_equal(file_replace(AT_FDCWD, file, "x", 1, false, NULL), 0);
    const struct computers_options options = {.state_dir = file, .backend = d.backend};
    struct computers *computers = computers_new(&options);
    struct computer_session *s = computer_session_new(computers, "local");
    must_not_use(s, NULL, LIFETIME_AS_IS, ERR_UNAVAILABLE);
    must_not_use(s, "otter", LIFETIME_AS_IS, ERR_UNAVAILABLE);
    assert_int_equal(computer_session_end(s, DEADLINE_NONE, NULL), 0);
    computers_free(computers);
    domain_done(&d, NULL);
}

static void permanent_needs_a_backend_that_can(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    struct backend *weak = fake_backend_new(0, NULL);
    const struct computers_options options = {.state_dir = d.state_dir, .backend = weak, .network = "none"};
    struct computers *computers = computers_new(&options);
    struct computer_session *s = computer_session_new(computers, "local");
    must_not_use(s, "keeper", LIFETIME_PERMANENT, ERR_UNSUPPORTED);
    assert_false(folder_exists(&d, "keeper"));
    assert_int_equal(computer_session_end(s, DEADLINE_NONE, NULL), 0);
    computers_free(computers);
    weak->ops->free(weak);
    domain_done(&d, NULL);
}

static void there_is_a_maximum(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    const struct computers_options options = {
        .state_dir = d.state_dir, .backend = d.backend, .max_per_principal = 2};
    struct computers *computers = computers_new(&options);
    struct computer_session *s = computer_session_new(computers, "local");
    struct computer_session *other = computer_session_new(computers, "someone-else");
    struct computer_use a = must_use(s, "a", LIFETIME_AS_IS), b = must_use(s, "b", LIFETIME_AS_IS);
    must_not_use(s, "c", LIFETIME_AS_IS, ERR_LIMIT);
    struct computer_use theirs = must_use(other, "c", LIFETIME_AS_IS); /* each principal has its own */
    computers_release(&a);
    computers_release(&b);
    computers_release(&theirs);
    assert_int_equal(computer_session_end(s, DEADLINE_NONE, NULL), 0);
    assert_int_equal(computer_session_end(other, DEADLINE_NONE, NULL), 0);
    computers_free(computers);
    domain_done(&d, NULL);
}

/* -- While one is being made */

static void b22_one_creates_the_other_attaches(void **state)
{
    enum { CALLERS = 6 };
    struct domain d;
    struct gate gate;
    struct caller callers[CALLERS];
    gate_init(&gate);
    domain_init(&d, &(struct fake_hooks){.create = create_waits, .ctx = &gate}, NULL);
    struct computer_session *other = computer_session_new(d.computers, "local");
    for (int i = 0; i < CALLERS; i++)
        caller_start(&callers[i], i % 2 ? other : d.session, "slow", NULL);
    gate_await(&gate, 1);
    await_waiter(&d, "slow");
    gate_open(&gate);
    int created = 0;
    for (int i = 0; i < CALLERS; i++) {
        caller_join(&callers[i]);
        assert_int_equal(callers[i].r, 0);
        assert_ptr_equal(callers[i].use.computer, callers[0].use.computer);
        created += callers[i].use.created;
    }
    assert_int_equal(created, 1);
    assert_int_equal(fake_backend_counts(d.backend).created, 1);
    for (int i = 0; i < CALLERS; i++)
        computers_release(&callers[i].use);
    assert_int_equal(computer_session_end(other, DEADLINE_NONE, NULL), 0);
    domain_done(&d, NULL);
    gate_done(&gate);
}

static void b23_a_slow_one_delays_no_other(void **state)
{
    struct domain d;
    struct gate gate;
    struct caller slow;
    gate_init(&gate);
    domain_init(&d, &(struct fake_hooks){.create = create_waits, .ctx = &gate}, NULL);
    caller_start(&slow, d.session, "slow", NULL);
    gate_await(&gate, 1);
    struct computer_use fast = must_use(d.session, "fast", LIFETIME_AS_IS); /* while the other hangs */
    must_run(&fast);
    computers_release(&fast);
    gate_open(&gate);
    caller_join(&slow);
    computers_release(&slow.use);
    domain_done(&d, NULL);
    gate_done(&gate);
}

static void failure_is_told_to_all_and_leaves_nothing(void **state)
{
    struct domain d;
    struct gate gate;
    struct caller first, second;
    gate_init(&gate);
    domain_init(&d, &(struct fake_hooks){.create = create_waits_then_fails, .ctx = &gate}, NULL);
    caller_start(&first, d.session, "slow", NULL);
    gate_await(&gate, 1);
    caller_start(&second, d.session, "slow", NULL);
    await_waiter(&d, "slow");
    gate_open(&gate);
    caller_join(&first);
    caller_join(&second);
    assert_int_equal(first.err.code, ERR_UNAVAILABLE);
    assert_int_equal(second.err.code, ERR_UNAVAILABLE);
    assert_string_equal(second.err.msg, "no room at the inn");
    assert_false(folder_exists(&d, "slow"));
    domain_done(&d, NULL);
    gate_done(&gate);
}

static void a_waiter_keeps_its_own_limits(void **state)
{
    struct domain d;
    struct gate gate;
    struct caller creator, waiter;
    gate_init(&gate);
    domain_init(&d, &(struct fake_hooks){.create = create_waits, .ctx = &gate}, NULL);
    caller_start(&creator, d.session, "slow", NULL);
    gate_await(&gate, 1);

    struct cancel *cancel = cancel_new();
    caller_start(&waiter, d.session, "slow", cancel);
    await_waiter(&d, "slow");
    cancel_fire(cancel, ERR_CANCELLED);
    caller_join(&waiter);
    assert_int_equal(waiter.err.code, ERR_CANCELLED);
    cancel_unref(cancel);

    struct computer_use use = {0};
    struct error err = ERROR_INIT;
    const struct wait short_wait = {.deadline = clock_now() + NSEC_PER_MSEC};
    assert_int_equal(computers_use(d.session, &(struct computer_wish){.id = "slow"}, &short_wait, &use, &err),
                     -1);
    assert_int_equal(err.code, ERR_TIMEOUT);

    gate_open(&gate); /* the creator isn't disturbed */
    caller_join(&creator);
    assert_int_equal(creator.r, 0);
    computers_release(&creator.use);
    domain_done(&d, NULL);
    gate_done(&gate);
}

/* The first caller is cancelled while it makes the computer; the second, who waits for it, makes it then. */
static void a_cancelled_creator_is_succeeded(void **state)
{
    struct domain d;
    struct gate gate;
    struct caller creator, waiter;
    struct cancel *cancel = cancel_new();
    gate_init(&gate);
    domain_init(&d, &(struct fake_hooks){.create = create_waits, .ctx = &gate}, NULL);
    caller_start(&creator, d.session, "slow", cancel);
    gate_await(&gate, 1);
    caller_start(&waiter, d.session, "slow", NULL);
    await_waiter(&d, "slow");
    cancel_fire(cancel, ERR_CANCELLED);
    caller_join(&creator);
    assert_int_equal(creator.err.code, ERR_CANCELLED);
    gate_await(&gate, 2);
    gate_open(&gate);
    caller_join(&waiter);
    assert_int_equal(waiter.r, 0);
    assert_true(waiter.use.created);
    computers_release(&waiter.use);
    cancel_unref(cancel);
    domain_done(&d, NULL);
    gate_done(&gate);
}

static void a_failed_default_computer_can_be_tried_again(void **state)
{
    struct domain d;
    struct gate gate;
    gate_init(&gate);
    gate_open(&gate);
    domain_init(&d, &(struct fake_hooks){.create = create_waits_then_fails, .ctx = &gate}, NULL);
    must_not_use(d.session, NULL, LIFETIME_AS_IS, ERR_UNAVAILABLE);
    must_not_use(d.session, NULL, LIFETIME_AS_IS, ERR_UNAVAILABLE);
    assert_int_equal(gate.arrived, 2);
    domain_done(&d, NULL);
    gate_done(&gate);
}

/* Many callers, few names: whatever the order, every call ends with a computer that works. */
static void *hammer(void *arg)
{
    struct computer_session *s = arg;
    for (int i = 0; i < 50; i++) {
        char id[16];
        snprintf(id, sizeof(id), "box-%d", i % 3);
        struct computer_use use = must_use(s, id, LIFETIME_AS_IS);
        must_run(&use);
        computers_release(&use);
    }
    return NULL;
}

static int exec_nothing(void *ctx, const char *id, const struct exec_request *request,
                        struct exec_result *ret, struct error *err)
{
    return 0;
}

static void hammering(void **state)
{
    enum { THREADS = 8 };
    struct domain d;
    pthread_t threads[THREADS];
    domain_init(&d, &(struct fake_hooks){.exec = exec_nothing}, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, hammer, d.session);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(fake_backend_counts(d.backend).created, 3);
    domain_done(&d, NULL);
}

/* -- Several servers on one state directory */

static void b22_two_servers(void **state)
{
    struct domain one, two;
    domain_init(&one, NULL, NULL);
    domain_init(&two, NULL, one.state_dir);
    struct computer_use use = must_use(one.session, "shared", LIFETIME_PERMANENT);
    must_not_use(two.session, "shared", LIFETIME_AS_IS, ERR_BUSY);
    assert_int_equal(fake_backend_counts(two.backend).created, 0);
    computers_release(&use);
    domain_done(&two, one.state_dir);
    domain_done(&one, NULL);
}

struct racer {
    struct domain d;
    struct caller caller;
};

static void b22_two_servers_at_once(void **state)
{
    for (int round = 0; round < 20; round++) {
        struct domain first;
        struct racer racers[2];
        domain_init(&first, NULL, NULL);
        for (int i = 0; i < 2; i++) {
            domain_init(&racers[i].d, NULL, first.state_dir);
            caller_start(&racers[i].caller, racers[i].d.session, "shared", NULL);
        }
        int created = 0, busy = 0;
        for (int i = 0; i < 2; i++) {
            caller_join(&racers[i].caller);
            created += racers[i].caller.r == 0;
            busy += racers[i].caller.r < 0 && racers[i].caller.err.code == ERR_BUSY;
        }
        assert_int_equal(created, 1); /* neither twice nor not at all */
        assert_int_equal(busy, 1);
        for (int i = 0; i < 2; i++) {
            computers_release(&racers[i].caller.use);
            domain_done(&racers[i].d, first.state_dir);
        }
        domain_done(&first, NULL);
    }
}

static void permanent_computers_outlive_their_server(void **state)
{
    struct domain one, two;
    domain_init(&one, NULL, NULL);
    struct computer_use use = must_use(one.session, "keeper", LIFETIME_PERMANENT);
    computers_release(&use);
    use = must_use(one.session, "gone", LIFETIME_TEMPORARY);
    computers_release(&use);
    _cleanup_(cleanup_free) char *state_dir = xstrdup(one.state_dir);
    domain_done(&one, state_dir);

    domain_init(&two, NULL, state_dir);
    must_not_use(two.session, "keeper", LIFETIME_TEMPORARY, ERR_EXISTS); /* also when it is only on disk */
    use = must_use(two.session, "keeper", LIFETIME_AS_IS);
    assert_false(use.created);
    assert_false(computer_is_temporary(use.computer));
    computers_release(&use);
    assert_false(folder_exists(&two, "gone"));
    assert_int_equal(fake_backend_counts(two.backend).attached, 1);
    domain_done(&two, NULL);
}

static void lost_files_are_told_once_and_the_rest_is_kept(void **state)
{
    struct domain one, two;
    domain_init(&one, NULL, NULL);
    struct computer_use use = must_use(one.session, "keeper", LIFETIME_PERMANENT);
    computers_release(&use);
    _cleanup_(cleanup_free) char *state_dir = xstrdup(one.state_dir);
    domain_done(&one, state_dir);
    _cleanup_(cleanup_free) char *home = xasprintf("%s/computers/local/keeper/home", state_dir);
    assert_int_equal(tree_remove(AT_FDCWD, home, NULL), 0);

    domain_init(&two, NULL, state_dir);
    must_not_use(two.session, "keeper", LIFETIME_AS_IS, ERR_GONE);
    _cleanup_(cleanup_free) char *kept =
        xasprintf("test -e %s/computers/local/keeper.bad-*/record.json", state_dir);
    assert_int_equal(system(kept), 0);
    use = must_use(two.session, "keeper", LIFETIME_AS_IS);
    assert_true(use.created);
    computers_release(&use);
    domain_done(&two, NULL);
}

static void a_broken_record_is_told_and_kept(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    struct computer_use use = must_use(d.session, "keeper", LIFETIME_PERMANENT);
    computers_release(&use);
    _cleanup_(cleanup_free) char *state_dir = xstrdup(d.state_dir);
    domain_done(&d, state_dir);
    _cleanup_(cleanup_free) char *record = xasprintf("%s/computers/local/keeper/record.json", state_dir);
    assert_int_equal(file_replace(AT_FDCWD, record, "{", 1, false, NULL), 0);

    domain_init(&d, NULL, state_dir);
    must_not_use(d.session, "keeper", LIFETIME_AS_IS, ERR_GONE);
    use = must_use(d.session, "keeper", LIFETIME_AS_IS);
    assert_true(use.created);
    computers_release(&use);
    domain_done(&d, NULL);
}

static void another_backends_computer_is_unavailable(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    struct computer_use use = must_use(d.session, "keeper", LIFETIME_PERMANENT);
    computers_release(&use);
    _cleanup_(cleanup_free) char *state_dir = xstrdup(d.state_dir);
    domain_done(&d, state_dir);

    _cleanup_(cleanup_free) char *dir = xasprintf("%s/computers", state_dir);
    struct folder folder = FOLDER_NONE;
    struct record record = {0};
    assert_int_equal(store_open(dir, "local", "keeper", &folder, NULL), 0);
    assert_int_equal(store_read(&folder, &record, NULL), 0);
    strcpy(record.backend, "docker");
    assert_int_equal(store_write(&folder, &record, NULL), 0);
    record_done(&record);
    folder_close(&folder);

    domain_init(&d, NULL, state_dir);
    must_not_use(d.session, "keeper", LIFETIME_AS_IS, ERR_UNAVAILABLE); /* never an empty twin */
    must_not_use(d.session, "keeper", LIFETIME_AS_IS, ERR_UNAVAILABLE);
    assert_int_equal(fake_backend_counts(d.backend).created, 0);
    domain_done(&d, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_computer_is_one),
        cmocka_unit_test(sessions_have_their_own_default),
        cmocka_unit_test(principals_are_separate),
        cmocka_unit_test(lifetimes),
        cmocka_unit_test(bad_ids_make_nothing),
        cmocka_unit_test(a_state_directory_that_cannot_be_used_is_told),
        cmocka_unit_test(permanent_needs_a_backend_that_can),
        cmocka_unit_test(there_is_a_maximum),
        cmocka_unit_test(b22_one_creates_the_other_attaches),
        cmocka_unit_test(b23_a_slow_one_delays_no_other),
        cmocka_unit_test(failure_is_told_to_all_and_leaves_nothing),
        cmocka_unit_test(a_waiter_keeps_its_own_limits),
        cmocka_unit_test(a_cancelled_creator_is_succeeded),
        cmocka_unit_test(a_failed_default_computer_can_be_tried_again),
        cmocka_unit_test(hammering),
        cmocka_unit_test(b22_two_servers),
        cmocka_unit_test(b22_two_servers_at_once),
        cmocka_unit_test(permanent_computers_outlive_their_server),
        cmocka_unit_test(lost_files_are_told_once_and_the_rest_is_kept),
        cmocka_unit_test(a_broken_record_is_told_and_kept),
        cmocka_unit_test(another_backends_computer_is_unavailable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
