/* The contract, held against the WASM backend: its computers have no shell, so the cases are those of the
 * other files as go-busybox can be made to play them by args. Needs what `make wasm` installs, else 77.
 *
 * The backend's own processes are this program, started anew. */
#include "contract/contract.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/wasm/wasm.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define SKIPPED 77

static struct backend *make(const char *state_dir)
{
    return wasm_new(&(struct wasm_options){.go_busybox = true, .state_dir = state_dir});
}

/* -- Steps */

static struct exec_result run(struct contract_computer *c, const char *const *argv)
{
    struct exec_request request = argv_request(argv);
    return must_run(c, &request);
}

static int status_of(struct contract_computer *c, const char *const *argv)
{
    struct exec_result r = run(c, argv);
    int status = r.exit_code;
    exec_result_done(&r);
    return status;
}

static void says(struct contract_computer *c, const char *const *argv, const char *output)
{
    struct exec_result r = run(c, argv);
    assert_text(&r.err.head, "");
    assert_text(&r.out.head, output);
    assert_int_equal(r.exit_code, 0);
    exec_result_done(&r);
}

static void save(struct contract_computer *c, const char *name, const char *line)
{
    _cleanup_(cleanup_free) char *script = xasprintf("w %s", name);
    struct exec_request request = argv_request(ARGS("sed", "-n", script));
    request.stdin_bytes = line;
    request.stdin_len = strlen(line);
    struct exec_result r = must_run(c, &request);
    assert_int_equal(r.exit_code, 0);
    exec_result_done(&r);
}

/* Until so many of its commands run. */
static void await_running(struct contract_computer *c, int count)
{
    const struct wait wait = {.deadline = clock_deadline_after(30)};
    struct instance_stat stat = {0};
    do
        assert_int_equal(c->instance->ops->stat(c->instance, true, &wait, &stat, NULL), 0);
    while (stat.pids < count && clock_now() < wait.deadline && poll(NULL, 0, 5) == 0);
    assert_true(stat.pids >= count);
}

/* What the host sees of it. */
static char *host_path(const struct contract_computer *c, const char *name)
{
    return xasprintf("%s/wasm/%s", c->folder, name);
}

/* -- Commands */

static void a_command_runs(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    struct exec_result r = run(&c, ARGS("echo", "a b", "", "$HOME", "*", "'\"", "✓é"));
    assert_text(&r.out.head, "a b  $HOME * '\" ✓é\n");
    assert_int_equal(r.exit_code, 0);
    assert_int_equal(r.signal, 0);
    assert_int_equal(r.out.omitted, 0);
    assert_null(r.out.path);
    assert_false(r.timed_out);
    assert_int_equal(r.background_count, 0);
    assert_true(r.duration_ns > 0 && r.usage.cpu_us > 0 && r.usage.peak_bytes > 0);
    exec_result_done(&r);
    r = run(&c, ARGS("cat", "nothing"));
    assert_int_equal(r.exit_code, 1);
    assert_true(r.err.total > 0 && r.out.total == 0);
    exec_result_done(&r);
    computer_remove(&c);
}

static void a_command_line_is_refused(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    struct exec_request request = shell_request("echo hi");
    must_fail(&c, &request, ERR_SHELL_NOT_FOUND);
    request = argv_request(ARGS("echo", "\xff"));
    must_fail(&c, &request, ERR_INVALID);
    computer_remove(&c);
}

static void stdin_is_bytes(struct contract *t)
{
    enum { MOST = 2 * MIB };
    struct contract_computer c;
    computer_make(t, &c, true);
    for (int i = 0; i < 4; i++)
        says(&c, ARGS("cat"), ""); /* an empty one */
    char *bytes = xmalloc(MOST);
    for (size_t i = 0; i < MOST; i++)
        bytes[i] = (char)(i * 7 + i / 256);
    struct exec_request request = argv_request(ARGS("cat"));
    request.stdin_bytes = bytes;
    request.stdin_len = MOST;
    request.output_limit = MOST;
    struct exec_result r = must_run(&c, &request);
    assert_int_equal(r.out.head.len, MOST);
    assert_memory_equal(r.out.head.data, bytes, MOST);
    exec_result_done(&r);
    request.argv = unconst(ARGS("echo", "unread"));
    r = must_run(&c, &request);
    assert_text(&r.out.head, "unread\n");
    exec_result_done(&r);
    free(bytes);
    computer_remove(&c);
}

