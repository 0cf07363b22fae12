/* See shells.h. What a computer has is known once it has run something: where bash was tried in vain, sh is
 * tried then. */
#include "backends/shells.h"

#include <errno.h>
#include <string.h>

#include "backends/verdict.h"

#define DEFAULT_SHELL "/bin/bash"
#define FALLBACK_SHELL "/bin/sh"

void shells_init(struct shells *s, const char *chosen)
{
    s->chosen = chosen;
    atomic_init(&s->has_bash, true);
    atomic_init(&s->has_sh, true);
}

void shells_tell(struct shells *s, const struct serve_ready *ready)
{
    s->has_bash = ready->has_shell[0] == 1;
    s->has_sh = ready->has_shell[1] == 1;
}

static const char *shell_of(const struct shells *s)
{
    if (s->chosen)
        return s->chosen;
    return s->has_bash ? DEFAULT_SHELL : FALLBACK_SHELL;
}

static bool try_other_shell(const struct shells *s, const struct exec_request *request, const char *tried,
                            const struct guest_exit *exit)
{
    return exit->stage == GUEST_STAGE_EXEC && exit->sys == ENOENT && request->command && !s->chosen &&
           strcmp(tried, DEFAULT_SHELL) == 0 && !s->has_bash && s->has_sh;
}

static int judge(const struct shells *s, const struct exec_request *request, const struct guest_exit *exit,
                 struct exec_result *ret, struct error *err)
{
    const char *shell = shell_of(s);
    const struct verdict_about about = {
        .shell = shell,
        .other_shells = s->has_bash && strcmp(shell, DEFAULT_SHELL) != 0  ? DEFAULT_SHELL
                        : s->has_sh && strcmp(shell, FALLBACK_SHELL) != 0 ? FALLBACK_SHELL
                                                                          : "",
    };
    return verdict(&about, request, exit, ret, err);
}

static int try(struct shells *s, shells_run_fn *run, void *computer, const struct exec_request *request,
               struct exec_result *ret, struct error *err)
{
    struct guest_exit exit = {0};
    struct error why = ERROR_INIT;
    const char *shell = shell_of(s);
    int failed = wait_check(&request->wait, &why);
    if (failed == 0)
        failed = run(computer, request, shell, ret, &exit, &why);
    if (failed == 0 && try_other_shell(s, request, shell, &exit)) {
        exec_result_done(ret);
        failed = run(computer, request, shell_of(s), ret, &exit, &why);
    }
    return failed == 0 ? judge(s, request, &exit, ret, err) : verdict_stopped(&why, ret, err);
}

int shells_exec(struct shells *s, shells_run_fn *run, void *computer, const struct exec_request *request,
                struct exec_result *ret, struct error *err)
{
    struct exec_result result = {0};
    if (try(s, run, computer, request, &result, err) < 0) {
        exec_result_done(&result);
        return -1;
    }
    if (result.disk_full)
        exec_result_add_note(&result, "the computer's disk is full: remove files that aren't needed");
    *ret = result;
    return 0;
}
