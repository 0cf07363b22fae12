/* The pool of computers that are made ahead: who gets one, what it is then, and that none is ever left. */
#include "domain.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

#define POOL 3

static int run(const struct computer_use *use, const char *command)
{
    struct exec_result result = {0};
    struct error err = ERROR_INIT;
    const struct exec_request request = {.command = command,
                                         .command_len = strlen(command),
                                         .output_limit = 100,
                                         .wait = {.deadline = clock_deadline_after(60)}};
    if (computer_exec(use, &request, &result, &err) < 0)
        fail_msg("computer_exec: %s", err.msg);
    int exit_code = result.exit_code;
    exec_result_done(&result);
    return exit_code;
}

/* id NULL: under a random one. */
static void make_one(struct computer_session *s, const char *id)
{
    struct computer_use use = must_use(s, id, LIFETIME_AS_IS);
    assert_true(use.created);
    assert_int_equal(run(&use, "true"), 0);
    computers_release(&use);
}

/* With one computer, "first", and a full pool. */
static void start(struct domain *d, const struct fake_hooks *hooks)
{
    domain_init_pool(d, hooks, NULL, POOL);
    make_one(d->session, "first");
    computers_prepare(d->computers);
    assert_int_equal(find_unborn(d->state_dir).count, POOL);
    assert_int_equal(fake_backend_counts(d->backend).live, 1 + POOL);
}

/* name: PRINCIPAL/ID */
static struct record record_of(const struct domain *d, const char *name)
{
    struct record record = {0};
    struct error err = ERROR_INIT;
    _cleanup_(cleanup_free) char *path = xasprintf("%s/computers/%s", d->state_dir, name);
    const struct folder folder = {.path = path, .lock = -1};
    if (store_read(&folder, &record, &err) < 0)
        fail_msg("%s: %s", path, err.msg);
    return record;
}

/* A file in each home, with the key as its text, as if the computer had written it. */
static void mark_all(const struct domain *d)
{
    const struct unborn u = find_unborn(d->state_dir);
    for (int i = 0; i < u.count; i++) {
        _cleanup_(record_done) struct record r = record_of(d, u.names[i]);
        _cleanup_(cleanup_free) char *path = xasprintf("%s/computers/%s/home/mark", d->state_dir, u.names[i]);
        assert_int_equal(file_replace(AT_FDCWD, path, r.key, strlen(r.key), false, NULL), 0);
    }
}

static void assert_marked(const struct computer_use *use, const char *key)
{
    _cleanup_(cleanup_free) char *command = xasprintf("test \"$(cat mark)\" = %s", key);
    assert_int_equal(run(use, command), 0);
}

static void the_next_computer_is_one_of_them(void **state)
{
    static const enum lifetime lifetimes[] = {LIFETIME_AS_IS, LIFETIME_TEMPORARY, LIFETIME_PERMANENT};
    for (size_t i = 0; i < ARRAY_LEN(lifetimes); i++) {
        const bool permanent = lifetimes[i] == LIFETIME_PERMANENT;
        struct domain d;
        start(&d, NULL);
        mark_all(&d);
        const struct fake_counts before = fake_backend_counts(d.backend);
        struct computer_use use = must_use(d.session, "second", lifetimes[i]);
        assert_true(use.created);
        assert_int_equal(computer_is_temporary(use.computer), !permanent);
        const struct fake_counts after = fake_backend_counts(d.backend);
        assert_int_equal(after.created, before.created);
        assert_int_equal(after.named, before.named + 1);
        assert_int_equal(find_unborn(d.state_dir).count, POOL - 1);

        _cleanup_(record_done) struct record r = record_of(&d, "local/second");
        assert_string_equal(r.id, "second");
        assert_string_equal(r.principal, "local");
        assert_int_equal(r.temporary, !permanent);
        assert_int_equal(r.ready, permanent);
        assert_int_equal(r.owner.pid, getpid());
        assert_true(json_is_true(json_object_get(r.data, "fake")));
        assert_marked(&use, r.key);
        computers_release(&use);

        domain_new_session(&d);
        assert_int_equal(folder_exists(&d, "second"), permanent);
        use = must_use(d.session, "second", LIFETIME_AS_IS);
        assert_int_equal(use.created, !permanent);
        if (permanent)
            assert_marked(&use, r.key);
        computers_release(&use);
        domain_done(&d, NULL);
    }
}

