/* Links: commands over one stream, with guests that keep to the rules, and guests that don't.
 */
#include "backends/engine/link.h"

#include <errno.h>
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

/* --- opening --- */

static void of_another_version(struct link_peer *p)
{
    const struct serve_hello hello = {.magic = SERVE_MAGIC, .version = SERVE_VERSION + 1, .pid = 1};
    say(p, SERVE_HELLO, 0, &hello, sizeof(hello));
    drain(p);
}

static void of_another_kind(struct link_peer *p)
{
    say_raw(p, "Welcome to Busybox, the shell of all shells\n# ", 46);
    drain(p);
}

static void ready_at_once(struct link_peer *p)
{
    const struct serve_ready ready = {0};
    const struct serve_hello hello = {.magic = SERVE_MAGIC, .version = SERVE_VERSION, .pid = 1};
    struct {
        struct serve_frame a;
        struct serve_hello hello;
        struct serve_frame b;
        struct serve_ready ready;
    } both = {{sizeof(hello), SERVE_HELLO, 0}, hello, {sizeof(ready), SERVE_READY, 0}, ready};
    say_bytes(p, &both, sizeof(both));
    drain(p);
}

static void gone_at_once(struct link_peer *p)
{
}

static void gone_after_hello(struct link_peer *p)
{
    say_hello(p);
    expect(p, SERVE_CONFIG);
}

static void of_another_kind_in_pieces(struct link_peer *p)
{
    say_bytes(p, "Welcome to Busybox, the shell of all shells\n# ", 46);
    drain(p);
}

static void with_last_words(struct link_peer *p)
{
    say_raw(p,
            "\2\0\0\0\0\0\0\x1b"
            "exec format error\n\033[1m\xff\n\nx",
            8 + 27);
}

