/* Running commands: what is run, where, with what, and how it ends. */
#include "contract/contract.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/mem.h"

static void command_runs(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    struct exec_request request = shell_request("echo out; echo err >&2; exit 3");
    struct exec_result r = must_run(&c, &request);
    assert_text(&r.out.head, "out\n");
    assert_text(&r.err.head, "err\n");
    assert_int_equal(r.exit_code, 3);
    assert_int_equal(r.out.total, 4);
    assert_int_equal(r.out.omitted, 0);
    assert_null(r.out.path);
    assert_int_equal(r.signal, 0);
    assert_false(r.timed_out || r.oom_killed || r.background_more);
    assert_int_equal(r.background_count, 0);
    assert_true(r.duration_ns > 0);
    exec_result_done(&r);
    computer_remove(&c);
}

static void args_are_not_interpreted(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    const char *argv[] = {"printf", "[%s]", "a b", "", "$HOME", "*", "'\"", NULL};
    struct exec_request request = argv_request(argv);
    struct exec_result r = must_run(&c, &request);
    assert_text(&r.out.head, "[a b][][$HOME][*]['\"]");
    exec_result_done(&r);
    computer_remove(&c);
}

static void b15_programs_that_cannot_run(struct contract *t)
{
    static const struct {
        const char *program;
        int exit_code;
    } ROWS[] = {{"no-such-program", 127}, {"/no/such/program", 127}, {"/etc", 126}, {"/etc/passwd", 126}};
    struct contract_computer c;
    computer_make(t, &c, true);
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        const char *argv[] = {ROWS[i].program, NULL};
        struct exec_request request = argv_request(argv);
        struct exec_result r = must_run(&c, &request);
        assert_int_equal(r.exit_code, ROWS[i].exit_code);
        assert_non_null(r.note);
        assert_int_equal(r.out.total + r.err.total, 0); /* our words are no output of the command's */
        exec_result_done(&r);
    }
    computer_remove(&c);
}

static void exit_codes(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    assert_int_equal(shell_status(&c, "exit 0"), 0);
    assert_int_equal(shell_status(&c, "exit 5"), 5);
    assert_int_equal(shell_status(&c, "exit 255"), 255);
    assert_int_equal(shell_status(&c, "no-such-command-in-shell"), 127);
    computer_remove(&c);
}

static void signals_end_commands(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    static const struct {
        const char *command;
        int signal;
    } ROWS[] = {{"kill -KILL $$", SIGKILL}, {"kill -TERM $$", SIGTERM}, {"kill -SEGV $$", SIGSEGV}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct exec_request request = shell_request(ROWS[i].command);
        struct exec_result r = must_run(&c, &request);
        assert_int_equal(r.signal, ROWS[i].signal);
        assert_int_equal(r.exit_code, 128 + ROWS[i].signal);
        exec_result_done(&r);
    }
    computer_remove(&c);
}

static void working_directory(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    struct exec_request request = shell_request("pwd");
    request.cwd = "/usr";
    struct exec_result r = must_run(&c, &request);
    assert_text(&r.out.head, "/usr\n");
    exec_result_done(&r);
    const char *argv[] = {"pwd", NULL};
    request = argv_request(argv);
    request.cwd = "/usr";
    r = must_run(&c, &request);
    assert_text(&r.out.head, "/usr\n");
    exec_result_done(&r);
    computer_remove(&c);
}

static void b18_missing_working_directory(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    struct exec_request request = shell_request("touch ran");
    request.cwd = "/nope";
    must_fail(&c, &request, ERR_CWD_NOT_FOUND);
    request.cwd = "/etc/passwd";
    must_fail(&c, &request, ERR_CWD_NOT_FOUND);
    assert_int_equal(shell_status(&c, "test ! -e ran"),
                     0); /* nothing was run, and the computer still works */
    computer_remove(&c);
}

