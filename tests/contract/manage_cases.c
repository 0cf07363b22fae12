/* What is done to a computer as such: restarted, looked at, made with options of its own, replaced. */
#include "contract.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/mem.h"
#include "tests/skip.h"

#define OWN_PIDS 77

int64_t contract_own_memory = 96 * MIB;

static struct wait for_long(void)
{
    return (struct wait){.deadline = clock_deadline_after(60)};
}

/* False: files would be lost, so it is refused. */
static bool restart(struct contract_computer *c)
{
    const struct wait wait = for_long();
    struct error err = ERROR_INIT;
    if (!c->instance->ops->restart)
        return false;
    if (c->instance->ops->restart(c->instance, &wait, &err) < 0) {
        if (err.code != ERR_UNSUPPORTED)
            fail_msg("restart: %s", err.msg);
        return false;
    }
    assert_true(c->instance->ops->alive(c->instance));
    return true;
}

/* How many run that sleep for 3MARK seconds. (Brackets, so that the search doesn't find itself.) */
#define SLEEPING "$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -cx '[3]%1$d')"
/* In the command's own session, in another one, stopped, and beneath a shell that no signal but one ends.
 * (Where /proc is hidden, none is to be seen.) */
#define SLEEP_IN_ALL_WAYS                                                                                    \
    "exec >/dev/null 2>&1; echo kept > file; setsid sleep 3%1$d & sleep 3%1$d & "                            \
    "(trap '' HUP INT TERM; while :; do sleep 3%1$d; done) & sleep 3%1$d & "                                 \
    "while test -e /proc/1 -a " SLEEPING " -ne 4; do :; done; kill -STOP $!"

static void a_restart_ends_processes_and_keeps_files(struct contract *t)
{
    const int mark = getpid();
    if (!t->backend->ops->restart)
        skip_because("the backend has no restart");
    for (int temporary = 0; temporary < 2; temporary++) {
        struct contract_computer c;
        computer_make(t, &c, temporary);
        for (int again = 0; again < 2; again++) {
            free(must_shell(&c, SLEEP_IN_ALL_WAYS, mark));
            assert_true(restart(&c));
            _cleanup_(cleanup_free) char *output = must_shell(&c, "cat file; echo " SLEEPING, mark);
            assert_string_equal(output, "kept\n0\n");
        }
        computer_remove(&c);
    }
}

/* Where our program can't run, too: done, or refused in words, and nothing is lost by either. */
static void what_can_not_be_restarted_is_as_it_was(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    free(must_shell(&c, "echo kept > file"));
    (void)restart(&c);
    _cleanup_(cleanup_free) char *output = must_shell(&c, "cat file");
    assert_string_equal(output, "kept\n");
    computer_remove(&c);
}

static void what_was_killed_can_be_restarted(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, false);
    free(must_shell(&c, "echo kept > file"));
    c.instance->ops->kill(c.instance);
    assert_true(restart(&c));
    _cleanup_(cleanup_free) char *output = must_shell(&c, "cat file");
    assert_string_equal(output, "kept\n");
    computer_remove(&c);
}

static void a_look_tells_what_there_is(struct contract *t)
{
    const struct wait wait = for_long();
    struct instance_stat before, after;
    struct contract_computer c;
    if (!t->backend->ops->stat)
        skip_because("the backend has no look at a computer");
    computer_make(t, &c, true);
    assert_int_equal(c.instance->ops->stat(c.instance, true, &wait, &before, NULL), 0);
    assert_true(before.provider_id[0]);
    free(must_shell(&c, "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"));
    assert_int_equal(c.instance->ops->stat(c.instance, true, &wait, &after, NULL), 0);
    if (before.cpu_ns > 0)
        assert_true(after.cpu_ns > before.cpu_ns + 10 * NSEC_PER_MSEC);
    assert_int_equal(c.instance->ops->stat(c.instance, false, &wait, &after, NULL), 0);
    assert_string_equal(after.provider_id, before.provider_id);
    computer_remove(&c);
}

/* Of the limits, that the computer says the same; of the environment, that commands have it, and their own
 * wins. */
