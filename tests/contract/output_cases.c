/* Output: exact bytes, and what is kept of too many. */
#include "contract/contract.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

static void b8_output_is_bytes(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    struct exec_request request = shell_request("printf '\\260\\241\\377\\000x'");
    struct exec_result r = must_run(&c, &request);
    assert_int_equal(r.out.head.len, 5);
    assert_memory_equal(r.out.head.data, "\xb0\xa1\xff\0x", 5);
    exec_result_done(&r);
    computer_remove(&c);
}

static void output_that_just_fits(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    struct exec_request request = shell_request("head -c 600 /dev/zero; head -c 400 /dev/zero >&2");
    request.output_limit = 1000;
    struct exec_result r = must_run(&c, &request);
    assert_int_equal(r.out.head.len, 600);
    assert_int_equal(r.err.head.len, 400);
    assert_int_equal(r.out.omitted + r.err.omitted, 0);
    assert_null(r.out.path);
    assert_null(r.err.path);
    exec_result_done(&r);
    computer_remove(&c);
}

static void check_totals(const struct exec_stream *s, uint64_t total)
{
    assert_int_equal(s->total, total);
    assert_int_equal(s->head.len + s->tail.len + s->omitted, total);
}

static void b13_head_and_tail_of_a_flood(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    struct exec_request request = shell_request("echo first; seq 1 1000000; echo last");
    request.output_limit = 10000;
    struct exec_result r = must_run(&c, &request);
    const uint64_t total = 6 + 6888896 + 5;
    check_totals(&r.out, total);
    assert_true(r.out.head.len + r.out.tail.len <= 10000);
    assert_true(r.out.head.len > 1000 && r.out.tail.len > 1000);
    assert_memory_equal(r.out.head.data, "first\n1\n2\n", 10);
    assert_memory_equal(r.out.tail.data + r.out.tail.len - 13, "1000000\nlast\n", 13);
    assert_int_equal(r.err.total, 0);

    assert_non_null(r.out.path);
    assert_int_equal(r.out.path_bytes, r.out.total);
    _cleanup_(cleanup_free) char *size = must_shell(&c, "wc -c < '%s'", r.out.path);
    assert_int_equal(atoll(size), total);
    assert_int_equal(shell_status(&c, "{ echo first; seq 1 1000000; echo last; } | cmp - '%s'", r.out.path),
                     0);
    exec_result_done(&r);
    computer_remove(&c);
}

static void both_streams_flood(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    struct exec_request request = shell_request("seq 1 100000 >&2 & seq 100001 200000; wait");
    request.output_limit = 4096;
    struct exec_result r = must_run(&c, &request);
    check_totals(&r.out, 700000);
    check_totals(&r.err, 588895);
    assert_true(r.out.head.len + r.out.tail.len + r.err.head.len + r.err.tail.len <= 4096);
    exec_result_done(&r);
    computer_remove(&c);
}

static void the_spool_is_bounded(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    struct exec_request request = shell_request("head -c 70000000 /dev/zero; echo end");
    request.output_limit = 1000;
    struct exec_result r = must_run(&c, &request);
    assert_int_equal(r.exit_code, 0); /* output never ends a command */
    check_totals(&r.out, 70000004);
    assert_memory_equal(r.out.tail.data + r.out.tail.len - 4, "end\n", 4);
    assert_non_null(r.out.path);
    assert_int_equal(r.out.path_bytes, LIMIT_SPOOL_BYTES);
    _cleanup_(cleanup_free) char *size = must_shell(&c, "wc -c < '%s'", r.out.path);
    assert_int_equal(atoll(size), LIMIT_SPOOL_BYTES);
    exec_result_done(&r);
    computer_remove(&c);
}

static void partial_output_of_a_timeout(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    struct exec_request request = shell_request("echo so far; echo trouble >&2; sleep 300");
    request.wait.deadline = clock_deadline_after(contract_brief_s);
    struct exec_result r = must_run(&c, &request);
    assert_true(r.timed_out);
    assert_text(&r.out.head, "so far\n");
    assert_text(&r.err.head, "trouble\n");
    exec_result_done(&r);
    computer_remove(&c);
}

static void output_of_the_dying(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    for (int i = 0; i < 20; i++) {
        _cleanup_(cleanup_free) char *output = must_shell(&c, "head -c 60000 /dev/zero | tr '\\0' x");
        assert_int_equal(strlen(output), 60000); /* all of it, though the process had ended by then */
    }
    computer_remove(&c);
}

static void closed_outputs(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    assert_int_equal(shell_status(&c, "exec >&- 2>&-; sleep 0.1; exit 4"), 4);
    computer_remove(&c);
}

const struct contract_case OUTPUT_CASES[] = {
    {"B8: output is bytes", b8_output_is_bytes, 0},
    {"output that just fits is whole", output_that_just_fits, 0},
    {"B13: head, tail and file of a flood", b13_head_and_tail_of_a_flood, BACKEND_GUEST},
    {"both streams share the limit", both_streams_flood, 0},
    {"the file of a flood is bounded, the command isn't ended", the_spool_is_bounded, BACKEND_GUEST},
    {"a timeout returns what was written", partial_output_of_a_timeout, 0},
    {"what the dead have written comes too", output_of_the_dying, 0},
    {"a command without outputs", closed_outputs, 0},
    {NULL, NULL, 0},
};
