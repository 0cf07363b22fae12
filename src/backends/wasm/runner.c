/* All that needs a name in the file system is opened by descriptors before the jail; the guest's own way to
 * files is the engine's, which opens them beneath these folders only. */
#include "backends/wasm/runner.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/wasm/runtime.h"
#include "backends/wasm/jail.h"
#include "backends/wasm/preopen.h"
#include "backends/wasm/wasm_limits.h"
#include "base/error.h"
#include "base/mem.h"

static _noreturn_ void end(int line, enum wasm_end how, int code, const char *text)
{
    struct wasm_verdict verdict = {.tag = WASM_VERDICT, .end = how, .code = (uint32_t)code};
    snprintf(verdict.text, sizeof(verdict.text), "%s", text);
    if (write(line, &verdict, sizeof(verdict)) < 0)
        _exit(1); /* nobody wants to know */
    _exit(0);
}

static _noreturn_ void refuse(int line, const struct error *err)
{
    end(line, err->code == ERR_LIMIT || err->code == ERR_UNAVAILABLE ? WASM_NO_ROOM : WASM_REFUSED, 1,
        err->msg);
}

/* `count` strings of the body; -1: it has fewer. Env entries are cut in two at their '='. */
static int take_strings(const char **at, const char *limit, uint32_t count, const char **ret)
{
    for (uint32_t i = 0; i < count; i++) {
        const char *nul = *at < limit ? memchr(*at, '\0', (size_t)(limit - *at)) : NULL;
        if (!nul)
            return -1;
        ret[i] = *at;
        *at = nul + 1;
    }
    return 0;
}

static int take_env(const char **names, uint32_t count, const char **ret_values)
{
    for (uint32_t i = 0; i < count; i++) {
        char *equals = strchr(names[i], '='); /* the mapping is private to us */
        if (!equals)
            return -1;
        *equals = '\0';
        ret_values[i] = equals + 1;
    }
    return 0;
}

static int give_text(struct wasmtime_wasi *wasi, char *body, const struct wasm_request *r, struct error *err)
{
    const char *at = body, *limit = body + r->text_bytes;
    const char **argv = xcalloc(r->argc + 1, sizeof(*argv));
    const char **names = xcalloc(r->envc + 1, sizeof(*names));
    const char **values = xcalloc(r->envc + 1, sizeof(*values));
    if (take_strings(&at, limit, r->argc, argv) < 0 || take_strings(&at, limit, r->envc, names) < 0 ||
        take_env(names, r->envc, values) < 0)
        return error_set(err, ERR_INTERNAL, "the request is cut short");
    if (!wasi_config_set_argv(wasi, r->argc, argv))
        return error_set(err, ERR_INVALID, "the arguments must be UTF-8");
    if (!wasi_config_set_env(wasi, r->envc, names, values))
        return error_set(err, ERR_INVALID, "the environment must be UTF-8");
    return 0;
}

static int give_body(struct wasmtime_wasi *wasi, int fd, const struct wasm_request *r, struct error *err)
{
    const size_t size = (size_t)r->text_bytes + r->stdin_bytes;
    char *body = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (body == MAP_FAILED)
        return error_errno(err, ERR_LIMIT, errno, "map the request");
    if (give_text(wasi, body, r, err) < 0)
        return -1;
    if (r->stdin_bytes > 0) {
        struct wasmtime_bytes bytes;
        wasm_byte_vec_new(&bytes, r->stdin_bytes, (const uint8_t *)body + r->text_bytes);
        wasi_config_set_stdin_bytes(wasi, &bytes);
    }
    munmap(body, size);
    close(fd);
    return 0;
}

static int limit(const struct runner *runner, const struct wasm_request *r, struct error *err)
{
    const rlim_t file = r->file_bytes ? r->file_bytes : RLIM_INFINITY;
    if (setrlimit(RLIMIT_FSIZE, &(struct rlimit){file, file}) < 0 ||
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){RUN_FILES, RUN_FILES}) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "limit the command");
    return jail_limit_memory(runner->memory_bytes + r->memory_bytes + RUN_MEMORY_BYTES, err);
}