static void the_pool_is_refilled(void **state)
{
    struct domain d;
    start(&d, NULL);
    make_one(d.session, NULL);
    assert_int_equal(computers_want_preparation(d.computers), PREPARE_NOW);
    make_one(d.session, "third");
    assert_int_equal(find_unborn(d.state_dir).count, POOL - 2);
    for (int i = 0; i < 2; i++) { /* and not beyond */
        computers_prepare(d.computers);
        assert_int_equal(find_unborn(d.state_dir).count, POOL);
        assert_int_equal(fake_backend_counts(d.backend).live, 3 + POOL);
    }
    domain_done(&d, NULL);
}

static void more_than_there_are_is_made_as_ever(void **state)
{
    struct domain d;
    start(&d, NULL);
    for (int i = 0; i < POOL + 2; i++)
        make_one(d.session, (const char *[]){"a", "b", "c", "d", "e"}[i]);
    assert_int_equal(fake_backend_counts(d.backend).named, POOL);
    assert_int_equal(fake_backend_counts(d.backend).created, 1 + POOL + 2);
    domain_done(&d, NULL);
}

static void the_pool_has_a_maximum(void **state)
{
    struct domain d;
    domain_init_pool(&d, NULL, NULL, 1000);
    make_one(d.session, "first");
    computers_prepare(d.computers);
    assert_int_equal(find_unborn(d.state_dir).count, SPARES_MAX);
    domain_done(&d, NULL);
}

static void where_an_id_is_needed_a_folder_is_made(void **state)
{
    struct domain d;
    domain_init_pool(&d, &(struct fake_hooks){.needs_id = true}, NULL, POOL);
    for (int i = 0; i < 2; i++) {
        make_one(d.session, i ? "second" : "first");
        computers_prepare(d.computers);
        assert_int_equal(find_unborn(d.state_dir).count, SPARES_BEGUN);
        assert_int_equal(fake_backend_counts(d.backend).live, 1 + i);
    }
    domain_done(&d, NULL);
}

/* -- Computers with settings of their own */

static struct computer_use must_use_with(struct domain *d, const char *id,
                                         const struct computer_options *options)
{
    const struct computer_wish wish = {.id = id, .lifetime = LIFETIME_PERMANENT, .options = options};
    const struct wait wait = {.deadline = clock_deadline_after(60)};
    struct computer_use use = {0};
    struct error err = ERROR_INIT;
    if (computers_use(d->session, &wish, &wait, &use, &err) < 0)
        fail_msg("computers_use: %s", err.msg);
    return use;
}

static const struct computer_options small = {.given = COMPUTER_MEMORY, .memory_bytes = 12345678};

static void assert_small(struct domain *d, const struct computer_use *use, const char *id)
{
    struct instance_stat stat;
    struct instance *i = use->computer->instance;
    assert_int_equal(i->ops->stat(i, false, NULL, &stat, NULL), 0);
    assert_int_equal(stat.memory_limit, small.memory_bytes);
    _cleanup_(cleanup_free) char *name = xasprintf("local/%s", id);
    _cleanup_(record_done) struct record r = record_of(d, name);
    assert_int_equal(r.options.given, COMPUTER_MEMORY);
    assert_int_equal(r.options.memory_bytes, small.memory_bytes);
}

static void what_can_be_had_late_is_had_by_one_of_them(void **state)
{
    struct domain d;
    start(&d,
          &(struct fake_hooks){.options = COMPUTER_MEMORY | COMPUTER_PIDS, .late_options = COMPUTER_MEMORY});
    struct computer_use use = must_use_with(&d, "second", &small);
    assert_int_equal(fake_backend_counts(d.backend).named, 1);
    assert_small(&d, &use, "second");
    computers_release(&use);

    domain_new_session(&d); /* and what it has is as its record says */
    use = must_use_with(&d, "second", &small);
    assert_false(use.created);
    assert_small(&d, &use, "second");
    computers_release(&use);
    domain_done(&d, NULL);
}

static void what_can_only_be_had_at_birth_is_made_for_it(void **state)
{
    const struct computer_options wanted = {
        .given = COMPUTER_MEMORY | COMPUTER_PIDS, .memory_bytes = small.memory_bytes, .pids = 9};
    struct domain d;
    start(&d,
          &(struct fake_hooks){.options = COMPUTER_MEMORY | COMPUTER_PIDS, .late_options = COMPUTER_MEMORY});
    struct computer_use use = must_use_with(&d, "second", &wanted);
    assert_int_equal(fake_backend_counts(d.backend).named, 0);
    assert_int_equal(find_unborn(d.state_dir).count, POOL); /* they are others' */
    computers_release(&use);
    domain_done(&d, NULL);
}

