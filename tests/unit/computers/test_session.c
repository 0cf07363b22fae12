/* The end of sessions. */
#include "domain.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

static int create_waits(void *ctx, const struct computer_spec *spec, const struct wait *wait,
                        struct error *err)
{
    return gate_pass(ctx, wait, err);
}

static int remove_fails(void *ctx, const char *id, struct error *err)
{
    return strcmp(id, "stuck") == 0 ? error_set(err, ERR_INTERNAL, "it does not let go") : 0;
}

static void temporary_computers_end(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    for (int i = 0; i < 100; i++) {
        char id[16];
        snprintf(id, sizeof(id), "box-%d", i);
        struct computer_use use = must_use(d.session, id, LIFETIME_AS_IS);
        computers_release(&use);
    }
    assert_int_equal(computer_session_end(TAKE_PTR(d.session), DEADLINE_NONE, NULL), 0);
    struct fake_counts counts = fake_backend_counts(d.backend);
    assert_int_equal(counts.killed, 100);
    assert_int_equal(counts.removed, 100);
    assert_int_equal(counts.live, 0);
    assert_false(folder_exists(&d, "box-0"));
    assert_false(folder_exists(&d, "box-99"));
    domain_done(&d, NULL);
}

static int remove_waits(void *ctx, const char *id, struct error *err)
{
    const struct wait deaf = {.deadline = DEADLINE_NONE};
    return gate_pass(ctx, &deaf, err);
}

static void *end_session(void *session)
{
    assert_int_equal(computer_session_end(session, DEADLINE_NONE, NULL), 0);
    return NULL;
}

/* Where an end is waiting for somebody elsewhere, none waits for the others', as far as the backend likes. */
static void ends_that_are_waited_for_are_one(void **state)
{
    static const struct {
        int ends_at_once, computers, begun;
    } cases[] = {{64, 40, 40}, {5, 12, 5}, {0, 16, 2}};
    for (size_t n = 0; n < ARRAY_LEN(cases); n++) {
        struct domain d;
        struct gate gate;
        pthread_t ender;
        gate_init(&gate);
        domain_init(
            &d,
            &(struct fake_hooks){.remove = remove_waits, .ctx = &gate, .ends_at_once = cases[n].ends_at_once},
            NULL);
        for (int i = 0; i < cases[n].computers; i++) {
            char id[16];
            snprintf(id, sizeof(id), "box-%d", i);
            must_have(&d, id, LIFETIME_AS_IS);
        }
        assert_int_equal(pthread_create(&ender, NULL, end_session, TAKE_PTR(d.session)), 0);
        gate_await(&gate, cases[n].begun);
        pthread_mutex_lock(&gate.lock);
        const int begun = gate.arrived;
        pthread_mutex_unlock(&gate.lock);
        assert_int_equal(begun, cases[n].begun);
        gate_open(&gate);
        pthread_join(ender, NULL);
        assert_int_equal(fake_backend_counts(d.backend).live, 0);
        domain_done(&d, NULL);
        gate_done(&gate);
    }
}

static void permanent_ones_go_on(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    struct computer_use use = must_use(d.session, "keeper", LIFETIME_PERMANENT);
    computers_release(&use);
    domain_new_session(&d);
    assert_int_equal(fake_backend_counts(d.backend).live, 1); /* its processes too, until the server ends */
    use = must_use(d.session, "keeper", LIFETIME_AS_IS);
    assert_false(use.created);
    computers_release(&use);
    assert_int_equal(fake_backend_counts(d.backend).attached, 0);
    domain_done(&d, NULL);
}

static void a_shared_one_ends_with_the_last(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    struct computer_session *other = computer_session_new(d.computers, "local");
    struct computer_use use = must_use(d.session, "shared", LIFETIME_AS_IS);
    computers_release(&use);
    use = must_use(other, "shared", LIFETIME_AS_IS);
    computers_release(&use);
    domain_new_session(&d);
    assert_int_equal(fake_backend_counts(d.backend).live, 1);
    use = must_use(other, "shared", LIFETIME_AS_IS);
    must_run(&use);
    computers_release(&use);
    assert_int_equal(computer_session_end(other, DEADLINE_NONE, NULL), 0);
    assert_int_equal(fake_backend_counts(d.backend).live, 0);
    domain_done(&d, NULL);
}

