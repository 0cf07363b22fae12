/* terminal_execute and sandbox_exec: run one command in a computer, which is made if need be. */
#include "tools/toolset.h"

#include "base/clock.h"
#include "base/limits.h"
#include "tools/exec_arguments.h"
#include "tools/result.h"

/* What a tool call that failed comes to: a result that says so, or nothing if nobody wants it any more. Who
 * asked still does when it was somebody else that ended the command. */
static int fail(const struct tool_call *call, const struct error *why, struct buf *ret, struct error *err)
{
    if (why->code == ERR_CANCELLED && cancel_why(call->cancel) != ERR_DELETED)
        return error_set(err, ERR_CANCELLED, "%s", why->msg);
    return result_write_error(why, ret, err);
}

static int use_computer(const struct tool_call *call, const struct exec_arguments *a,
                        struct computer_use *ret, struct error *err)
{
    if (!call->session)
        return error_set(err, ERR_UNSUPPORTED, "this connection has no session, and computers belong to one");
    int seconds = computers_create_seconds(call->session);
    const struct wait wait = {.deadline = clock_deadline_after(seconds), .cancel = call->cancel};
    const struct computer_wish wish = {.id = a->id, .lifetime = a->lifetime, .progress = call->progress};
    if (computers_use(call->session, &wish, &wait, ret, err) == 0)
        return 0;
    if (err->code == ERR_TIMEOUT && clock_now() >= wait.deadline)
        error_set(err, ERR_TIMEOUT,
                  "the computer was not ready within %d seconds: try again, or look at the server's log",
                  seconds);
    return -1;
}

static int run(const struct tool_call *call, const struct exec_arguments *a, const struct computer_use *use,
               struct exec_result *ret, struct error *err)
{
    struct exec_request request = exec_arguments_request(a);
    request.wait = (struct wait){.deadline = clock_deadline_after(a->timeout_s), .cancel = call->cancel};
    return computer_exec(use, &request, ret, err);
}

int tool_exec(const struct toolset *t, const struct tool_call *call, struct buf *ret, struct error *err)
{
    const struct exec_defaults defaults = {t->personality, t->default_timeout_s, t->output_limit,
                                           t->own_program};
    _cleanup_(exec_arguments_done) struct exec_arguments a;
    _cleanup_(computers_release) struct computer_use use = {0};
    _cleanup_(exec_result_done) struct exec_result result = {0};
    struct error why = ERROR_INIT;
    if (exec_arguments_read(call->arguments, &defaults, &a, &why) < 0 ||
        use_computer(call, &a, &use, &why) < 0)
        return fail(call, &why, ret, err);
    const bool tells_id = t->personality == PERSONALITY_COMPUTER;
    const bool is_leased = computer_is_leased(&use);
    if (run(call, &a, &use, &result, &why) < 0) {
        if (cancel_why(call->cancel) != ERR_DELETED) /* else somebody else saw the command, and so it */
            computers_unmake(&use);                  /* nobody would be told that it is there */
        return fail(call, &why, ret, err);
    }
    if (is_leased && !tells_id)
        computers_unmake(&use); /* the same: no other call could name it */

    const double expires_in_s = tells_id ? computer_expires_in(&use) : -1;
    const struct exec_reply reply = {
        .result = &result,
        .computer_id = tells_id ? computer_id(use.computer) : NULL,
        .temporary = computer_is_temporary(use.computer),
        .created = use.created,
        .expires_in_s = expires_in_s > 0 ? expires_in_s : 0,
        .nameless = tells_id && use.created && !a.id && is_leased,
        .base64 = a.encoding == ENCODING_BASE64,
        .timeout_s = a.timeout_s,
        .limits = t->limits,
        .ignored = a.ignored,
    };
    return result_write_exec(&reply, ret, &why) < 0 ? fail(call, &why, ret, err) : 0;
}