static int refuse_options(void *ctx, const struct computer_options *options, struct error *err)
{
    return options ? error_set(err, ERR_UNSUPPORTED, "it is too late") : 0;
}

static void one_that_does_not_take_it_is_not_used(void **state)
{
    struct domain d;
    start(&d, &(struct fake_hooks){
                  .options = COMPUTER_MEMORY, .late_options = COMPUTER_MEMORY, .begin = refuse_options});
    struct computer_use use = must_use_with(&d, "second", &small);
    assert_int_equal(fake_backend_counts(d.backend).named, 0);
    assert_int_equal(fake_backend_counts(d.backend).removed, 1);
    assert_int_equal(find_unborn(d.state_dir).count, POOL - 1);
    assert_small(&d, &use, "second"); /* all the same */
    computers_release(&use);
    make_one(d.session, "third"); /* who wants nothing has one */
    assert_int_equal(fake_backend_counts(d.backend).named, 1);
    domain_done(&d, NULL);
}

/* -- An id that somebody takes while a spare is on its way to it */

struct thief {
    struct domain *d;
    int left; /* ids to take */
    struct folder taken;
};

static int steal(void *ctx, const struct computer_spec *spec, bool moved, struct error *err)
{
    struct thief *t = ctx;
    if (moved || t->left-- <= 0)
        return 0;
    struct folder none = FOLDER_NONE;
    struct record r = {.temporary = true, .owner = {.machine = "another", .boot = "one", .pid = 1}};
    snprintf(r.id, sizeof(r.id), "%s", spec->id);
    snprintf(r.principal, sizeof(r.principal), "%s", spec->principal);
    memset(r.key, 'a', sizeof(r.key) - 1);
    assert_int_equal(store_create(t->d->computers->dir, &r, &none, &t->taken, NULL), 0);
    return 0;
}

static void a_given_id_that_was_taken_meanwhile_is_told(void **state)
{
    struct domain d;
    struct thief thief = {.d = &d, .left = 1};
    start(&d, &(struct fake_hooks){.give_id = steal, .ctx = &thief});
    must_not_use(d.session, "second", LIFETIME_AS_IS, ERR_BUSY);
    assert_int_equal(fake_backend_counts(d.backend).named, 0);
    assert_int_equal(fake_backend_counts(d.backend).live, POOL); /* with the first one */
    assert_int_equal(find_unborn(d.state_dir).count, POOL - 1);
    assert_true(folder_exists(&d, "second")); /* the other's */
    store_remove(&thief.taken, NULL);
    make_one(d.session, "second");
    domain_done(&d, NULL);
}

static void a_random_id_that_was_taken_meanwhile_is_another(void **state)
{
    struct domain d;
    struct thief thief = {.d = &d, .left = 1};
    start(&d, &(struct fake_hooks){.give_id = steal, .ctx = &thief});
    make_one(d.session, NULL);
    assert_int_equal(fake_backend_counts(d.backend).named, 1);
    assert_int_equal(fake_backend_counts(d.backend).live, POOL);
    assert_int_equal(find_unborn(d.state_dir).count, POOL - 2);
    store_remove(&thief.taken, NULL);
    domain_done(&d, NULL);
}

/* -- Spares that are no good */

static void assert_made_cold(struct domain *d, const char *id, enum lifetime lifetime)
{
    const struct fake_counts before = fake_backend_counts(d->backend);
    struct computer_use use = must_use(d->session, id, lifetime);
    assert_true(use.created);
    assert_int_equal(run(&use, "test ! -e mark && echo x > mine"), 0);
    computers_release(&use);
    const struct fake_counts after = fake_backend_counts(d->backend);
    assert_int_equal(after.created, before.created + 1);
    assert_int_equal(after.live, before.live); /* one more, and a spare less */
    assert_int_equal(after.removed, before.removed + 1);
}

static void a_dead_one_is_not_used(void **state)
{
    struct domain d;
    start(&d, NULL);
    mark_all(&d);
    fake_backend_crash(d.backend, "");
    assert_made_cold(&d, "second", LIFETIME_AS_IS);
    assert_int_equal(find_unborn(d.state_dir).count, POOL - 1);
    domain_done(&d, NULL);
}

static int fail_before(void *ctx, const struct computer_spec *spec, bool moved, struct error *err)
{
    return moved ? 0 : error_set(err, ERR_UNAVAILABLE, "no ink");
}

