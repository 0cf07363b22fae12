/* Removal of trees made to resist: deep, wide, unreadable, full of links, with a mount inside. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/skip.h"
#include "tests/unit/base/check.h"

#define NOBODY 65534

static char dir[64];

static int set_up(void **state)
{
    snprintf(dir, sizeof(dir), "/tmp/test-tree-XXXXXX");
    return mkdtemp(dir) && chmod(dir, 0777) == 0 ? chdir(dir) : -1;
}

static int tear_down(void **state)
{
    return chdir("/") < 0 ? -1 : tree_remove(AT_FDCWD, dir, NULL);
}

static void touch(const char *path)
{
    assert_int_equal(file_replace(AT_FDCWD, path, "x", 1, false, NULL), 0);
}

static bool exists(const char *path)
{
    return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void assert_removed(const char *path)
{
    struct error err = ERROR_INIT;
    if (tree_remove(AT_FDCWD, path, &err) < 0)
        fail_msg("%s", err.msg);
    assert_false(exists(path));
}

/* Makes `levels` folders inside each other, beyond PATH_MAX, with a file in each. */
static void make_deep(const char *path, int levels)
{
    assert_int_equal(mkdir(path, 0755), 0);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < levels; i++) {
        assert_int_equal(file_replace(fd, "file", "x", 1, false, NULL), 0);
        assert_int_equal(mkdirat(fd, "down", 0755), 0);
        int next = openat(fd, "down", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        fd_close(fd);
        fd = next;
    }
    fd_close(fd);
}

static void files_links_and_nothing_are_removed(void **state)
{
    touch("file");
    assert_removed("file");
    assert_removed("file");
    assert_removed("no/such/folder");
    touch("target");
    assert_int_equal(symlink("target", "link"), 0);
    assert_removed("link");
    assert_true(exists("target"));
}