static void test_strangers_are_refused(void **state)
{
    static const struct {
        guest_fn *guest;
        const char *words;
    } cases[] = {
        {of_another_version, "version"},
        {of_another_kind, "makes no sense"},
        {of_another_kind_in_pieces, "makes no sense"},
        {ready_at_once, "before it is asked"},
        {gone_at_once, "ended"},
        {gone_after_hello, "ended"},
        {with_last_words, "exec format error  [1m\xef\xbf\xbd  x"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct link_peer p;
        struct serve_ready ready;
        struct error err = ERROR_INIT;
        const struct wait wait = {.deadline = clock_deadline_after(60)};
        const struct link_options options = {.stream = peer_begin(&p, cases[i].guest),
                                             .keeper = peer_keeper()};
        assert_null(link_open(&options, &wait, &ready, &err));
        assert_int_equal(err.code, ERR_UNAVAILABLE);
        if (!strstr(err.msg, cases[i].words))
            fail_msg("case %zu: %s", i, err.msg);
        peer_end(&p);
    }
}

static void test_opening_has_limits(void **state)
{
    struct link_peer p;
    struct serve_ready ready;
    struct error err = ERROR_INIT;
    struct cancel *cancel = cancel_new();
    cancel_fire(cancel, ERR_CANCELLED);
    const struct wait waits[] = {{.deadline = DEADLINE_NONE, .cancel = cancel},
                                 {.deadline = clock_deadline_after(0.05)}};
    const enum error_code codes[] = {ERR_CANCELLED, ERR_TIMEOUT};
    for (size_t i = 0; i < ARRAY_LEN(waits); i++) {
        const struct link_options options = {.stream = peer_begin(&p, drain), .keeper = peer_keeper()};
        assert_null(link_open(&options, &waits[i], &ready, &err));
        assert_int_equal(err.code, codes[i]);
        peer_end(&p);
    }
    cancel_unref(cancel);
}

/* --- one command --- */

static void well_behaved(struct link_peer *p)
{
    greet(p);
    expect(p, SERVE_RUN);
    const uint32_t id = p->frame.id;
    struct serve_end end = {.exit = {.wait_status = 3 << 8,
                                     .cpu_us = 1234567,
                                     .peak_bytes = 1 << 20,
                                     .background_count = 2,
                                     .background = {7, 8}},
                            .oom_kills = 1,
                            .total = {20, 2},
                            .spooled = {20, 0},
                            .spool_path = {"/tmp/full"}};
    say_output(p, id, 0, 0, "head ");
    say_output(p, id, 1, 0, "er");
    say_output(p, id, 0, 0, "of it");
    say_output(p, id, 0, 1, "tail");
    say_end(p, id, &end);
    drain(p);
}

static void test_what_comes_is_the_result(void **state)
{
    struct link_peer p;
    struct link *l = peer_link(&p, well_behaved);
    struct running c = command(l, "x");
    must_succeed(&c);
    assert_int_equal(c.exit.wait_status, 3 << 8);
    assert_string_equal(buf_str(&c.result.out.head), "head of it");
    assert_string_equal(buf_str(&c.result.out.tail), "tail");
    assert_int_equal(c.result.out.total, 20);
    assert_int_equal(c.result.out.omitted, 6);
    assert_string_equal(c.result.out.path, "/tmp/full");
    assert_int_equal(c.result.out.path_bytes, 20);
    assert_string_equal(buf_str(&c.result.err.head), "er");
    assert_int_equal(c.result.err.omitted, 0);
    assert_true(c.result.oom_killed);
    assert_int_equal(c.result.usage.cpu_us, 1234567);
    assert_int_equal(c.result.usage.peak_bytes, 1 << 20);
    assert_int_equal(c.result.background_count, 2);
    assert_int_equal(c.result.background[1], 8);
    exec_result_done(&c.result);
    finish(l, &p);
}

static void hostile(struct link_peer *p)
{
    greet(p);
    expect(p, SERVE_RUN);
    const uint32_t id = p->frame.id;
    struct serve_end end = {.exit = {.background_count = UINT32_MAX, .background_more = UINT32_MAX},
                            .total = {UINT64_MAX, UINT64_MAX},
                            .spooled = {UINT64_MAX, 5},
                            .spool_path = {"/tmp/x", "/tmp/\033[2J"}};
    char long_text[LIMIT + 1];
    memset(long_text, 'x', LIMIT);
    long_text[LIMIT] = '\0';
    say_hello(p);
    say(p, SERVE_READY, 0, &(struct serve_ready){0}, sizeof(struct serve_ready));
    say(p, SERVE_RUN, id, "", 0);
    say(p, SERVE_OUTPUT, id, "", 0);
    say(p, SERVE_OUTPUT, id, &(struct serve_output){0, 0}, sizeof(struct serve_output));
    say_output(p, id, 2, 0, "no such stream");
    say_output(p, id, UINT32_MAX, UINT32_MAX, "no such part");
    say_output(p, id + 1, 0, 0, "another's");
    say_end(p, id + 1, NULL);
    say(p, SERVE_END, id, "x", 1);
    say_output(p, id, 0, 0, "ok");
    say_output(p, id, 0, 0, long_text);
    say_end(p, id, &end);
    say_output(p, id, 0, 0, "after the end");
    say_end(p, id, NULL);
    expect(p, SERVE_RUN);
    say_output(p, id, 0, 0, "late");
    say_end(p, p->frame.id, NULL);
    drain(p);
}

static void test_hostile_frames_do_no_harm(void **state)
{
    struct link_peer p;
    struct link *l = peer_link(&p, hostile);
    struct running c = command(l, "x");
    must_succeed(&c);
    assert_string_equal(buf_str(&c.result.out.head), "ok");
    assert_true(c.result.out.total <= INT64_MAX && c.result.err.total <= INT64_MAX);
    assert_int_equal(c.result.out.omitted, c.result.out.total - 2);
    assert_int_equal(c.result.out.path_bytes, LIMIT_SPOOL_BYTES);
    assert_null(c.result.err.path);
    assert_int_equal(c.result.background_count, LIMIT_BACKGROUND_PIDS);
    exec_result_done(&c.result);
    c = command(l, "y");
    must_succeed(&c);
    assert_int_equal(c.result.out.total, 0);
    exec_result_done(&c.result);
    finish(l, &p);
}

static void test_what_no_guest_can_be_given(void **state)
{
    struct link_peer p;
    struct link *l = peer_link(&p, well_behaved);
    struct running c = {.link = l, .request = request_of("x")};
    c.request.command_len = 2; /* with its NUL */
    execute(&c);
    must_fail(&c, ERR_INVALID);
    c = command(l, "x"); /* nothing of that was sent */
    must_succeed(&c);
    exec_result_done(&c.result);
    finish(l, &p);
}

/* --- the end of commands --- */

static void ends_when_killed(struct link_peer *p)
{
    greet(p);
    expect(p, SERVE_RUN);
    const uint32_t id = p->frame.id;
    say_output(p, id, 0, 0, "so far");
    expect(p, SERVE_KILL);
    if (p->frame.id != id)
        give_up("another's was to be killed");
    say_end(p, id, &(struct serve_end){.killed = 1, .exit.background_count = 1});
    drain(p);
}

static void test_a_deadline_kills_and_waits(void **state)
{
    struct link_peer p;
    struct link *l = peer_link(&p, ends_when_killed);
    struct running c = {.link = l, .request = request_of("x")};
    c.request.wait.deadline = clock_deadline_after(0.2);
    execute(&c);
    assert_int_equal(c.r, -1);
    assert_int_equal(c.err.code, ERR_TIMEOUT);
    assert_string_equal(buf_str(&c.result.out.head), "so far");
    assert_int_equal(c.result.background_count, 0);
    exec_result_done(&c.result);
    assert_true(link_alive(l));
    finish(l, &p);
}

/* Silent from the command on, until it is told to go on; then it catches up. */
static void falls_silent(struct link_peer *p)
{
    greet(p);
    expect(p, SERVE_RUN);
    const uint32_t id = p->frame.id;
    say_output(p, id, 0, 0, "so far");
    await_go();
    expect(p, SERVE_KILL);
    if (p->frame.id != id)
        give_up("another's was to be killed");
    say_end(p, id, &(struct serve_end){.killed = 1});
    expect(p, SERVE_RUN);
    say_end(p, p->frame.id, NULL);
    drain(p);
}

static int is_paused(void *ctx, struct error *err)
{
    return error_set(err, ERR_UNAVAILABLE, "it is %s", (const char *)ctx);
}

static void test_silence_holds_up_nobody_for_long(void **state)
{
    static char paused[] = "paused";
    const struct link_options ways[] = {{.on_silence = is_paused, .ctx = paused}, {0}};
    const char *const words[] = {"it is paused", "nothing in the computer answers"};
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        struct link_peer p;
        open_gates();
        struct link *l = peer_link_as(&p, falls_silent, &ways[i]);
        struct running c = {.link = l, .request = request_of("x")};
        c.request.wait.deadline = clock_deadline_after(0.1);
        execute(&c);
        assert_int_equal(c.r, -1);
        assert_int_equal(c.err.code, ERR_TIMEOUT);
        assert_string_equal(buf_str(&c.result.out.head), "so far");
        assert_non_null(c.result.note);
        assert_non_null(strstr(c.result.note, words[i]));
        exec_result_done(&c.result);
        let_guest_go(); /* whose link is as good as before */
        c = command(l, "next");
        must_succeed(&c);
        exec_result_done(&c.result);
        finish(l, &p);
        close_gates();
    }
}

