/* The life of computers: made, told about, ended, brought back, cleaned up after. */
#include "contract/contract.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"

static void description_is_complete(struct contract *t)
{
    struct backend_description d = {0};
    t->backend->ops->describe(t->backend, &d);
    assert_true(strlen(d.environment) > 0 && strlen(d.network) > 0 && strlen(d.limits) > 0);
    assert_int_equal(d.shell[0], '/');
    assert_true(strlen(t->backend->ops->name) > 0 && strlen(t->backend->ops->name) < 32);
}

static void probing_again_changes_nothing(struct contract *t)
{
    const struct wait wait = {.deadline = clock_deadline_after(30)};
    unsigned before = t->backend->ops->capabilities(t->backend);
    assert_int_equal(t->backend->ops->probe(t->backend, &wait, NULL), 0);
    assert_int_equal(t->backend->ops->capabilities(t->backend), before);
}

static void computers_are_separate(struct contract *t)
{
    struct contract_computer a, b;
    computer_make(t, &a, true);
    computer_make(t, &b, true);
    free(must_shell(&a, "echo a > file"));
    assert_int_equal(shell_status(&b, "test ! -e file"), 0);
    computer_remove(&a);
    assert_int_equal(shell_status(&b, "true"), 0);
    computer_remove(&b);
}

static void a_prepared_folder_changes_nothing(struct contract *t)
{
    struct contract_computer c;
    computer_begin(t, &c, true);
    computer_create_ahead(&c);
    free(must_shell(&c, "echo a > file && test -O file"));
    computer_remove(&c); /* nothing of it is left either */
}

static void what_was_prepared_for_nobody_is_removed(struct contract *t)
{
    struct contract_computer c;
    struct error err = ERROR_INIT;
    computer_begin(t, &c, true);
    c.spec.id = "";
    if (t->backend->ops->prepare && t->backend->ops->prepare(t->backend, &c.spec, &c.instance, &err) < 0)
        fail_msg("prepare: %s", err.msg);
    if (c.instance) {
        assert_true(t->backend->ops->alive(c.instance));
        computer_remove(&c);
        return;
    }
    assert_int_equal(t->backend->ops->reap(t->backend, &c.spec, NULL, &err), 0);
    computer_forget(&c);
}

static void create_that_comes_too_late(struct contract *t)
{
    struct contract_computer c = {.t = t, .id = "contract-late", .key = "0123456789abcdef"};
    struct instance *instance = NULL;
    struct error err = ERROR_INIT;
    struct cancel *cancel = cancel_new();
    c.folder = xasprintf("%s/computers/local/%s", t->state_dir, c.id);
    c.spec = (struct computer_spec){
        .id = c.id, .principal = "local", .key = c.key, .folder = c.folder, .temporary = true};
    cancel_fire(cancel, ERR_CANCELLED);
    const struct wait waits[] = {{.deadline = clock_now() - 1},
                                 {.deadline = DEADLINE_NONE, .cancel = cancel}};
    const enum error_code codes[] = {ERR_TIMEOUT, ERR_CANCELLED};
    assert_int_equal(dir_make(c.folder, 0711, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(waits); i++) {
        assert_int_equal(t->backend->ops->create(t->backend, &c.spec, &waits[i], &instance, &err), -1);
        assert_int_equal(err.code, codes[i]);
        assert_null(instance);
    }
    cancel_unref(cancel);
    computer_forget(&c); /* nothing of it is there */
}

static void killed_computers_are_gone(struct contract *t)
{
    struct contract_computer c;
    struct contract_thread thread;
    computer_make(t, &c, true);
    struct exec_request request = shell_request("touch started; sleep 300");
    command_start(&thread, &c, &request);
    free(must_shell(&c, "until test -e started; do sleep 0.02; done"));
    assert_true(c.instance->ops->alive(c.instance));

    c.instance->ops->kill(c.instance);
    command_join(&thread);
    assert_int_equal(thread.r, -1);
    assert_int_equal(thread.error.code, ERR_GONE);
    request = shell_request("true");
    must_fail(&c, &request, ERR_GONE);
    assert_false(c.instance->ops->alive(c.instance));
    c.instance->ops->kill(c.instance); /* again is harmless */
    computer_remove(&c);
}

static void attach(struct contract_computer *c, const json_t *data)
{
    struct contract *t = c->t;
    const struct wait wait = {.deadline = clock_deadline_after(30)};
    struct error err = ERROR_INIT;
    if (t->backend->ops->attach(t->backend, &c->spec, data, &wait, &c->instance, &err) < 0)
        fail_msg("attach: %s", err.msg);
}

static json_t *detach(struct contract_computer *c)
{
    struct error err = ERROR_INIT;
    json_t *data = c->instance->ops->record(c->instance);
    assert_true(json_is_object(data));
    if (c->instance->ops->detach(TAKE_PTR(c->instance), &err) < 0)
        fail_msg("detach: %s", err.msg);
    return data;
}

static void permanent_computers_come_back(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, false);
    free(must_shell(&c, "mkdir -p d; echo kept > d/file; chmod 750 d/file; ln -s d/file link"));
    for (int i = 0; i < 2; i++) {
        _cleanup_(cleanup_json_decref) json_t *data = detach(&c);
        attach(&c, data);
        _cleanup_(cleanup_free) char *output = must_shell(&c, "cat link; stat -c %%a d/file");
        assert_string_equal(output, "kept\n750\n");
    }
    computer_remove(&c);
}