static void runs_in(struct contract_computer *c, const char *cwd, const char *const *argv, const char *output)
{
    struct exec_request request = argv_request(argv);
    request.cwd = cwd;
    struct exec_result r = must_run(c, &request);
    assert_text(&r.out.head, output);
    assert_int_equal(r.exit_code, 0);
    exec_result_done(&r);
}

static void cwd_fails(struct contract_computer *c, const char *cwd)
{
    struct exec_request request = argv_request(ARGS("mkdir", "ran"));
    request.cwd = cwd;
    must_fail(c, &request, ERR_CWD_NOT_FOUND);
}

static void working_directory(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    save(&c, "file", "in root\n");
    runs_in(&c, "/", ARGS("cat", "file"), "in root\n");
    runs_in(&c, "/a/b", ARGS("mkdir", "made"), "");
    says(&c, ARGS("ls", "/a/b"), "made\n");
    runs_in(&c, "/a", ARGS("ls", "b"), "made\n");
    runs_in(&c, "/a", ARGS("ls", "/a/b"), "made\n"); /* absolute paths are still what they are */
    cwd_fails(&c, "/file");
    cwd_fails(&c, "/file/below");
    says(&c, ARGS("ls", "/"), "a\nfile\ntmp\n"); /* nothing was run */
    computer_remove(&c);
}

/* Links lead where they would inside, whatever they say. */
static void working_directory_stays_inside(struct contract *t)
{
    static const struct {
        const char *name, *target;
    } LINKS[] = {{"up", ".."},
                 {"far", "../../../../../.."},
                 {"root", "/"},
                 {"etc", "/etc"},
                 {"self", "/proc/self/cwd"}};
    struct contract_computer c;
    computer_make(t, &c, true);
    for (size_t i = 0; i < ARRAY_LEN(LINKS); i++) {
        _cleanup_(cleanup_free) char *path = host_path(&c, LINKS[i].name);
        assert_int_equal(symlink(LINKS[i].target, path), 0);
    }
    for (size_t i = 0; i < 3; i++) {
        _cleanup_(cleanup_free) char *cwd = xasprintf("/%s", LINKS[i].name);
        runs_in(&c, cwd, ARGS("ls"), "etc\nfar\nroot\nself\ntmp\nup\n");
    }
    runs_in(&c, "/../../..", ARGS("ls"), "etc\nfar\nroot\nself\ntmp\nup\n");
    cwd_fails(&c, "/etc");
    cwd_fails(&c, "/self");
    cwd_fails(&c, "/far/etc/ssl");
    computer_remove(&c);
}

/* -- Ends before their time */

static void timeouts(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    struct exec_request request = argv_request(ARGS("sleep", "300"));
    request.wait.deadline = clock_deadline_after(0.5);
    struct exec_result r = must_run(&c, &request);
    assert_true(r.timed_out);
    assert_int_equal(r.exit_code, 124);
    exec_result_done(&r);
    says(&c, ARGS("echo", "next"), "next\n");
    computer_remove(&c);
}

static void cancelling(struct contract *t)
{
    static const enum error_code WHY[] = {ERR_CANCELLED, ERR_DELETED};
    struct contract_computer c;
    computer_make(t, &c, true);
    for (size_t i = 0; i < ARRAY_LEN(WHY); i++) {
        struct contract_thread stuck;
        struct cancel *cancel = cancel_new();
        struct exec_request request = argv_request(ARGS("sleep", "300"));
        request.wait = (struct wait){.deadline = DEADLINE_NONE, .cancel = cancel};
        command_start(&stuck, &c, &request);
        await_running(&c, 1);
        says(&c, ARGS("echo", "beside"), "beside\n");
        cancel_fire(cancel, WHY[i]);
        command_join(&stuck);
        assert_int_equal(stuck.r, -1);
        assert_int_equal(stuck.error.code, WHY[i]);
        must_fail(&c, &request, WHY[i]); /* nor does it begin */
        cancel_unref(cancel);
    }
    computer_remove(&c);
}

