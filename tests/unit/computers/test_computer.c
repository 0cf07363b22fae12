/* The state machine, and execs on a computer that ends. */
#include "domain.h"

#include <poll.h>
#include <string.h>

#include "base/clock.h"

static void transitions(void **state)
{
    static const bool EXPECTED[COMPUTER_STATE_COUNT][COMPUTER_STATE_COUNT] = {
        /* to:  creating running changing ending ended */
        {false, true, true, true, false},    /* creating */
        {false, false, true, true, false},   /* running */
        {false, true, false, true, false},   /* changing */
        {false, false, false, false, true},  /* ending */
        {false, false, false, false, false}, /* ended */
    };
    for (int from = 0; from < COMPUTER_STATE_COUNT; from++)
        for (int to = 0; to < COMPUTER_STATE_COUNT; to++)
            assert_int_equal(computer_may_change((enum computer_state)from, (enum computer_state)to),
                             EXPECTED[from][to]);
}

static int exec_waits(void *ctx, const char *id, const struct exec_request *request, struct exec_result *ret,
                      struct error *err)
{
    return gate_pass(ctx, &request->wait, err) < 0 ? -1 : 0;
}

static int exec_gone(void *ctx, const char *id, const struct exec_request *request, struct exec_result *ret,
                     struct error *err)
{
    return error_set(err, ERR_GONE, "its init was killed");
}

static void must_be_gone(const struct computer_use *use, const char *words)
{
    struct exec_result result = {0};
    struct error err = ERROR_INIT;
    const struct exec_request request = {
        .command = "true", .command_len = 4, .wait = {.deadline = DEADLINE_NONE}};
    assert_int_equal(computer_exec(use, &request, &result, &err), -1);
    assert_int_equal(err.code, ERR_GONE);
    assert_non_null(strstr(err.msg, words));
}

static void gone_is_told_once_and_frees_the_id(void **state)
{
    struct domain d;
    domain_init(&d, &(struct fake_hooks){.exec = exec_gone}, NULL);
    struct computer_use use = must_use(d.session, "otter", LIFETIME_AS_IS);
    must_be_gone(&use, "its init was killed");
    computers_release(&use);
    assert_false(folder_exists(&d, "otter"));
    assert_int_equal(fake_backend_counts(d.backend).removed, 1);
    use = must_use(d.session, "otter", LIFETIME_AS_IS);
    assert_true(use.created); /* never an empty one in silence */
    computers_release(&use);
    domain_done(&d, NULL);
}

static void gone_is_told_to_each_session(void **state)
{
    struct domain d;
    domain_init(&d, &(struct fake_hooks){.exec = exec_gone}, NULL);
    struct computer_session *other = computer_session_new(d.computers, "local");
    struct computer_use mine = must_use(d.session, "otter", LIFETIME_AS_IS);
    struct computer_use theirs = must_use(other, "otter", LIFETIME_AS_IS);
    assert_false(theirs.created);
    computers_release(&theirs);
    must_be_gone(&mine, "its init was killed");
    must_not_use(other, "otter", LIFETIME_AS_IS, ERR_GONE); /* at once, though it is still in use */
    computers_release(&mine);
    mine = must_use(d.session, "otter", LIFETIME_AS_IS);
    theirs = must_use(other, "otter", LIFETIME_AS_IS);
    assert_true(mine.created);
    assert_false(theirs.created);
    computers_release(&mine);
    computers_release(&theirs);
    assert_int_equal(computer_session_end(other, DEADLINE_NONE, NULL), 0);
    domain_done(&d, NULL);
}

static void the_end_is_remembered_for_a_day(void **state)
{
    struct domain d;
    domain_init(&d, &(struct fake_hooks){.exec = exec_gone}, NULL);
    struct computer_session *other = computer_session_new(d.computers, "local");
    struct computer_use mine = must_use(d.session, "otter", LIFETIME_AS_IS);
    struct computer_use theirs = must_use(other, "otter", LIFETIME_AS_IS);
    struct computer *c = theirs.computer;
    must_be_gone(&mine, "its init was killed");
    computers_release(&mine);
    computers_release(&theirs);
    c->ended_at -= (TOMBSTONE_SECONDS + 1) * NSEC_PER_SEC;
    theirs = must_use(other, "otter", LIFETIME_AS_IS);
    assert_true(theirs.created);
    computers_release(&theirs);
    assert_int_equal(computer_session_end(other, DEADLINE_NONE, NULL), 0);
    domain_done(&d, NULL);
}