static void what_was_killed_keeps_its_files(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, false);
    free(must_shell(&c, "echo kept > file"));
    c.instance->ops->kill(c.instance);
    _cleanup_(cleanup_json_decref) json_t *data = detach(&c);
    attach(&c, data);
    _cleanup_(cleanup_free) char *output = must_shell(&c, "cat file");
    assert_string_equal(output, "kept\n");
    computer_remove(&c);
}

static void lost_files_are_told(struct contract *t)
{
    struct contract_computer c;
    const struct wait wait = {.deadline = clock_deadline_after(30)};
    struct error err = ERROR_INIT;
    computer_make(t, &c, false);
    _cleanup_(cleanup_json_decref) json_t *data = detach(&c);
    /* Behind its back, wherever they are. */
    assert_int_equal(t->backend->ops->reap(t->backend, &c.spec, data, NULL), 0);
    assert_int_equal(tree_remove(AT_FDCWD, c.folder, NULL), 0);
    assert_int_equal(dir_make(c.folder, 0711, NULL), 0);
    assert_int_equal(t->backend->ops->attach(t->backend, &c.spec, data, &wait, &c.instance, &err), -1);
    assert_int_equal(err.code, ERR_GONE);
    assert_int_equal(t->backend->ops->reap(t->backend, &c.spec, data, NULL), 0);
    computer_forget(&c);
}

static void reaping_leaves_nothing(struct contract *t)
{
    for (int with_data = 0; with_data < 2; with_data++) {
        struct contract_computer c;
        struct error err = ERROR_INIT;
        computer_make(t, &c, false);
        free(must_shell(&c, "mkdir -p a/b; echo x > a/b/c"));
        _cleanup_(cleanup_json_decref) json_t *data = detach(&c);
        if (t->backend->ops->reap(t->backend, &c.spec, with_data ? data : NULL, &err) < 0)
            fail_msg("reap: %s", err.msg);
        assert_int_equal(t->backend->ops->reap(t->backend, &c.spec, with_data ? data : NULL, NULL),
                         0);                   /* again */
        tree_remove(AT_FDCWD, c.folder, NULL); /* the files are the domain's to remove, and must let it */
        assert_int_equal(access(c.folder, F_OK), -1);
        free(c.folder);
    }
}

/* -- After the server's death: another process makes a computer, and is killed */

struct dead_server {
    struct contract_computer computer; /* without an instance */
    json_t *data;
    char *background; /* the command line of what it left running */
};

