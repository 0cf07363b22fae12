/* A program that isn't there or can't be run is a result, as a shell has it: 127 and 126, with the reason
 * beside it. A missing folder, a missing shell, a computer that is full are errors. */
#include "backends/native/verdict.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

#define EXIT_CANNOT_EXECUTE 126
#define EXIT_NOT_FOUND 127

/* Commands that only a shell has: what agents try as programs. */
static const char *const builtins[] = {
    "cd",      "export", "source", ".",      "alias", "set",  "unset",   "eval",  "exec",
    "exit",    "return", "read",   "ulimit", "umask", "type", "history", "pushd", "popd",
    "declare", "local",  "shopt",  "trap",   "wait",  "jobs", "fg",      "bg",
};

static const char *const shells[] = {"/bin/bash", "/bin/sh", "/bin/dash", "/bin/ash", "/bin/zsh"};

static bool is_builtin(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(builtins); i++)
        if (strcmp(name, builtins[i]) == 0)
            return true;
    return false;
}

bool verdict_base_has(const struct native *n, const char *path)
{
    _cleanup_fd_ int root = open(n->rootfs ? n->rootfs : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
    _cleanup_fd_ int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
    return fd >= 0;
}

static int shell_missing(const struct native_instance *i, struct error *err)
{
    if (verdict_base_has(i->native, instance_shell(i)))
        return error_set(
            err, ERR_SHELL_NOT_FOUND,
            "the shell %s is gone from this computer: use another computer_id, or pass the program and its "
            "arguments as `args`",
            instance_shell(i));
    char there[128] = "";
    for (size_t s = 0; s < ARRAY_LEN(shells); s++)
        if (verdict_base_has(i->native, shells[s])) {
            strcat(there, there[0] ? ", " : "");
            strcat(there, shells[s]);
        }
    return error_set(err, ERR_SHELL_NOT_FOUND,
                     "the shell %s does not exist in the computer; there is %s. Pass the "
                     "program and its arguments as `args`, or start the server with "
                     "another --shell",
                     instance_shell(i), there[0] ? there : "none");
}

static void cannot_execute(const struct exec_request *request, const char *program, int sys,
                           struct exec_result *ret)
{
    bool searched = !strchr(program, '/');
    ret->exit_code = sys == ENOENT || sys == ENOTDIR ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE;
    if (ret->exit_code == EXIT_CANNOT_EXECUTE)
        ret->note = xasprintf("%s: can't be executed: %s", program, strerror(sys));
    else if (searched && !request->command && is_builtin(program))
        ret->note =
            xasprintf("%s: not found in PATH; shell builtins such as %s need `command`", program, program);
    else if (searched)
        ret->note = xasprintf("%s: not found in PATH%s", program,
                              strchr(program, ' ')
                                  ? "; each argument is an element of `args` of its own, or use `command`"
                                  : "");
    else
        ret->note = xasprintf("%s: no such file, or the interpreter that it names is missing", program);
}

static int cwd_missing(const struct exec_request *request, int sys, struct error *err)
{
    const char *cwd = request->cwd ? request->cwd : "/";
    return error_set(
        err, ERR_CWD_NOT_FOUND,
        "the working directory '%.300s' can't be entered: %s; make it first (mkdir -p), or leave "
        "working_directory out for /",
        cwd, strerror(sys));
}

static int no_process(const struct native_instance *i, int sys, struct error *err)
{
    if (sys == EAGAIN)
        return error_set(err, ERR_LIMIT,
                         "the computer can't start another process: its limit is %lld: wait for some of them "
                         "to end, or use another computer",
                         (long long)i->native->limits.pids);
    return error_set(err, ERR_LIMIT, "the computer can't start another process: %s", strerror(sys));
}

static void ran(int wait_status, struct exec_result *ret)
{
    if (WIFEXITED(wait_status)) {
        ret->exit_code = WEXITSTATUS(wait_status);
        return;
    }
    ret->signal = WTERMSIG(wait_status);
    ret->exit_code = 128 + ret->signal;
}

int verdict(const struct native_instance *i, const struct exec_request *request,
            const struct guest_exit *record, struct exec_result *ret, struct error *err)
{
    const char *program = request->command ? instance_shell(i) : request->argv[0];
    switch (record->stage) {
    case GUEST_STAGE_RAN:
        ran(record->wait_status, ret);
        return 0;
    case GUEST_STAGE_CHDIR:
        return cwd_missing(request, record->sys, err);
    case GUEST_STAGE_EXEC:
        if (request->command && record->sys == ENOENT)
            return shell_missing(i, err);
        cannot_execute(request, program, record->sys, ret);
        return 0;
    case GUEST_STAGE_FORK:
        return no_process(i, record->sys, err);
    case GUEST_STAGE_REQUEST:
        if (record->sys == EAGAIN)
            return error_set(err, ERR_BUSY,
                             "too many commands run in this computer at once; wait for some to end");
        return error_set(err, ERR_INTERNAL, "the computer did not understand the request");
    default:
        return error_set(err, ERR_INTERNAL, "the command could not be put into its control group: %s",
                         strerror(record->sys));
    }
}

int verdict_gone(const struct native_instance *i, bool out_of_memory, struct error *err)
{
    if (out_of_memory)
        return error_set(err, ERR_GONE, "its processes ran out of memory (limit %lld MiB)",
                         (long long)(i->native->limits.memory_bytes / (1024 * 1024)));
    return error_set(err, ERR_GONE, "its first process was killed from outside");
}