static void a_gone_default_computer_is_replaced(void **state)
{
    struct domain d;
    char first[SLUG_SIZE];
    domain_init(&d, &(struct fake_hooks){.exec = exec_gone}, NULL);
    struct computer_use use = must_use(d.session, NULL, LIFETIME_AS_IS);
    strcpy(first, computer_id(use.computer));
    must_be_gone(&use, first);
    computers_release(&use);
    use = must_use(d.session, NULL, LIFETIME_AS_IS);
    assert_true(use.created);
    assert_string_not_equal(computer_id(use.computer), first);
    computers_release(&use);
    domain_done(&d, NULL);
}

static void a_gone_permanent_computer_keeps_its_files(void **state)
{
    struct domain d;
    domain_init(&d, &(struct fake_hooks){.exec = exec_gone}, NULL);
    struct computer_use use = must_use(d.session, "keeper", LIFETIME_PERMANENT);
    must_be_gone(&use, "its files are kept");
    computers_release(&use);
    assert_true(folder_exists(&d, "keeper"));
    use = must_use(d.session, "keeper", LIFETIME_AS_IS);
    assert_false(use.created);
    computers_release(&use);
    struct fake_counts counts = fake_backend_counts(d.backend);
    assert_int_equal(counts.removed, 0);
    assert_int_equal(counts.attached, 1);
    domain_done(&d, NULL);
}

struct running {
    struct computer_use use;
    struct error err;
    int r;
    pthread_t thread;
};

static void *run(void *arg)
{
    struct running *r = arg;
    struct exec_result result = {0};
    const struct exec_request request = {
        .command = "true", .command_len = 4, .wait = {.deadline = DEADLINE_NONE}};
    r->r = computer_exec(&r->use, &request, &result, &r->err);
    computers_release(&r->use);
    return NULL;
}

/* The request has no token of its own, and still ends with the session. */
static void the_sessions_end_interrupts(void **state)
{
    struct domain d;
    struct gate gate;
    gate_init(&gate);
    domain_init(&d, &(struct fake_hooks){.exec = exec_waits, .ctx = &gate}, NULL);
    struct running running = {.use = must_use(d.session, "otter", LIFETIME_AS_IS)};
    pthread_create(&running.thread, NULL, run, &running);
    gate_await(&gate, 1);
    assert_int_equal(computer_session_end(TAKE_PTR(d.session), DEADLINE_NONE, NULL), 0);
    pthread_join(running.thread, NULL);
    assert_int_equal(running.r, -1);
    assert_int_equal(running.err.code, ERR_CANCELLED);
    assert_false(folder_exists(&d, "otter"));
    domain_done(&d, NULL);
    gate_done(&gate);
}

/* Whatever the backend says of a computer that was ended by wish: the wish is the reason. */
static int exec_gone_later(void *ctx, const char *id, const struct exec_request *request,
                           struct exec_result *ret, struct error *err)
{
    gate_pass(ctx, &request->wait, NULL);
    return error_set(err, ERR_GONE, "its init was killed");
}

static void ended_by_wish_is_not_gone(void **state)
{
    struct domain d;
    struct gate gate;
    gate_init(&gate);
    domain_init(&d, &(struct fake_hooks){.exec = exec_gone_later, .ctx = &gate}, NULL);
    struct running running = {.use = must_use(d.session, "otter", LIFETIME_AS_IS)};
    pthread_create(&running.thread, NULL, run, &running);
    gate_await(&gate, 1);
    assert_int_equal(computer_session_end(TAKE_PTR(d.session), DEADLINE_NONE, NULL), 0);
    pthread_join(running.thread, NULL);
    assert_int_equal(running.err.code, ERR_CANCELLED);
    domain_done(&d, NULL);
    gate_done(&gate);
}

static void real_commands_run(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    struct computer_use use = must_use(d.session, NULL, LIFETIME_AS_IS);
    must_run(&use);
    fake_backend_crash(d.backend, computer_id(use.computer));
    must_be_gone(&use, "crashed");
    computers_release(&use);
    domain_done(&d, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transitions),
        cmocka_unit_test(gone_is_told_once_and_frees_the_id),
        cmocka_unit_test(gone_is_told_to_each_session),
        cmocka_unit_test(the_end_is_remembered_for_a_day),
        cmocka_unit_test(a_gone_default_computer_is_replaced),
        cmocka_unit_test(a_gone_permanent_computer_keeps_its_files),
        cmocka_unit_test(the_sessions_end_interrupts),
        cmocka_unit_test(ended_by_wish_is_not_gone),
        cmocka_unit_test(real_commands_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
