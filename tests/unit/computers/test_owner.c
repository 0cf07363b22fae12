/* Who owns a record, and whether that server still lives. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "computers/owner.h"

static void self_is_alive(void **state)
{
    char dir[] = "/tmp/owner-XXXXXX";
    struct owner a, b;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(owner_self(dir, &a, NULL), 0);
    assert_int_equal(owner_self(dir, &b, NULL), 0);
    assert_true(owner_equal(&a, &b));
    assert_int_equal(a.pid, getpid());
    assert_int_equal(strlen(a.machine), 32);
    assert_string_equal(a.boot, clock_boot_id());
    assert_false(owner_is_dead(&a, &b));
    tree_remove(AT_FDCWD, dir, NULL);
}

static void who_is_dead(void **state)
{
    struct owner self = {
        .machine = "m", .boot = "b", .pid = getpid(), .start = clock_process_start(getpid())};
    struct owner other = self;
    other.start++; /* the number was used again */
    assert_true(owner_is_dead(&self, &other));
    other = self;
    strcpy(other.boot, "c");
    assert_true(owner_is_dead(&self, &other));
    strcpy(other.machine, "n"); /* another machine: nothing is certain */
    assert_false(owner_is_dead(&self, &other));
    other = self;
    other.pid = 0;
    assert_true(owner_is_dead(&self, &other));

    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) != 0);
    }
    other = self;
    other.pid = child;
    other.start = clock_process_start(child);
    assert_false(owner_is_dead(&self, &other));
    close(ends[1]);
    close(ends[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(owner_is_dead(&self, &other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(self_is_alive), cmocka_unit_test(who_is_dead)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