static const struct serve_end NOT_FIRST = {.exit = {.stage = GUEST_STAGE_REQUEST, .sys = EPERM}},
                              NOT_ENDING = {.exit = {.stage = GUEST_STAGE_REQUEST, .sys = ETIMEDOUT}};

/* Answers a few, and then no more. */
static void clears(struct link_peer *p)
{
    const struct serve_end *const ends[] = {NULL, &NOT_FIRST, &NOT_ENDING, NULL};
    greet(p);
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        expect(p, SERVE_CLEAR);
        say_end(p, p->frame.id, ends[i]);
    }
    expect(p, SERVE_CLEAR);
    expect(p, SERVE_CLEAR);
}

static void test_what_comes_of_a_clear(void **state)
{
    static const struct {
        double seconds;
        enum error_code code;
    } cases[] = {{30, ERR_NONE}, {30, ERR_UNSUPPORTED}, {30, ERR_UNAVAILABLE},
                 {30, ERR_NONE}, {0.05, ERR_TIMEOUT},   {30, ERR_GONE}};
    struct link_peer p;
    struct link *l = peer_link(&p, clears);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct wait wait = {.deadline = clock_deadline_after(cases[i].seconds)};
        struct error err = ERROR_INIT;
        assert_int_equal(link_clear(l, &wait, &err), cases[i].code == ERR_NONE ? 0 : -1);
        assert_int_equal(err.code, cases[i].code);
    }
    finish(l, &p);
}

static void floods(struct link_peer *p)
{
    static char body[SERVE_FRAME_MAX];
    struct pollfd heard = {.fd = p->far, .events = POLLIN};
    greet(p);
    expect(p, SERVE_RUN);
    const uint32_t id = p->frame.id;
    while (poll(&heard, 1, 0) == 0)
        say(p, SERVE_OUTPUT, id, body, sizeof(body));
    expect(p, SERVE_KILL);
    say_end(p, id, &(struct serve_end){.killed = 1});
    drain(p);
}