static void environment(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    const char *env[] = {"ONE=1", "EMPTY=", "EQUALS=a=b", "HOME=/mine", NULL};
    struct exec_request request = shell_request("echo \"$ONE,$EMPTY,$EQUALS,$HOME\"");
    request.env = unconst(env);
    struct exec_result r = must_run(&c, &request);
    assert_text(&r.out.head, "1,,a=b,/mine\n");
    exec_result_done(&r);
    _cleanup_(cleanup_free) char *next = must_shell(&c, "echo \"[$ONE]\""); /* not kept for the next one */
    assert_string_equal(next, "[]\n");
    computer_remove(&c);
}

static void b56_locale_is_utf8(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    _cleanup_(cleanup_free) char *output = must_shell(&c, "printf '✓é'; echo \"$LANG\"");
    assert_string_equal(output, "✓éC.UTF-8\n");
    computer_remove(&c);
}

static void b3_no_stdin_is_an_empty_one(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    for (int i = 0; i < 50; i++) {
        const char *argv[] = {"cat", NULL};
        struct exec_request request = argv_request(argv);
        request.stdin_bytes = i % 2 ? "" : NULL;
        struct exec_result r = must_run(&c, &request);
        assert_int_equal(r.exit_code, 0);
        assert_int_equal(r.out.total, 0);
        exec_result_done(&r);
    }
    computer_remove(&c);
}

static void b9_stdin_is_bytes(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    struct exec_request request = shell_request("wc -c");
    request.stdin_bytes = "\x00\x01\x02\xff";
    request.stdin_len = 4;
    struct exec_result r = must_run(&c, &request);
    assert_int_equal(strtol(buf_str(&r.out.head), NULL, 10), 4);
    exec_result_done(&r);
    computer_remove(&c);
}

static void b10_stdin_and_output_at_the_same_time(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    const size_t size = LIMIT_STDIN_BYTES;
    _cleanup_(cleanup_free) char *bytes = xmalloc(size);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)(i * 7 + i / 253);
    struct exec_request request = shell_request("cat");
    request.stdin_bytes = bytes;
    request.stdin_len = size;
    request.output_limit = size;
    struct exec_result r = must_run(&c, &request);
    assert_int_equal(r.exit_code, 0);
    assert_int_equal(r.out.head.len, size);
    assert_memory_equal(r.out.head.data, bytes, size);
    exec_result_done(&r);
    computer_remove(&c);
}

static void b11_unread_stdin_is_no_error(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    _cleanup_(cleanup_free) char *bytes = xcalloc(1, 1 * MIB);
    static const char *const COMMANDS[] = {"true", "head -c 10 | wc -c", "exec 0<&-; sleep 0.2"};
    for (size_t i = 0; i < ARRAY_LEN(COMMANDS); i++) {
        struct exec_request request = shell_request(COMMANDS[i]);
        request.stdin_bytes = bytes;
        request.stdin_len = 1 * MIB;
        struct exec_result r = must_run(&c, &request);
        assert_int_equal(r.exit_code, 0);
        assert_int_equal(r.err.total, 0);
        exec_result_done(&r);
    }
    computer_remove(&c);
}

static void long_command_text(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    _cleanup_(buf_done) struct buf text = BUF_INIT(LIMIT_COMMAND_BYTES);
    while (text.len < LIMIT_COMMAND_BYTES - 200)
        assert_int_equal(buf_append_str(&text, "# a comment that makes it long\n"), 0);
    assert_int_equal(buf_append_str(&text, "read line; echo \"got $line\"; exit 7\n"), 0);
    struct exec_request request = shell_request(buf_str(&text));
    request.stdin_bytes = "stdin\n";
    request.stdin_len = 6;
    struct exec_result r = must_run(&c, &request);
    assert_text(&r.out.head, "got stdin\n"); /* the text doesn't come by stdin */
    assert_int_equal(r.exit_code, 7);
    exec_result_done(&r);
    computer_remove(&c);
}

static void calls_are_independent(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    free(must_shell(&c, "X=1; mkdir sub; cd sub; echo kept > ../file"));
    _cleanup_(cleanup_free) char *output = must_shell(&c, "cat file; echo \"[$X]\"; ls -d sub");
    assert_string_equal(output, "kept\n[]\nsub\n");
    computer_remove(&c);
}

/* -- Ends before their time */

/* A shell condition: the process runs. One that has ended, and that nobody has waited for yet, doesn't. Where
 * /proc tells of no processes, those are waited for that soon nobody can tell from others that have ended. */