static void options_are_kept(struct contract *t, bool ahead)
{
    static const char *const environment[] = {"OWN=of the computer", "BOTH=of the computer", NULL};
    static const char *const extra[] = {"BOTH=of the command", NULL};
    const unsigned can = t->backend->ops->options ? t->backend->ops->options(t->backend) : 0;
    const struct computer_options options = {
        .given = can & (COMPUTER_MEMORY | COMPUTER_PIDS | COMPUTER_ENV),
        .memory_bytes = contract_own_memory,
        .pids = OWN_PIDS,
        .env = unconst(environment),
    };
    const struct wait wait = for_long();
    struct contract_computer c;
    struct instance_stat s;
    if (!options.given ||
        (ahead && (!t->backend->ops->prepare || options.given & ~t->backend->ops->late_options)))
        skip_because("the backend takes no options, or none after the beginning");
    computer_begin(t, &c, false);
    c.spec.options = &options;
    if (ahead)
        computer_create_ahead(&c);
    else
        computer_create(&c);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(c.instance->ops->stat(c.instance, false, &wait, &s, NULL), 0);
        if (can & COMPUTER_MEMORY)
            assert_int_equal(s.memory_limit, contract_own_memory);
        if (can & COMPUTER_PIDS)
            assert_int_equal(s.pids_limit, OWN_PIDS);
        struct exec_request request = shell_request("echo \"$OWN, $BOTH\"");
        request.env = unconst(extra);
        struct exec_result result = must_run(&c, &request);
        if (can & COMPUTER_ENV)
            assert_text(&result.out.head, "of the computer, of the command\n");
        exec_result_done(&result);
        assert_true(restart(&c));
    }
    computer_remove(&c);
}

static void options_of_its_own(struct contract *t)
{
    options_are_kept(t, false);
}

static void options_of_one_made_ahead(struct contract *t)
{
    options_are_kept(t, true);
}

/* --- replacing --- */

struct moving {
    const char *from, *to;
};

static int move_folder(void *ctx, struct error *err)
{
    const struct moving *m = ctx;
    return rename(m->from, m->to) < 0 ? error_errno(err, ERR_INTERNAL, errno, "rename") : 0;
}

/* Beside the old one, which goes on. */
static void replacement_begin(struct contract_computer *old, struct contract_computer *ret)
{
    computer_begin(old->t, ret, old->spec.temporary);
    ret->spec.id = old->spec.id;
    ret->spec.replacing = true;
}

/* Takes the old one's place, which is gone by now. */
static int replacement_end(struct contract_computer *fresh, char *place, struct error *err)
{
    const struct moving moving = {fresh->folder, place};
    struct computer_spec spec = fresh->spec;
    spec.folder = place;
    if (fresh->instance->ops->take_over(fresh->instance, &spec, move_folder, (void *)&moving, err) < 0)
        return -1;
    free(fresh->folder);
    fresh->folder = place;
    fresh->spec = spec;
    fresh->spec.replacing = false;
    return 0;
}

static void a_replacement_takes_over(struct contract *t)
{
    struct contract_computer old, fresh;
    struct error err = ERROR_INIT;
    if (!t->backend->ops->take_over)
        skip_because("the backend puts no computer in the place of another");
    computer_make(t, &old, false);
    free(must_shell(&old, "echo old > file"));
    replacement_begin(&old, &fresh);
    computer_create(&fresh);
    assert_int_not_equal(shell_status(&fresh, "test -e file"), 0);
    free(must_shell(&fresh, "echo new > file"));
    _cleanup_(cleanup_free) char *output = must_shell(&old, "cat file");
    assert_string_equal(output, "old\n");

    char *place = xstrdup(old.folder);
    computer_remove(&old);
    if (replacement_end(&fresh, place, &err) < 0)
        fail_msg("take over: %s", err.msg);
    _cleanup_(cleanup_free) char *after =
        /* Where the machine's own name can't be the computer's, that is only said. */
        must_shell(&fresh, "cat file; echo $HOSTNAME; hostname 2>/dev/null || cat /proc/sys/kernel/hostname");
    assert_true(strncmp(after, "new\n", 4) == 0);
    assert_non_null(strstr(after, fresh.spec.id));
    computer_remove(&fresh);
}