static int fail_after(void *ctx, const struct computer_spec *spec, bool moved, struct error *err)
{
    return moved ? error_set(err, ERR_UNAVAILABLE, "no ink") : 0;
}

static void one_that_cannot_get_its_id_is_removed(void **state)
{
    static int (*const failures[])(void *ctx, const struct computer_spec *spec, bool moved,
                                   struct error *err) = {fail_before, fail_after};
    for (size_t i = 0; i < ARRAY_LEN(failures); i++) {
        struct domain d;
        start(&d, &(struct fake_hooks){.give_id = failures[i]});
        mark_all(&d);
        assert_made_cold(&d, "second", LIFETIME_AS_IS);
        assert_made_cold(&d, "third", LIFETIME_PERMANENT);
        assert_int_equal(find_unborn(d.state_dir).count, POOL - 2);
        assert_int_equal(fake_backend_counts(d.backend).named, 0);
        domain_done(&d, NULL);
    }
}

static int refuse_nameless(void *ctx, const struct computer_spec *spec, const struct wait *wait,
                           struct error *err)
{
    return spec->id[0] ? 0 : error_set(err, ERR_LIMIT, "no room for spares");
}

static void ones_that_cannot_be_made_leave_nothing(void **state)
{
    struct domain d;
    domain_init_pool(&d, &(struct fake_hooks){.create = refuse_nameless}, NULL, POOL);
    for (int i = 0; i < 2; i++) {
        make_one(d.session, i ? "second" : "first");
        computers_prepare(d.computers);
        assert_int_equal(find_unborn(d.state_dir).count, 0);
    }
    domain_done(&d, NULL);
}

/* -- Whose they are */

static void another_principal_gets_one_of_them(void **state)
{
    static const enum lifetime lifetimes[] = {LIFETIME_TEMPORARY, LIFETIME_PERMANENT};
    for (size_t i = 0; i < ARRAY_LEN(lifetimes); i++) {
        struct domain d;
        start(&d, NULL);
        mark_all(&d);
        const struct fake_counts before = fake_backend_counts(d.backend);
        struct computer_session *other = computer_session_new(d.computers, "someone-else");
        struct computer_use use = must_use(other, "first", lifetimes[i]);
        assert_true(use.created);
        assert_int_equal(fake_backend_counts(d.backend).created, before.created);
        assert_int_equal(find_unborn(d.state_dir).count, POOL - 1);

        _cleanup_(record_done) struct record r = record_of(&d, "someone-else/first");
        assert_string_equal(r.id, "first");
        assert_string_equal(r.principal, "someone-else");
        assert_marked(&use, r.key);
        computers_release(&use);

        computers_prepare(d.computers);
        assert_int_equal(find_unborn(d.state_dir).count, POOL);
        assert_int_equal(computer_session_end(other, DEADLINE_NONE, NULL), 0);
        domain_done(&d, NULL);
    }
}

static void the_last_sessions_end_removes_all(void **state)
{
    struct domain d;
    start(&d, NULL);
    struct computer_session *other = computer_session_new(d.computers, "local");
    assert_int_equal(computer_session_end(TAKE_PTR(d.session), DEADLINE_NONE, NULL), 0);
    assert_int_equal(find_unborn(d.state_dir).count, POOL);
    assert_int_equal(computer_session_end(other, DEADLINE_NONE, NULL), 0);
    assert_int_equal(find_unborn(d.state_dir).count, 0);
    assert_int_equal(fake_backend_counts(d.backend).live, 0);
    domain_done(&d, NULL);
}

static int wait_with_nameless(void *ctx, const struct computer_spec *spec, const struct wait *wait,
                              struct error *err)
{
    return spec->id[0] ? 0 : gate_pass(ctx, wait, err);
}

static void *prepare(void *arg)
{
    computers_prepare(arg);
    return NULL;
}

static void one_that_comes_after_the_end_goes(void **state)
{
    struct domain d;
    struct gate gate;
    pthread_t thread;
    gate_init(&gate);
    domain_init_pool(&d, &(struct fake_hooks){.create = wait_with_nameless, .ctx = &gate}, NULL, POOL);
    make_one(d.session, "first");
    assert_int_equal(pthread_create(&thread, NULL, prepare, d.computers), 0);
    gate_await(&gate, 1);
    make_one(d.session, "second"); /* nobody waits for it */
    assert_int_equal(computer_session_end(TAKE_PTR(d.session), DEADLINE_NONE, NULL), 0);
    gate_open(&gate);
    pthread_join(thread, NULL);
    assert_int_equal(find_unborn(d.state_dir).count, 0);
    assert_int_equal(fake_backend_counts(d.backend).live, 0);
    domain_done(&d, NULL);
    gate_done(&gate);
}