static void side_by_side(struct contract *t)
{
    enum { COUNT = 24 };
    struct contract_computer c;
    struct contract_thread threads[COUNT];
    computer_make(t, &c, true);
    struct cancel *cancel = cancel_new();
    struct exec_request request = argv_request(ARGS("sleep", "300"));
    request.wait.cancel = cancel;
    for (int i = 0; i < COUNT; i++)
        command_start(&threads[i], &c, &request);
    await_running(&c, COUNT); /* all at once */
    says(&c, ARGS("echo", "beside"), "beside\n");
    cancel_fire(cancel, ERR_CANCELLED);
    for (int i = 0; i < COUNT; i++)
        command_join(&threads[i]);
    cancel_unref(cancel);
    computer_remove(&c);
}

/* -- Output */

static void head_tail_and_file(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    _cleanup_(buf_done) struct buf lines = BUF_INIT(2 * MIB);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(buf_printf(&lines, "%d\n", i), 0);
    struct exec_request request = argv_request(ARGS("cat"));
    request.stdin_bytes = lines.data;
    request.stdin_len = lines.len;
    request.output_limit = 1000;
    struct exec_result r = must_run(&c, &request);
    assert_int_equal(r.exit_code, 0);
    assert_int_equal(r.out.total, lines.len);
    assert_int_equal(r.out.head.len + r.out.tail.len + r.out.omitted, lines.len);
    assert_memory_equal(r.out.head.data, "0\n1\n2\n", 6);
    assert_memory_equal(r.out.tail.data + r.out.tail.len - 6, "99999\n", 6);
    assert_non_null(r.out.path);
    assert_int_equal(r.out.path_bytes, lines.len);
    request.argv = unconst(ARGS("cat", r.out.path));
    request.stdin_len = 0;
    request.output_limit = lines.len;
    struct exec_result all = must_run(&c, &request);
    assert_int_equal(all.out.head.len, lines.len);
    assert_memory_equal(all.out.head.data, lines.data, lines.len);
    exec_result_done(&all);
    exec_result_done(&r);
    computer_remove(&c);
}

/* A guest that made /tmp a link to somewhere else gets its file inside, or none. */
static void the_file_stays_inside(struct contract *t)
{
    struct contract_computer c;
    char outside[] = "/tmp/contract-outside-XXXXXX";
    assert_non_null(mkdtemp(outside));
    computer_make(t, &c, true);
    _cleanup_(cleanup_free) char *tmp = host_path(&c, "tmp");
    assert_int_equal(rmdir(tmp), 0);
    assert_int_equal(symlink(outside, tmp), 0);
    struct exec_request request = argv_request(ARGS("echo", "much more than is kept of it"));
    request.output_limit = 8;
    struct exec_result r = must_run(&c, &request);
    assert_null(r.out.path);
    exec_result_done(&r);
    assert_int_equal(rmdir(outside), 0); /* it is empty */
    computer_remove(&c);
}

/* -- Life */

static void computers_are_separate(struct contract *t)
{
    struct contract_computer a, b;
    computer_make(t, &a, true);
    computer_make(t, &b, true);
    save(&a, "file", "a\n");
    assert_int_equal(status_of(&b, ARGS("cat", "file")), 1);
    computer_remove(&a);
    says(&b, ARGS("ls", "/"), "tmp\n");
    computer_remove(&b);
}