#define RUNS(pid)                                                                                            \
    "if test -e /proc/self; then grep -qs '^State:[[:space:]]*[A-Y]' /proc/" pid "/status;"                  \
    " else for i in 1 2 3 4 5; do kill -0 " pid " 2>/dev/null && sleep 0.1 || break; done; kill -0 " pid ";" \
    " fi 2>/dev/null"

static struct exec_result run_until_timeout(struct contract_computer *c, const char *command)
{
    struct exec_request request = shell_request(command);
    request.wait.deadline = clock_deadline_after(contract_brief_s);
    struct exec_result r = must_run(c, &request);
    assert_true(r.timed_out);
    assert_int_equal(r.exit_code, 124);
    assert_int_equal(r.background_count, 0);
    return r;
}

static void b1_timeout_kills_children(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    struct exec_result r = run_until_timeout(&c, "sleep 300 & echo $!; sleep 300 & echo $!; sleep 300");
    int first = 0, second = 0;
    assert_int_equal(sscanf(buf_str(&r.out.head), "%d\n%d\n", &first, &second),
                     2); /* partial output comes back */
    exec_result_done(&r);
    assert_int_not_equal(shell_status(&c, "( " RUNS("%d") " ) || ( " RUNS("%d") " )", first, first, first,
                                      second, second, second),
                         0);
    computer_remove(&c);
}

static void b1_timeout_kills_what_left_its_session(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    struct contract_thread beside;
    struct exec_request request = shell_request("until test -e go; do sleep 0.02; done; echo lives");
    command_start(&beside, &c, &request);
    struct exec_result r =
        run_until_timeout(&c, "setsid -f sh -c 'echo $$ > pid; exec sleep 300'; sleep 300");
    exec_result_done(&r);
    free(must_shell(&c, "test -s pid"));
    assert_int_not_equal(shell_status(&c, RUNS("$(cat pid)")), 0);
    free(must_shell(&c, "touch go"));
    command_join(&beside);
    assert_int_equal(beside.r, 0);
    assert_text(&beside.result.out.head, "lives\n");
    exec_result_done(&beside.result);
    computer_remove(&c);
}

static void timeout_of_a_stubborn_command(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    struct exec_result r = run_until_timeout(&c, "trap '' TERM INT HUP; while :; do sleep 0.05; done");
    exec_result_done(&r);
    r = run_until_timeout(&c, "kill -STOP $$");
    exec_result_done(&r);
    assert_int_equal(shell_status(&c, "true"), 0);
    computer_remove(&c);
}

static void b2_background_is_left_and_told(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    struct exec_request request = shell_request("sleep 100 & echo $!");
    struct exec_result r = must_run(&c, &request);
    assert_int_equal(r.exit_code, 0);
    assert_int_equal(r.background_count, 1);
    int pid = atoi(buf_str(&r.out.head));
    assert_int_equal(r.background[0], pid);
    exec_result_done(&r);
    assert_int_equal(shell_status(&c, RUNS("%d"), pid, pid, pid), 0);
    assert_int_equal(shell_status(&c, "kill %d", pid), 0);
    computer_remove(&c);
}

static void background_ends_with_the_computer(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    free(must_shell(&c, "setsid -f sleep 100 >/dev/null 2>&1; sleep 100 >/dev/null 2>&1 &"));
    computer_remove(&c); /* nothing holds its files */
}

static void b45_a_stuck_command_blocks_nobody(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    struct cancel *cancel = cancel_new();
    struct contract_thread stuck;
    struct exec_request request = shell_request("sleep 1000");
    request.wait = (struct wait){.deadline = DEADLINE_NONE, .cancel = cancel};
    command_start(&stuck, &c, &request);
    assert_int_equal(shell_status(&c, "true"), 0);
    cancel_fire(cancel, ERR_CANCELLED);
    command_join(&stuck);
    assert_int_equal(stuck.r, -1);
    assert_int_equal(stuck.error.code, ERR_CANCELLED);
    cancel_unref(cancel);
    computer_remove(&c);
}