static void test_a_flood_has_an_end(void **state)
{
    struct link_peer p;
    struct link *l = peer_link(&p, floods);
    struct running c = {.link = l, .request = request_of("x")};
    c.request.wait.deadline = clock_deadline_after(0.2);
    execute(&c);
    must_fail(&c, ERR_TIMEOUT);
    finish(l, &p);
}

static void leaves_amid_commands(struct link_peer *p)
{
    greet(p);
    for (int i = 0; i < 16; i++)
        expect(p, SERVE_RUN);
}

static void test_all_learn_of_the_streams_end(void **state)
{
    struct link_peer p;
    struct running c[16];
    struct link *l = peer_link(&p, leaves_amid_commands);
    const struct exec_request request = request_of("x");
    for (int i = 0; i < 16; i++)
        start(&c[i], l, &request);
    for (int i = 0; i < 16; i++) {
        join(&c[i]);
        must_fail(&c[i], ERR_GONE);
    }
    assert_false(link_alive(l));
    struct running late = command(l, "x");
    must_fail(&late, ERR_GONE);
    finish(l, &p);
}

static struct link *to_close;

static void closed_amid_commands(struct link_peer *p)
{
    greet(p);
    for (int i = 0; i < 16; i++)
        expect(p, SERVE_RUN);
    link_close(to_close); /* another thread than those that wait, one of which reads */
    link_close(to_close);
    link_unref(to_close);
    drain(p);
}

static void test_closing_ends_all(void **state)
{
    struct link_peer p;
    struct running c[16];
    struct link *l = peer_link(&p, closed_amid_commands);
    to_close = link_ref(l);
    const struct exec_request request = request_of("x");
    for (int i = 0; i < 16; i++)
        start(&c[i], l, &request);
    for (int i = 0; i < 16; i++) {
        join(&c[i]);
        must_fail(&c[i], ERR_GONE);
    }
    finish(l, &p);
}

static void leaves_in_silence(struct link_peer *p)
{
    greet(p);
}

static void test_an_end_is_seen_by_whoever_looks(void **state)
{
    struct link_peer p;
    struct link *l = peer_link(&p, leaves_in_silence);
    peer_end(&p);
    assert_false(link_alive(l));
    link_close(l);
    link_unref(l);
}

/* --- many commands --- */

static char big_input[BIG];

static struct exec_request big_request(void)
{
    struct exec_request r = request_of("big");
    r.stdin_bytes = big_input;
    r.stdin_len = BIG;
    return r;
}

/* The next frame is on its way, and can't be whole: it is larger than what a socket holds. */
static uint32_t await_half_a_frame(struct link_peer *p)
{
    struct serve_frame frame;
    if (recv(p->far, &frame, sizeof(frame), MSG_PEEK | MSG_WAITALL) != (ssize_t)sizeof(frame))
        give_up("no frame comes");
    return frame.id;
}

static void expect_big(struct link_peer *p, uint32_t id)
{
    expect(p, SERVE_RUN);
    if (p->frame.id != id || memcmp(p->body + p->frame.size - BIG, big_input, BIG) != 0)
        give_up("another frame is in the midst of this one");
}

/* The first runs; the second is half sent when the first is killed. */
static void reads_late(struct link_peer *p)
{
    greet(p);
    expect(p, SERVE_RUN);
    const uint32_t first = p->frame.id;
    go();
    const uint32_t second = await_half_a_frame(p);
    go();
    await_go();
    poll(NULL, 0, 20); /* time to do it wrong: nothing waits for this */
    expect_big(p, second);
    expect(p, SERVE_KILL);
    if (p->frame.id != first)
        give_up("another's was to be killed");
    say_end(p, first, &(struct serve_end){.killed = 1});
    say_end(p, second, NULL);
    drain(p);
}

static void test_a_kill_waits_for_the_end_of_a_frame(void **state)
{
    struct link_peer p;
    struct running first, second;
    struct cancel *cancel = cancel_new();
    open_gates();
    struct link *l = peer_link(&p, reads_late);
    struct exec_request request = request_of("x");
    request.wait.cancel = cancel;
    start(&first, l, &request);
    await_guest();
    request = big_request();
    start(&second, l, &request);
    await_guest();
    cancel_fire(cancel, ERR_CANCELLED);
    let_guest_go();
    join(&first);
    must_fail(&first, ERR_CANCELLED);
    join(&second);
    must_succeed(&second);
    exec_result_done(&second.result);
    finish(l, &p);
    cancel_unref(cancel);
    close_gates();
}