static void serve_until_killed(struct contract_computer *c, bool temporary, const char *background, int ready)
{
    struct contract theirs = {.backend = c->t->make(c->t->state_dir), .state_dir = c->t->state_dir};
    struct contract_computer made;
    computer_make(&theirs, &made, temporary);
    free(must_shell(&made, "echo kept > file; %s >/dev/null 2>&1 &", background));
    char *data = json_dumps(made.instance->ops->record(made.instance), 0);
    if (dprintf(ready, "%s %s %s", made.id, made.key, data) < 0 || close(ready) < 0)
        _exit(1);
    for (;;)
        pause();
}

static void make_and_die(struct contract *t, struct dead_server *s, bool temporary)
{
    int ends[2];
    char text[8192] = "", *data = text;
    struct contract_computer *c = &s->computer;
    *s = (struct dead_server){.computer = {.t = t}, .background = xasprintf("sleep 9%d", (int)getpid())};
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        serve_until_killed(c, temporary, s->background, ends[1]);
    close(ends[1]);
    for (ssize_t n; (n = read(ends[0], data, (size_t)(text + sizeof(text) - 1 - data))) > 0;)
        data += n;
    close(ends[0]);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);

    int at = 0;
    assert_int_equal(sscanf(text, "%31s %16s %n", c->id, c->key, &at), 2);
    s->data = json_loads(text + at, 0, NULL);
    assert_non_null(s->data);
    c->folder = xasprintf("%s/computers/local/%s", t->state_dir, c->id);
    c->spec = (struct computer_spec){
        .id = c->id, .principal = "local", .key = c->key, .folder = c->folder, .temporary = temporary};
}

/* Seen from here: a computer's processes are processes of this machine, or of none that we can reach. Where
 * no group names them, they end by themselves, soon after their server. */
static bool lives_on(const char *command)
{
    _cleanup_(cleanup_free) char *line = xasprintf("pgrep -fx '%s' >/dev/null", command);
    for (int64_t deadline = clock_deadline_after(5); clock_now() < deadline; poll(NULL, 0, 10))
        if (system(line) != 0)
            return false;
    return true;
}

static bool outlives(const struct contract *t)
{
    return t->backend->ops->capabilities(t->backend) & BACKEND_OUTLIVES;
}

/* As a pattern for what /proc says of it: between words there may be anything. (The first letter is the
 * caller's: in brackets, so that the search doesn't find itself.) */
static char *words(char *command)
{
    for (char *p = command; (p = strchr(p, ' '));)
        *p = '.';
    return command;
}

static void dead_server_done(struct dead_server *s)
{
    json_decref(s->data);
    free(s->background);
}

static void a_dead_servers_permanent_computer(struct contract *t)
{
    struct dead_server s;
    make_and_die(t, &s, false);
    attach(&s.computer, s.data);
    _cleanup_(cleanup_free) char *output = must_shell(&s.computer, "cat file");
    assert_string_equal(output, "kept\n");
    /* Its processes ended with the server, or by attaching; or else they are to be found inside. */
    if (outlives(t))
        free(must_shell(&s.computer, "grep -qa '[s]%s' /proc/[0-9]*/cmdline", words(s.background) + 1));
    else
        assert_false(lives_on(s.background));
    computer_remove(&s.computer);
    assert_false(lives_on(s.background));
    dead_server_done(&s);
}

static void what_goes_on_is_found_again(struct contract *t)
{
    struct contract_computer c;
    struct error err = ERROR_INIT;
    computer_make(t, &c, false);
    free(must_shell(&c, "(while test ! -e stop; do echo x >> beats; sleep 0.05; done; touch stopped) "
                        ">/dev/null 2>&1 & echo $! > pid"));
    for (int i = 0; i < 2; i++) {
        _cleanup_(cleanup_json_decref) json_t *data = c.instance->ops->record(c.instance);
        assert_int_equal(c.instance->ops->detach(TAKE_PTR(c.instance), &err), 1);
        assert_true(t->backend->ops->lives(t->backend, &c.spec, data));
        attach(&c, data);
        free(must_shell(&c, "kill -0 $(cat pid); n=$(wc -l < beats); until test $(wc -l < beats) -gt $n; do "
                            "sleep 0.02; done"));
    }
    free(must_shell(&c, "touch stop; until test -e stopped; do sleep 0.02; done"));
    computer_remove(&c);
}

