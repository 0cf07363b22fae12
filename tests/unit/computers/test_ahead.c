/* The folder that is made ahead for the next computer: who gets it, and that it is never left. */
#include "domain.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

static ino_t inode_of(const struct domain *d, const char *name)
{
    struct stat st;
    _cleanup_(cleanup_free) char *path = xasprintf("%s/computers/%s", d->state_dir, name);
    assert_int_equal(stat(path, &st), 0);
    return st.st_ino;
}

static void make_one(struct computer_session *s, const char *id)
{
    struct computer_use use = must_use(s, id, LIFETIME_AS_IS);
    assert_true(use.created);
    must_run(&use);
    computers_release(&use);
}

static int prepare_fails(void *ctx, const char *folder, struct error *err)
{
    return error_set(err, ERR_UNAVAILABLE, "no wood");
}

static int prepare_waits(void *ctx, const char *folder, struct error *err)
{
    const struct wait wait = {.deadline = DEADLINE_NONE};
    return gate_pass(ctx, &wait, err);
}

static void *prepare(void *arg)
{
    computers_prepare(arg);
    return NULL;
}

static void the_next_computer_gets_it(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    make_one(d.session, "first");
    for (int i = 0; i < 2; i++) { /* and no more */
        computers_prepare(d.computers);
        assert_int_equal(fake_backend_counts(d.backend).prepared, SPARES_BEGUN);
    }
    struct unborn made = find_unborn(d.state_dir);
    assert_int_equal(made.count, SPARES_BEGUN);
    ino_t inodes[SPARES_BEGUN];
    for (int i = 0; i < SPARES_BEGUN; i++)
        inodes[i] = inode_of(&d, made.names[i]);
    assert_int_equal(computers_want_preparation(d.computers), PREPARE_NONE);
    make_one(d.session, "second");
    assert_int_equal(computers_want_preparation(d.computers), PREPARE_LATER);
    make_one(d.session, "third");
    assert_int_equal(computers_want_preparation(d.computers), PREPARE_NOW);
    const ino_t second = inode_of(&d, "local/second"), third = inode_of(&d, "local/third");
    assert_true((second == inodes[0] && third == inodes[1]) || (second == inodes[1] && third == inodes[0]));
    assert_int_equal(find_unborn(d.state_dir).count, 0);
    computers_prepare(d.computers); /* the next ones */
    assert_int_equal(find_unborn(d.state_dir).count, SPARES_BEGUN);
    domain_done(&d, NULL);
}

static void nothing_is_made_before_the_first_computer(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    computers_prepare(d.computers);
    must_not_use(d.session, "No Slug", LIFETIME_AS_IS, ERR_INVALID);
    computers_prepare(d.computers);
    assert_int_equal(fake_backend_counts(d.backend).prepared, 0);
    assert_int_equal(rmdir(d.state_dir), 0); /* nothing at all */
    assert_int_equal(mkdir(d.state_dir, 0700), 0);
    domain_done(&d, NULL);
}

static void nothing_is_made_when_no_session_is_left(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    make_one(d.session, "first");
    computer_session_kill(d.session); /* its calls come back now, and would make one each */
    computers_prepare(d.computers);
    assert_int_equal(computer_session_end(TAKE_PTR(d.session), DEADLINE_NONE, NULL), 0);
    computers_prepare(d.computers);
    assert_int_equal(fake_backend_counts(d.backend).prepared, 0);
    assert_int_equal(find_unborn(d.state_dir).count, 0);
    domain_done(&d, NULL);
}

static void another_principal_gets_it(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    struct computer_session *other = computer_session_new(d.computers, "someone-else");
    make_one(d.session, "first");
    computers_prepare(d.computers);
    _cleanup_(cleanup_free) char *path = path_join(d.computers->dir, find_unborn(d.state_dir).names[0]);
    _cleanup_fd_ int hold = open(path, O_PATH | O_CLOEXEC); /* its number is not given again */
    struct stat st;
    assert_int_equal(fstat(hold, &st), 0);
    make_one(other, "first");
    make_one(other, "second");
    assert_true(inode_of(&d, "someone-else/first") == st.st_ino ||
                inode_of(&d, "someone-else/second") == st.st_ino);
    assert_int_equal(find_unborn(d.state_dir).count, 0);

    computers_prepare(d.computers); /* where the last one was made */
    struct unborn made = find_unborn(d.state_dir);
    assert_int_equal(made.count, SPARES_BEGUN);
    assert_int_equal(strncmp(made.names[0], "someone-else/", 13), 0);
    assert_int_equal(computer_session_end(other, DEADLINE_NONE, NULL), 0);
    domain_done(&d, NULL);
}

static void the_end_of_the_last_session_removes_it(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    struct computer_session *other = computer_session_new(d.computers, "local");
    make_one(d.session, "first");
    computers_prepare(d.computers);
    assert_int_equal(computer_session_end(TAKE_PTR(d.session), DEADLINE_NONE, NULL), 0);
    assert_int_equal(find_unborn(d.state_dir).count, SPARES_BEGUN);
    assert_int_equal(computer_session_end(other, DEADLINE_NONE, NULL), 0);
    assert_int_equal(find_unborn(d.state_dir).count, 0);
    domain_done(&d, NULL);
}

static void a_clean_end_leaves_nothing(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    make_one(d.session, "first");
    computers_prepare(d.computers);
    _cleanup_(cleanup_free) char *state_dir = xstrdup(d.state_dir);
    _cleanup_(cleanup_free) char *local = xasprintf("%s/computers/local", state_dir);
    domain_done(&d, state_dir);
    assert_int_equal(rmdir(local), 0);
    assert_int_equal(tree_remove(AT_FDCWD, state_dir, NULL), 0);
}