/* -- What a killed server leaves */

/* Makes computers and a pool in a process of its own, which is killed then unless `lives`. */
static pid_t serve(const char *state_dir, bool lives)
{
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct domain d;
        domain_init_pool(&d, NULL, state_dir, POOL);
        make_one(d.session, "theirs");
        computers_prepare(d.computers);
        if (write(ends[1], "", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    if (!lives) {
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
    return pid;
}

struct reaped {
    int count, fail;
    char keys[8][COMPUTER_KEY_SIZE];
};

static int note_reaped(void *ctx, const struct computer_spec *spec, const json_t *data, struct error *err)
{
    struct reaped *r = ctx;
    if (strcmp(spec->id, "theirs") == 0)
        return 0;
    if (r->fail-- > 0)
        return error_set(err, ERR_BUSY, "stuck");
    assert_string_equal(spec->id, "");
    assert_string_equal(spec->principal, "local");
    assert_non_null(strstr(spec->folder, "/computers/local/.new-"));
    assert_true(json_is_true(json_object_get(data, "fake")));
    snprintf(r->keys[r->count++], COMPUTER_KEY_SIZE, "%s", spec->key);
    return 0;
}

static void a_killed_servers_are_reaped_whole(void **state)
{
    struct domain d;
    struct reaped reaped = {.fail = 1}; /* one of them stays for the next time */
    domain_init_pool(&d, &(struct fake_hooks){.reap = note_reaped, .ctx = &reaped}, NULL, POOL);
    serve(d.state_dir, false);
    const struct unborn left = find_unborn(d.state_dir);
    assert_int_equal(left.count, POOL);
    char keys[POOL][COMPUTER_KEY_SIZE];
    for (int i = 0; i < POOL; i++) {
        _cleanup_(record_done) struct record r = record_of(&d, left.names[i]);
        memcpy(keys[i], r.key, sizeof(keys[i]));
    }
    computers_reap(d.computers);
    assert_int_equal(reaped.count, POOL - 1);
    assert_int_equal(find_unborn(d.state_dir).count, 1);
    computers_reap(d.computers);
    assert_int_equal(reaped.count, POOL);
    assert_int_equal(find_unborn(d.state_dir).count, 0);
    for (int i = 0; i < POOL; i++) {
        int found = 0;
        for (int k = 0; k < POOL; k++)
            found += strcmp(keys[i], reaped.keys[k]) == 0;
        assert_int_equal(found, 1);
    }
    domain_done(&d, NULL);
}

static void a_living_servers_stay(void **state)
{
    struct domain d;
    struct reaped reaped = {0};
    domain_init_pool(&d, &(struct fake_hooks){.reap = note_reaped, .ctx = &reaped}, NULL, POOL);
    pid_t pid = serve(d.state_dir, true);
    computers_reap(d.computers);
    assert_int_equal(reaped.count, 0);
    assert_int_equal(find_unborn(d.state_dir).count, POOL);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    computers_reap(d.computers);
    assert_int_equal(reaped.count, POOL);
    domain_done(&d, NULL);
}

static void another_backends_are_left_alone(void **state)
{
    struct domain d;
    struct reaped reaped = {0};
    struct folder folder = FOLDER_NONE;
    struct owner self;
    domain_init_pool(&d, &(struct fake_hooks){.reap = note_reaped, .ctx = &reaped}, NULL, POOL);
    assert_int_equal(computers_self(d.computers, &self, NULL), 0);
    assert_int_equal(store_prepare(d.computers->dir, "local", &folder, NULL), 0);
    _cleanup_(record_done) struct record r = {0};
    record_begin(d.computers, "local", "", true, &self, &r);
    snprintf(r.backend, sizeof(r.backend), "other");
    assert_int_equal(store_write(&folder, &r, NULL), 0);
    folder_close(&folder);
    computers_reap(d.computers);
    assert_int_equal(reaped.count, 0);
    assert_int_equal(find_unborn(d.state_dir).count, 1);
    domain_done(&d, NULL);
}

/* -- Many at once */

#define MAKERS 8
#define EACH 10

/* What was made, by its key. */
struct ledger {
    pthread_mutex_t lock;
    int count, strangers;
    char keys[MAKERS * EACH + 1000][COMPUTER_KEY_SIZE];
};

static int enter(void *ctx, const struct computer_spec *spec, const struct wait *wait, struct error *err)
{
    struct ledger *l = ctx;
    pthread_mutex_lock(&l->lock);
    if (l->count < (int)ARRAY_LEN(l->keys))
        snprintf(l->keys[l->count++], COMPUTER_KEY_SIZE, "%s", spec->key);
    pthread_mutex_unlock(&l->lock);
    return 0;
}

static int look_up(void *ctx, const struct computer_spec *spec, bool moved, struct error *err)
{
    struct ledger *l = ctx;
    bool known = false;
    pthread_mutex_lock(&l->lock);
    for (int i = 0; i < l->count; i++)
        known |= strcmp(l->keys[i], spec->key) == 0;
    l->strangers += !known;
    pthread_mutex_unlock(&l->lock);
    return 0;
}

struct maker {
    struct computers *computers;
    struct computer_session *session;
    int number, created;
    pthread_t thread;
};

static void *make_many(void *arg)
{
    struct maker *m = arg;
    for (int i = 0; i < EACH; i++) {
        char id[32];
        snprintf(id, sizeof(id), "box-%d-%d", m->number, i);
        struct computer_use use = must_use(m->session, id, LIFETIME_AS_IS);
        m->created += use.created;
        computers_release(&use);
        computers_prepare(m->computers);
    }
    return NULL;
}

static void many_at_once(void **state)
{
    for (int principals = 1; principals <= 2; principals++) {
        static struct ledger ledger;
        struct domain d;
        struct maker makers[MAKERS];
        ledger = (struct ledger){.lock = PTHREAD_MUTEX_INITIALIZER};
        domain_init_pool(&d, &(struct fake_hooks){.create = enter, .give_id = look_up, .ctx = &ledger}, NULL,
                         POOL);
        struct computer_session *other = computer_session_new(d.computers, "someone-else");
        for (int i = 0; i < MAKERS; i++) {
            makers[i] = (struct maker){.computers = d.computers, .session = d.session, .number = i};
            if (i % principals)
                makers[i].session = other;
            assert_int_equal(pthread_create(&makers[i].thread, NULL, make_many, &makers[i]), 0);
        }
        for (int i = 0; i < MAKERS; i++) {
            pthread_join(makers[i].thread, NULL);
            assert_int_equal(makers[i].created, EACH);
        }
        assert_int_equal(ledger.strangers, 0);
        const int spares = find_unborn(d.state_dir).count;
        assert_in_range(spares, 0, POOL);
        assert_int_equal(fake_backend_counts(d.backend).live, MAKERS * EACH + spares);
        assert_true(fake_backend_counts(d.backend).named > 0);
        assert_int_equal(computer_session_end(other, DEADLINE_NONE, NULL), 0);
        assert_int_equal(computer_session_end(TAKE_PTR(d.session), DEADLINE_NONE, NULL), 0);
        assert_int_equal(find_unborn(d.state_dir).count, 0);
        domain_done(&d, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_computer_is_one_of_them),
        cmocka_unit_test(the_pool_is_refilled),
        cmocka_unit_test(more_than_there_are_is_made_as_ever),
        cmocka_unit_test(the_pool_has_a_maximum),
        cmocka_unit_test(where_an_id_is_needed_a_folder_is_made),
        cmocka_unit_test(what_can_be_had_late_is_had_by_one_of_them),
        cmocka_unit_test(what_can_only_be_had_at_birth_is_made_for_it),
        cmocka_unit_test(one_that_does_not_take_it_is_not_used),
        cmocka_unit_test(a_given_id_that_was_taken_meanwhile_is_told),
        cmocka_unit_test(a_random_id_that_was_taken_meanwhile_is_another),
        cmocka_unit_test(a_dead_one_is_not_used),
        cmocka_unit_test(one_that_cannot_get_its_id_is_removed),
        cmocka_unit_test(ones_that_cannot_be_made_leave_nothing),
        cmocka_unit_test(another_principal_gets_one_of_them),
        cmocka_unit_test(the_last_sessions_end_removes_all),
        cmocka_unit_test(one_that_comes_after_the_end_goes),
        cmocka_unit_test(a_killed_servers_are_reaped_whole),
        cmocka_unit_test(a_living_servers_stay),
        cmocka_unit_test(another_backends_are_left_alone),
        cmocka_unit_test(many_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