static void what_does_not_go_on_ends(struct contract *t)
{
    struct contract_computer c;
    struct error err = ERROR_INIT;
    computer_make(t, &c, false);
    free(must_shell(&c, "echo kept > file"));
    _cleanup_(cleanup_json_decref) json_t *data = c.instance->ops->record(c.instance);
    assert_int_equal(c.instance->ops->detach(TAKE_PTR(c.instance), &err), 0);
    assert_false(t->backend->ops->lives(t->backend, &c.spec, data));
    attach(&c, data);
    free(must_shell(&c, "test $(cat file) = kept"));
    computer_remove(&c);
}

static void what_goes_on_can_be_ended(struct contract *t)
{
    for (int with_data = 0; with_data < 2; with_data++) {
        struct dead_server s;
        struct error err = ERROR_INIT;
        make_and_die(t, &s, false);
        assert_true(t->backend->ops->lives(t->backend, &s.computer.spec, s.data));
        if (t->backend->ops->settle(t->backend, &s.computer.spec, with_data ? s.data : NULL, &err) < 0)
            fail_msg("settle: %s", err.msg);
        assert_false(t->backend->ops->lives(t->backend, &s.computer.spec, s.data));
        assert_false(lives_on(s.background));
        attach(&s.computer, s.data);
        free(must_shell(&s.computer, "test $(cat file) = kept"));
        computer_remove(&s.computer);
        dead_server_done(&s);
    }
}

static void a_dead_servers_temporary_computer(struct contract *t)
{
    for (int with_data = 0; with_data < 2; with_data++) {
        struct dead_server s;
        struct error err = ERROR_INIT;
        make_and_die(t, &s, true);
        if (t->backend->ops->reap(t->backend, &s.computer.spec, with_data ? s.data : NULL, &err) < 0)
            fail_msg("reap: %s", err.msg);
        assert_false(lives_on(s.background));
        assert_int_equal(tree_remove(AT_FDCWD, s.computer.folder, NULL), 0);
        free(s.computer.folder);
        dead_server_done(&s);
    }
}

static void hostile_files_are_removed(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    free(must_shell(
        &c, "mkdir -p deep && cd deep && i=0 && while test $i -lt 90; do mkdir d && cd d; i=$((i+1)); done"));
    free(must_shell(
        &c, "ln -s /etc/passwd link; mkfifo fifo; mkdir closed; touch closed/file; chmod 000 closed"));
    computer_remove(&c);
    assert_int_equal(access("/etc/passwd", F_OK), 0);
}

const struct contract_case ANY_CASES[] = {
    {"the description is complete", description_is_complete, 0},
    {"probing again changes nothing", probing_again_changes_nothing, 0},
    {"a create that comes too late leaves nothing", create_that_comes_too_late, 0},
    {NULL, NULL, 0},
};

const struct contract_case LIFE_CASES[] = {
    {"computers are separate", computers_are_separate, 0},
    {"a prepared folder changes nothing", a_prepared_folder_changes_nothing, 0},
    {"what was prepared for nobody is removed", what_was_prepared_for_nobody_is_removed, 0},
    {"a killed computer is gone", killed_computers_are_gone, 0},
    {"permanent computers come back", permanent_computers_come_back, BACKEND_PERSISTENT},
    {"what was killed keeps its files", what_was_killed_keeps_its_files, BACKEND_PERSISTENT},
    {"lost files are told", lost_files_are_told, BACKEND_PERSISTENT},
    {"reaping leaves nothing", reaping_leaves_nothing, BACKEND_PERSISTENT},
    {"a dead server's permanent computer comes back", a_dead_servers_permanent_computer, BACKEND_PERSISTENT},
    {"what goes on is found again", what_goes_on_is_found_again, BACKEND_OUTLIVES},
    {"what doesn't go on ends", what_does_not_go_on_ends, BACKEND_OUTLIVES},
    {"what goes on can be ended", what_goes_on_can_be_ended, BACKEND_OUTLIVES},
    {"a dead server's temporary computer is reaped", a_dead_servers_temporary_computer, 0},
    {"hostile files are removed", hostile_files_are_removed, 0},
    {NULL, NULL, 0},
};