/* --- each operation in each state, all at once --- */

/* Of a computer that has a file, and another server beside the one that made it. */
struct cell {
    bool temporary;
    const char *state, *operation; /* for who reads of a failure */
    int (*bring)(struct cell *c, struct error *err);
    int (*act)(struct cell *c, struct error *err);
    void (*check)(struct cell *c);
    struct contract *other;
    struct contract_computer computer, fresh; /* the latter of one that is replaced */
    pthread_t thread;
    int (*step)(struct cell *c, struct error *err);
    struct error err;
    int r;
};

static int create_of(struct contract_computer *c, struct error *err)
{
    const struct wait wait = for_long();
    struct backend *b = c->t->backend;
    return b->ops->create(b, &c->spec, &wait, &c->instance, err);
}

static int run_of(struct contract_computer *c, const char *command, struct error *err)
{
    const struct exec_request request = shell_request(command);
    struct exec_result result = {0};
    if (c->instance->ops->exec(c->instance, &request, &result, err) < 0)
        return -1;
    int exit_code = result.exit_code;
    exec_result_done(&result);
    return exit_code ? error_set(err, ERR_INTERNAL, "'%s' exits with %d", command, exit_code) : 0;
}

static int be_born(struct cell *c, struct error *err)
{
    return create_of(&c->computer, err) < 0 ? -1 : run_of(&c->computer, "echo kept > file", err);
}

static int be_busy(struct cell *c, struct error *err)
{
    return run_of(&c->computer, "sleep 300 >/dev/null 2>&1 & true", err);
}

static int be_killed(struct cell *c, struct error *err)
{
    c->computer.instance->ops->kill(c->computer.instance);
    return 0;
}

static int be_anothers(struct cell *c, struct error *err)
{
    const struct wait wait = for_long();
    struct contract_computer *computer = &c->computer;
    _cleanup_(cleanup_json_decref) json_t *data = computer->instance->ops->record(computer->instance);
    if (computer->instance->ops->detach(TAKE_PTR(computer->instance), err) < 0)
        return -1;
    computer->t = c->other;
    struct backend *b = c->other->backend;
    return b->ops->attach(b, &computer->spec, data, &wait, &computer->instance, err);
}

static int do_restart(struct cell *c, struct error *err)
{
    const struct wait wait = for_long();
    return c->computer.instance->ops->restart(c->computer.instance, &wait, err);
}

static int do_remove(struct cell *c, struct error *err)
{
    return c->computer.instance->ops->remove(TAKE_PTR(c->computer.instance), err);
}

static int do_replace(struct cell *c, struct error *err)
{
    if (create_of(&c->fresh, err) < 0 || do_remove(c, err) < 0)
        return -1;
    if (rmdir(c->computer.folder) < 0)
        return error_errno(err, ERR_INTERNAL, errno, "remove %s", c->computer.folder);
    return replacement_end(&c->fresh, c->computer.folder, err);
}

static void is_restarted(struct cell *c)
{
    _cleanup_(cleanup_free) char *output = must_shell(&c->computer, "cat file");
    assert_string_equal(output, "kept\n");
    computer_remove(&c->computer);
}

static void is_removed(struct cell *c)
{
    computer_forget(&c->computer);
}

static void is_replaced(struct cell *c)
{
    assert_int_not_equal(shell_status(&c->fresh, "test -e file"), 0);
    computer_remove(&c->fresh);
}

static void *step(void *arg)
{
    struct cell *c = arg;
    c->r = c->step(c, &c->err);
    return NULL;
}

static void await_steps(struct cell *cells, size_t count)
{
    for (size_t n = 0; n < count; n++) {
        struct cell *c = &cells[n];
        pthread_join(c->thread, NULL);
        /* One that couldn't keep its files is as it was. */
        const bool refused =
            c->r < 0 && c->temporary && c->step == do_restart && c->err.code == ERR_UNSUPPORTED;
        if (c->r < 0 && !refused)
            fail_msg("%s %s: %s: %s", c->temporary ? "temporary" : "permanent", c->state, c->operation,
                     c->err.msg);
    }
}

