/* Links to the real guest program, and what is done for a link while no command runs. */
#include <errno.h>
#include <sched.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tests/unit/backends/link_calls.h"
#include "tests/unit/base/check.h"

/* --- the real guest --- */

static void test_the_real_guest_runs_commands(void **state)
{
    struct link_peer p;
    struct link *l = peer_link(&p, NULL);
    struct running c = {.link = l, .request = request_of("cat; echo trouble >&2; exit 7")};
    c.request.stdin_bytes = "input";
    c.request.stdin_len = 5;
    execute(&c);
    must_succeed(&c);
    assert_string_equal(buf_str(&c.result.out.head), "input");
    assert_string_equal(buf_str(&c.result.err.head), "trouble\n");
    assert_int_equal(c.exit.stage, GUEST_STAGE_RAN);
    assert_int_equal(WEXITSTATUS(c.exit.wait_status), 7);
    exec_result_done(&c.result);

    c = command(l, "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done");
    must_succeed(&c);
    assert_true(c.result.usage.cpu_us >= 1000 && c.result.usage.cpu_us <= 60000000);
    assert_true(c.result.usage.peak_bytes >= 256 * KIB && c.result.usage.peak_bytes <= 1024 * MIB);
    exec_result_done(&c.result);

    c.request = request_of("x");
    c.request.cwd = "/nope";
    execute(&c);
    must_succeed(&c);
    assert_int_equal(c.exit.stage, GUEST_STAGE_CHDIR);
    exec_result_done(&c.result);

    c.request = request_of("echo begins; sleep 1000 & sleep 1000");
    c.request.wait.deadline = clock_deadline_after(0.3);
    execute(&c);
    assert_string_equal(buf_str(&c.result.out.head), "begins\n");
    must_fail(&c, ERR_TIMEOUT);
    finish(l, &p);
}

#define AT_ONCE 96

static void test_many_commands_of_the_real_guest(void **state)
{
    static struct running c[AT_ONCE];
    static char inputs[AT_ONCE][4096], texts[AT_ONCE][64];
    struct link_peer p;
    struct link *l = peer_link(&p, NULL);
    for (int i = 0; i < AT_ONCE; i++) {
        memset(inputs[i], 'a' + i % 26, sizeof(inputs[i]));
        snprintf(texts[i], sizeof(texts[i]), "cat; echo %d >&2; exit %d", i, i);
        struct exec_request request = request_of(texts[i]);
        request.stdin_bytes = inputs[i];
        request.stdin_len = sizeof(inputs[i]);
        request.output_limit = 2 * sizeof(inputs[i]);
        start(&c[i], l, &request);
    }
    for (int i = 0; i < AT_ONCE; i++) {
        join(&c[i]);
        must_succeed(&c[i]);
        assert_int_equal(c[i].exit.wait_status, i << 8);
        assert_int_equal(c[i].result.out.total, sizeof(inputs[i]));
        assert_memory_equal(c[i].result.out.head.data, inputs[i], sizeof(inputs[i]));
        assert_int_equal(atoi(buf_str(&c[i].result.err.head)), i);
        exec_result_done(&c[i].result);
    }
    finish(l, &p);
}