static void ends_before_it_was_asked(struct link_peer *p)
{
    greet(p);
    const uint32_t id = await_half_a_frame(p);
    say_end(p, id, NULL);
    await_go();
    expect_big(p, id);
    expect(p, SERVE_RUN);
    say_end(p, p->frame.id, NULL);
    drain(p);
}

static void test_a_frame_is_sent_to_its_end(void **state)
{
    struct link_peer p;
    struct running c;
    open_gates();
    struct link *l = peer_link(&p, ends_before_it_was_asked);
    const struct exec_request request = big_request();
    start(&c, l, &request);
    join(&c);
    must_succeed(&c);
    exec_result_done(&c.result);
    let_guest_go();
    c = command(l, "next");
    must_succeed(&c);
    exec_result_done(&c.result);
    finish(l, &p);
    close_gates();
}

static void sees_the_first_and_the_third(struct link_peer *p)
{
    greet(p);
    const uint32_t id = await_half_a_frame(p);
    go();
    await_go();
    expect_big(p, id);
    say_end(p, id, NULL);
    expect(p, SERVE_RUN);
    if (p->frame.id != id + 2)
        give_up("what was taken back came all the same");
    say_end(p, p->frame.id, NULL);
    drain(p);
}

static void test_what_was_not_begun_is_taken_back(void **state)
{
    struct link_peer p;
    struct running first, second;
    struct cancel *cancel = cancel_new();
    cancel_fire(cancel, ERR_CANCELLED);
    open_gates();
    struct link *l = peer_link(&p, sees_the_first_and_the_third);
    const struct exec_request request = big_request();
    start(&first, l, &request);
    await_guest();
    second = (struct running){.link = l, .request = request_of("x")};
    second.request.wait.cancel = cancel;
    execute(&second);
    must_fail(&second, ERR_CANCELLED);
    let_guest_go();
    join(&first);
    must_succeed(&first);
    exec_result_done(&first.result);
    second = command(l, "third");
    must_succeed(&second);
    exec_result_done(&second.result);
    finish(l, &p);
    cancel_unref(cancel);
    close_gates();
}

static void answers_at_once(struct link_peer *p)
{
    greet(p);
    while (hear(p))
        if (p->frame.type == SERVE_RUN)
            say_end(p, p->frame.id, NULL);
}

#define EACH 200

static void *execute_many(void *arg)
{
    struct running *c = arg;
    for (int i = 0; i < EACH; i++) {
        execute(c);
        if (c->r < 0)
            break;
        exec_result_done(&c->result);
    }
    return NULL;
}

static void test_looking_disturbs_nobody(void **state)
{
    struct link_peer p;
    struct running c[8];
    struct link *l = peer_link(&p, answers_at_once);
    for (int i = 0; i < 8; i++) {
        c[i] = (struct running){.link = l, .request = request_of("x")};
        assert_int_equal(pthread_create(&c[i].thread, NULL, execute_many, &c[i]), 0);
    }
    for (int i = 0; i < 5 * EACH; i++)
        assert_true(link_alive(l));
    for (int i = 0; i < 8; i++) {
        join(&c[i]);
        must_succeed(&c[i]);
    }
    finish(l, &p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strangers_are_refused),
        cmocka_unit_test(test_opening_has_limits),
        cmocka_unit_test(test_what_comes_is_the_result),
        cmocka_unit_test(test_hostile_frames_do_no_harm),
        cmocka_unit_test(test_what_no_guest_can_be_given),
        cmocka_unit_test(test_a_deadline_kills_and_waits),
        cmocka_unit_test(test_silence_holds_up_nobody_for_long),
        cmocka_unit_test(test_what_comes_of_a_clear),
        cmocka_unit_test(test_a_flood_has_an_end),
        cmocka_unit_test(test_all_learn_of_the_streams_end),
        cmocka_unit_test(test_closing_ends_all),
        cmocka_unit_test(test_an_end_is_seen_by_whoever_looks),
        cmocka_unit_test(test_a_kill_waits_for_the_end_of_a_frame),
        cmocka_unit_test(test_a_frame_is_sent_to_its_end),
        cmocka_unit_test(test_what_was_not_begun_is_taken_back),
        cmocka_unit_test(test_looking_disturbs_nobody),
    };
    return cmocka_run_group_tests_name("engine: link", tests, NULL, NULL);
}