static void names_that_are_no_names_are_refused(void **state)
{
    static const char *const names[] = {"", ".", "..", "a/..", "a/.", "/"};
    assert_int_equal(mkdir("a", 0755), 0);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct error err = ERROR_INIT;
        assert_int_equal(tree_remove(AT_FDCWD, names[i], &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
    }
    assert_true(exists("a"));
}

static void nothing_outside_is_touched(void **state)
{
    assert_int_equal(dir_make("outside/kept", 0755, NULL), 0);
    touch("outside/file");
    assert_int_equal(dir_make("tree/sub", 0755, NULL), 0);
    assert_int_equal(symlink("../outside", "tree/link"), 0);
    assert_int_equal(symlink("/", "tree/sub/root"), 0);
    assert_int_equal(symlink("../../outside/file", "tree/sub/file"), 0);
    assert_int_equal(link("outside/file", "tree/hard"), 0);
    assert_int_equal(symlink("tree", "way"), 0);
    assert_removed("way");
    assert_true(exists("tree/sub"));
    assert_removed("tree");
    assert_true(exists("outside/kept") && exists("outside/file"));
}

static void odd_names_and_kinds_are_removed(void **state)
{
    char longest[256];
    memset(longest, 'n', 255);
    longest[255] = '\0';
    assert_int_equal(mkdir("odd", 0755), 0);
    assert_int_equal(chdir("odd"), 0);
    static const char *const names[] = {"new\nline", "\x01\x1b[31m", "\xFF\xFE", "-rf", "...", " "};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        assert_int_equal(mkdir(names[i], 0755), 0);
    assert_int_equal(mkdir(longest, 0755), 0);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_int_equal(chdir(".."), 0);
    assert_removed("odd");
}

static void depth_takes_few_descriptors(void **state)
{
    struct rlimit before, few = {.rlim_cur = 40, .rlim_max = 40};
    make_deep("deep", 5000);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    struct error err = ERROR_INIT;
    int result = tree_remove(AT_FDCWD, "deep", &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    if (result < 0)
        fail_msg("%s", err.msg);
    assert_false(exists("deep"));
}

static void width_is_no_problem(void **state)
{
    assert_int_equal(mkdir("wide", 0755), 0);
    for (int i = 0; i < 5000; i++) {
        char name[64];
        snprintf(name, sizeof(name), "wide/a-name-to-fill-the-folder-%d", i);
        assert_int_equal(mknod(name, S_IFREG | 0600, 0), 0);
    }
    assert_removed("wide");
}

static void bushy_and_deep_at_once(void **state)
{
    assert_int_equal(mkdir("bush", 0755), 0);
    for (int i = 0; i < 50; i++) {
        char name[32];
        snprintf(name, sizeof(name), "bush/%d", i);
        make_deep(name, 60);
    }
    assert_removed("bush");
}

/* Runs f in a child, as an ordinary user if we are root; its exit code. */
static int in_child(int (*f)(void), bool as_nobody)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (as_nobody && geteuid() == 0 && (setgid(NOBODY) < 0 || setuid(NOBODY) < 0))
            _exit(99);
        _exit(f());
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int remove_unreadable(void)
{
    if (dir_make("locked/none/inner", 0755, NULL) < 0 || dir_make("locked/readonly/inner", 0755, NULL) < 0)
        return 1;
    if (chmod("locked/none/inner", 0) < 0 || chmod("locked/none", 0) < 0 ||
        chmod("locked/readonly", 0500) < 0 || chmod("locked", 0) < 0)
        return 2;
    return tree_remove(AT_FDCWD, "locked", NULL) < 0 || exists("locked") ? 3 : 0;
}

static void own_modes_are_no_obstacle(void **state)
{
    assert_int_equal(in_child(remove_unreadable, true), 0);
    assert_int_equal(in_child(remove_unreadable, false), 0);
}

static int fail_on_others_files(void)
{
    struct error err = ERROR_INIT;
    return tree_remove(AT_FDCWD, "theirs", &err) < 0 && err.code == ERR_DENIED ? 0 : 1;
}

static void missing_permission_is_an_error(void **state)
{
    if (geteuid() != 0)
        skip_because("needs root, to become another user");
    assert_int_equal(dir_make("theirs/sub", 0755, NULL), 0);
    assert_int_equal(in_child(fail_on_others_files, true), 0);
    assert_true(exists("theirs/sub"));
    assert_removed("theirs");
}

static int refuse_to_cross_a_mount(void)
{
    struct error err = ERROR_INIT;
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return 77;
    if (dir_make("mounted/a/m", 0755, NULL) < 0 || mount("none", "mounted/a/m", "tmpfs", 0, NULL) < 0)
        return 77;
    if (file_replace(AT_FDCWD, "mounted/a/m/kept", "x", 1, false, NULL) < 0)
        return 1;
    if (tree_remove(AT_FDCWD, "mounted", &err) == 0 || err.code != ERR_BUSY)
        return 2;
    if (tree_remove(AT_FDCWD, "mounted/a/m", &err) == 0 || err.code != ERR_BUSY)
        return 3;
    if (!exists("mounted/a/m/kept"))
        return 4;
    /* a bind mount has the same device number */
    if (umount("mounted/a/m") < 0 || mkdir("source", 0755) < 0 ||
        mount("source", "mounted/a/m", NULL, MS_BIND, NULL) < 0)
        return 5;
    if (file_replace(AT_FDCWD, "source/kept", "x", 1, false, NULL) < 0)
        return 6;
    if (tree_remove(AT_FDCWD, "mounted", &err) == 0 || err.code != ERR_BUSY || !exists("source/kept"))
        return 7;
    return umount("mounted/a/m") < 0 || tree_remove(AT_FDCWD, "mounted", NULL) < 0 || exists("mounted") ? 8
                                                                                                        : 0;
}

static void mounts_are_not_crossed(void **state)
{
    int code = in_child(refuse_to_cross_a_mount, false);
    if (code == 77)
        skip_because("needs the right to mount");
    assert_int_equal(code, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_links_and_nothing_are_removed),
        cmocka_unit_test(names_that_are_no_names_are_refused),
        cmocka_unit_test(nothing_outside_is_touched),
        cmocka_unit_test(odd_names_and_kinds_are_removed),
        cmocka_unit_test(depth_takes_few_descriptors),
        cmocka_unit_test(width_is_no_problem),
        cmocka_unit_test(bushy_and_deep_at_once),
        cmocka_unit_test(own_modes_are_no_obstacle),
        cmocka_unit_test(missing_permission_is_an_error),
        cmocka_unit_test(mounts_are_not_crossed),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