static void start_step(struct cell *c, int (*fn)(struct cell *c, struct error *err))
{
    c->err = (struct error)ERROR_INIT;
    c->step = fn;
    assert_int_equal(pthread_create(&c->thread, NULL, step, c), 0);
}

static const struct {
    const char *name;
    int (*bring)(struct cell *c, struct error *err);
    bool of_temporary;
} STATES[] = {
    {"busy", be_busy, true}, {"killed", be_killed, false}, {"another server's", be_anothers, false}};

static const struct {
    const char *name;
    int (*act)(struct cell *c, struct error *err);
    void (*check)(struct cell *c);
} OPERATIONS[] = {{"restart", do_restart, is_restarted},
                  {"replace", do_replace, is_replaced},
                  {"remove", do_remove, is_removed}};

#define CELLS (2 * ARRAY_LEN(STATES) * ARRAY_LEN(OPERATIONS))

static size_t lay_out(struct contract *t, struct contract *other, struct cell cells[CELLS])
{
    const struct backend_ops *ops = t->backend->ops;
    size_t count = 0;
    for (size_t i = 0; i < CELLS; i++) {
        const bool temporary = i % 2;
        const size_t s = i / 2 % ARRAY_LEN(STATES), o = i / 2 / ARRAY_LEN(STATES);
        if ((temporary && !STATES[s].of_temporary) || (OPERATIONS[o].act == do_restart && !ops->restart) ||
            (OPERATIONS[o].act == do_replace && !ops->take_over))
            continue;
        struct cell *c = &cells[count++];
        *c = (struct cell){.temporary = temporary,
                           .other = other,
                           .state = STATES[s].name,
                           .bring = STATES[s].bring,
                           .operation = OPERATIONS[o].name,
                           .act = OPERATIONS[o].act,
                           .check = OPERATIONS[o].check};
        computer_begin(t, &c->computer, temporary);
    }
    return count;
}

static void each_operation_in_each_state(struct contract *t)
{
    static struct cell cells[CELLS];
    struct contract other = {.backend = t->make(t->state_dir), .state_dir = t->state_dir};
    const struct wait wait = for_long();
    assert_int_equal(other.backend->ops->probe(other.backend, &wait, NULL), 0);
    const size_t count = lay_out(t, &other, cells);
    for (size_t n = 0; n < count; n++)
        start_step(&cells[n], be_born);
    await_steps(cells, count);
    for (size_t n = 0; n < count; n++)
        start_step(&cells[n], cells[n].bring);
    await_steps(cells, count);
    for (size_t n = 0; n < count; n++) {
        if (cells[n].act == do_replace)
            replacement_begin(&cells[n].computer, &cells[n].fresh);
        start_step(&cells[n], cells[n].act);
    }
    await_steps(cells, count);
    for (size_t n = 0; n < count; n++)
        cells[n].check(&cells[n]);
    other.backend->ops->free(other.backend);
}

const struct contract_case MANAGE_CASES[] = {
    {"a restart ends processes and keeps files", a_restart_ends_processes_and_keeps_files, BACKEND_GUEST},
    {"what can't be restarted is as it was", what_can_not_be_restarted_is_as_it_was, 0},
    {"what was killed can be restarted", what_was_killed_can_be_restarted, BACKEND_PERSISTENT},
    {"a look tells what there is", a_look_tells_what_there_is, 0},
    {"options of its own", options_of_its_own, BACKEND_PERSISTENT},
    {"options of one made ahead", options_of_one_made_ahead, BACKEND_PERSISTENT},
    {"a replacement takes over", a_replacement_takes_over, BACKEND_PERSISTENT},
    {"each operation in each state", each_operation_in_each_state, BACKEND_PERSISTENT | BACKEND_GUEST},
    {NULL, NULL, 0},
};