/* More than the guest takes at once: each comes to a result or is told to come again. */
static void test_too_many_commands(void **state)
{
    static struct running c[2 * SERVE_COMMANDS_MAX];
    struct cancel *cancel = cancel_new();
    struct link_peer p;
    struct link *l = peer_link(&p, NULL);
    struct exec_request request = request_of("exec sleep 1000");
    request.wait.cancel = cancel;
    for (size_t i = 0; i < ARRAY_LEN(c); i++)
        start(&c[i], l, &request);
    /* The first that is refused says that all places are taken. */
    for (size_t i = 0; !c[i].ended; i = (i + 1) % ARRAY_LEN(c))
        sched_yield();
    struct running one = command(l, "true");
    must_succeed(&one);
    exec_result_done(&one.result);
    assert_int_equal(one.exit.stage, GUEST_STAGE_REQUEST);
    assert_int_equal(one.exit.sys, EAGAIN);
    cancel_fire(cancel, ERR_CANCELLED);
    size_t refused = 0;
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        join(&c[i]);
        if (c[i].r < 0)
            assert_int_equal(c[i].err.code, ERR_CANCELLED);
        else
            refused += c[i].exit.stage == GUEST_STAGE_REQUEST;
        exec_result_done(&c[i].result);
    }
    assert_true(refused <= SERVE_COMMANDS_MAX);
    one = command(l, "true");
    must_succeed(&one);
    assert_int_equal(one.exit.stage, GUEST_STAGE_RAN);
    exec_result_done(&one.result);
    finish(l, &p);
    cancel_unref(cancel);
}

/* --- without a command --- */

/* As if the machine of a link had gone: its stream stays, and nothing comes over it. */
static void greets_and_falls_silent(struct link_peer *p)
{
    greet(p);
    while (hear(p))
        if (p->frame.type == SERVE_PING)
            go();
}

/* Here it is an ordinary process. */
static void test_only_a_first_process_can_be_asked_to_clear(void **state)
{
    const struct wait wait = {.deadline = clock_deadline_after(30)};
    struct error err = ERROR_INIT;
    struct link_peer p;
    struct link *l = peer_link(&p, NULL);
    assert_int_equal(link_clear(l, &wait, &err), -1);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    struct running c = command(l, "true");
    must_succeed(&c);
    exec_result_done(&c.result);
    finish(l, &p);
}

static void test_a_lease_is_kept_by_its_link(void **state)
{
    struct link_peer p, real;
    const struct link_options leased = {.config = {.flags = SERVE_DIES, .lease_s = 1}};
    open_gates();
    struct link *l = peer_link_as(&p, greets_and_falls_silent, &leased);
    struct link *r = peer_link_as(&real, NULL, &leased);
    for (int i = 0; i < 6; i++) /* of four each second */
        await_guest();
    struct running c = command(r, "echo here");
    must_succeed(&c);
    assert_string_equal(buf_str(&c.result.out.head), "here\n");
    exec_result_done(&c.result);
    finish(r, &real);
    finish(l, &p);
    close_gates();
}

/* The guest says so much that it takes no more, the KILL among it, until somebody reads. */
static void floods_until_killed(struct link_peer *p)
{
    static char body[SERVE_FRAME_MAX];
    greet(p);
    expect(p, SERVE_RUN);
    const uint32_t id = p->frame.id;
    await_go();
    for (int i = 0; i < 64; i++)
        say(p, SERVE_OUTPUT, id, body, sizeof(body));
    expect(p, SERVE_KILL);
    say_end(p, id, &(struct serve_end){.killed = 1});
    go();
    drain(p);
}

static void test_what_is_left_behind_is_sent_and_read_without_a_command(void **state)
{
    struct link_peer p;
    open_gates();
    struct link *l = peer_link(&p, floods_until_killed);
    struct running c = {.link = l, .request = request_of("x")};
    c.request.wait.deadline = clock_deadline_after(0.1);
    execute(&c);
    must_fail(&c, ERR_TIMEOUT);
    let_guest_go();
    await_guest();
    finish(l, &p);
    close_gates();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_real_guest_runs_commands),
        cmocka_unit_test(test_many_commands_of_the_real_guest),
        cmocka_unit_test(test_too_many_commands),
        cmocka_unit_test(test_only_a_first_process_can_be_asked_to_clear),
        cmocka_unit_test(test_a_lease_is_kept_by_its_link),
        cmocka_unit_test(test_what_is_left_behind_is_sent_and_read_without_a_command),
    };
    return cmocka_run_group_tests_name("engine: link to the guest", tests, NULL, NULL);
}
