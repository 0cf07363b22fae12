/* Computers that are held by leases. */
#include "domain.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define LONG_LEASE_S 3600.0
#define NO_LEASE_S 1e-9 /* over as soon as a use is */

static struct computer_session *leased(struct domain *d, double lease_s)
{
    domain_init(d, NULL, NULL);
    return computer_session_new_leased(d->computers, "local", lease_s);
}

static void end(struct domain *d, struct computer_session *s)
{
    assert_int_equal(computer_session_end(s, DEADLINE_NONE, NULL), 0);
    domain_done(d, NULL);
}

static void use_once(struct computer_session *s, const char *id, enum lifetime lifetime)
{
    struct computer_use use = must_use(s, id, lifetime);
    must_run(&use);
    computers_release(&use);
}

/* A moment later, as the clock has it. */
static int64_t expire(struct domain *d)
{
    for (int64_t now = clock_now(); clock_now() == now;)
        ;
    return computers_expire(d->computers);
}

static int live(const struct domain *d)
{
    return fake_backend_counts(d->backend).live;
}

static void there_is_no_default_computer(void **state)
{
    struct domain d;
    struct computer_session *s = leased(&d, LONG_LEASE_S);
    struct computer_use first = must_use(s, NULL, LIFETIME_AS_IS), second = must_use(s, NULL, LIFETIME_AS_IS);
    assert_true(first.created && second.created);
    assert_string_not_equal(computer_id(first.computer), computer_id(second.computer));
    struct computer_use again = must_use(s, computer_id(first.computer), LIFETIME_AS_IS);
    assert_false(again.created);
    assert_ptr_equal(again.computer, first.computer);
    assert_true(computer_is_leased(&again));
    assert_true(computer_expires_in(&again) > 3590 && computer_expires_in(&again) <= 3600);
    computers_release(&first);
    computers_release(&second);
    computers_release(&again);
    end(&d, s);
}

static void a_lease_holds_until_it_is_over(void **state)
{
    struct domain d;
    struct computer_session *s = leased(&d, LONG_LEASE_S);
    assert_true(expire(&d) == DEADLINE_NONE);
    use_once(s, "otter", LIFETIME_AS_IS);
    int64_t due = expire(&d);
    assert_true(due > clock_now() && due <= clock_deadline_after(LONG_LEASE_S));
    assert_int_equal(live(&d), 1);
    end(&d, s);
}

static void use_renews_it(void **state)
{
    struct domain d;
    struct computer_session *s = leased(&d, LONG_LEASE_S);
    use_once(s, "otter", LIFETIME_AS_IS);
    int64_t otter = expire(&d);
    use_once(s, "heron", LIFETIME_AS_IS);
    assert_true(expire(&d) == otter); /* the next one to end */
    use_once(s, "otter", LIFETIME_AS_IS);
    int64_t heron = expire(&d);
    assert_true(heron > otter);
    use_once(s, "heron", LIFETIME_AS_IS);
    assert_true(expire(&d) > heron);
    end(&d, s);
}

static void the_end_of_a_lease_is_told_once(void **state)
{
    struct domain d;
    struct computer_session *s = leased(&d, NO_LEASE_S);
    use_once(s, "otter", LIFETIME_AS_IS);
    assert_true(expire(&d) == DEADLINE_NONE);
    assert_int_equal(live(&d), 0);
    assert_int_equal(fake_backend_counts(d.backend).removed, 1);
    assert_false(folder_exists(&d, "otter"));
    must_not_use(s, "otter", LIFETIME_AS_IS, ERR_GONE);
    struct computer_use use = must_use(s, "otter", LIFETIME_AS_IS);
    assert_true(use.created);
    computers_release(&use);
    use_once(d.session, "heron", LIFETIME_AS_IS); /* a session's are no business of leases */
    expire(&d);
    assert_int_equal(live(&d), 1);
    end(&d, s);
}

static void a_use_is_no_time_without_use(void **state)
{
    struct domain d;
    struct computer_session *s = leased(&d, NO_LEASE_S);
    struct computer_use use = must_use(s, "otter", LIFETIME_AS_IS);
    expire(&d);
    must_run(&use);
    assert_int_equal(live(&d), 1);
    computers_release(&use);
    expire(&d);
    assert_int_equal(live(&d), 0);
    end(&d, s);
}

