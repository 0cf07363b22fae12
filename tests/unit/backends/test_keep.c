/* The socket and the lock that a computer's init has in the computer's folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/native/keep.h"
#include "base/clock.h"
#include "base/fd.h"

static const struct wait soon = {.deadline = DEADLINE_NONE};
static char top[] = "/tmp/test-keep-XXXXXX";
static char folder[512]; /* its path is longer than a socket's address */

static int set_up(void **state)
{
    struct error err = ERROR_INIT;
    char name[201];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    if (!mkdtemp(top))
        return -1;
    snprintf(folder, sizeof(folder), "%s/%s", top, name);
    return dir_make(folder, 0711, &err);
}

static int tear_down(void **state)
{
    return tree_remove(AT_FDCWD, top, NULL);
}

static int connect_to(pid_t *ret_pid, struct error *err)
{
    int channel = -1;
    uid_t uid = 12345;
    if (keep_connect(folder, &channel, ret_pid, &uid, err) < 0)
        return -1;
    assert_int_equal(uid, geteuid());
    return channel;
}

static void who_listens_is_told_not_who_made_the_socket(void **state)
{
    struct error err = ERROR_INIT;
    int listener, ends[2];
    char byte;
    pid_t pid;
    assert_int_equal(keep_bind(folder, &listener, &err), 0);
    assert_true(keep_has_socket(folder));
    assert_int_equal(connect_to(&pid, &err), -1); /* nobody listens yet */
    assert_int_equal(err.code, ERR_GONE);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        if (listen(listener, 1) < 0 || write(ends[1], "", 1) != 1)
            _exit(1);
        pause();
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    fd_close(listener);
    int channel = connect_to(&pid, &err);
    assert_true(channel >= 0);
    assert_int_equal(pid, child);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    fd_close(channel);
    assert_int_equal(connect_to(&pid, &err), -1); /* the name is there, the process isn't */
    assert_int_equal(err.code, ERR_GONE);
    fd_close(ends[0]);
    fd_close(ends[1]);
}

static void a_socket_is_its_makers_alone(void **state)
{
    struct stat st;
    char path[600];
    snprintf(path, sizeof(path), "%s/init", folder);
    for (mode_t mask = 0; mask <= 077; mask += 077) { /* an older one makes way, whatever the umask */
        int listener;
        umask(mask);
        assert_int_equal(keep_bind(folder, &listener, NULL), 0);
        assert_int_equal(stat(path, &st), 0);
        assert_true(S_ISSOCK(st.st_mode));
        assert_int_equal(st.st_mode & 07777, 0600);
        fd_close(listener);
    }
    umask(022);
}

static void a_lock_lasts_as_long_as_anybody_has_it(void **state)
{
    const struct wait short_wait = {.deadline = clock_now() + 50 * NSEC_PER_MSEC};
    struct error err = ERROR_INIT;
    int lock, another;
    assert_int_equal(keep_lock(folder, &soon, &lock, &err), 0);
    int passed_on = dup(lock);
    fd_close(lock);
    assert_int_equal(keep_lock(folder, &short_wait, &another, &err), -1);
    assert_int_equal(err.code, ERR_TIMEOUT);
    fd_close(passed_on);
    assert_int_equal(keep_lock(folder, &soon, &another, &err), 0);
    fd_close(another);
}

static void what_does_not_go_away_is_busy(void **state)
{
    struct error err = ERROR_INIT;
    int lock, another;
    assert_int_equal(keep_lock(folder, &soon, &lock, &err), 0);
    assert_int_equal(keep_lock(folder, &soon, &another, &err), -1);
    assert_int_equal(err.code, ERR_BUSY);
    fd_close(lock);
}

static void nothing_is_left(void **state)
{
    int lock, listener;
    assert_int_equal(keep_lock(folder, &soon, &lock, NULL), 0);
    assert_int_equal(keep_bind(folder, &listener, NULL), 0);
    keep_remove(folder);
    keep_remove(folder); /* again is harmless */
    assert_false(keep_has_socket(folder));
    fd_close(lock);
    fd_close(listener);
    assert_int_equal(rmdir(folder), 0);
    struct error err = ERROR_INIT;
    assert_int_equal(keep_lock(folder, &soon, &lock, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_int_equal(keep_bind(folder, &listener, &err), -1);
    keep_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_listens_is_told_not_who_made_the_socket),
        cmocka_unit_test(a_socket_is_its_makers_alone),
        cmocka_unit_test(a_lock_lasts_as_long_as_anybody_has_it),
        cmocka_unit_test(what_does_not_go_away_is_busy),
        cmocka_unit_test(nothing_is_left),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
