/* See link_calls.h. */
#include "tests/unit/backends/link_calls.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/unit/base/check.h"

struct exec_request request_of(const char *command)
{
    return (struct exec_request){.command = command,
                                 .command_len = strlen(command),
                                 .output_limit = LIMIT,
                                 .wait = {.deadline = clock_deadline_after(60)}};
}

void execute(struct running *c)
{
    c->result = (struct exec_result){0};
    c->err = (struct error)ERROR_INIT;
    c->r = link_exec(c->link, &c->request, "/bin/sh", &c->result, &c->exit, &c->err);
    c->ended = true;
}

static void *execute_thread(void *arg)
{
    execute(arg);
    return NULL;
}

void start(struct running *c, struct link *l, const struct exec_request *request)
{
    *c = (struct running){.link = l, .request = *request};
    assert_int_equal(pthread_create(&c->thread, NULL, execute_thread, c), 0);
}

void join(struct running *c)
{
    pthread_join(c->thread, NULL);
}

struct running command(struct link *l, const char *text)
{
    struct running c = {.link = l, .request = request_of(text)};
    execute(&c);
    return c;
}

void must_succeed(struct running *c)
{
    if (c->r < 0)
        fail_msg("%s", c->err.msg);
}

void must_fail(struct running *c, enum error_code code)
{
    assert_int_equal(c->r, -1);
    if (c->err.code != code)
        fail_msg("%s: %s", error_code_name(c->err.code), c->err.msg);
    exec_result_done(&c->result);
}

void finish(struct link *l, struct link_peer *p)
{
    link_close(l);
    link_unref(l);
    peer_end(p);
}

void drain(struct link_peer *p)
{
    while (hear(p))
        continue;
}

/* The test and the guest wait for each other. */
static int to_test[2], to_guest[2];

void open_gates(void)
{
    assert_int_equal(pipe2(to_test, O_CLOEXEC), 0);
    assert_int_equal(pipe2(to_guest, O_CLOEXEC), 0);
}

void close_gates(void)
{
    for (int i = 0; i < 2; i++) {
        close(to_test[i]);
        close(to_guest[i]);
    }
}

static void pass(const int gate[2])
{
    if (write(gate[1], "x", 1) != 1)
        give_up("a gate doesn't open");
}

static void await(const int gate[2])
{
    char c;
    if (read(gate[0], &c, 1) != 1)
        give_up("a gate is gone");
}

void go(void)
{
    pass(to_test);
}

void await_go(void)
{
    await(to_guest);
}

void let_guest_go(void)
{
    pass(to_guest);
}

void await_guest(void)
{
    await(to_test);
}
