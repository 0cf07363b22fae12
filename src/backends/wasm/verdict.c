/* See verdict.h. */
#include "backends/wasm/verdict.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

#define OUT_OF_FUEL_CODE 124 /* as of what has used up its time */
#define TRAP_CODE 1
#define SIGNALS 64

static char *copy_text(const struct wasm_verdict *v)
{
    struct buf text = BUF_INIT(4 * sizeof(v->text));
    if (utf8_append_lossy(&text, v->text, strnlen(v->text, sizeof(v->text))) < 0 || text.len == 0)
        (void)!buf_append_str(&text, "without a reason");
    return buf_steal(&text);
}

static int judge_signal(int signal, struct exec_result *ret)
{
    ret->signal = signal > 0 && signal <= SIGNALS ? signal : SIGKILL;
    ret->exit_code = 128 + ret->signal;
    if (ret->signal == SIGSYS)
        ret->note = xstrdup("the command was ended, since it tried what no WASM module may do");
    return 0;
}

int wasm_verdict(const struct wasm *w, const struct wasm_verdict *verdict, const struct wasm_over *over,
                 struct exec_result *ret, struct error *err)
{
    ret->usage = (struct exec_usage){.cpu_us = over->cpu_us, .peak_bytes = over->peak_bytes};
    if (!verdict && over->signal)
        return judge_signal((int)over->signal, ret);
    if (!verdict)
        return error_set(err, ERR_INTERNAL, "the command's process ended without an account of the command");
    _cleanup_(cleanup_free) char *text = copy_text(verdict);
    switch ((int)verdict->end) {
    case WASM_EXITED:
        ret->exit_code = (int)(verdict->code & 0xff);
        return 0;
    case WASM_TRAPPED:
        ret->exit_code = TRAP_CODE;
        ret->note = TAKE_PTR(text);
        return 0;
    case WASM_OUT_OF_FUEL:
        ret->exit_code = OUT_OF_FUEL_CODE;
        ret->note = xasprintf("the command was ended, since it has used up its fuel of %lld (--wasm-fuel)",
                              (long long)w->fuel);
        return 0;
    case WASM_NO_ROOM:
        return error_set(err, ERR_LIMIT, "the command couldn't be started: %s", text);
    default:
        return error_set(err, ERR_INVALID, "the command couldn't be started: %s", text);
    }
}
