/* A program that isn't there or can't be run is a result, as a shell has it: 127 and 126, with the reason
 * beside it. A missing folder, a missing shell, a computer that is full are errors. */
#include "backends/verdict.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>

#include "base/mem.h"

#define EXIT_TIMED_OUT 124 /* as timeout(1) */
#define EXIT_CANNOT_EXECUTE 126
#define EXIT_NOT_FOUND 127

/* Commands that only a shell has: what agents try as programs. */
static const char *const builtins[] = {
    "cd",      "export", "source", ".",      "alias", "set",  "unset",   "eval",  "exec",
    "exit",    "return", "read",   "ulimit", "umask", "type", "history", "pushd", "popd",
    "declare", "local",  "shopt",  "trap",   "wait",  "jobs", "fg",      "bg",
};

static bool is_builtin(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(builtins); i++)
        if (strcmp(name, builtins[i]) == 0)
            return true;
    return false;
}

static int shell_missing(const struct verdict_about *about, struct error *err)
{
    if (about->shell_was_there)
        return error_set(
            err, ERR_SHELL_NOT_FOUND,
            "the shell %s is gone from this computer: use another computer_id, or pass the program and its "
            "arguments as `args`",
            about->shell);
    return error_set(err, ERR_SHELL_NOT_FOUND,
                     "the shell %s does not exist in the computer; there is %s. Pass the "
                     "program and its arguments as `args`, or start the server with "
                     "another --shell",
                     about->shell, about->other_shells[0] ? about->other_shells : "none");
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
        "the working directory '%.300s' can't be entered: %s; %s, or leave working_directory out for /", cwd,
        strerror(sys), sys == ENOENT ? "make it first (mkdir -p)" : "give another one");
}

static int no_process(const struct verdict_about *about, int sys, struct error *err)
{
    if (sys == EAGAIN && about->pids > 0)
        return error_set(err, ERR_LIMIT,
                         "the computer can't start another process: its limit is %lld: wait for some of them "
                         "to end, or use another computer",
                         (long long)about->pids);
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

int verdict(const struct verdict_about *about, const struct exec_request *request,
            const struct guest_exit *record, struct exec_result *ret, struct error *err)
{
    const char *program = request->command ? about->shell : request->argv[0];
    switch (record->stage) {
    case GUEST_STAGE_RAN:
        ran(record->wait_status, ret);
        return 0;
    case GUEST_STAGE_CHDIR:
        return cwd_missing(request, record->sys, err);
    case GUEST_STAGE_EXEC:
        if (request->command && record->sys == ENOENT)
            return shell_missing(about, err);
        cannot_execute(request, program, record->sys, ret);
        return 0;
    case GUEST_STAGE_FORK:
        return no_process(about, record->sys, err);
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

int verdict_stopped(const struct error *why, struct exec_result *ret, struct error *err)
{
    if (why->code != ERR_TIMEOUT) {
        if (err)
            *err = *why;
        return -1;
    }
    ret->timed_out = true;
    ret->exit_code = EXIT_TIMED_OUT;
    return 0;
}

struct exec_usage verdict_usage(const struct guest_exit *record)
{
    return (struct exec_usage){.cpu_us = record->cpu_us, .peak_bytes = record->peak_bytes};
}

int verdict_gone(int64_t memory_bytes, struct error *err)
{
    if (memory_bytes > 0)
        return error_set(err, ERR_GONE, "its processes ran out of memory (limit %lld MiB)",
                         (long long)(memory_bytes / (1024 * 1024)));
    return error_set(err, ERR_GONE, "its first process was killed from outside");
}