static int create_waits(void *ctx, const struct computer_spec *spec, const struct wait *wait,
                        struct error *err)
{
    return gate_pass(ctx, wait, err);
}

static void one_being_made_is_in_use(void **state)
{
    struct domain d;
    struct gate gate;
    struct caller creator;
    gate_init(&gate);
    domain_init(&d, &(struct fake_hooks){.create = create_waits, .ctx = &gate}, NULL);
    struct computer_session *s = computer_session_new_leased(d.computers, "local", NO_LEASE_S);
    caller_start(&creator, s, "otter", NULL);
    gate_await(&gate, 1);
    expire(&d);
    gate_open(&gate);
    caller_join(&creator);
    assert_int_equal(creator.r, 0);
    must_run(&creator.use);
    computers_release(&creator.use);
    end(&d, s);
    gate_done(&gate);
}

/* A client of one era and one of the other: it ends when neither holds it. */
static void a_session_may_hold_it_too(void **state)
{
    for (int session_first = 0; session_first < 2; session_first++) {
        struct domain d;
        struct computer_session *s = leased(&d, NO_LEASE_S);
        use_once(session_first ? d.session : s, "otter", LIFETIME_AS_IS);
        use_once(session_first ? s : d.session, "otter", LIFETIME_AS_IS);
        assert_int_equal(fake_backend_counts(d.backend).created, 1);
        if (session_first) {
            domain_new_session(&d);
            assert_int_equal(live(&d), 1);
            expire(&d);
        } else {
            expire(&d);
            assert_int_equal(live(&d), 1);
            use_once(d.session, "otter", LIFETIME_AS_IS);
            domain_new_session(&d);
        }
        assert_int_equal(live(&d), 0);
        end(&d, s);
    }
}