static void killed_and_restarted(struct contract *t)
{
    struct contract_computer c;
    struct contract_thread thread;
    const struct wait wait = {.deadline = clock_deadline_after(30)};
    computer_make(t, &c, false);
    save(&c, "file", "kept\n");
    struct exec_request request = argv_request(ARGS("sleep", "300"));
    command_start(&thread, &c, &request);
    await_running(&c, 1);
    assert_true(c.instance->ops->alive(c.instance));
    c.instance->ops->kill(c.instance);
    command_join(&thread);
    assert_int_equal(thread.r, -1);
    assert_int_equal(thread.error.code, ERR_GONE);
    must_fail(&c, &request, ERR_GONE);
    assert_false(c.instance->ops->alive(c.instance));
    c.instance->ops->kill(c.instance); /* again is harmless */
    assert_int_equal(c.instance->ops->restart(c.instance, &wait, NULL), 0);
    assert_true(c.instance->ops->alive(c.instance));
    says(&c, ARGS("cat", "file"), "kept\n");
    computer_remove(&c);
}

static json_t *detach(struct contract_computer *c)
{
    json_t *data = c->instance->ops->record(c->instance);
    assert_int_equal(c->instance->ops->detach(TAKE_PTR(c->instance), NULL), 0);
    return data;
}

static int attach(struct contract_computer *c, const json_t *data, struct error *err)
{
    struct backend *b = c->t->backend;
    const struct wait wait = {.deadline = clock_deadline_after(30)};
    return b->ops->attach(b, &c->spec, data, &wait, &c->instance, err);
}

static void permanent_ones_come_back(struct contract *t)
{
    struct contract_computer c;
    struct error err = ERROR_INIT;
    computer_make(t, &c, false);
    save(&c, "file", "kept\n");
    for (int i = 0; i < 2; i++) {
        _cleanup_(cleanup_json_decref) json_t *data = detach(&c);
        assert_int_equal(t->backend->ops->settle(t->backend, &c.spec, data, NULL), 0);
        assert_int_equal(attach(&c, data, &err), 0);
        says(&c, ARGS("cat", "file"), "kept\n");
    }
    _cleanup_(cleanup_json_decref) json_t *data = detach(&c);
    for (int i = 0; i < 2; i++)
        assert_int_equal(t->backend->ops->reap(t->backend, &c.spec, i ? NULL : data, NULL), 0);
    assert_int_equal(attach(&c, data, &err), -1);
    assert_int_equal(err.code, ERR_GONE);
    computer_forget(&c);
}

static int move_folder(void *ctx, struct error *err)
{
    const char *const *paths = ctx;
    return rename(paths[0], paths[1]) < 0 ? error_set(err, ERR_INTERNAL, "rename") : 0;
}

static void a_replacement_takes_over(struct contract *t)
{
    struct contract_computer old, fresh;
    computer_make(t, &old, false);
    save(&old, "file", "old\n");
    computer_begin(t, &fresh, false);
    fresh.spec.id = old.spec.id;
    fresh.spec.replacing = true;
    computer_create(&fresh);
    save(&fresh, "file", "new\n");
    _cleanup_(cleanup_free) char *place = xstrdup(old.folder);
    computer_remove(&old);
    const char *const paths[] = {fresh.folder, place};
    fresh.spec.folder = place;
    assert_int_equal(
        fresh.instance->ops->take_over(fresh.instance, &fresh.spec, move_folder, (void *)paths, NULL), 0);
    free(fresh.folder);
    fresh.folder = TAKE_PTR(place);
    says(&fresh, ARGS("cat", "file"), "new\n");
    computer_remove(&fresh);
}

static void options_of_its_own(struct contract *t)
{
    struct contract_computer c;
    const struct wait wait = {.deadline = clock_deadline_after(30)};
    struct instance_stat stat;
    const struct computer_options options = {.given = COMPUTER_MEMORY, .memory_bytes = 64 * MIB};
    computer_begin(t, &c, true);
    c.spec.options = &options;
    computer_create(&c);
    says(&c, ARGS("echo", "runs"), "runs\n");
    assert_int_equal(c.instance->ops->stat(c.instance, true, &wait, &stat, NULL), 0);
    assert_int_equal(stat.memory_limit, 64 * MIB);
    assert_true(stat.enforced & COMPUTER_MEMORY);
    assert_true(stat.disk_bytes > 0);
    computer_remove(&c);
}

