/* The jail, from within: a child that puts it on and then tries one thing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <linux/landlock.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "backends/wasm/jail.h"
#include "temporary.h"
#include "tests/skip.h"

#define ENDED_BY_FILTER (1000 + SIGSYS)

static int root; /* of the jail; in the child */

/* 1000 + the signal, or what the attempt returns: 0, or an errno. */
static int attempt(enum jail kind, int (*try)(void))
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        root = open(temporary, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (jail_enter(kind, kind == JAIL_RUN ? root : -1, NULL) < 0)
            _exit(250);
        _exit(try());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int told(long result)
{
    return result < 0 ? errno : 0;
}
static int open_by(int dir, const char *path, uint64_t flags)
{
    const struct open_how how = {.flags = flags, .mode = flags & O_CREAT ? 0600 : 0};
    return told(syscall(SYS_openat2, dir, path, &how, sizeof(how)));
}

static int make_socket(void)
{
    return told(socket(AF_INET, SOCK_STREAM, 0));
}
static int run_program(void)
{
    return told(execl("/bin/true", "true", NULL));
}
static int make_process(void)
{
    return told(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
}
static int kill_parent(void)
{
    return told(kill(getppid(), 0));
}
static int signal_parents_thread(void)
{
    return told(syscall(SYS_tgkill, 1, 1, 0));
}
static int trace(void)
{
    return told(ptrace(PTRACE_TRACEME, 0, 0, 0));
}
static int map_code(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
}
static int make_code(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return told(mprotect(p, 4096, PROT_READ | PROT_EXEC));
}
static int change_mode(void)
{
    return told(fchmodat(root, "file", 0777, 0));
}
static int make_memory_file(void)
{
    return told(memfd_create("x", 0));
}
static int unshare_all(void)
{
    return told(unshare(CLONE_NEWUSER));
}

static void what_ends_a_command(void **state)
{
    static int (*const TRIES[])(void) = {make_socket,           run_program, make_process, kill_parent,
                                         signal_parents_thread, trace,       map_code,     make_code,
                                         make_memory_file,      unshare_all};
    for (size_t i = 0; i < ARRAY_LEN(TRIES); i++)
        if (attempt(JAIL_RUN, TRIES[i]) != ENDED_BY_FILTER)
            fail_msg("attempt %zu isn't ended by the filter", i);
}

static int open_absolute(void)
{
    return told(openat(AT_FDCWD, "/etc/passwd", O_RDONLY));
}
static int open_outside(void)
{
    return open_by(root, "/etc/passwd", O_RDONLY);
}
static int open_above(void)
{
    return open_by(root, "../../../../etc/passwd", O_RDONLY);
}
static int list_above(void)
{
    return open_by(root, "..", O_RDONLY | O_DIRECTORY);
}
static int create_above(void)
{
    return open_by(root, "../escaped", O_WRONLY | O_CREAT);
}
static int use_files_inside(void)
{
    if (faccessat(root, "file", R_OK, 0) < 0)
        return errno;
    int failed = open_by(root, "new", O_WRONLY | O_CREAT);
    failed = failed ? failed : told(mkdirat(root, "folder", 0700));
    failed = failed ? failed : told(renameat(root, "new", root, "folder/new"));
    failed = failed ? failed : open_by(root, "folder/new", O_RDONLY);
    return failed ? failed : told(unlinkat(root, "folder/new", 0));
}

static void files(void **state)
{
    temporary_file("file", "text");
    assert_int_equal(attempt(JAIL_RUN, open_absolute), ENOSYS);
    assert_int_equal(attempt(JAIL_RUN, change_mode), ENOSYS);
    assert_int_equal(attempt(JAIL_RUN, use_files_inside), 0);
    if (syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) < 1)
        skip_because("the kernel has no Landlock");
    assert_int_equal(attempt(JAIL_RUN, open_outside), EACCES);
    assert_int_equal(attempt(JAIL_RUN, open_above), EACCES);
    assert_int_equal(attempt(JAIL_RUN, list_above), EACCES);
    assert_int_equal(attempt(JAIL_RUN, create_above), EACCES);
    assert_int_equal(attempt(JAIL_COMPILE, open_outside), EACCES);
    assert_int_equal(attempt(JAIL_COMPILE, use_files_inside), EACCES);
}

static void *nothing(void *arg)
{
    return arg;
}
static int make_thread(void)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, nothing, NULL) || pthread_join(thread, NULL);
}

static void what_the_engine_needs(void **state)
{
    assert_int_equal(attempt(JAIL_RUN, make_thread), 0);
    assert_int_equal(attempt(JAIL_COMPILE, make_thread), 0);
    assert_int_equal(attempt(JAIL_COMPILE, make_code), 0);
    assert_int_equal(attempt(JAIL_COMPILE, make_memory_file), 0);
    assert_int_equal(attempt(JAIL_COMPILE, make_socket), ENDED_BY_FILTER);
    assert_int_equal(attempt(JAIL_COMPILE, run_program), ENDED_BY_FILTER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_ends_a_command, temporary_make, temporary_remove),
        cmocka_unit_test_setup_teardown(files, temporary_make, temporary_remove),
        cmocka_unit_test_setup_teardown(what_the_engine_needs, temporary_make, temporary_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