static int make_context(const struct runner *runner, const struct wasm_request *r, const int *fds,
                        struct wasmtime_context **ret, struct error *err)
{
    struct wasmtime_wasi *wasi = wasi_config_new();
    wasi_config_inherit_stdout(wasi);
    wasi_config_inherit_stderr(wasi);
    if (give_body(wasi, fds[WASM_BODY], r, err) < 0 ||
        preopen_folders(wasi, fds[WASM_ROOT], fds[WASM_CWD], err) < 0)
        return -1;
    struct wasmtime_store *store = wasmtime_store_new(runner->engine, NULL, NULL);
    struct wasmtime_context *context = wasmtime_store_context(store);
    wasmtime_store_limiter(store, (int64_t)r->memory_bytes, RUN_TABLE_ELEMENTS, 1, RUN_TABLES, 1);
    const struct wasmtime_error *e = wasmtime_context_set_wasi(context, wasi);
    if (!e && r->fuel)
        e = wasmtime_context_set_fuel(context, r->fuel);
    if (e)
        return runtime_failed(e, "set up WASI", err);
    *ret = context;
    return 0;
}

/* Until something ends it: an exit (`exited` tells), the end of _start (0), or what is told here. */
static _noreturn_ void judge(const struct runner *runner, int line, const struct wasmtime_error *e,
                             const struct wasmtime_trap *trap)
{
    char text[400] = "";
    uint8_t kind = 0xff;
    int status = 0;
    if (runner->exited >= 0)
        end(line, WASM_EXITED, runner->exited, "");
    if (!e && !trap)
        end(line, WASM_EXITED, 0, "");
    if (!trap && wasmtime_error_exit_status(e, &status))
        end(line, WASM_EXITED, status & 0xff, "");
    if (!trap) {
        runtime_error_text(e, text, sizeof(text));
        end(line, WASM_TRAPPED, 1, text);
    }
    runtime_trap_text(trap, text, sizeof(text));
    if (wasmtime_trap_code(trap, &kind) && kind == WASMTIME_TRAP_FUEL)
        end(line, WASM_OUT_OF_FUEL, 1, text);
    end(line, WASM_TRAPPED, 1, text);
}

void runner_run(struct runner *runner, const struct wasm_request *request, const int fds[WASM_FDS])
{
    const int line = fds[WASM_LINE];
    struct error err = ERROR_INIT;
    struct wasmtime_context *context = NULL;
    struct wasmtime_instance instance;
    struct wasmtime_value start = {0};
    struct wasmtime_trap *trap = NULL;
    if (dup2(fds[WASM_OUT], STDOUT_FILENO) < 0 || dup2(fds[WASM_ERR], STDERR_FILENO) < 0)
        end(line, WASM_NO_ROOM, 1, strerror(errno));
    close(fds[WASM_OUT]);
    close(fds[WASM_ERR]);
    if (make_context(runner, request, fds, &context, &err) < 0 || limit(runner, request, &err) < 0 ||
        jail_enter(JAIL_RUN, fds[WASM_ROOT], &err) < 0)
        refuse(line, &err);
    const struct wasmtime_error *e =
        wasmtime_instance_pre_instantiate(runner->pre, context, &instance, &trap);
    if (e && runner->exited < 0 && runtime_failed(e, "the module can't be started", &err) < 0)
        refuse(line, &err);
    if (!e && !trap) {
        if (!wasmtime_instance_export_get(context, &instance, "_start", strlen("_start"), &start) ||
            start.kind != WASMTIME_EXTERN_FUNC)
            end(line, WASM_REFUSED, 1, "the module exports no function _start");
        e = wasmtime_func_call(context, &start.of.func, NULL, 0, NULL, 0, &trap);
    }
    judge(runner, line, e, trap);
}