/* A server with a command that runs is killed: nothing of it is left but files. */
static void a_dead_server(struct contract *t)
{
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct contract theirs = {.backend = make(t->state_dir), .state_dir = t->state_dir};
        struct contract_computer c;
        struct contract_thread thread;
        computer_make(&theirs, &c, true);
        struct exec_request request = argv_request(ARGS("sleep", "300"));
        command_start(&thread, &c, &request);
        await_running(&c, 1);
        close(ends[0]);
        if (write(ends[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    /* Its own processes hold nothing of ours: what ends them is that it is gone. */
    _cleanup_(cleanup_free) char *children = xasprintf("pgrep -P %d", (int)pid);
    FILE *list = popen(children, "r");
    int zygote = 0;
    assert_non_null(list);
    assert_int_equal(fscanf(list, "%d", &zygote), 1);
    pclose(list);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    for (int64_t deadline = clock_deadline_after(10); kill(zygote, 0) == 0 && clock_now() < deadline;)
        poll(NULL, 0, 10);
    assert_int_equal(kill(zygote, 0), -1);
}

/* Nothing is compiled here yet. */
static void compiling_holds_up_nobody(struct contract *t)
{
    _cleanup_(cleanup_free) char *empty = xasprintf("%s/empty", t->state_dir);
    struct cancel *cancel = cancel_new();
    const struct wait over = {.deadline = DEADLINE_NONE, .cancel = cancel};
    const struct wait wait = {.deadline = clock_deadline_after(300)};
    struct error err = ERROR_INIT;
    assert_int_equal(dir_make(empty, 0700, NULL), 0);
    cancel_fire(cancel, ERR_CANCELLED);
    for (int finishes = 0; finishes < 2; finishes++) {
        struct backend *b = make(empty);
        assert_int_equal(b->ops->probe(b, &over, &err), -1);
        assert_int_equal(err.code, ERR_CANCELLED);
        if (finishes && b->ops->probe(b, &wait, &err) < 0)
            fail_msg("%s", err.msg);
        b->ops->free(b);
    }
    cancel_unref(cancel);
    assert_int_equal(tree_remove(AT_FDCWD, empty, NULL), 0);
}

static const struct contract_case WASM_CASES[] = {
    {"compiling holds up nobody", compiling_holds_up_nobody, 0},
    {"a command runs, and its args are not interpreted", a_command_runs, 0},
    {"a command line is refused, and what isn't UTF-8", a_command_line_is_refused, 0},
    {"B9: stdin is bytes", stdin_is_bytes, 0},
    {"the working directory", working_directory, 0},
    {"the working directory stays inside", working_directory_stays_inside, 0},
    {"a timeout ends a command", timeouts, 0},
    {"cancelling ends it and names the reason", cancelling, 0},
    {"commands run side by side", side_by_side, 0},
    {"B13: head, tail and file of a flood", head_tail_and_file, 0},
    {"the file of a flood stays inside", the_file_stays_inside, 0},
    {"computers are separate", computers_are_separate, 0},
    {"a killed computer is gone, until it is restarted", killed_and_restarted, 0},
    {"permanent computers come back, reaping leaves nothing", permanent_ones_come_back, 0},
    {"a replacement takes over", a_replacement_takes_over, 0},
    {"options of its own", options_of_its_own, 0},
    {"a dead server leaves no process", a_dead_server, 0},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    const int code = wasm_internal(argc, argv);
    const struct contract_case *const lists[] = {ANY_CASES, WASM_CASES, NULL};
    struct error err = ERROR_INIT;
    if (code >= 0)
        return code;
    signal(SIGPIPE, SIG_IGN);
    if (wasm_check(&(struct wasm_options){.go_busybox = true}, &err) < 0) {
        printf("# %s\n", err.msg);
        return SKIPPED;
    }
    return contract_run_lists("contract: wasm", make, lists);
}