static void commands_run_side_by_side(struct contract *t)
{
    enum { COUNT = 8 };
    struct contract_computer c;
    struct contract_thread threads[COUNT];
    computer_make(t, &c, true);
    /* Each waits for all the others, which only works when they all run. */
    for (int i = 0; i < COUNT; i++) {
        static char commands[COUNT][128];
        snprintf(commands[i], sizeof(commands[i]),
                 "touch here-%d; until test $(ls here-* | wc -l) = %d; do sleep 0.02; done; echo %d", i,
                 COUNT, i);
        struct exec_request request = shell_request(commands[i]);
        command_start(&threads[i], &c, &request);
    }
    for (int i = 0; i < COUNT; i++) {
        command_join(&threads[i]);
        assert_int_equal(threads[i].r, 0);
        assert_int_equal(atoi(buf_str(&threads[i].result.out.head)), i);
        exec_result_done(&threads[i].result);
    }
    computer_remove(&c);
}

static void cancelled_with(struct contract_computer *c, enum error_code why)
{
    struct cancel *cancel = cancel_new();
    struct contract_thread thread;
    struct exec_request request = shell_request("sleep 300 & echo $! > pid; touch started; sleep 300");
    request.wait.cancel = cancel;
    free(must_shell(c, "rm -f started"));
    command_start(&thread, c, &request);
    free(must_shell(c, "until test -e started; do sleep 0.02; done"));
    cancel_fire(cancel, why);
    command_join(&thread);
    assert_int_equal(thread.r, -1);
    assert_int_equal(thread.error.code, why);
    assert_int_not_equal(shell_status(c, RUNS("$(cat pid)")), 0);
    cancel_unref(cancel);
}

static void cancelling(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    cancelled_with(&c, ERR_CANCELLED);
    cancelled_with(&c, ERR_DELETED);
    computer_remove(&c);
}

static void cancelled_before_it_began(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    struct cancel *cancel = cancel_new();
    cancel_fire(cancel, ERR_CANCELLED);
    struct exec_request request = shell_request("touch ran");
    request.wait.cancel = cancel;
    must_fail(&c, &request, ERR_CANCELLED);
    cancel_unref(cancel);
    assert_int_equal(shell_status(&c, "test ! -e ran"), 0);
    computer_remove(&c);
}

const struct contract_case EXEC_CASES[] = {
    {"a command runs", command_runs, 0},
    {"args are not interpreted", args_are_not_interpreted, 0},
    {"B15: programs that cannot run are 126 and 127", b15_programs_that_cannot_run, 0},
    {"exit codes are the command's", exit_codes, 0},
    {"signals are 128 + N", signals_end_commands, BACKEND_GUEST},
    {"the working directory", working_directory, 0},
    {"B18: a missing working directory is an error of its own", b18_missing_working_directory, 0},
    {"environment variables", environment, 0},
    {"B56: the locale is UTF-8", b56_locale_is_utf8, 0},
    {"B3: no stdin is an empty one", b3_no_stdin_is_an_empty_one, 0},
    {"B9: stdin is bytes", b9_stdin_is_bytes, 0},
    {"B10: stdin and output flow at the same time", b10_stdin_and_output_at_the_same_time, 0},
    {"B11: unread stdin is no error", b11_unread_stdin_is_no_error, 0},
    {"a command text of 1 MiB", long_command_text, BACKEND_GUEST},
    {"files stay, variables and directory don't", calls_are_independent, 0},
    {"B1: a timeout kills all children", b1_timeout_kills_children, 0},
    {"B1: and those that left the session, and nothing else", b1_timeout_kills_what_left_its_session, 0},
    {"a timeout ends who ignores signals or is stopped", timeout_of_a_stubborn_command, 0},
    {"B2: background processes are left running and told", b2_background_is_left_and_told, BACKEND_GUEST},
    {"background processes end with the computer", background_ends_with_the_computer, 0},
    {"B45: a stuck command blocks nobody", b45_a_stuck_command_blocks_nobody, 0},
    {"commands run side by side", commands_run_side_by_side, 0},
    {"cancelling kills everything and names the reason", cancelling, 0},
    {"what was cancelled before doesn't begin", cancelled_before_it_began, 0},
    {NULL, NULL, 0},
};
