/* What servers leave that were killed. The server is a child process here, that makes computers and then gets
 * SIGKILL. */
#include "domain.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

struct server {
    pid_t pid;
    int ready; /* end of a pipe: one byte, once its computers are there */
};

static void server_start(struct server *s, const char *state_dir)
{
    int ends[2];
    char byte = 0;
    assert_int_equal(pipe(ends), 0);
    s->pid = fork();
    assert_true(s->pid >= 0);
    if (s->pid == 0) {
        struct domain d;
        domain_init(&d, NULL, state_dir);
        must_use(d.session, "temporary", LIFETIME_TEMPORARY);
        must_use(d.session, "permanent", LIFETIME_PERMANENT);
        if (write(ends[1], "", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
}

static void server_kill(struct server *s)
{
    kill(s->pid, SIGKILL);
    assert_int_equal(waitpid(s->pid, NULL, 0), s->pid);
}

static void a_dead_servers_permanent_computers_are_settled_once(void **state)
{
    struct domain d;
    struct server server;
    domain_init(&d, NULL, NULL);
    server_start(&server, d.state_dir);
    server_kill(&server);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(computers_reap(d.computers), i ? 0 : 1); /* the temporary one */
        assert_true(folder_exists(&d, "permanent"));
        assert_int_equal(fake_backend_counts(d.backend).settled, 1);
    }
    struct computer_use use = must_use(d.session, "permanent", LIFETIME_PERMANENT);
    assert_int_equal(computers_reap(d.computers), 0); /* ours */
    computers_release(&use);
    domain_done(&d, NULL);
}

static void a_living_servers_computers_stay(void **state)
{
    struct domain d;
    struct server server;
    domain_init(&d, NULL, NULL);
    server_start(&server, d.state_dir);
    assert_int_equal(computers_reap(d.computers), 0);
    assert_true(folder_exists(&d, "temporary"));
    must_not_use(d.session, "temporary", LIFETIME_AS_IS, ERR_BUSY);
    server_kill(&server);
    domain_done(&d, NULL);
}

static void a_dead_servers_temporary_ones_go(void **state)
{
    struct domain d;
    struct server server;
    domain_init(&d, NULL, NULL);
    server_start(&server, d.state_dir);
    server_kill(&server);
    assert_int_equal(computers_reap(d.computers), 1);
    assert_int_equal(fake_backend_counts(d.backend).reaped, 1);
    assert_false(folder_exists(&d, "temporary"));
    assert_true(folder_exists(&d, "permanent"));
    assert_int_equal(computers_reap(d.computers), 0);
    struct computer_use use = must_use(d.session, "permanent", LIFETIME_AS_IS);
    assert_false(use.created);
    computers_release(&use);
    domain_done(&d, NULL);
}

static void an_id_is_free_without_the_reaper_too(void **state)
{
    struct domain d;
    struct server server;
    domain_init(&d, NULL, NULL);
    server_start(&server, d.state_dir);
    server_kill(&server);
    struct computer_use use =
        must_use(d.session, "temporary", LIFETIME_PERMANENT); /* another lifetime: it is new */
    assert_true(use.created);
    assert_int_equal(fake_backend_counts(d.backend).reaped, 1);
    computers_release(&use);
    domain_done(&d, NULL);
}

static int reap_fails(void *ctx, const struct computer_spec *spec, const json_t *data, struct error *err)
{
    return error_set(err, ERR_INTERNAL, "still busy");
}

static void what_cannot_be_reaped_stays_for_the_next_time(void **state)
{
    struct domain d;
    struct server server;
    domain_init(&d, &(struct fake_hooks){.reap = reap_fails}, NULL);
    server_start(&server, d.state_dir);
    server_kill(&server);
    assert_int_equal(computers_reap(d.computers), 0);
    assert_true(folder_exists(&d, "temporary"));
    must_not_use(d.session, "temporary", LIFETIME_AS_IS, ERR_INTERNAL);
    domain_done(&d, NULL);
}

struct stubborn {
    int removals, reapings; /* that are refused yet */
};

static int refuses_to_remove(void *ctx, const char *id, struct error *err)
{
    struct stubborn *s = ctx;
    return s->removals-- > 0 ? error_set(err, ERR_INTERNAL, "no") : 0;
}

static int refuses_to_reap(void *ctx, const struct computer_spec *spec, const json_t *data, struct error *err)
{
    struct stubborn *s = ctx;
    return s->reapings-- > 0 ? error_set(err, ERR_INTERNAL, "no") : 0;
}

/* One of the first session's is left when that ends. Nobody looks after it but the test. */
static void leave_one(struct domain *d, struct stubborn *stubborn)
{
    domain_init(
        d, &(struct fake_hooks){.remove = refuses_to_remove, .reap = refuses_to_reap, .ctx = stubborn}, NULL);
    d->computers->caretaker.ended = true;
    must_have(d, "goes", LIFETIME_TEMPORARY);
    assert_int_equal(d->computers->left_due, DEADLINE_NONE);
    assert_int_equal(computer_session_end(d->session, long_wait().deadline, NULL), -1);
    d->session = computer_session_new(d->computers, "local");
    assert_true(folder_exists(d, "goes"));
}

/* As when the time has come. */
static void let_it_be_due(struct domain *d)
{
    assert_int_not_equal(d->computers->left_due, DEADLINE_NONE);
    assert_true(d->computers->left_due > clock_now());
    assert_true(terms_expire(d->computers) <= d->computers->left_due);
    d->computers->left_due = 0;
    terms_expire(d->computers);
}

static void what_could_not_be_removed_is_tried_again(void **state)
{
    struct stubborn stubborn = {.removals = 1, .reapings = 2};
    struct domain d;
    leave_one(&d, &stubborn);
    must_have(&d, "stays", LIFETIME_TEMPORARY);
    for (int i = 0; i < 3; i++) {
        assert_true(folder_exists(&d, "goes"));
        let_it_be_due(&d);
    }
    assert_false(folder_exists(&d, "goes"));
    assert_true(folder_exists(&d, "stays"));
    assert_int_equal(d.computers->left_due, DEADLINE_NONE);
    domain_done(&d, NULL);
}

static void what_can_never_be_removed_is_given_up(void **state)
{
    struct stubborn stubborn = {.removals = 1, .reapings = INT_MAX};
    struct domain d;
    int tries = 0;
    leave_one(&d, &stubborn);
    for (; d.computers->left_due != DEADLINE_NONE && tries < 100; tries++)
        let_it_be_due(&d);
    assert_in_range(tries, 2, 20);
    assert_true(folder_exists(&d, "goes"));
    domain_done(&d, NULL);
}

static void one_reaper_at_a_time(void **state)
{
    struct domain d;
    struct server server;
    domain_init(&d, NULL, NULL);
    server_start(&server, d.state_dir);
    server_kill(&server);
    _cleanup_(cleanup_free) char *path = xasprintf("%s/reaper.lock", d.state_dir);
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(flock(lock, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(computers_reap(d.computers), 0);
    assert_true(folder_exists(&d, "temporary"));
    fd_close(lock);
    assert_int_equal(computers_reap(d.computers), 1);
    domain_done(&d, NULL);
}

static void make_folder(const struct domain *d, const char *name)
{
    _cleanup_(cleanup_free) char *path = xasprintf("%s/computers/local/%s/sub/sub", d->state_dir, name);
    assert_int_equal(dir_make(path, 0755, NULL), 0);
}

static void half_made_and_half_removed_folders_go(void **state)
{
    struct domain d;
    struct folder held = FOLDER_NONE;
    domain_init(&d, NULL, NULL);
    _cleanup_(cleanup_free) char *dir = xasprintf("%s/computers", d.state_dir);
    make_folder(&d, ".new-0123");
    make_folder(&d, ".old-0123");
    make_folder(&d, ".new-held"); /* being born: its server holds the lock */
    make_folder(&d, "keeper.bad-1234");
    assert_int_equal(store_open(dir, "local", ".new-held", &held, NULL), 0);
    computers_reap(d.computers);
    assert_false(folder_exists(&d, ".new-0123"));
    assert_false(folder_exists(&d, ".old-0123"));
    assert_true(folder_exists(&d, ".new-held"));
    assert_true(folder_exists(&d, "keeper.bad-1234")); /* set aside for a person */
    folder_close(&held);
    domain_done(&d, NULL);
}

static void an_empty_state_directory_is_not_even_made(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    assert_int_equal(rmdir(d.state_dir), 0);
    assert_int_equal(computers_reap(d.computers), 0);
    assert_int_equal(access(d.state_dir, F_OK), -1);
    domain_done(&d, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dead_servers_permanent_computers_are_settled_once),
        cmocka_unit_test(a_living_servers_computers_stay),
        cmocka_unit_test(a_dead_servers_temporary_ones_go),
        cmocka_unit_test(an_id_is_free_without_the_reaper_too),
        cmocka_unit_test(what_cannot_be_reaped_stays_for_the_next_time),
        cmocka_unit_test(what_could_not_be_removed_is_tried_again),
        cmocka_unit_test(what_can_never_be_removed_is_given_up),
        cmocka_unit_test(one_reaper_at_a_time),
        cmocka_unit_test(half_made_and_half_removed_folders_go),
        cmocka_unit_test(an_empty_state_directory_is_not_even_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