/* The next start finds it without its lock. */
static void what_a_killed_server_leaves_is_reaped(void **state)
{
    struct domain d;
    struct folder folder = FOLDER_NONE;
    domain_init(&d, NULL, NULL);
    assert_int_equal(store_prepare(d.computers->dir, "local", &folder, NULL), 0);
    computers_reap(d.computers);
    assert_int_equal(find_unborn(d.state_dir).count, 1); /* in use */
    folder_close(&folder);
    computers_reap(d.computers);
    assert_int_equal(find_unborn(d.state_dir).count, 0);
    domain_done(&d, NULL);
}

static void a_prepare_that_fails_leaves_nothing(void **state)
{
    struct domain d;
    domain_init(&d, &(struct fake_hooks){.prepare = prepare_fails}, NULL);
    make_one(d.session, "first");
    computers_prepare(d.computers);
    assert_int_equal(find_unborn(d.state_dir).count, 0);
    make_one(d.session, "second"); /* needs none */
    domain_done(&d, NULL);
}

static void a_state_directory_that_cannot_be_used_is_survived(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    make_one(d.session, "first");
    _cleanup_(cleanup_free) char *aside = xasprintf("%s/aside", d.state_dir);
    assert_int_equal(rename(d.computers->dir, aside), 0);
    assert_int_equal(file_replace(AT_FDCWD, d.computers->dir, "x", 1, false, NULL), 0);
    computers_prepare(d.computers);
    must_not_use(d.session, "second", LIFETIME_AS_IS, ERR_UNAVAILABLE);
    computers_prepare(d.computers);
    assert_int_equal(fake_backend_counts(d.backend).prepared, 0);
    assert_int_equal(unlink(d.computers->dir), 0);
    assert_int_equal(rename(aside, d.computers->dir), 0);
    domain_done(&d, NULL);
}

/* -- While one is being made ahead */

struct preparation {
    struct domain d; /* with one computer, "first" */
    struct gate gate;
    pthread_t thread;
};

/* It is under way, and waits. */
static void preparation_begin(struct preparation *p)
{
    gate_init(&p->gate);
    domain_init(&p->d, &(struct fake_hooks){.prepare = prepare_waits, .ctx = &p->gate}, NULL);
    make_one(p->d.session, "first");
    assert_int_equal(pthread_create(&p->thread, NULL, prepare, p->d.computers), 0);
    gate_await(&p->gate, 1);
}

static void preparation_go_on(struct preparation *p)
{
    gate_open(&p->gate);
    pthread_join(p->thread, NULL);
}

static void preparation_done(struct preparation *p)
{
    domain_done(&p->d, NULL);
    gate_done(&p->gate);
}

static void a_computer_does_not_wait_for_it(void **state)
{
    struct preparation p;
    preparation_begin(&p);
    computers_prepare(p.d.computers); /* nor does another call */
    make_one(p.d.session, "second");
    preparation_go_on(&p);
    assert_int_equal(fake_backend_counts(p.d.backend).prepared, SPARES_BEGUN);
    assert_int_equal(find_unborn(p.d.state_dir).count, SPARES_BEGUN); /* for the third */
    preparation_done(&p);
}

static void one_that_comes_too_late_goes(void **state)
{
    struct preparation p;
    preparation_begin(&p);
    assert_int_equal(computer_session_end(TAKE_PTR(p.d.session), DEADLINE_NONE, NULL), 0);
    preparation_go_on(&p);
    assert_int_equal(find_unborn(p.d.state_dir).count, 0);
    preparation_done(&p);
}

struct maker {
    struct domain *d;
    int number;
    pthread_t thread;
};

static void *make_many(void *arg)
{
    const struct maker *m = arg;
    for (int i = 0; i < 10; i++) {
        char id[32];
        snprintf(id, sizeof(id), "box-%d-%d", m->number, i);
        struct computer_use use = must_use(m->d->session, id, LIFETIME_AS_IS);
        computers_release(&use);
        computers_prepare(m->d->computers);
    }
    return NULL;
}

static void many_at_once(void **state)
{
    struct domain d;
    struct maker makers[8];
    domain_init(&d, NULL, NULL);
    for (size_t i = 0; i < ARRAY_LEN(makers); i++) {
        makers[i] = (struct maker){.d = &d, .number = (int)i};
        assert_int_equal(pthread_create(&makers[i].thread, NULL, make_many, &makers[i]), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(makers); i++)
        pthread_join(makers[i].thread, NULL);
    assert_int_equal(fake_backend_counts(d.backend).created, 80);
    assert_in_range(find_unborn(d.state_dir).count, 0, SPARES_BEGUN);
    assert_int_equal(computer_session_end(TAKE_PTR(d.session), DEADLINE_NONE, NULL), 0);
    assert_int_equal(find_unborn(d.state_dir).count, 0);
    domain_done(&d, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_computer_gets_it),
        cmocka_unit_test(nothing_is_made_before_the_first_computer),
        cmocka_unit_test(nothing_is_made_when_no_session_is_left),
        cmocka_unit_test(another_principal_gets_it),
        cmocka_unit_test(the_end_of_the_last_session_removes_it),
        cmocka_unit_test(a_clean_end_leaves_nothing),
        cmocka_unit_test(what_a_killed_server_leaves_is_reaped),
        cmocka_unit_test(a_prepare_that_fails_leaves_nothing),
        cmocka_unit_test(a_state_directory_that_cannot_be_used_is_survived),
        cmocka_unit_test(a_computer_does_not_wait_for_it),
        cmocka_unit_test(one_that_comes_too_late_goes),
        cmocka_unit_test(many_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