static void two_that_share_and_are_killed_together(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    struct computer_session *other = computer_session_new(d.computers, "local");
    struct computer_use use = must_use(d.session, "shared", LIFETIME_AS_IS);
    computers_release(&use);
    use = must_use(other, "shared", LIFETIME_AS_IS);
    computers_release(&use);
    computer_session_kill(d.session);
    computer_session_kill(other);
    assert_int_equal(computer_session_end(TAKE_PTR(d.session), DEADLINE_NONE, NULL), 0);
    assert_int_equal(computer_session_end(other, DEADLINE_NONE, NULL), 0);
    assert_int_equal(fake_backend_counts(d.backend).live, 0);
    assert_false(folder_exists(&d, "shared"));
    domain_done(&d, NULL);
}

static void a_killed_session_makes_nothing_new(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    computer_session_kill(d.session);
    must_not_use(d.session, NULL, LIFETIME_AS_IS, ERR_CANCELLED);
    must_not_use(d.session, "otter", LIFETIME_AS_IS, ERR_CANCELLED);
    assert_int_equal(fake_backend_counts(d.backend).created, 0);
    domain_done(&d, NULL);
}

static void one_being_made_ends_too(void **state)
{
    struct domain d;
    struct gate gate;
    struct caller creator;
    gate_init(&gate);
    domain_init(&d, &(struct fake_hooks){.create = create_waits, .ctx = &gate}, NULL);
    caller_start(&creator, d.session, "otter", NULL);
    gate_await(&gate, 1);
    assert_int_equal(computer_session_end(TAKE_PTR(d.session), DEADLINE_NONE, NULL), 0);
    caller_join(&creator);
    assert_int_equal(creator.r, -1);
    assert_int_equal(creator.err.code, ERR_CANCELLED);
    assert_false(folder_exists(&d, "otter"));
    domain_done(&d, NULL);
    gate_done(&gate);
}

/* A backend that doesn't look at its token while it creates: the computer is made, and then ended. */
static int create_is_deaf(void *ctx, const struct computer_spec *spec, const struct wait *wait,
                          struct error *err)
{
    const struct wait deaf = {.deadline = DEADLINE_NONE};
    return gate_pass(ctx, &deaf, err);
}

static void one_that_is_made_too_late_ends_too(void **state)
{
    struct domain d;
    struct gate gate;
    struct caller creator;
    struct error err = ERROR_INIT;
    gate_init(&gate);
    domain_init(&d, &(struct fake_hooks){.create = create_is_deaf, .ctx = &gate}, NULL);
    caller_start(&creator, d.session, "otter", NULL);
    gate_await(&gate, 1);
    assert_int_equal(computer_session_end(TAKE_PTR(d.session), clock_now(), &err),
                     -1); /* didn't wait for it */
    assert_non_null(strstr(err.msg, "otter"));
    gate_open(&gate);
    caller_join(&creator);
    assert_int_equal(creator.r, -1);
    assert_int_equal(fake_backend_counts(d.backend).live, 0);
    assert_false(folder_exists(&d, "otter"));
    domain_done(&d, NULL);
    gate_done(&gate);
}

static void what_cannot_be_removed_is_named_and_keeps_its_record(void **state)
{
    struct domain d;
    struct error err = ERROR_INIT;
    domain_init(&d, &(struct fake_hooks){.remove = remove_fails}, NULL);
    struct computer_use use = must_use(d.session, "stuck", LIFETIME_AS_IS);
    computers_release(&use);
    use = must_use(d.session, "fine", LIFETIME_AS_IS);
    computers_release(&use);
    assert_int_equal(computer_session_end(d.session, DEADLINE_NONE, &err), -1);
    assert_non_null(strstr(err.msg, "stuck (it does not let go)"));
    assert_null(strstr(err.msg, "fine"));
    assert_true(folder_exists(&d, "stuck"));

    d.session = computer_session_new(d.computers,
                                     "local"); /* its id isn't lost: what is left is cleared away first */
    use = must_use(d.session, "stuck", LIFETIME_AS_IS);
    assert_true(use.created);
    assert_int_equal(fake_backend_counts(d.backend).reaped, 1);
    computers_release(&use);
    assert_int_equal(computer_session_end(TAKE_PTR(d.session), DEADLINE_NONE, NULL), -1);
    domain_done(&d, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(temporary_computers_end),
        cmocka_unit_test(ends_that_are_waited_for_are_one),
        cmocka_unit_test(permanent_ones_go_on),
        cmocka_unit_test(a_shared_one_ends_with_the_last),
        cmocka_unit_test(two_that_share_and_are_killed_together),
        cmocka_unit_test(a_killed_session_makes_nothing_new),
        cmocka_unit_test(one_being_made_ends_too),
        cmocka_unit_test(one_that_is_made_too_late_ends_too),
        cmocka_unit_test(what_cannot_be_removed_is_named_and_keeps_its_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
