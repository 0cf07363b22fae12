/* The child borrows our memory and runs on a stack of its own until execve replaces it (CLONE_VM |
 * CLONE_VFORK): no copy of page tables, whatever we have mapped. It may touch only that stack and `struct
 * attempt`, and makes only system calls. All signals are blocked and have their default action, so none is
 * handled meanwhile.
 *
 * A hostile process can stop the child in that moment (SIGSTOP to every process), and us with it, until
 * somebody kills the child: born in its scope, it is within reach of the server. */
#include "guest/exec.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "guest/privileges.h"
#include "guest/sys.h"

#define STACK_SIZE 16384
#define PATH_DEFAULT "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

struct attempt {
    const struct launch *launch;
    volatile uint32_t stage;
    volatile int32_t sys;
};

static void give_up(struct attempt *attempt, uint32_t stage, int sys)
{
    attempt->sys = sys;
    attempt->stage = stage;
    _exit(127);
}

/* As execvp(3): a file that is no program is a script of /bin/sh. */
static int try_program(const char *path, char **argv, char **envp)
{
    execve(path, argv, envp);
    if (errno != ENOEXEC)
        return errno;
    argv[0] = (char *)path;
    argv[-1] = (char *)"/bin/sh";
    execve("/bin/sh", argv - 1, envp);
    return ENOEXEC;
}

static const char *search_path(char **envp)
{
    for (; *envp; envp++)
        if (strncmp(*envp, "PATH=", 5) == 0)
            return *envp + 5;
    return PATH_DEFAULT;
}

/* Returns only with an errno: that of the first hindrance, else ENOENT. A file that may not be run doesn't
 * end the search. */
static int search_program(const char *name, char **argv, char **envp)
{
    char candidate[PATH_MAX];
    size_t name_size = strlen(name) + 1;
    int hindrance = ENOENT;
    if (name_size == 1)
        return ENOENT;
    for (const char *folder = search_path(envp), *end; folder; folder = *end ? end + 1 : NULL) {
        end = folder + strcspn(folder, ":");
        size_t length = (size_t)(end - folder);
        if (length + 1 + name_size > sizeof(candidate))
            continue;
        memcpy(candidate, folder, length);
        if (length > 0) /* an empty element is the working directory */
            candidate[length++] = '/';
        memcpy(candidate + length, name, name_size);
        int sys = try_program(candidate, argv, envp);
        if (sys == EACCES)
            hindrance = EACCES;
        else if (sys != ENOENT && sys != ENOTDIR)
            return sys;
    }
    return hindrance;
}

/* All others are closed before any path from outside is followed: through /proc/self/fd it could lead to what
 * init has been sent, the command's folder in the host's cgroup2 among it. */
static void set_descriptors(const struct launch *launch)
{
    if (launch->in >= 0)
        dup2(launch->in, STDIN_FILENO);
    dup2(launch->out, STDOUT_FILENO);
    dup2(launch->err, STDERR_FILENO);
    if (launch->script >= 0)
        dup2(launch->script, GUEST_SCRIPT_FD);
    unsigned kept = launch->script >= 0 ? GUEST_SCRIPT_FD + 1 : STDERR_FILENO + 1;
    sys_close_range(kept, ~0U);
}

static void child(void *context)
{
    struct attempt *attempt = context;
    const struct launch *launch = attempt->launch;
    const struct request_exec *request = launch->request;
    if (launch->scope >= 0 && !launch->scope_is_folder && write(launch->scope, "0", 1) < 0)
        give_up(attempt, GUEST_STAGE_SCOPE, errno);
    setsid();
    set_descriptors(launch);
    if (chdir(request->cwd) < 0)
        give_up(attempt, GUEST_STAGE_CHDIR, errno);
    setrlimit(RLIMIT_NOFILE, &launch->files);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    const char *name = request->argv[0];
    int sys = strchr(name, '/') ? try_program(name, request->argv, request->envp)
                                : search_program(name, request->argv, request->envp);
    give_up(attempt, GUEST_STAGE_EXEC, sys);
}

static int child_of_clone(void *context)
{
    child(context);
    return 127;
}

/* An engine's filter may not know clone3, or refuse it. */
static long clone_without_3(struct attempt *attempt, char *stack)
{
    int pid = clone(child_of_clone, stack + STACK_SIZE, CLONE_VM | CLONE_VFORK | SIGCHLD, attempt);
    return pid < 0 ? -errno : pid;
}

void exec_tell_usage(const struct rusage *usage, struct guest_exit *record)
{
    const struct timeval *user = &usage->ru_utime, *system = &usage->ru_stime;
    record->cpu_us =
        (uint64_t)(user->tv_sec + system->tv_sec) * 1000000U + (uint64_t)(user->tv_usec + system->tv_usec);
    record->peak_bytes = (uint64_t)usage->ru_maxrss * 1024U;
}

pid_t exec_launch(const struct launch *launch, uint32_t *ret_stage, int32_t *ret_errno)
{
    static _Alignas(16) char stack[STACK_SIZE];
    struct attempt attempt = {.launch = launch, .stage = GUEST_STAGE_RAN};
    struct clone_args args = {
        .flags = CLONE_VM | CLONE_VFORK,
        .exit_signal = SIGCHLD,
        .stack = (uintptr_t)stack,
        .stack_size = sizeof(stack),
    };
    if (launch->scope_is_folder) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (unsigned)launch->scope;
    }
    long pid = sys_clone3_call(&args, child, &attempt, privileges_token());
    if ((pid == -ENOSYS || pid == -EPERM) && !launch->scope_is_folder)
        pid = clone_without_3(&attempt, stack);
    if (pid < 0) {
        bool no_room = pid == -EAGAIN || pid == -ENOMEM;
        *ret_stage = launch->scope_is_folder && !no_room ? GUEST_STAGE_SCOPE : GUEST_STAGE_FORK;
        *ret_errno = (int32_t)-pid;
        return -1;
    }
    if (attempt.stage != GUEST_STAGE_RAN) {
        *ret_stage = attempt.stage;
        *ret_errno = attempt.sys;
        return -1;
    }
    return (pid_t)pid;
}