/* Whichever is over first. */
static void what_a_call_is_told_heeds_the_terms(void **state)
{
    static const struct {
        double lease_s;
        struct computer_terms terms;
        enum lifetime lifetime;
        double least, most; /* that it is told; < 0: nothing */
    } ROWS[] = {
        {1000, {0}, LIFETIME_TEMPORARY, 990, 1000},
        {1000, {.idle_s = 500}, LIFETIME_TEMPORARY, 490, 500},
        {1000, {.ttl_s = 200, .idle_s = 500}, LIFETIME_TEMPORARY, 190, 200},
        {1000, {.ttl_s = 5000, .idle_s = 6000}, LIFETIME_TEMPORARY, 990, 1000},
        {1000, {.ttl_s = 5000}, LIFETIME_PERMANENT, 4990, 5000},
        {1000, {.idle_s = 6000}, LIFETIME_PERMANENT, 5990, 6000},
        {1000, {0}, LIFETIME_PERMANENT, -1, -1},
        {0, {.ttl_s = 200}, LIFETIME_TEMPORARY, 190, 200},
        {0, {0}, LIFETIME_TEMPORARY, -1, -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct domain d;
        struct computer_session *s = leased(&d, ROWS[i].lease_s);
        const struct computer_wish wish = {
            .id = "otter", .lifetime = ROWS[i].lifetime, .terms = &ROWS[i].terms};
        const struct wait wait = long_wait();
        struct computer_use use = {0};
        assert_int_equal(computers_use(s, &wish, &wait, &use, NULL), 0);
        must_run(&use);
        const double told = computer_expires_in(&use);
        if (told < ROWS[i].least || told > ROWS[i].most)
            fail_msg("row %zu: %g", i, told);
        computers_release(&use);
        end(&d, s);
    }
}

static void permanent_ones_stay(void **state)
{
    struct domain d;
    struct computer_session *s = leased(&d, NO_LEASE_S);
    struct computer_use use = must_use(s, "keeper", LIFETIME_PERMANENT);
    assert_false(computer_is_leased(&use));
    assert_true(computer_expires_in(&use) < 0);
    computers_release(&use);
    expire(&d);
    assert_int_equal(live(&d), 1);
    use = must_use(s, "keeper", LIFETIME_AS_IS);
    assert_false(use.created);
    computers_release(&use);
    end(&d, s);
}

static void principals_have_leases_of_their_own(void **state)
{
    struct domain d;
    struct computer_session *s = leased(&d, NO_LEASE_S);
    struct computer_session *other = computer_session_new_leased(d.computers, "anna", LONG_LEASE_S);
    use_once(s, "otter", LIFETIME_AS_IS);
    use_once(other, "otter", LIFETIME_AS_IS);
    assert_int_equal(live(&d), 2);
    assert_true(expire(&d) != DEADLINE_NONE);
    assert_int_equal(live(&d), 1);
    use_once(other, "otter", LIFETIME_AS_IS);
    assert_int_equal(fake_backend_counts(d.backend).created, 2);
    assert_int_equal(computer_session_end(other, DEADLINE_NONE, NULL), 0);
    end(&d, s);
}

static void one_that_ended_by_itself_is_told_once(void **state)
{
    struct domain d;
    struct computer_session *s = leased(&d, NO_LEASE_S);
    use_once(s, "otter", LIFETIME_AS_IS);
    use_once(d.session, "otter", LIFETIME_AS_IS);
    fake_backend_crash(d.backend, "otter");
    struct computer_use use = must_use(d.session, "otter", LIFETIME_AS_IS);
    struct exec_result result = {0};
    const struct exec_request request = {.command = "true", .command_len = 4, .output_limit = 100};
    assert_int_equal(computer_exec(&use, &request, &result, NULL), -1);
    computers_release(&use);
    expire(&d); /* which doesn't make it forgotten */
    must_not_use(s, "otter", LIFETIME_AS_IS, ERR_GONE);
    use_once(s, "otter", LIFETIME_AS_IS);
    end(&d, s);
}

/* A client that passes no id makes one after the other. */
static void not_all_ends_are_remembered(void **state)
{
    struct domain d;
    struct computer_session *s = leased(&d, NO_LEASE_S);
    for (int i = 0; i < 300; i++) {
        char id[16];
        snprintf(id, sizeof(id), "box-%d", i);
        struct computer_use use = must_use(s, id, LIFETIME_AS_IS);
        computers_release(&use);
    }
    expire(&d);
    assert_int_equal(live(&d), 0);
    assert_true(map_count(s->by_id) <= 256);
    must_not_use(s, "box-299", LIFETIME_AS_IS, ERR_GONE);
    struct computer_use use = must_use(s, "box-0", LIFETIME_AS_IS);
    assert_true(use.created);
    computers_release(&use);
    end(&d, s);
}

static void they_are_counted_by_state(void **state)
{
    struct domain d;
    struct gate gate;
    struct caller creator;
    gate_init(&gate);
    domain_init(&d, &(struct fake_hooks){.create = create_waits, .ctx = &gate}, NULL);
    caller_start(&creator, d.session, "otter", NULL);
    gate_await(&gate, 1);
    struct computers_counts counts = computers_count(d.computers);
    assert_int_equal(counts.creating, 1);
    assert_int_equal(counts.running, 0);
    gate_open(&gate);
    caller_join(&creator);
    counts = computers_count(d.computers);
    assert_int_equal(counts.creating, 0);
    assert_int_equal(counts.running, 1);
    computer_session_kill(d.session); /* the use keeps it from being cleaned up */
    counts = computers_count(d.computers);
    assert_int_equal(counts.running, 0);
    assert_int_equal(counts.ending, 1);
    computers_release(&creator.use);
    counts = computers_count(d.computers);
    assert_int_equal(counts.creating + counts.running + counts.ending + counts.ahead, 0);
    domain_done(&d, NULL);
    gate_done(&gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_is_no_default_computer),
        cmocka_unit_test(a_lease_holds_until_it_is_over),
        cmocka_unit_test(use_renews_it),
        cmocka_unit_test(the_end_of_a_lease_is_told_once),
        cmocka_unit_test(a_use_is_no_time_without_use),
        cmocka_unit_test(one_being_made_is_in_use),
        cmocka_unit_test(a_session_may_hold_it_too),
        cmocka_unit_test(what_a_call_is_told_heeds_the_terms),
        cmocka_unit_test(permanent_ones_stay),
        cmocka_unit_test(principals_have_leases_of_their_own),
        cmocka_unit_test(one_that_ended_by_itself_is_told_once),
        cmocka_unit_test(not_all_ends_are_remembered),
        cmocka_unit_test(they_are_counted_by_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
